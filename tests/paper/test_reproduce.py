"""From a command to figures: what is asked for, what is drawn, what cannot be."""

import pytest

from cmdpax import InputError
from cmdpax.cli.main import main
from cmdpax.experiments.results import write_lines
from cmdpax.experiments.store import Store
from cmdpax.paper import rate, reproduce
from cmdpax.paper.deep_records import read_records
from cmdpax.paper.exact_study import ExactStudy


def command(*words):
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", *map(str, words)])
    return ended.value.code


def runs_nothing(runs, store):
    pytest.fail("nothing is to be run")


def test_an_unknown_figure_gets_a_suggestion(tmp_path):
    with pytest.raises(InputError, match="did you mean 'sensitivity'"):
        reproduce.exact("tabular", tmp_path, "sensitivty")
    with pytest.raises(InputError, match="did you mean 'violations'"):
        reproduce.deep(tmp_path, "violation", carry_out=runs_nothing)
    assert {what: len(figures) for what, figures in reproduce.FIGURES.items()} == {
        "tabular": 13,
        "linear": 9,
        "deep": 7,
    }


def test_rates_are_recorded_once(tmp_path, monkeypatch):
    monkeypatch.setattr(rate, "OUTER", 20)
    monkeypatch.setattr(rate, "PENALTIES", (1.0,))
    said = []
    (path,) = reproduce.exact("tabular", tmp_path, "rate", say=said.append)
    reproduce.exact("tabular", tmp_path, "rate", say=said.append)
    assert path == tmp_path / "rate.png" and said.count("rate of the outer loop") == 1
    reproduce.exact("tabular", tmp_path, "rate", rerun=True, say=said.append)
    assert said.count("rate of the outer loop") == 2


def test_a_figure_completes_the_records_that_it_needs_and_no_others(tmp_path, monkeypatch):
    asked = []

    def complete(study, folder, rerun, say):
        asked.append(study.name)
        raise KeyboardInterrupt

    monkeypatch.setattr(ExactStudy, "complete", complete)
    with pytest.raises(KeyboardInterrupt):
        reproduce.exact("tabular", tmp_path, "deep-sea-0.01")
    assert asked == ["deep-sea"]
    reproduce.exact("tabular", tmp_path, "cliff-world-policy")
    assert asked == ["deep-sea"]


def test_figures_and_tables_from_records_alone(recorded, capsys):
    row = {"task": "Hopper", "method": "ppo-alm", "penalty": 0.1, "seed": 0, "samples": 100_000}
    rows = [{**row, "inner": inner, "return": 1.0, "excess": 2.0} for inner in (1, 5)]
    write_lines(recorded / "penalties.jsonl", {"kind": "header"}, rows)
    assert command("deep", "--out", recorded) == 0
    assert {path.stem for path in recorded.glob("*.png")} == {
        "learning-curves",
        "violations",
        "penalties",
    }
    said = "no records yet: dual-steps, held-out, paper-settings, two-limits; --fraction runs one"
    assert said in capsys.readouterr().out
    tables = {"results", "violations", "training", "comparison", "cells", "settings"}
    assert {path.stem for path in recorded.glob("*.csv")} == tables
    assert "the paper's settings here" in (recorded / "cells.md").read_text()


def test_records_out_of_a_store(recorded, tmp_path):
    store = Store(tmp_path / "empty", create=True)
    with pytest.raises(InputError, match="has no finished run of this study"):
        reproduce.deep(recorded, "dual-steps", store=store.folder, carry_out=runs_nothing)
    words = ("deep", "--store", tmp_path / "none", "--out", recorded, "--tasks", "Hopper")
    assert command(*words) == 2  # no store


def test_what_cannot_be_drawn(tmp_path):
    with pytest.raises(InputError, match="holds no records; give --fraction"):
        reproduce.deep(tmp_path, carry_out=runs_nothing)
    for seeds in (0, 1):  # of which nothing can be drawn: all failed
        row = {
            "task": "Hopper",
            "method": "ppo-alm",
            "penalty": 0.1,
            "samples": 100_000,
            "inner": 1,
        }
        lost = {**row, "return": None, "excess": None, "failed": "not finite"}
        rows = [{**lost, "seed": seed} for seed in range(seeds)]
        write_lines(tmp_path / "penalties.jsonl", {"kind": "header"}, rows)
        with pytest.raises(InputError, match="no records for 'penalties'"):
            reproduce.deep(tmp_path, "penalties", carry_out=runs_nothing)
    assert command("tabular", "--seeds", 3) == 2


@pytest.mark.slow
def test_a_sliver_of_the_budget_runs_from_nothing_to_figures(tmp_path, monkeypatch):
    """Twelve runs of 20,000 samples; the second time everything is read."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        words = ("--fraction", 0.002, "--seeds", 1, "--figure", "learning-curves")
        assert command("deep", *words) == 0
    assert len(read_records(tmp_path / "results" / "deep-0.002")) == 12
    assert (tmp_path / "runs" / "deep" / "done").exists()
