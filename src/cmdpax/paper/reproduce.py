"""`cmdpax reproduce tabular`, `linear` and `deep`: run or read the records, write the tables, draw
the figures.

Into a folder go `records/*.jsonl` (what was run, with what, by which versions), `selected` and
`sensitivity` as .md and .csv, and one PNG per figure. Records that fit are read instead of run, so
that figures are redrawn in seconds.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from matplotlib.figure import Figure

from cmdpax.errors import InputError, did_you_mean
from cmdpax.experiments.pictures import save
from cmdpax.experiments.results import Row, provenance, read_lines, write_lines
from cmdpax.experiments.store import Store
from cmdpax.paper import deep as deep_study
from cmdpax.paper import deep_figures, log_linear, rate
from cmdpax.paper.all_methods import all_methods
from cmdpax.paper.certified import certified
from cmdpax.paper.deep_records import TASKS
from cmdpax.paper.deep_tables import tables as deep_tables
from cmdpax.paper.first_figure import first_figure
from cmdpax.paper.linear import SETS, LinearStudy, linear_study, linear_tables
from cmdpax.paper.optimal_policies import optimal_policy
from cmdpax.paper.selected import selected
from cmdpax.paper.sensitivity import sensitivity
from cmdpax.paper.tabular import LIMITS, PROBLEMS, Say, Study, study, tables

WORKERS = 2


class Material:
    """What figures are drawn from; every record is run or read when it is first asked for."""

    def __init__(self, folder: Path, rerun: bool, say: Say) -> None:
        self.study: Callable[[str], Study] = cache(
            lambda problem: study(problem, folder, rerun, say)
        )
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
    **{
        f"{problem}-{limit:g}": _selected(problem, limit)
        for problem in PROBLEMS
        for limit in LIMITS
    },
    **{f"{problem}-policy": _policy(problem) for problem in PROBLEMS},
    "certified": lambda material: certified(material.studies),
    "sensitivity": lambda material: sensitivity(material.studies),
    "rate": lambda material: rate.rate(material.rates()),
}


def tabular(
    folder: Path, figure: str | None = None, rerun: bool = False, say: Say = lambda text: None
) -> list[Path]:
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


def _in_class(index: int) -> Callable[[Sequence[LinearStudy]], Figure]:
    return lambda studies: log_linear.selected_in_class(studies[index])


LINEAR = [(problem, dimension) for problem in PROBLEMS for dimension in SETS]
LINEAR_FIGURES: dict[str, Callable[[Sequence[LinearStudy]], Figure]] = {
    **{
        f"{problem}-{dimension}": _in_class(index)
        for index, (problem, dimension) in enumerate(LINEAR)
    },
    "features": log_linear.features,
    "projection-errors": log_linear.projection_errors,
}


def linear(
    folder: Path, figure: str | None = None, rerun: bool = False, say: Say = lambda text: None
) -> list[Path]:
    """Reproduce the log-linear experiments in `folder`, two records at a time; returns the figures
    written.
    """
    if figure is not None and figure not in LINEAR_FIGURES:
        raise InputError(f"figure '{figure}' is not known; {did_you_mean(figure, LINEAR_FIGURES)}")
    say("log-linear studies: two problems, three sets of features")
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        waiting = [
            pool.submit(linear_study, problem, dimension, folder, rerun)
            for problem, dimension in LINEAR
        ]
        for done, _ in enumerate(as_completed(waiting), 1):
            say(f"{done} of {len(LINEAR)} records complete")
    studies = [job.result() for job in waiting]
    linear_tables(studies, folder)
    return [
        save(draw(studies), folder / f"{name}.png")
        for name, draw in LINEAR_FIGURES.items()
        if figure is None or name == figure
    ]


DEEP_FIGURES: dict[str, Callable[[deep_study.Study], Figure]] = {
    "learning-curves": deep_figures.learning_curves,
    "violations": deep_figures.violations,
    "penalties": lambda found: deep_figures.ablation(found, "penalties"),
    "dual-steps": lambda found: deep_figures.ablation(found, "dual-steps"),
}


def deep(
    folder: Path,
    figure: str | None,
    fraction: float | None,
    seeds: int | None,
    carry: deep_study.Carry,
    tasks: Sequence[str] = tuple(TASKS),
    store: Store | None = None,
) -> list[Path]:
    """Draw the deep study from the records in `folder`.

    With a fraction of the budget, `carry` out what they lack first; without one, record what a
    `store` has finished first.
    """
    if figure is not None and figure not in DEEP_FIGURES:
        raise InputError(f"figure '{figure}' is not known; {did_you_mean(figure, DEEP_FIGURES)}")
    wanted = list(DEEP_FIGURES) if figure is None else [figure]
    parts = list(dict.fromkeys(name if name in deep_study.ABLATIONS else "main" for name in wanted))
    if fraction is not None:
        deep_study.run_missing(folder, parts, fraction, seeds, tasks, carry)
    # a store holds one sweep: the main comparison, unless the figure of an ablation is asked for
    elif store is not None and not deep_study.record_finished(
        folder, parts[0], seeds, tasks, store
    ):
        raise InputError(
            f"{store.folder} has no finished run of this study; give the store of `cmdpax sweep"
            " deep`."
        )
    found = deep_study.study(folder)
    every: dict[str, Sequence[object]] = {**found.ablations}
    drawable = [name for name in wanted if every.get(name, found.records)]
    if not drawable:
        what = "no records" if figure is None else f"no records for '{figure}'"
        raise InputError(
            f"{folder} holds {what}; give --fraction to run that part of the paper's budget, as in"
            " 0.01."
        )
    if found.records:
        deep_tables(found, folder)
    return [save(DEEP_FIGURES[name](found), folder / f"{name}.png") for name in drawable]


def _rates(folder: Path, rerun: bool, say: Say) -> Sequence[Row]:
    path = folder / "records" / "rate.jsonl"
    made_with = {
        "sigma": rate.SIGMA,
        "penalties": list(rate.PENALTIES),
        "outer": rate.OUTER,
        "problems": list(PROBLEMS),
    }
    known, rows = read_lines(path)
    if rerun or any(known.get(key) != entry for key, entry in made_with.items()):
        say("rate of the outer loop")
        write_lines(path, provenance(seed=None, **made_with), rate.rate_records())
        _, rows = read_lines(path)
    return rows
