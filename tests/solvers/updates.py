"""What the tests of single baselines share: a model for plain loops, and the comparison of a run
with its formula.
"""

import numpy as np

import plain
from cmdpax.solvers.forms import largest_multiplier
from cmdpax.solvers.table import trajectory

MODEL = plain.tiny()
LARGEST = largest_multiplier(MODEL)
FEATURES = np.random.default_rng(7).standard_normal(
    (MODEL.states, MODEL.actions, 5)
)  # cannot express every policy


def clip(multipliers, largest=np.inf):
    return np.clip(multipliers, 0, largest)


def assert_follows(name, formula, steps, features=None, tolerance=1e-12, **settings):
    """The method's policy, multipliers and margins after some steps are those of `formula(steps,
    **settings)`.
    """
    policy, prices = formula(steps, **settings)
    run = trajectory(MODEL, name, features, steps=steps, **settings)
    np.testing.assert_allclose(run.policy, policy, atol=tolerance)
    np.testing.assert_allclose(run.multipliers, prices, atol=tolerance)
    np.testing.assert_allclose(run.margins[-1], plain.margins(MODEL, policy), atol=tolerance)
    assert prices.max() > 0 or steps < settings.get("inner", 1)  # the case has a price to pay
    return run
