"""Rows as files for other programs: read back by other readers, and refused before the work where
they cannot be written.
"""

import csv
import json
import sys

import pyarrow.parquet
import pytest

from cmdpax import InputError
from cmdpax.experiments.export import check_export, export


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
