from dataclasses import replace

import pytest

from cmdpax import InputError
from cmdpax.learning.config import TrainConfig
from cmdpax.learning.training import train
from short_run import SMALL


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"method": "spma-al"}, "did you mean 'spma-alm'"),
        ({"limit": ("price<=3",)}, "does not have"),
        ({"limit": ()}, "needs at least one limit"),
        ({"batch": 130}, "not a multiple of horizon"),
        ({"penalty": -1.0}, "penalty is -1.0"),
        ({"gae": 1.5}, "must lie in"),
        ({"reserve": 1.5}, "reserve is 1.5; it must lie in"),
        ({"reserve": -0.1}, "reserve is -0.1; it must lie in"),
        ({"samples": 50}, "fewer than one batch"),
        ({"minibatch": 101}, "larger than batch"),
        ({"discount": -0.5}, "discount is -0.5"),
        ({"environment": "SafetyHoperVelocity-v1"}, "did you mean"),
        ({"rescale": True}, "add --standardise separate"),
        ({"kl_stop": -3.0}, "kl_stop is -3.0; it must not be negative, but for -1"),
        ({"gradient_clip": -5.0}, "gradient_clip is -5.0; it must not be negative, but for -1"),
        (
            {"seed": 99_999_999_999_999_999_999},
            "seed is 99999999999999999999; it must lie between 0 and 4294967295",
        ),
        ({"seed": -1}, "seed is -1"),
        ({"hidden": (64, 1_000_000_000)}, "every layer has between one unit and 10000"),
        (
            {"batch": 10**9, "samples": 10**10, "horizon": 100},
            "batch is 1000000000; it must be at most 10000000",
        ),
        ({"samples": 10**24}, "samples is 1000000000000000000000000; it must be at most"),
    ],
)
def test_bad_settings(settings, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        train(replace(SMALL, **settings), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_method_fills_in_its_own_settings():
    found = {name: TrainConfig("x", name).resolved() for name in ("spma-alm", "cpo", "ppo-alm")}
    assert [(config.batch, config.kl_stop) for config in found.values()] == [
        (2_000, 0.02),
        (5_000, 0.0),
        (2_000, 0.03),
    ]
    assert [config.penalty for config in found.values()] == [0.02, 0.02, 0.05]
    chosen = TrainConfig("x", "ppo-alm", kl_stop=0.3, penalty=0.7, minibatch=64).resolved()
    assert (chosen.kl_stop, chosen.penalty, chosen.minibatch) == (0.3, 0.7, 64)
    assert [replace(SMALL, batch=batch).resolved().minibatch for batch in (100, 1_000)] == [
        100,
        256,
    ]
