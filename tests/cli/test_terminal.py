import pytest
from rich.console import Console

from cmdpax import InputError
from cmdpax.cli import terminal
from cmdpax.cli.terminal import StatusLine, TrainingBar, deep


def console(terminal_or_not):
    return Console(
        force_terminal=terminal_or_not, width=120, record=True, file=open("/dev/null", "w")
    )


def metrics(samples):
    return {
        "samples": samples,
        "return": 12.345,
        "cost": {"heat": 3.0},
        "multiplier": {"heat": 0.5},
    }


def test_a_missing_package_is_named_with_the_extra_that_has_it():
    assert deep("math").pi > 3
    with pytest.raises(
        InputError, match=r"needs the package 'no_such_package'; install cmdpax\[deep\]"
    ):
        deep("no_such_package")


@pytest.mark.parametrize("started_ago", [0.0, 5.0])
def test_progress_appears_only_after_two_seconds(monkeypatch, started_ago):
    screen = console(True)
    monkeypatch.setattr(terminal, "err", screen)
    with StatusLine() as status:
        status.started -= started_ago
        status.row({"outer": 1})  # of a fixed budget: there is nothing to show
        assert not status.visible
        status.row({"outer": 1, "evaluations": 7, "gap": 1e-3, "violation": 0.0})
        assert status.visible == (started_ago > 2)


def test_nothing_moves_where_there_is_no_terminal(monkeypatch):
    screen = console(False)
    monkeypatch.setattr(terminal, "err", screen)
    with StatusLine() as status:
        status.started -= 5
        status.say("planning")
    with TrainingBar(100) as bar:
        for samples in (10, 50, 100):
            bar.row(metrics(samples))
    lines = screen.export_text().splitlines()
    steps = [line.split(":")[0] for line in lines]
    assert steps == ["10 of 100 steps", "100 of 100 steps"]  # a line now and then, and the last
    assert "return 12.35 heat 3 (x0.5)" in lines[-1]
