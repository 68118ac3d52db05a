"""Rows, selection and export of a sweep; the command itself."""

import csv
import json
import sys

import pyarrow.parquet
import pytest

from cmdpax import InputError
from cmdpax.cli import main
from cmdpax.commands.sweeping import Board
from cmdpax.deep.config import TrainConfig
from cmdpax.experiments.export import check_export, export
from cmdpax.experiments.runs import train_run
from cmdpax.experiments.store import Store
from cmdpax.experiments.sweep import select, varied_fields

TASK = "SafetyHopperVelocity-v1"
RUNS = [train_run(TrainConfig(TASK, penalty=penalty, seed=seed)) for penalty in (0.1, 0.2, 0.3) for seed in (0, 1)]


def row(run, score, excess, failed=None):
    base = {"id": run.id, "method": "spma-alm", "penalty": run.config["penalty"], "samples": 10, "cpu_seconds": 36.0}
    return {**base, "score": score, "excess": excess, "failed": failed}


def test_the_best_return_within_the_limit_is_selected():
    scores = [(1, 0), (3, 0), (9, 0), (9, 11), (5, 4), (5, 5)]  # the second is best, but its mean cost is too high
    (chosen,) = select(RUNS, [row(run, *pair) for run, pair in zip(RUNS, scores)], eps=5.0)
    assert chosen["selected"] == "penalty 0.3" and chosen["score"] == "5 +- 0" and chosen["excess"] == 4.5
    assert (chosen["configurations"], chosen["eligible"], chosen["runs"], chosen["samples"]) == (3, 2, 6, 60)
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
    assert varied_fields([train_run(TrainConfig(TASK, method=method)) for method in ("spma-alm", "cpo")]) == []


def test_export(tmp_path):
    rows = [{"id": "a", "score": 0.1, "failed": None}, {"id": "b", "score": 1 / 3, "failed": None}]
    for name in ("x.jsonl", "x.csv", "x.parquet"):
        export(rows, check_export(tmp_path / name))
    assert [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()] == rows
    with open(tmp_path / "x.csv", newline="") as file:
        assert [float(row["score"]) for row in csv.DictReader(file)] == [0.1, 1 / 3]
    assert pyarrow.parquet.read_table(tmp_path / "x.parquet").to_pylist() == rows
    assert len(list(tmp_path.iterdir())) == 3


def test_exports_that_cannot_be(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"ends in \.jsonl, \.csv or \.parquet"):
        check_export(tmp_path / "x.txt")
    with pytest.raises(InputError, match="no folder"):
        check_export(tmp_path / "no" / "x.csv")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"install cmdpax\[parquet\]"):
        check_export(tmp_path / "x.parquet")


@pytest.fixture
def spec(tmp_path):
    text = 'kind = "exact"\neps = 0.01\n[settings]\nmodel = "cliff-world"\nsteps = 30\nstep = [0.1, 1]\n[methods.npg-pd]\n'
    path = tmp_path / "spec.toml"
    path.write_text(text)
    return path


def test_the_command(spec, tmp_path, capsys):
    for _ in range(2):  # the second time there is nothing to do
        with pytest.raises(SystemExit) as ended:
            main(
                ["sweep", str(spec), "--store", str(tmp_path / "s"), "--executor", "serial", "--export", str(tmp_path / "x.csv")]
            )
        assert ended.value.code == 0
    assert "selected" in capsys.readouterr().out
    store = Store(tmp_path / "s")
    assert len(store.finished()) == 2 and (tmp_path / "s" / "selected.md").exists()
    assert len((tmp_path / "x.csv").read_text().splitlines()) == 3


def test_a_part_of_a_sweep_shares_its_store(spec, tmp_path):
    for part, done in ((["--only", "step=1"], 1), ([], 2)):
        with pytest.raises(SystemExit) as ended:
            main(["sweep", str(spec), "--store", str(tmp_path / "s"), "--executor", "serial", *part])
        assert ended.value.code == 0 and len(Store(tmp_path / "s").finished()) == done


def test_the_board_reads_everything_in_the_store(tmp_path):
    store = Store(tmp_path / "s", create=True)
    board = Board(RUNS, store)
    attempt = store.work / f"{RUNS[0].id}.a"
    attempt.mkdir()
    row = {"samples": 500_000, "return": 12.345, "cost": {"cost": 3.0}}
    (attempt / "metrics.jsonl").write_text(json.dumps(row) + "\n" + '{"samples": 600')
    (store.done / RUNS[1].id).mkdir()
    assert board.training() == [f"{TASK} spma-alm seed 0: 25%, return 12.35, cost 3"]
    assert board.summary().startswith("1 of 6 runs are done, 1 begun, about ")
    assert board.table().row_count == 1


def test_an_interrupt_is_safe_and_says_how_to_go_on(spec, tmp_path, monkeypatch, capsys):
    from cmdpax.experiments import executors

    def interrupted(runs, store, workers, report):
        store.carry_out(runs[0])
        raise KeyboardInterrupt

    monkeypatch.setitem(executors.EXECUTORS, "local", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["sweep", str(spec), "--store", str(tmp_path / "s")])
    assert ended.value.code == 130
    assert "interrupted; 1 of 2 runs are done" in capsys.readouterr().err
