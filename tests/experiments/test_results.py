"""Rows of a sweep, and selection among them."""

import pytest

from cmdpax.experiments.results import select, varied_fields
from cmdpax.experiments.runs import train_run
from cmdpax.learning.config import TrainConfig

TASK = "SafetyHopperVelocity-v1"
RUNS = [
    train_run(TrainConfig(TASK, penalty=penalty, seed=seed))
    for penalty in (0.1, 0.2, 0.3)
    for seed in (0, 1)
]


def row(run, score, excess, failed=None):
    base = {
        "id": run.id,
        "method": "spma-alm",
        "penalty": run.config["penalty"],
        "samples": 10,
        "cpu_seconds": 36.0,
    }
    return {**base, "score": score, "excess": excess, "failed": failed}


def test_the_best_return_within_the_limit_is_selected():
    scores = [
        (1, 0),
        (3, 0),
        (9, 0),
        (9, 11),
        (5, 4),
        (5, 5),
    ]  # the second is best, but its mean cost is too high
    (chosen,) = select(RUNS, [row(run, *pair) for run, pair in zip(RUNS, scores)], eps=5.0)
    assert (
        chosen["selected"] == "penalty 0.3"
        and chosen["score"] == "5 +- 0"
        and chosen["excess"] == 4.5
    )
    assert (chosen["configurations"], chosen["eligible"], chosen["runs"], chosen["samples"]) == (
        3,
        2,
        6,
        60,
    )
    assert chosen["CPU hours"] == pytest.approx(0.06)


def test_a_configuration_with_a_failed_or_missing_run_is_not_eligible():
    found = [
        row(RUNS[0], 100, 0),
        row(RUNS[1], None, None, "diverged"),
        row(RUNS[2], 50, 0),
        *(row(run, 1, 0) for run in RUNS[4:]),
    ]
    (chosen,) = select(RUNS, found, eps=0.0)
    assert chosen["selected"] == "penalty 0.3" and chosen["eligible"] == 1 and chosen["failed"] == 1
    (nothing,) = select(RUNS, [row(run, 1, 1) for run in RUNS], eps=0.5)
    assert nothing["selected"] == "none" and nothing["score"] == "-"


def test_what_a_method_sets_by_itself_is_not_varied():
    assert varied_fields(RUNS) == ["penalty"]
    assert (
        varied_fields(
            [train_run(TrainConfig(TASK, method=method)) for method in ("spma-alm", "cpo")]
        )
        == []
    )
