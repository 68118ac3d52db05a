"""The deep study from records: what is missing is said, and the numbers are those of the records."""

import json

import numpy as np
import pytest
from cmdpax.paper.deep_records import (
    PAPER,
    TASKS,
    TITLES,
    collect,
    condensed,
    read_records,
    summarise,
)

from cmdpax import InputError
from cmdpax.cli.main import main
from cmdpax.experiments.results import write_lines
from cmdpax.experiments.runs import train_run
from cmdpax.experiments.store import Store
from cmdpax.learning.config import TrainConfig
from cmdpax.paper import deep, reproduce
from cmdpax.paper.settings import RESERVE


def rows(batch, updates, cost=20.0):
    return [
        {
            "update": n,
            "samples": n * batch,
            "return": float(n),
            "cost": {"cost": cost + (n % 2)},
            "multiplier": {"cost": 0.0},
        }
        for n in range(1, updates + 1)
    ]


def run_folder(folder, task, method, seed, returns=(10.0, 20.0), costs=(24.0, 30.0)):
    """A finished run, as training leaves it."""
    batch = 20_000 if method == "ppo-lag" else 2_000
    run = train_run(
        TrainConfig(
            TASKS[task], method=method, seed=seed, samples=1_000_000, batch=batch, reserve=RESERVE
        )
    )
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({**run.config, "seed": seed}))
    lines = rows(run.config["batch"], 1_000_000 // run.config["batch"])
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    seen = {"returns": list(returns), "totals": {"cost": list(costs)}}
    (folder / "evaluation.json").write_text(json.dumps({"stochastic": seen, "deterministic": seen}))
    return folder


@pytest.fixture
def recorded(tmp_path):
    """Two seeds of two methods on Hopper."""
    out = tmp_path / "out"
    for method in ("spma-alm", "ppo-lag"):
        for seed in (0, 1):
            run = run_folder(
                tmp_path / "runs" / f"{method}{seed}",
                "Hopper",
                method,
                seed,
                returns=(10.0 + seed, 20.0 + seed),
            )
            collect(run, out / f"Hopper-{method}-{seed}", cpu_seconds=3600.0)
    return out


def test_a_record_is_small_and_read_back(recorded):
    found = read_records(recorded)
    assert [(one.task, one.method, one.seed) for one in found][:2] == [
        ("Hopper", "ppo-lag", 0),
        ("Hopper", "ppo-lag", 1),
    ]
    assert [len(one.rows) for one in found] == [50, 50, 250, 250]
    assert found[0].rows[-1]["samples"] == 1_000_000
    gained, excess = found[0].episodes()
    assert gained.tolist() == [10, 20] and excess.tolist() == [-1, 5]
    assert found[0].summary["cpu_seconds"] == 3600


def test_curves_are_means_over_equal_parts_of_the_samples(recorded):
    record = next(one for one in read_records(recorded) if one.method == "ppo-lag")
    halves = record.curve("return", np.array([0, 500_000, 1_000_000]))
    assert halves.tolist() == [13.0, 38.0]  # of updates 1 to 25, and 26 to 50
    assert np.isnan(record.curve("return", np.array([0, 1_000_000, 2_000_000]))[1])


def test_the_summary_of_a_run():
    seen = summarise(rows(2_000, 5_000), "Hopper", "spma-alm")
    assert seen["samples"] == 10_000_000
    assert (
        seen["last_fifth"]["return"] == pytest.approx(4500.5)
        and seen["last_fifth"]["cost_deviation_of_updates"] == 0.5
    )
    assert (
        seen["last_fifth"]["cost_deviation_of_windows"] == 0
        and seen["last_fifth"]["updates_above_limit"] == 0
    )
    wanted = (
        0.95 * PAPER["spma-alm"]["Hopper"][0]
    )  # windows of ten updates: the mean of n - 9 .. n is n - 4.5
    assert seen["samples_to_95_percent_of_paper_while_feasible"] == 2_000 * 10 * int(
        np.ceil((wanted + 4.5) / 10)
    )
    assert (
        seen["samples_to_95_percent_of_best_while_feasible"]
        == seen["samples_to_95_percent_of_paper_while_feasible"]
    )
    other = summarise(
        rows(2_000, 5_000), "Hopper", "ppo-alm"
    )  # SPMA-ALM has the paper's best return on Hopper
    assert (
        other["samples_to_95_percent_of_best_while_feasible"]
        == seen["samples_to_95_percent_of_paper_while_feasible"]
    )
    assert (
        other["samples_to_95_percent_of_paper_while_feasible"]
        < seen["samples_to_95_percent_of_paper_while_feasible"]
    )
    assert (
        summarise(rows(2_000, 5_000, cost=30.0), "Hopper", "spma-alm")[
            "samples_to_paper_while_feasible"
        ]
        is None
    )


def test_figures_and_tables_from_records_alone(recorded, capsys):
    write_lines(
        recorded / "penalties.jsonl",
        {"kind": "header"},
        [
            {
                "task": "Ant",
                "method": "ppo-alm",
                "penalty": 0.1,
                "inner": k,
                "seed": 0,
                "samples": 100_000,
                "return": 1.0,
                "excess": 2.0,
            }
            for k in (1, 5)
        ],
    )
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "deep", "--out", str(recorded)])
    assert ended.value.code == 0
    assert {path.stem for path in recorded.glob("*.png")} == {
        "learning-curves",
        "violations",
        "penalties",
    }
    assert "no records yet: dual-steps" in capsys.readouterr().out
    results = (recorded / "results.md").read_text().splitlines()
    assert len(results) == 2 + len(TASKS) * len(TITLES)
    (ours,) = [line for line in results if "Hopper | SPMA-ALM" in line]
    assert "| 2 | 1e+06 | 15.5 +- 6.4 | 2.0 +- 0.0 |" in ours and "1687 +- 8 | -6.1 +- 2.3" in ours
    assert sum("no records" in line for line in results) == 10
    assert (
        "Hopper | PPO-Lag | 2 | 2.0 | 2.0 | 2.0 | 2.0 | 2.0 | 5.0 |"
        in (recorded / "violations.md").read_text()
    )
    assert "| 1 | nothing |" in (recorded / "training.md").read_text()
    assert "none complete" in (recorded / "comparison.md").read_text()
    never = "never | never | never"
    assert (
        f"| Hopper, SPMA-ALM | 2 | 16 at 27.0 (1,687 at 18.9) | - | 16 at 27.0 | {never} | 0.5, 0%"
        " | 1.00 |" in (recorded / "cells.md").read_text()
    )


def test_a_cell_says_when_its_first_and_its_last_seed_came_there(tmp_path):
    for seed in (0, 1):
        run = run_folder(tmp_path / "runs" / str(seed), "Hopper", "spma-alm", seed)
        last = 1_700 if seed else 1_650  # the paper's return is 1,687
        (run / "metrics.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows(2_000, last))
        )
        collect(run, tmp_path / "out" / f"Hopper-spma-alm-{seed}")
    reproduce.deep(
        tmp_path / "out", "violations", None, None, lambda name, runs: pytest.fail("nothing is run")
    )
    (row,) = (tmp_path / "out" / "cells.md").read_text().splitlines()[2:]
    assert "| 3.22e6 | 3.40e6 to never | 3.22e6 | 0.5, 0% | - |" in row


def test_records_made_with_other_settings_are_said_to_be(recorded):
    path = recorded / "Hopper-ppo-lag-0" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "learning_rate": 0.5}))
    reproduce.deep(
        recorded, "violations", None, None, lambda name, runs: pytest.fail("nothing is run")
    )
    assert "learning_rate 0.5" in (recorded / "training.md").read_text()
    labels = [line.split(" | ")[0] for line in (recorded / "cells.md").read_text().splitlines()[2:]]
    assert labels == ["| Hopper, SPMA-ALM", "| Hopper, PPO-Lag *"]


def test_across_tasks_every_method_is_compared(tmp_path):
    for task in TASKS:
        for method in TITLES:
            for seed in (0, 1, 2):
                best = (
                    2.0
                    if method == "spma-alm"
                    else 9.0
                    if method == "ppo-lag" and seed == 0
                    else 1.0
                )
                if (task, method, seed) == ("Ant", "cpo", 0):
                    continue  # so that seed 0 is compared nowhere
                run = run_folder(
                    tmp_path / "runs" / f"{task}{method}{seed}",
                    task,
                    method,
                    seed,
                    returns=(best,),
                    costs=(1.0,),
                )
                collect(run, tmp_path / "out" / f"{task}-{method}-{seed}")
    reproduce.deep(
        tmp_path / "out", "violations", None, None, lambda name, runs: pytest.fail("nothing is run")
    )
    lines = (tmp_path / "out" / "comparison.md").read_text().splitlines()
    assert "| 1.00 | [1.000, 1.000] |" in lines[2] and "| 0.50 | [0.500, 0.500] |" in lines[3]


def test_only_what_is_missing_is_run(recorded):
    asked = []

    class Nothing(Exception):
        pass

    def carry(name, runs):
        assert name == "deep"
        asked.extend(runs)
        raise Nothing

    with pytest.raises(Nothing):
        reproduce.deep(recorded, "learning-curves", 0.1, 2, carry)
    assert len(asked) == 3 * 4 * 2 - 4 and {run.config["samples"] for run in asked} == {1_000_000}


def finished(store, task, method, seed, **settings):
    """A training run that a store has finished, without the training."""
    run = train_run(
        TrainConfig(TASKS[task], method=method, seed=seed, samples=1_000_000, **settings)
    )
    folder = run_folder(store.done / run.id, task, method, seed)
    note = {"run": json.loads(run.text), "versions": {"code": "c0de"}}
    (folder / "run.json").write_text(json.dumps(note))
    (folder / "result.json").write_text(
        json.dumps({**note, "outcome": {"return": 15.0, "excess": 2.0}})
    )
    (folder / "spent.json").write_text(json.dumps({"cpu_seconds": 1800.0}))
    return run


def test_records_out_of_a_store_without_running_anything(tmp_path, capsys):
    store, out = Store(tmp_path / "store", create=True), tmp_path / "out"
    for seed in (0, 1):
        finished(store, "Hopper", "spma-alm", seed)
        finished(store, "Ant", "cpo", seed)
    for _ in range(2):  # what is recorded is kept
        with pytest.raises(SystemExit) as ended:
            main(
                [
                    "reproduce",
                    "deep",
                    "--store",
                    str(store.folder),
                    "--out",
                    str(out),
                    "--tasks",
                    "Hopper",
                    "--figure",
                    "violations",
                ]
            )
        assert ended.value.code == 0
    assert [(one.task, one.method, one.seed) for one in read_records(out)] == [
        ("Hopper", "spma-alm", 0),
        ("Hopper", "spma-alm", 1),
    ]
    assert read_records(out)[0].summary["cpu_seconds"] == 1800 and read_records(out)[0].summary[
        "versions"
    ] == {"code": "c0de"}
    finished(store, "Hopper", "spma-alm", 0, penalty=0.1)
    with pytest.raises(
        InputError, match=r"more than one run of Hopper, spma-alm, 0 \(.* differ in penalty\)"
    ):
        reproduce.deep(out, None, None, None, lambda name, runs: None, store=store)
    with pytest.raises(InputError, match="has no finished run of this study"):
        reproduce.deep(
            out,
            "dual-steps",
            None,
            None,
            lambda name, runs: None,
            store=Store(tmp_path / "empty", create=True),
        )


def test_rows_of_an_ablation_out_of_a_store(tmp_path):
    store, out = Store(tmp_path / "store", create=True), tmp_path / "out"
    finished(store, "Hopper", "spma-alm", 0, penalty=0.1, inner=5)
    finished(store, "Hopper", "spma-alm", 0, penalty=0.3, inner=5)  # not of the ablation
    reproduce.deep(out, "penalties", None, None, lambda name, runs: None, store=store)
    (row,) = deep.study(out).ablations["penalties"]
    assert (row["penalty"], row["inner"], row["return"], row["excess"], row["code"]) == (
        0.1,
        5,
        15,
        2,
        "c0de",
    )
    asked = []

    def carry(name, runs):
        asked.extend(runs)
        return store

    reproduce.deep(out, "penalties", 0.001, 1, carry, ["Hopper"])
    assert len(asked) == 2 * 4 * 4 - 1  # without what is recorded


def test_what_cannot_be_drawn(tmp_path, capsys):
    with pytest.raises(InputError, match="holds no records; give --fraction"):
        reproduce.deep(tmp_path, None, None, None, lambda name, runs: None)
    with pytest.raises(InputError, match="no records for 'penalties'"):
        reproduce.deep(tmp_path, "penalties", None, None, lambda name, runs: None)
    with pytest.raises(InputError, match="did you mean 'violations'"):
        reproduce.deep(tmp_path, "violation", None, None, lambda name, runs: None)
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "tabular", "--seeds", "3"])
    assert ended.value.code == 2
    run_folder(tmp_path / "other", "Hopper", "cpo", 0)
    (tmp_path / "other" / "evaluation.json").write_text("[]")
    with pytest.raises(
        InputError, match="other cannot be read: an evaluation is not what cmdpax evaluate writes"
    ):
        deep.study(tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        deep.study(tmp_path)


@pytest.mark.slow
def test_a_sliver_of_the_budget_runs_from_nothing_to_figures(tmp_path, monkeypatch):
    """Twelve runs of 20,000 samples; the second time everything is read."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with pytest.raises(SystemExit) as ended:
            main(
                [
                    "reproduce",
                    "deep",
                    "--fraction",
                    "0.002",
                    "--seeds",
                    "1",
                    "--figure",
                    "learning-curves",
                ]
            )
        assert ended.value.code == 0
    assert len(read_records(tmp_path / "results" / "deep-0.002")) == 12


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


def test_a_longer_evaluation_stands_beside_the_papers_ten_episodes(recorded):
    seen = {"returns": [5.0, 7.0], "totals": {"cost": [20.0, 23.0]}}
    for name in (
        "Hopper-spma-alm-0",
        "Hopper-spma-alm-1",
        "Hopper-ppo-lag-0",
    ):  # one of PPO-Lag's is missing
        (recorded / name / "evaluation-100.json").write_text(
            json.dumps({"stochastic": seen, "deterministic": seen})
        )
    reproduce.deep(
        recorded, "violations", None, None, lambda name, runs: pytest.fail("nothing is run")
    )
    columns = [
        line.split(" | ")[3] for line in (recorded / "cells.md").read_text().splitlines()[2:]
    ]
    assert columns == ["6 at 21.5", "-"]
