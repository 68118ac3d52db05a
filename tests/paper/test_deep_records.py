"""A record says in little what a run did: curves, episodes, and how it came there."""

import numpy as np
import pytest

from cmdpax.paper.deep_records import Record, condensed, read_records, summarise
from cmdpax.paper.settings import RESULTS, TASKS


def config(method, limit="cost<=25"):
    return {"environment": TASKS["Hopper"], "method": method, "limits": [limit]}


def test_a_record_is_small_and_read_back(recorded):
    records = read_records(recorded)
    assert [(one.task, one.method, one.seed) for one in records][:2] == [
        ("Hopper", "ppo-lag", 0),
        ("Hopper", "ppo-lag", 1),
    ]
    assert [len(one.rows) for one in records] == [50, 50, 100, 100]
    assert records[0].rows[-1]["samples"] == 1_000_000
    gained, excess = records[0].episodes()
    assert gained.tolist() == [10, 20] and excess.tolist() == [-1, 5]
    assert records[0].summary["cpu_seconds"] == 3600


@pytest.mark.parametrize(
    ("limit", "expected"), [("cost<=25", [-1.0, 5.0]), ("cost>=25", [1.0, -5.0])]
)
def test_excess_is_how_far_a_limit_is_broken_whatever_its_sense(limit, expected):
    seen = {"returns": [1.0, 2.0], "totals": {"cost": [24.0, 30.0]}}
    evaluation = {"stochastic": seen, "deterministic": seen}
    record = Record("Hopper", "cpo", 0, config("cpo", limit), [], evaluation, {}, evaluation)
    for one in (
        record.episodes(),
        record.episodes("deterministic"),
        record.episodes(evaluation=record.longer),
    ):
        assert one[1].tolist() == expected


def test_curves_are_means_over_equal_parts_of_the_samples(recorded):
    record = next(one for one in read_records(recorded) if one.method == "ppo-lag")
    halves = record.curve("return", np.array([0, 500_000, 1_000_000]))
    assert halves.tolist() == [13.0, 38.0]  # of updates 1 to 25, and 26 to 50
    assert record.curve("cost", np.array([0, 1_000_000])).tolist() == [20.5]
    assert np.isnan(record.curve("return", np.array([0, 1_000_000, 2_000_000]))[1])


def test_the_summary_of_a_run(rows):
    seen = summarise(rows(2_000, 5_000), config("spma-alm"))
    assert seen["samples"] == 10_000_000
    late = seen["last_fifth"]
    assert late["return"] == pytest.approx(4500.5) and late["cost_deviation_of_updates"] == 0.5
    assert late["cost_deviation_of_windows"] == 0 and late["updates_above_limit"] == 0
    # windows of ten updates: the mean of n - 9 .. n is n - 4.5
    wanted = 0.95 * RESULTS["spma-alm"]["Hopper"][0]
    reached = 2_000 * 10 * int(np.ceil((wanted + 4.5) / 10))
    own, best = (f"samples_to_95_percent_of_{whose}_while_feasible" for whose in ("paper", "best"))
    assert seen[own] == seen[best] == reached
    # SPMA-ALM has the paper's best return on Hopper
    other = summarise(rows(2_000, 5_000), config("ppo-alm"))
    assert other[best] == reached and other[own] < reached
    broken = summarise(rows(2_000, 5_000, cost=30.0), config("spma-alm"))
    assert broken["samples_to_paper_while_feasible"] is None
    assert broken["last_fifth"]["updates_above_limit"] == 1
    kept = summarise(rows(2_000, 5_000, cost=30.0), config("spma-alm", "cost>=25"))
    assert kept[own] == reached and kept["last_fifth"]["updates_above_limit"] == 0


def test_records_keep_means_and_not_samples():
    rows = [
        {
            "update": u,
            "samples": 10 * u,
            "return": float(u),
            "cost": {"heat": 2.0 * u},
            "case": str(u),
        }
        for u in range(1, 8)
    ]
    kept = condensed(rows, most=3)
    assert [
        (row["update"], row["samples"], row["return"], row["cost"]["heat"], row["case"])
        for row in kept
    ] == [
        (3, 30, 2.0, 4.0, "3"),
        (6, 60, 5.0, 10.0, "6"),
        (7, 70, 7.0, 14.0, "7"),
    ]
    assert condensed(rows) == rows


def test_a_first_row_may_say_less_than_the_others():
    """The first batch trains critics alone: CPO's has no case and no backtracks."""
    rows = [{"update": 1, "samples": 10, "return": 1.0}]
    rows += [
        {"update": k, "samples": 10 * k, "return": 1.0, "case": "feasible", "backtracks": k}
        for k in (2, 3, 4)
    ]
    first, second = condensed(rows, most=2)
    assert first == {**rows[1], "backtracks": 2.0} and second["backtracks"] == 3.5


def test_what_training_aims_at_is_in_the_rows_or_the_share_kept_in_reserve():
    row = {"return": 0.0, "cost": {"cost": 9.0}}
    rows = [{**row, "samples": 10, "aim": {"cost": 18.0}}, {**row, "samples": 20}]
    record = Record("Hopper", "cpo", 0, {**config("cpo"), "reserve": 0.2}, rows, {}, {})
    assert record.aims("cost", np.array([0, 10, 20])).tolist() == [18.0, 20.0]
