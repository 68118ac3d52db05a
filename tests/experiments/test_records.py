import csv

import numpy as np
import pytest

from cmdpax.experiments.records import cell, plain, provenance, read_lines, write_lines, write_table


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


def test_numbers_are_rounded_and_infinities_are_null():
    assert plain({"a": (0.123456, np.inf), "b": "text", "c": np.float64(1e-20)}) == {
        "a": [0.1235, None],
        "b": "text",
        "c": 1e-20,
    }


@pytest.mark.parametrize(
    ("entry", "text"), [(None, "none"), (0.0, "0"), (1.2345e-7, "1.23e-07"), (3, "3"), ("a", "a")]
)
def test_cells(entry, text):
    assert cell(entry) == text


def test_tables_are_written_twice(tmp_path):
    write_table(tmp_path / "t", ["a", "b, c"], [[1, 0.5], ["x", None]])
    assert (
        tmp_path / "t.md"
    ).read_text() == "| a | b, c |\n| --- | --- |\n| 1 | 0.5 |\n| x | none |\n"
    assert list(csv.reader((tmp_path / "t.csv").open())) == [
        ["a", "b, c"],
        ["1", "0.5"],
        ["x", "none"],
    ]
