import pytest

from cmdpax import InputError
from cmdpax.paper import rate
from cmdpax.paper.reproduce import FIGURES, tabular


def test_an_unknown_figure_gets_a_suggestion(tmp_path):
    with pytest.raises(InputError, match="did you mean 'sensitivity'"):
        tabular(tmp_path, "sensitivty")
    assert len(FIGURES) == 11


def test_rates_are_recorded_once(tmp_path, monkeypatch):
    monkeypatch.setattr(rate, "OUTER", 20)
    monkeypatch.setattr(rate, "PENALTIES", (1.0,))
    said = []
    (path,) = tabular(tmp_path, "rate", say=said.append)
    tabular(tmp_path, "rate", say=said.append)
    assert path == tmp_path / "rate.png" and said.count("rate of the outer loop") == 1
    tabular(tmp_path, "rate", rerun=True, say=said.append)
    assert said.count("rate of the outer loop") == 2
