"""`cmdpax reproduce tabular`, `linear` and `deep`: which figures there are, and what they need.

Into a folder go the records (what was run, with what, by which versions), tables as .md and .csv,
and one PNG per figure. Records that fit are read instead of run: figures are redrawn in seconds.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from cmdpax.errors import InputError, did_you_mean
from cmdpax.experiments.pictures import save
from cmdpax.experiments.store import Store
from cmdpax.experiments.sweep import Sweep
from cmdpax.files.written import write_bytes
from cmdpax.paper import deep_figures, deep_study, deep_tables, exact_figures, exact_study
from cmdpax.paper.exact_study import ExactStudy, Say, silence
from cmdpax.paper.rate import RateStudy, rate_figure
from cmdpax.paper.settings import (
    ABLATIONS,
    ALL_TASKS,
    DEEP_SWEEP,
    PROBLEMS,
    RANDOM_PROBLEMS,
    RANDOM_TILES,
    SEARCH_SWEEP,
    SEEDS,
    SWEEPS,
    TILES,
    TOLERANCES,
    paper_settings_sweep,
)
from cmdpax.paper.theory import TheoryStudy, theory_figure

WORKERS = 2  # log-linear studies at a time


class Drawing(NamedTuple):
    """How a figure is drawn, and from what: exact studies, or a sweep of the deep study."""

    draw: Callable[..., Figure]
    needs: tuple[Any, ...] = ()


def _planned(name: str) -> Sweep:
    """The sweep of a name; with the paper's settings, the cells are those of the comparison."""
    return SWEEPS.get(name, DEEP_SWEEP)


_TABLES = tuple(ExactStudy(problem) for problem in PROBLEMS)
_FEATURES = tuple(ExactStudy(problem, tiles) for problem in PROBLEMS for tiles in TILES)
_RANDOM = tuple(ExactStudy(problem) for problem in RANDOM_PROBLEMS)
_RANDOM_FEATURES = ExactStudy(next(iter(RANDOM_PROBLEMS)), RANDOM_TILES)
_curves = deep_figures.learning_curves
_selected, _policy = exact_figures.selected, exact_figures.optimal_policy
_appendix = partial(_selected, labels=exact_figures.APPENDIX)
_strict = partial(_selected, tolerance=min(TOLERANCES))
FIGURES: dict[str, dict[str, Drawing]] = {
    "tabular": {
        "first": Drawing(exact_figures.first),
        "all-methods": Drawing(exact_figures.all_methods, _TABLES[:1]),
        **{
            f"{study.name}-{tolerance:g}": Drawing(
                partial(_appendix, tolerance=tolerance), (study,)
            )
            for study in _TABLES
            for tolerance in TOLERANCES
        },
        **{f"{problem}-policy": Drawing(partial(_policy, problem)) for problem in PROBLEMS},
        "certified": Drawing(exact_figures.certified, _TABLES),
        "sensitivity": Drawing(exact_figures.sensitivity, _TABLES),
        "rate": Drawing(rate_figure, (RateStudy(),)),
        "theory": Drawing(theory_figure, (TheoryStudy(), RateStudy())),
        "three-constraints": Drawing(exact_figures.three_constraints, _RANDOM),
    },
    "linear": {
        **{study.name: Drawing(_strict, (study,)) for study in (*_FEATURES, _RANDOM_FEATURES)},
        "features": Drawing(exact_figures.features, _FEATURES),
        "projection-errors": Drawing(exact_figures.projection_errors, _FEATURES),
    },
    "deep": {
        "learning-curves": Drawing(
            partial(_curves, title="Velocity tasks", paper=SEEDS), (deep_study.MAIN,)
        ),
        "violations": Drawing(deep_figures.violations, (deep_study.MAIN,)),
        **{name: Drawing(partial(deep_figures.ablation, name=name), (name,)) for name in ABLATIONS},
        **{
            name: Drawing(
                partial(_curves, planned=_planned(name), title=title, paper=seeds), (name,)
            )
            for name, title, seeds in (
                ("held-out", "Tasks on which nothing was tuned", None),
                ("two-limits", "Two limits at once", None),
                (deep_study.CHOSEN, "The paper's own settings, chosen from its grids", SEEDS),
            )
        },
    },
}
# sweeps that a fraction of the budget runs, unless a figure of another one is asked for
PAPERS = (deep_study.MAIN, *ABLATIONS)


def exact(
    what: str, folder: Path, figure: str | None = None, rerun: bool = False, say: Say = silence
) -> list[Path]:
    """Reproduce `tabular` or `linear`, or one figure of it, in `folder` -> the figures written."""
    drawings = _wanted(what, figure)
    needed = list(dict.fromkeys(need for drawing in drawings.values() for need in drawing.needs))
    studies = dict(zip(needed, _complete(needed, folder, rerun, say)))
    written = []
    for name, drawing in drawings.items():
        say(f"drawing {name}")
        drawn = drawing.draw(*(studies[need] for need in drawing.needs))
        written.append(save(drawn, folder / f"{name}.png"))
    if figure is None:
        tables = [study for study in studies.values() if isinstance(study, ExactStudy)]
        exact_study.write_tables(tables, folder)
    return written


def _complete(studies: Sequence[Any], folder: Path, rerun: bool, say: Say) -> list[Any]:
    """Studies with their records; log-linear ones, which take minutes, side by side."""
    if not any(getattr(study, "tiles", None) for study in studies):
        return [study.complete(folder, rerun, say) for study in studies]
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        say(f"log-linear studies: {len(studies)} records")
        jobs = [pool.submit(study.complete, folder, rerun) for study in studies]
        for done, _ in enumerate(as_completed(jobs), 1):
            say(f"{done} of {len(jobs)} records complete")
    return [job.result() for job in jobs]


def deep(
    folder: Path,
    figure: str | None = None,
    *,
    fraction: float | None = None,
    seeds: int | None = None,
    tasks: Sequence[str] = tuple(ALL_TASKS),
    store: Path | None = None,
    keep_policies: bool = False,
    carry_out: deep_study.CarryOut,
) -> list[Path]:
    """Draw the deep study from the records in `folder` -> the figures written.

    With a `fraction` of the budget, first run what the records lack: `carry_out(runs, store)` does
    it and shows how it stands. Without one, first record what a `store` has finished of one sweep:
    of the figure's, or of the main comparison. `keep_policies` publishes final policies there.
    """
    search = SEARCH_SWEEP.name
    drawings = {} if figure == search else _wanted("deep", figure)  # the search has no figure
    sweep = search if figure == search else next(iter(drawings.values())).needs[0]
    if fraction is not None:
        for one in PAPERS if figure is None else (sweep,):
            how = (fraction, seeds, tasks, store, carry_out, keep_policies)
            deep_study.run_missing(folder, one, *how)
    elif store is not None:
        part = (seeds, tasks, Store(store), keep_policies)
        if not deep_study.record_finished(folder, sweep, *part):
            remedy = f"give the store of `cmdpax sweep {sweep}`"
            raise InputError(f"{store} has no finished run of this study; {remedy}.")
    sweeps = dict.fromkeys(one.needs[0] for one in drawings.values())
    studies = {name: deep_study.DeepStudy(deep_study.place(folder, name)) for name in sweeps}
    drawable = {
        name: one for name, one in drawings.items() if studies[one.needs[0]].has_any(one.needs[0])
    }
    written = _write_search(folder)
    if not drawable and not written:
        what = "no records" if figure is None else f"no records for '{figure}'"
        remedy = "give --fraction to run that part of the paper's budget, as in 0.01"
        raise InputError(f"{folder} holds {what}; {remedy}.")
    for name, study in studies.items():
        if study.records and name == deep_study.MAIN:
            papers = deep_study.DeepStudy(deep_study.place(folder, deep_study.CHOSEN))
            deep_tables.write_tables(study, folder, papers)
        elif study.records and name not in deep_study.LINES:
            deep_tables.write_other_tables(study, deep_study.place(folder, name), _planned(name))
    for name, one in drawable.items():
        written.append(save(one.draw(studies[one.needs[0]]), folder / f"{name}.png"))
    return written


def _write_search(folder: Path) -> list[Path]:
    """The search in the paper's grids: its table, and the sweep of what it chose -> the sweep."""
    rows = deep_study.DeepStudy(folder).lines[SEARCH_SWEEP.name]
    if not rows:
        return []
    chosen, path = deep_study.choose_settings(rows), folder / f"{deep_study.CHOSEN}.toml"
    deep_tables.write_search_table(rows, chosen, folder)
    write_bytes(path, deep_study.sweep_text(paper_settings_sweep(chosen)).encode())
    return [path]


def _wanted(what: str, figure: str | None) -> dict[str, Drawing]:
    """The figure that is asked for, or all."""
    if figure is None:
        return FIGURES[what]
    if figure not in FIGURES[what]:
        raise InputError(f"figure '{figure}' is not known; {did_you_mean(figure, FIGURES[what])}")
    return {figure: FIGURES[what][figure]}
