"""Selection among the rows of a sweep; records that are read back as written; exports that other
readers read, refused before the work where they cannot be written.
"""

import csv
import json
import sys

import numpy as np
import pyarrow.parquet
import pytest

from cmdpax import InputError
from cmdpax.experiments.results import (
    cell,
    check_export,
    export,
    provenance,
    read_lines,
    select_configurations,
    varied_fields,
    write_lines,
    write_table,
)
from cmdpax.experiments.runs import train_run
from cmdpax.learning.config import TrainConfig

TASK = "SafetyHopperVelocity-v1"
RUNS = [
    train_run(TASK, TrainConfig(penalty=penalty, seed=seed))
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
    # of three configurations the second is best, but its mean cost is too high
    scores = [(1, 0), (3, 0), (9, 0), (9, 11), (5, 4), (5, 5)]
    rows = [row(run, *pair) for run, pair in zip(RUNS, scores)]
    (chosen,) = select_configurations(RUNS, rows, 5.0)
    assert (chosen["selected"], chosen["score"]) == ("penalty 0.3", "5 +- 0")
    assert chosen["excess"] == 4.5
    counts = ("configurations", "eligible", "runs", "samples")
    assert [chosen[name] for name in counts] == [3, 2, 6, 60]
    assert chosen["CPU hours"] == pytest.approx(0.06)


def test_a_configuration_with_a_failed_or_missing_run_is_not_eligible():
    rows = [
        row(RUNS[0], 100, 0),
        row(RUNS[1], None, None, "diverged"),
        row(RUNS[2], 50, 0),
        *(row(run, 1, 0) for run in RUNS[4:]),
    ]
    (chosen,) = select_configurations(RUNS, rows, 0.0)
    assert chosen["selected"] == "penalty 0.3" and chosen["eligible"] == 1 and chosen["failed"] == 1
    (nothing,) = select_configurations(RUNS, [row(run, 1, 1) for run in RUNS], 0.5)
    assert nothing["selected"] == "none" and nothing["score"] == "-"


def test_what_a_method_sets_by_itself_is_not_varied():
    assert varied_fields(RUNS) == ["penalty"]
    assert (
        varied_fields(
            [train_run(TASK, TrainConfig(method=method)) for method in ("spma-alm", "cpo")]
        )
        == []
    )


def test_a_record_is_read_back_as_written(tmp_path):
    path = tmp_path / "deep" / "a.jsonl"
    header = provenance(seed=None, optimum=1 / 3)
    write_lines(
        path,
        header,
        [{"kind": "x", "list": np.array([1.0, np.nan]), "count": np.int64(3), "yes": np.True_}],
    )
    known, rows = read_lines(path)
    assert known == header and known["optimum"] == 1 / 3 and known["numpy"] == np.__version__
    assert rows == [{"kind": "x", "list": [1.0, None], "count": 3, "yes": True}]
    assert list(path.parent.iterdir()) == [path]  # nothing partial is left


def test_a_missing_or_damaged_record_is_none(tmp_path):
    path = tmp_path / "a.jsonl"
    assert read_lines(path) == ({}, [])
    path.write_text('{"kind": "header"}\n{"cut o')
    assert read_lines(path) == ({}, [])


@pytest.mark.parametrize(
    ("entry", "text"), [(None, "none"), (0.0, "0"), (1.2345e-7, "1.23e-07"), (3, "3"), ("a", "a")]
)
def test_cells(entry, text):
    assert cell(entry) == text


def test_tables_are_written_twice(tmp_path):
    write_table(tmp_path / "t", ["a", "b, c"], [[1, 0.5], ["x", None]])
    lines = "| a | b, c |\n| --- | --- |\n| 1 | 0.5 |\n| x | none |\n"
    assert (tmp_path / "t.md").read_text() == lines
    assert list(csv.reader((tmp_path / "t.csv").open())) == [
        ["a", "b, c"],
        ["1", "0.5"],
        ["x", "none"],
    ]
    write_table(tmp_path / "bar", ["|gap|"], [["int | None"]])  # no further columns
    assert (tmp_path / "bar.md").read_text() == "| \\|gap\\| |\n| --- |\n| int \\| None |\n"
    assert (tmp_path / "bar.csv").read_text() == "|gap|\nint | None\n"


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
