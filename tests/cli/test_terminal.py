from io import StringIO

import pytest
from rich.console import Console
from rich.table import Table

from cmdpax import InputError
from cmdpax.cli import terminal
from cmdpax.cli.terminal import EscapingConsole, StatusLine, TrainingBar, deep, printable


def console(terminal_or_not):
    return Console(
        force_terminal=terminal_or_not, width=120, record=True, file=open("/dev/null", "w")
    )


def metrics(samples):
    return {
        "samples": samples,
        "return": 12.345,
        "cost": {"heat": 3.0},
        "aim": {"heat": 2.5},
        "weight": {"heat": 0.5},
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
    assert "return 12.35, heat 3 (aim 2.5, weight 0.5)" in lines[-1]


EVIL = "a\x1b[31mb\x1b]0;title\x07\x9b2Jc\u202ed\u2066e\x7ff\udcffg\rh"


def test_what_cannot_be_seen_is_written_out():
    assert printable("plain – text ≤ 3\n\tmore") == "plain – text ≤ 3\n\tmore"
    assert printable("\x1b[31m\u202e\udcff\r") == r"\x1b[31m\u202e\udcff\r"
    assert printable("a\nb", kept="") == r"a\nb"


@pytest.mark.parametrize("terminal_or_not", [True, False])
def test_names_reach_no_terminal_unescaped(terminal_or_not):
    """On a terminal rich writes codes of its own; without colours there are none to tell apart."""
    file = StringIO()
    screen = EscapingConsole(
        file=file, force_terminal=terminal_or_not, color_system=None, width=120, **terminal.PLAIN
    )
    table = Table(title=EVIL, caption=EVIL)
    table.add_column(EVIL)
    table.add_row(EVIL)
    screen.print(EVIL)
    screen.print(table)
    shown = file.getvalue()
    assert r"\x1b[31m" in shown and r"\u202e" in shown
    assert not [one for one in shown if not one.isprintable() and one != "\n"]


def test_the_consoles_and_complaints_escape(capsys):
    assert isinstance(terminal.out, EscapingConsole) and isinstance(terminal.err, EscapingConsole)
    terminal.complain(f"{EVIL}\nsecond line")
    written = capsys.readouterr().err
    assert written.rstrip("\n").isprintable() and written.startswith("cmdpax: a")


def test_brackets_in_a_status_are_no_markup(monkeypatch):
    screen = console(True)
    monkeypatch.setattr(terminal, "err", screen)
    with StatusLine() as status:
        status.started -= 5
        status.say("model [/bold] of [somebody]")  # was a MarkupError
        assert str(status.spinner.status).startswith("model [/bold] of [somebody]  (")


def test_a_complaint_that_is_too_long_keeps_its_ends(capsys):
    terminal.complain(f"what: {'x' * 10_000}; how to fix.")
    line = capsys.readouterr().err
    assert line.startswith("cmdpax: what: xxx") and line.endswith("xxx; how to fix.\n")
    assert len(line) < 850
