"""Deep policies on simulators, in JAX: one training loop for the augmented-Lagrangian methods and
their rivals.
"""
