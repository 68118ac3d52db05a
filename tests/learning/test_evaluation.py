"""Statistics of episodes against SciPy and closed forms; the command."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cmdpax.cli.main import main
from cmdpax.learning.evaluation import evaluate, evidence, spread
from cmdpax.learning.training import train
from cmdpax.model.limits import parse_limit
from short_run import SMALL


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=40), st.sampled_from([-1, 1]))
def test_spread_against_scipy(values, bad):
    found, values = spread(np.array(values), bad), np.array(values)
    assert found.mean == pytest.approx(values.mean()) and found.worst == (
        values.max() if bad > 0 else values.min()
    )
    low, high = stats.t.interval(
        0.9, len(values) - 1, values.mean(), max(values.std(ddof=1) / np.sqrt(len(values)), 1e-300)
    )
    assert found.bound == pytest.approx(
        high if bad > 0 else low, abs=1e-9
    )  # one side of 90% is a bound at 95%
    assert bad * found.p90 <= bad * found.p95 + 1e-9 and bad * found.p95 <= bad * found.worst + 1e-9


@pytest.mark.parametrize(
    ("limit", "beyond"), [("heat<=25", 3), ("heat>=25", 6), ("heat<=100", 0), ("heat<=-1", 10)]
)
def test_chance_of_a_violation(limit, beyond):
    """Ten episodes, of which one is exactly at the limit; the bound makes so few violations an
    event of 5%.
    """
    costs = np.array(
        [[1.0, 9], [1, 24], [1, 25], [1, 26], [1, 30], [1, 99], [1, 0], [1, 3], [1, 4], [1, 5]]
    )
    named = {"noise": costs[:, 0], "heat": costs[:, 1]}
    found = evidence(
        np.arange(10.0),
        named,
        np.full(10, 7.0),
        [parse_limit(limit)],
        updates=3,
        deterministic=True,
    )
    assert (
        found.costs["noise"].mean == found.costs["noise"].worst == 1.0
    )  # seen, although nothing limits it
    assert found.violation_probability == {"heat": beyond / 10} and found.totals["heat"] == tuple(
        costs[:, 1]
    )
    bound = found.violation_bound["heat"]
    assert (
        bound == 1.0 if beyond == 10 else stats.binom.cdf(beyond, 10, bound) == pytest.approx(0.05)
    )
    assert (found.reward.mean, found.reward.worst, found.length) == (4.5, 0.0, 7.0)


def test_the_command_keeps_what_it_prints(finished, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["evaluate", str(finished), "--episodes", "4", "--json"])
    assert stop.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert json.loads((finished / "evaluation.json").read_text()) == found
    for kind in ("stochastic", "deterministic"):
        seen = found[kind]
        assert seen["episodes"] == 4 and len(seen["returns"]) == 4 and seen["updates"] == 12
        assert seen["reward"]["worst"] == min(seen["returns"]) and seen["costs"]["cost"][
            "worst"
        ] == max(seen["totals"]["cost"])
        assert (
            seen["reward"]["bound"] < seen["reward"]["mean"]
            and seen["costs"]["cost"]["bound"] >= seen["costs"]["cost"]["mean"]
        )
    with pytest.raises(SystemExit) as stop:
        main(["evaluate", str(tmp_path)])
    assert stop.value.code == 2 and "not a run folder" in capsys.readouterr().err


def metered(folder, limit, discounted):
    """Evidence of ten steps that cost one each."""
    settings = {
        "environment": "probes:Meter",
        "samples": 100,
        "limit": (limit,),
        "discounted": discounted,
        "discount": 0.9,
    }
    train(replace(SMALL, **settings), folder)
    return evaluate(folder, 2)["stochastic"]


@pytest.mark.parametrize("discounted", [False, True])
def test_costs_are_what_the_limit_is_on(tmp_path, discounted):
    """With a cost of one a step, `n` steps cost `n`, or `(1 - discount^n) / (1 - discount)`."""
    seen = metered(tmp_path / "run", "cost<=6", discounted)
    expected = (1 - 0.9**10) / 0.1 if discounted else 10.0
    assert seen.totals["cost"] == pytest.approx((expected, expected)) and seen.returns == (
        10.0,
        10.0,
    )
    assert seen.violation_probability["cost"] == 1.0


def test_a_limit_between_the_two_totals_tells_them_apart(tmp_path):
    assert (
        metered(tmp_path / "run", "cost<=8", discounted=True).violation_probability["cost"] == 0.0
    )
