"""The log-linear study: records go on where they were stopped, and the committed ones say what the
documentation says.
"""

from pathlib import Path

import numpy as np
import pytest
from cmdpax.paper.grid import Entry
from cmdpax.paper.linear import LinearStudy, linear_study, linear_tables

from cmdpax.experiments.results import read_lines
from cmdpax.paper import linear, log_linear

RECORDS = Path(__file__).parents[2] / "results" / "linear" / "records"
# gap of PPQA-ALM at violation <= 1e-3 and of the class optimum, as the specification has them
EXPECTED = {
    ("cliff-world", 40): (0.58, 0.459),
    ("cliff-world", 60): (0.0045, 0.0047),
    ("cliff-world", 80): (0.0, 0.0),
    ("deep-sea", 40): (0.032, 0.030),
    ("deep-sea", 60): (0.0013, 0.0010),
    ("deep-sea", 80): (1.5e-4, 0.0),
}


def test_a_stopped_study_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(linear, "STARTS", 4)
    monkeypatch.setattr(linear, "ENTRIES", (Entry("lin-npg-pd"), Entry("lin-reload")))
    real, said = linear.search, []

    def stops(model, entry, optimum, features):
        if entry.method == "lin-reload":
            raise KeyboardInterrupt
        return real(model, entry, optimum, features)

    monkeypatch.setattr(linear, "search", stops)
    with pytest.raises(KeyboardInterrupt):
        linear_study("deep-sea", 40, tmp_path, say=said.append)
    monkeypatch.setattr(linear, "search", real)
    study = linear_study("deep-sea", 40, tmp_path, say=said.append)
    assert [text.rpartition(": ")[2] for text in said] == [
        "the best policy that the features can express",
        "Lin-NPG-PD",
        "Lin-ReLOAD",
        "Lin-ReLOAD",
    ]
    assert len(study.configurations) == 25 + 20 and study.class_optimum["rank"] == 4
    linear_study("deep-sea", 40, tmp_path, say=said.append)
    assert len(said) == 4  # nothing is run again
    linear_tables([study], tmp_path)
    assert "Lin-ReLOAD" in (tmp_path / "selected.md").read_text()
    assert log_linear.selected_in_class(study) is not None


@pytest.mark.parametrize(("problem", "dimension"), EXPECTED)
def test_the_committed_records_land_on_the_expected_numbers(problem, dimension):
    study = LinearStudy(*read_lines(RECORDS / f"{problem}-{dimension}.jsonl"))
    reached, best = EXPECTED[problem, dimension]
    ppqa = study.row(study.selected(1e-3)["PPQA-ALM"])
    for found, figure in ((abs(ppqa["gap"]), reached), (study.class_optimum["gap"], best)):
        assert abs(found) < 1e-4 if figure == 0 else figure / 3 <= found <= 3 * figure
    assert ppqa["violation"] <= 1e-3
    assert dimension < 80 or abs(ppqa["gap"]) < 1e-3
    errors = study.errors["PPQA-ALM"]
    assert np.min(errors["bias"]) >= 0 and np.min(errors["optimiser"]) >= 0
