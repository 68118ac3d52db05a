"""`cmdpax reproduce tabular`: run or read the records, write the tables, draw the figures.

Into a folder go `records/*.jsonl` (what was run, with what, by which versions), `selected` and `sensitivity` as .md and .csv,
and one PNG per figure. Records that fit are read instead of run, so that figures are redrawn in seconds.
"""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from matplotlib.figure import Figure

from cmdpax.errors import InputError, did_you_mean
from cmdpax.experiments.figures import save
from cmdpax.experiments.records import Row, provenance, read_lines, write_lines
from cmdpax.paper import rate
from cmdpax.paper.all_methods import all_methods
from cmdpax.paper.certified import certified
from cmdpax.paper.first_figure import first_figure
from cmdpax.paper.optimal_policies import optimal_policy
from cmdpax.paper.selected import selected
from cmdpax.paper.sensitivity import sensitivity
from cmdpax.paper.tabular import LIMITS, PROBLEMS, Say, Study, study, tables


class Material:
    """What figures are drawn from; every record is run or read when it is first asked for."""

    def __init__(self, folder: Path, rerun: bool, say: Say) -> None:
        self.study: Callable[[str], Study] = cache(lambda problem: study(problem, folder, rerun, say))
        self.rates: Callable[[], Sequence[Row]] = cache(lambda: _rates(folder, rerun, say))

    @property
    def studies(self) -> list[Study]:
        """Both problems."""
        return [self.study(problem) for problem in PROBLEMS]


def _selected(problem: str, limit: float) -> Callable[[Material], Figure]:
    return lambda material: selected(material.study(problem), limit)


def _policy(problem: str) -> Callable[[Material], Figure]:
    return lambda material: optimal_policy(problem)


FIGURES: dict[str, Callable[[Material], Figure]] = {
    "first": lambda material: first_figure(),
    "all-methods": lambda material: all_methods(material.study("cliff-world")),
    **{f"{problem}-{limit:g}": _selected(problem, limit) for problem in PROBLEMS for limit in LIMITS},
    **{f"{problem}-policy": _policy(problem) for problem in PROBLEMS},
    "certified": lambda material: certified(material.studies),
    "sensitivity": lambda material: sensitivity(material.studies),
    "rate": lambda material: rate.rate(material.rates()),
}


def tabular(folder: Path, figure: str | None = None, rerun: bool = False, say: Say = lambda text: None) -> list[Path]:
    """Reproduce everything, or one figure, in `folder`; returns the figures written."""
    if figure is not None and figure not in FIGURES:
        raise InputError(f"figure '{figure}' is not known; {did_you_mean(figure, FIGURES)}")
    material = Material(folder, rerun, say)
    written = []
    for name in FIGURES if figure is None else [figure]:
        drawn = FIGURES[name](material)
        say(f"drawing {name}")
        written.append(save(drawn, folder / f"{name}.png"))
    if figure is None:
        tables(material.studies, folder)
    return written


def _rates(folder: Path, rerun: bool, say: Say) -> Sequence[Row]:
    path = folder / "records" / "rate.jsonl"
    made_with = {"sigma": rate.SIGMA, "penalties": list(rate.PENALTIES), "outer": rate.OUTER, "problems": list(PROBLEMS)}
    known, rows = read_lines(path)
    if rerun or any(known.get(key) != entry for key, entry in made_with.items()):
        say("rate of the outer loop")
        write_lines(path, provenance(seed=None, **made_with), rate.rate_records())
        _, rows = read_lines(path)
    return rows
