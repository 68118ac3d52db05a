"""Experiments on top of the solvers: pictures, comparisons, sweeps."""
