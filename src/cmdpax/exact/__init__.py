"""Mathematics on one model: values, plans, visits, bounds and certificates."""
