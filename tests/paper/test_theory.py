"""The theory's constants by hand, and its bounds on what PQA does."""

import numpy as np
import pytest

from cmdpax import CMDP
from cmdpax.environments import cliff_world
from cmdpax.exact.standard import StandardForm
from cmdpax.paper import theory
from cmdpax.paper.rate import RateStudy
from cmdpax.paper.theory import Constants, TheoryStudy, constants, inner_counts, inner_gaps
from cmdpax.solvers.algorithm import AugmentedLagrangian


def test_the_constants_by_hand():
    # one state: rho = 1, and with discount 1/2 M = 2; spans are 1, A = 2
    model = CMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], [[[0.0, 1.0]]], [1.0], [1.0], 0.5)
    made = constants(StandardForm.of(model), AugmentedLagrangian(np.zeros(1), 3.0), error=0.5)
    # curvature 2 gamma A M^3 = 16, weight at the lowest margin -1: 3; slope A M^4 = 32
    smoothness = 16 * 1 + 16 * 3 + 3 * 32
    assert made.optimisation == pytest.approx(16 * smoothness * 4 * (1 + 2))
    assert made.projection == pytest.approx(np.sqrt(2 * 0.5) * (1 + 3) * 8)


def test_steps_are_those_after_which_the_bound_is_there():
    made, gaps = Constants(optimisation=8.0, projection=1.0), np.array([5.0, 4.0, 0.1])
    assert made.floor == 4.0  # sqrt(2 * 8 * 1)
    np.testing.assert_allclose(made.pqa_bound(made.pqa_steps(gaps)), gaps)
    steps = made.ppqa_steps(gaps)
    assert steps[0] == 32.0 and np.isinf(steps[1:]).all()
    np.testing.assert_allclose(made.ppqa_bound(steps[:1]), gaps[:1])


def test_pqa_keeps_within_its_bound():
    form = StandardForm.of(cliff_world())
    gaps = inner_gaps(form, "theory", 30)
    made = constants(form, AugmentedLagrangian(np.zeros(1), theory.PENALTY), 0.0)
    assert len(gaps) == 30 and (gaps <= made.pqa_bound(np.arange(1, 31))).all()
    assert (np.diff(gaps) <= 1e-12).all()


def test_counts_are_steps_until_the_certified_gap(monkeypatch):
    monkeypatch.setattr(theory, "OUTER", 5)
    counts, multipliers = inner_counts(StandardForm.of(cliff_world()))
    assert len(counts) == len(multipliers) == 5 and counts.min() >= 1
    assert multipliers[0] == 0 and multipliers[1] > 0
    monkeypatch.setattr(theory, "MOST", 1)
    counts, _ = inner_counts(StandardForm.of(cliff_world()))
    assert len(counts) < 5  # what takes longer is left out


def test_an_infinite_number_is_said_to_be():
    row = {"problem": "cliff-world", "optimisation": [8.0, 8.0], "projection": [1.0, 1.0]}
    row |= {"eps": [0.01, 0.0025], "steps": [4, 1], "inner": [1, 10], "projection_error": 0.1}
    row |= {"theory_gaps": [1.0, 1.0], "adaptive_gaps": [1.0, 0.0]}
    figure = theory.theory_figure(TheoryStudy([row]), RateStudy())
    (words,) = [text.get_text() for text in figure.axes[1].texts]
    assert "PPQA, measured projections: infinite" in words and "4.0e+00" in words
    assert all(axes.get_xlabel() and axes.get_ylabel() for axes in figure.axes)
