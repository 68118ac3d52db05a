"""Commands on whole experiments: demo, reproduce, report."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from cmdpax import checker
from cmdpax.cli.experiments import execute
from cmdpax.cli.terminal import EXIT, Progress, out
from cmdpax.environments import finite
from cmdpax.errors import InputError
from cmdpax.experiments.executors import executor
from cmdpax.paper.settings import TASKS, Task
from cmdpax.solvers.table import run


def demo(out_dir: Annotated[Path, tyro.conf.arg(name="out")] = Path("demo")) -> int:
    """The main job on the paper's two problems: solve with PQA-ALM, certify, check, and draw.

    Args:
        out_dir: folder for the pictures
    """
    from cmdpax.experiments.pictures import policy_picture, save
    from cmdpax.paper.exact_figures import first

    codes = []
    for name in ("cliff-world", "deep-sea"):
        problem = finite[name]()
        result = run(problem, "pqa-alm")
        out.print(f"\n{name}, {problem}", style="bold")
        out.print(str(result))
        out.print(str(checker.check(problem, result)))
        title = (
            f"{name}: optimal policy, reward {result.reward:.4f}, gap <="
            f" {max(result.certificate.gap, 0):.1e}"
        )
        out.print(
            f"wrote {save(policy_picture(problem, result.policy, title), out_dir / f'{name}.png')}"
        )
        codes.append(EXIT[result.status])
    out.print(f"\nwrote {save(first(), out_dir / 'alm-against-primal-dual.png')}")
    return max(codes)


def reproduce(
    what: Annotated[Literal["tabular", "linear", "deep"], tyro.conf.Positional],
    figure: str | None = None,
    out_dir: Annotated[Path | None, tyro.conf.arg(name="out")] = None,
    rerun: bool = False,
    fraction: float | None = None,
    seeds: int | None = None,
    tasks: tuple[Task, ...] = tuple(TASKS),
    store: Path | None = None,
) -> int:
    """The paper's experiments: grid searches of every method, tables and figures. Redrawn in
    seconds from their records.

    `tabular` takes about a minute; `linear` (log-linear policies) minutes on two cores, and goes on
    where it was stopped. `deep` draws what is recorded; with --fraction it first runs what is
    missing, one process per core, and goes on where it was stopped.

    Args:
        what: which experiments
        figure: one figure only: first, all-methods, cliff-world-0.001, certified, sensitivity,
        rate, ... (linear:
            cliff-world-40, ...; deep: learning-curves, violations, penalties, dual-steps)
        out_dir: folder of records, tables and figures (default: results/tabular, linear or deep;
        deep-FRACTION below 1) rerun: run again what is recorded there (tabular and linear)
        fraction: deep: run what is missing with this share of the paper's 10,000,000 samples a run
        seeds: deep: so many seeds (default: the paper's, 5, and 10 for the ablations)
        tasks: deep: run, or record, these only
        store: deep: record what this store of `cmdpax sweep` has finished (--figure penalties: a
        store of that sweep); with
            --fraction, run what is missing there (default: runs/deep, penalties and dual-steps)
    """
    from cmdpax.paper import reproduce

    if what == "deep":
        share = "" if fraction in (None, 1) else f"-{fraction:g}"
        folder = out_dir or Path("results") / f"deep{share}"
        written = reproduce.deep(
            folder,
            figure,
            fraction=fraction,
            seeds=seeds,
            tasks=tasks,
            store=store,
            carry_out=lambda runs, made: execute(runs, made, executor("local"), 0),
        )
        for path in written:
            out.print(f"wrote {path}")
        missing = (
            sorted(set(reproduce.FIGURES["deep"]) - {path.stem for path in written})
            if figure is None
            else []
        )
        if missing:
            out.print(f"no records yet: {', '.join(missing)}; --fraction runs them")
        return 0
    if fraction is not None or seeds is not None or store is not None:
        raise InputError(
            f"--fraction, --seeds and --store are for deep; {what} has one budget, and nothing"
            " random in it."
        )
    with Progress() as progress:
        folder = out_dir or Path("results") / what
        written = reproduce.exact(what, folder, figure, rerun, progress.say)
    for path in written:
        out.print(f"wrote {path}")
    return 0


def report(
    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")],
    out_file: Annotated[Path | None, tyro.conf.arg(name="out")] = None,
) -> int:
    """One HTML page about a folder of results: tables, figures, settings, learning curves, exact
    runs step by step.

    The page needs no network and nothing beside it. Exact runs are done again to have their
    policies, which takes seconds (log-linear ones: minutes, once; they are kept in DIR/.films).

    Args:
        folder: what reproduce, sweep, train or solve --out wrote, or a folder of such folders
        out_file: the page (default: DIR/report.html)
    """
    from cmdpax.report import write_report

    with Progress() as progress:
        written = write_report(folder, out_file, progress.say)
    out.print(f"wrote {written} ({written.stat().st_size / 1e6:.1f} MB)")
    return 0
