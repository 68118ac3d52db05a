import pytest

from cmdpax import InputError
from cmdpax.cli import main
from cmdpax.paper import rate
from cmdpax.reproduce import FIGURES, tabular


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


def test_the_command_draws_one_figure(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "tabular", "--figure", "deep-sea-policy", "--out", str(tmp_path)])
    assert ended.value.code == 0 and "deep-sea-policy.png" in capsys.readouterr().out
    assert (tmp_path / "deep-sea-policy.png").stat().st_size > 5000
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "tabular", "--figure", "nothing"])
    assert ended.value.code == 2 and "not known" in capsys.readouterr().err
