"""What the commands share: consoles, exit codes, a status line, and packages only some need.

Names are other people's: whatever is printed is escaped on its way to the terminal, here and in
`complain`, so that no name can move the cursor, change colours or turn the direction of text.
"""

import importlib
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any

import tyro
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.status import Status as Spinner
from rich.text import Text

from cmdpax.errors import InputError

EXIT = {"certified": 0, "infeasible": 3, "limit": 4}
END = 400  # characters of a long sentence's beginning, and of its end, that are said
QUIET_SECONDS = 2.0  # nothing is shown before a command has taken this long
# square brackets or colons in names mean nothing to us
PLAIN: dict[str, Any] = {"soft_wrap": True, "highlight": False, "markup": False, "emoji": False}
Json = Annotated[bool, tyro.conf.arg(name="json")]


def printable(text: str, kept: str = "\n\t") -> str:
    r"""Text in which control characters, and others that cannot be seen, are written as `\x1b`."""
    if text.isprintable():
        return text
    shown = (one if one.isprintable() or one in kept else ascii(one)[1:-1] for one in text)
    return "".join(shown)


class EscapingConsole(Console):
    """A console that prints text and nothing but text: its own codes are in styles and controls."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """The segments of anything that is printed, escaped."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)


out, err = EscapingConsole(**PLAIN), EscapingConsole(stderr=True, **PLAIN)


def complain(sentence: object) -> None:
    """One line on standard error, for errors and warnings; the middle of a long one is left out."""
    text = printable(str(sentence), kept="")
    if len(text) > 2 * END:
        text = f"{text[:END]} ... {text[-END:]}"
    print(f"cmdpax: {text}", file=sys.stderr)


class StatusLine:
    """A line that appears on a terminal once something takes longer than two seconds."""

    def __init__(self) -> None:
        self.started, self.visible = time.perf_counter(), False
        self.spinner = Spinner("", console=err) if err.is_terminal else None

    def __enter__(self) -> "StatusLine":
        return self

    def __exit__(self, *_: object) -> None:
        if self.spinner and self.visible:
            self.spinner.stop()

    def say(self, text: str) -> None:
        """Show what is going on."""
        seconds = time.perf_counter() - self.started
        if self.spinner and seconds > QUIET_SECONDS:
            self.spinner.update(Text(f"{text}  ({seconds:.0f} s)"))  # not markup
            if not self.visible:
                self.spinner.start()
                self.visible = True

    def row(self, row: dict[str, Any]) -> None:
        """Show a row of a solver's trace, if it has a gap: a fixed budget has none."""
        if "gap" in row:
            errors = f"gap {row['gap']:.1e}, violation {row['violation']:.1e}"
            self.say(f"iteration {row['outer']}, {row['evaluations']} evaluations: {errors}")


class TrainingBar:
    """Return, cost, multiplier, steps per second, time left; off a terminal, a line at times."""

    def __init__(self, samples: int) -> None:
        words, rate = TextColumn("{task.description}", markup=False), "{task.fields[rate]}"
        columns = (words, BarColumn(), TextColumn(rate), TimeRemainingColumn())
        self.bar = Progress(*columns, console=err, disable=not err.is_terminal)
        self.task = self.bar.add_task("training", total=samples, rate="")
        self.samples, self.first, self.started, self.said = samples, None, time.perf_counter(), 0.0

    def __enter__(self) -> "TrainingBar":
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def row(self, row: dict[str, Any]) -> None:
        """Show a row of metrics."""
        now = time.perf_counter()
        if self.first is None:  # compilation is not part of the rate
            self.first, self.started = row["samples"], now
        steps = row["samples"] - self.first
        rate = f"{steps / (now - self.started):.0f} steps/s" if steps else "compiled"
        text = f"return {row['return']:.4g}"
        for name, value in row["cost"].items():
            aim, weight = row["aim"][name], row["weight"][name]
            text += f", {name} {value:.3g} (aim {aim:.3g}, weight {weight:.3g})"
        self.bar.update(self.task, completed=row["samples"], description=text, rate=rate)
        if not err.is_terminal and (now - self.said > 30 or row["samples"] >= self.samples):
            err.print(f"{row['samples']} of {self.samples} steps: {text}, {rate}")
            self.said = now


def deep(module: str) -> Any:
    """A module of the deep part; it needs packages that the exact part does not."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        sentence = f"this command needs the package '{error.name}'; install cmdpax[deep]."
        raise InputError(sentence) from None
