"""Statistics of episodes against SciPy and closed forms; the command."""

import errno
import json
import os
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import probes
from cmdpax import InputError
from cmdpax.cli.main import main
from cmdpax.learning import run_folder
from cmdpax.learning.evaluation import (
    effect_of_acting_deterministically,
    evaluate,
    evidence,
    spread,
)
from cmdpax.learning.run_folder import RunFolder
from cmdpax.learning.training import train
from cmdpax.learning.video import video
from cmdpax.model.limits import Limits
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
    ("limit", "beyond"),
    [
        ("heat<=25", 3),
        ("heat>=25", 6),
        ("heat<=100", 0),
        ("heat<=-1", 10),
        ("4<=heat<=25", 5),
        ("heat==25", 9),
    ],
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
        Limits.parse([limit]),
        updates=3,
        deterministic=True,
    )
    assert (
        found.costs["noise"].mean == found.costs["noise"].worst == 1.0
    )  # seen, although nothing limits it
    assert found.violation_probability == {"heat": beyond / 10} and found.totals["heat"] == tuple(
        costs[:, 1]
    )
    worst = 0 if limit == "heat>=25" else 99  # tails are on the bad side, large for two sides
    assert found.costs["heat"].worst == worst
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


def test_a_limit_that_only_random_actions_keep_is_said_to_be_broken_by_the_mean():
    limits, lengths = Limits.parse(["uptime>=45"]), np.ones(4)
    parts = {
        "stochastic": (np.array([1.0, 2, 3, 2]), np.array([46.0, 47, 46, 47])),
        "deterministic": (np.array([4.0, 4, 4, 4]), np.array([8.0, 9, 8, 9])),
    }
    measured = {
        kind: evidence(returns, {"uptime": costs}, lengths, limits, 1, kind == "deterministic")
        for kind, (returns, costs) in parts.items()
    }
    assert effect_of_acting_deterministically(measured) == (
        "acting deterministically: return 2 -> 4, uptime 46.5 -> 8.5, limits kept -> exceeded;"
        " limits are trained for random actions"
    )


def metered(folder, limit, discounted):
    """Evidence of ten steps that cost one each."""
    settings = {"environment": "probes:Meter", "samples": 100, "limits": limit, "discount": 0.9}
    run = train(**{**SMALL, **settings}, discounted=discounted, folder=folder)
    return evaluate(run, episodes=2)["stochastic"]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_run_that_cannot_be_written_is_measured_all_the_same(
    finished, capsys, monkeypatch, options
):
    """A disk that says no, as one that is mounted read-only does to everybody."""

    def refuse(path, data):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(run_folder, "write_bytes", refuse)
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", str(finished), "--episodes", "2", *options])
    out, err = capsys.readouterr()
    assert ended.value.code == 0
    file = finished / "evaluation.json"
    assert err == f"cmdpax: these numbers could not be kept ({file}: Read-only file system).\n"
    if options:
        assert json.loads(out)["stochastic"]["episodes"] == 2
    else:
        assert out.count("2 episodes of") == 2


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


def test_a_callback_sees_every_episode(tmp_path):
    run = train(**{**SMALL, "environment": "probes:Meter", "samples": 100}, folder=tmp_path / "run")
    rows = []
    measured = evaluate(run, episodes=3, callback=rows.append)
    kinds = [(row["policy"], row["episode"]) for row in rows]
    assert kinds == [(kind, i) for kind in ("stochastic", "deterministic") for i in range(3)]
    assert rows[0]["return"] == rows[0]["length"] == rows[0]["cost"]["cost"] == 10
    assert RunFolder(run.folder).evaluation.keys() == measured.keys()
    json.dumps(rows, allow_nan=False)


def test_a_module_that_only_a_folder_names_is_imported_with_trust_alone(tmp_path, monkeypatch):
    (tmp_path / "recorded.py").write_text("import probes\nmake = probes.Meter\n")
    monkeypatch.chdir(tmp_path)
    settings = {**SMALL, "environment": "recorded:make", "samples": 100}
    run = train(**settings, folder=tmp_path / "run")
    evaluate(run, episodes=1)  # of this process: the caller typed the environment
    del sys.modules["recorded"]
    refused = (
        r"run/config.json names the environment 'recorded:make', which would import the module"
        r" 'recorded'; .* \(--environment recorded:make\), .* \(--trust\)"
    )
    with pytest.raises(InputError, match=refused):
        evaluate(tmp_path / "run", episodes=1)
    with pytest.raises(InputError, match=refused):
        video(tmp_path / "run", tmp_path / "policy.gif")
    assert "recorded" not in sys.modules
    evaluate(tmp_path / "run", environment=probes.Meter, episodes=1)
    assert "recorded" not in sys.modules
    for allowed in ({"trust": True}, {"environment": "recorded:make"}):
        evaluate(tmp_path / "run", episodes=1, **allowed)
        del sys.modules["recorded"]
    with pytest.raises(InputError, match="'recorded:make' draws no pictures"):
        video(tmp_path / "run", tmp_path / "policy.gif", trust=True)
    with pytest.raises(InputError, match="'probes:Meter' draws no pictures"):
        video(tmp_path / "run", tmp_path / "policy.gif", environment="probes:Meter")


@pytest.mark.parametrize("wrong", [{"episodes": 0}, {"seed": -1}, {"episodes": 1.5}])
def test_what_is_no_number_of_episodes_or_seed(finished, wrong):
    with pytest.raises(InputError, match=f"{next(iter(wrong))} is .*; it must be a whole number"):
        evaluate(finished, **wrong)


def test_an_evaluation_of_one_episode_has_no_bound_in_its_file(finished):
    assert evaluate(finished, episodes=1)["stochastic"].reward.bound == -np.inf
    assert RunFolder(finished).evaluation["stochastic"]["reward"]["bound"] is None
