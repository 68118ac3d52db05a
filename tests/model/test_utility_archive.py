"""Utilities in result files: what comes back is the same, and damaged labels are refused."""

import numpy as np
import pytest

import cmdpax
from cmdpax import utilities
from cmdpax.model.utility_archive import packed, unpacked

MODEL = cmdpax.environments.garnet(states=6, constraints=1)
TABLE = np.random.default_rng(0).uniform(0.1, 1.0, (MODEL.states, MODEL.actions))


@pytest.mark.parametrize(
    "utility",
    [
        utilities.entropy(),
        0.5 * utilities.linear() + 2.0 * utilities.kl(TABLE),
        utilities.fairness([TABLE, "reward"], alpha=2.0),
        utilities.max_min([TABLE, 2 - TABLE]),
        utilities.kl(TABLE, minimise=True),
        utilities.soft_limit("reward", most=0.5),
    ],
    ids=str,
)
def test_a_result_comes_back_and_is_verified(utility, tmp_path):
    result = cmdpax.solve(MODEL, utility=utility, eps=1e-3)
    cmdpax.save_result(result, tmp_path / "result.npz")
    again = cmdpax.load_result(tmp_path / "result.npz")
    assert str(again.utility) == str(utility) and again.reward == result.reward
    assert str(cmdpax.check(MODEL, again)) == str(cmdpax.check(MODEL, result))


def test_a_utility_of_ones_own_is_given_again(tmp_path):
    own = utilities.own(lambda d: -float((d**2).sum()), lambda d: -2 * d)
    result = cmdpax.solve(MODEL, utility=own, eps=1e-3)
    cmdpax.save_result(result, tmp_path / "result.npz")
    again = cmdpax.load_result(tmp_path / "result.npz")
    assert again.utility is None
    with pytest.raises(cmdpax.CertificateError, match="which no file holds"):
        cmdpax.check(MODEL, again)
    cmdpax.check(MODEL, again, utility=own)


@pytest.mark.parametrize(
    "terms",
    [
        [{"name": "__import__"}],
        [{"name": "entropy", "nonsense": 1}],
        [{"name": "distance", "visits": {"shape": [10**6, 10**6]}}],
        [{"name": "distance", "visits": {"shape": "all"}}],
        [],
        "entropy",
    ],
)
def test_a_damaged_label_is_refused_in_one_sentence(terms):
    arrays, _ = packed(cmdpax.solve(MODEL, utility=utilities.entropy(), eps=1e-2))
    with pytest.raises(cmdpax.InputError):
        unpacked({"minimise": False, "terms": terms}, arrays, MODEL.states)
