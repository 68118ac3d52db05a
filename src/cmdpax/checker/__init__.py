"""Is this claim about this model true? Proofs by plain NumPy, with no code of the solvers."""
