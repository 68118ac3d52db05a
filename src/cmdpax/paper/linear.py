"""The log-linear study behind the paper's six log-linear figures: two problems, three sets of
tiles, every method's grid.

Every configuration has 1,000 policy-gradient evaluations (PPQA-ALM: T=10, K=100, n=250 gradient
steps in a projection, penalty 10), starts at theta = 0 with zero multipliers, and is judged by the
rule of `experiments/grid.py` against the optimum over ALL policies. Beside it stands the best
policy that the features can express (`baselines/class_optimum.py`): no method can be asked for
more.

A record is JSON lines, one file per problem and set of tiles: a header, the class optimum, one line
per configuration, one per curve of a selected configuration (every fifth iterate), and the two
projection errors along the selected runs of the projected methods. It is written anew after every
method, so that a run that was stopped goes on where it was. The class optimum's starts are random,
with the seed in the header; nothing else is.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from cmdpax.environments import finite
from cmdpax.environments.tiles import PAPER_SETS, tiles
from cmdpax.experiments.results import Row, provenance, read_lines, write_lines, write_table
from cmdpax.lagrangian import violation
from cmdpax.model.cmdp import CMDP
from cmdpax.paper.grid import Entry, Search, search
from cmdpax.paper.tabular import LIMITS, PROBLEMS, STRIDE, Say, configuration_rows
from cmdpax.solvers import npg, pqa, spma
from cmdpax.solvers.algorithm import Progress, augmented_lagrangian
from cmdpax.solvers.certified import solve
from cmdpax.solvers.class_optimum import class_optimum
from cmdpax.solvers.policy_classes import Features
from cmdpax.solvers.projected import Projected
from cmdpax.solvers.table import find

SETS = {dimension: (dimension, tilings, size) for dimension, tilings, size in PAPER_SETS}
ENTRIES = (
    Entry("ppqa-alm"),
    Entry("pnpg-alm"),
    Entry("pspma-alm"),
    Entry("lin-npg-pd"),
    Entry("lin-rpg-pd"),
    Entry("lin-reload"),
    Entry("lin-ppo-lag"),
    Entry("lin-ppo-lag", "Lin-PPO-Lag, dual every step", {"inner": 1}),
)
STEPS = {"ppqa-alm": pqa.step, "pnpg-alm": npg.step, "pspma-alm": spma.step}
SEED, STARTS = 0, 200
MADE_BY = ("cmdpax", "problem", "tiles", "model", "limits", "stride", "entries", "seed", "starts")


class LinearStudy:
    """The record of one problem with one set of tiles, read back."""

    def __init__(self, header: Row, rows: Sequence[Row]) -> None:
        self.header = header
        self.class_optimum = next(row for row in rows if row["kind"] == "class optimum")
        self.configurations = [row for row in rows if row["kind"] == "configuration"]
        self.curves = [row for row in rows if row["kind"] == "curve"]
        self.errors = {row["label"]: row for row in rows if row["kind"] == "projection errors"}

    @property
    def dimension(self) -> int:
        """d of the tiles."""
        return self.header["tiles"][0]

    @property
    def title(self) -> str:
        """The problem's name and the features' dimension."""
        return f"{PROBLEMS[self.header['problem']]}, d = {self.dimension}"

    def selected(self, limit: float) -> dict[str, Row]:
        """Curves of the configurations selected at `limit`, by label; methods without one are left
        out.
        """
        chosen = {row["label"]: row for row in self.curves if limit in row["limits"]}
        return {entry.label: chosen[entry.label] for entry in ENTRIES if entry.label in chosen}

    def row(self, curve: Row) -> Row:
        """The configuration that a curve belongs to."""
        same = (
            (row["label"], row.get("settings")) == (curve["label"], curve["settings"])
            for row in self.configurations
        )
        return self.configurations[list(same).index(True)]


def linear_study(
    problem: str, dimension: int, folder: Path, rerun: bool = False, say: Say = lambda text: None
) -> LinearStudy:
    """The study of one problem and one set of tiles: what its record in `folder` holds is read, the
    rest is run and recorded.
    """
    path, model = folder / "records" / f"{problem}-{dimension}.jsonl", finite[problem]()
    features = Features(tiles(model.states, model.actions, *SETS[dimension]))
    header = _header(problem, dimension, model)
    known, rows = read_lines(path)
    if rerun or any(known.get(key) != header[key] for key in MADE_BY):
        rows = []
    name, optimum = f"{PROBLEMS[problem]}, d = {dimension}", header["optimum"]
    if not any(row["kind"] == "class optimum" for row in rows):
        say(f"{name}: the best policy that the features can express")
        rows.append(_class_optimum(model, features, optimum))
        write_lines(path, header, rows)
    for entry in ENTRIES:
        if not any(row["kind"] == "done" and row["label"] == entry.label for row in rows):
            say(f"{name}: {entry.label}")
            found = search(model, entry, optimum, features)
            rows += [*configuration_rows(found), *_curves(found)]
            rows += _projection_errors(model, features, found)
            rows.append({"kind": "done", "label": entry.label, "seconds": found.seconds})
            write_lines(path, header, rows)
    return LinearStudy(*read_lines(path))


def _header(problem: str, dimension: int, model: CMDP) -> Row:
    grids = [
        {
            "label": e.label,
            "fixed": dict(e.fixed),
            "grid": {k: list(v) for k, v in find(e.method).grid.items()},
        }
        for e in ENTRIES
    ]
    return provenance(
        problem=problem,
        tiles=list(SETS[dimension]),
        model=model.digest,
        optimum=solve(model, eps=1e-12).reward,
        seed=SEED,
        starts=STARTS,
        limits=list(LIMITS),
        stride=STRIDE,
        entries=grids,
    )


def _class_optimum(model: CMDP, features: Features, optimum: float) -> Row:
    best = class_optimum(model, features, STARTS, SEED)
    return {
        "kind": "class optimum",
        "rank": features.rank,
        "groups": len(features.design),
        "gap": optimum - best.reward,
        "violation": violation(best.margins),
        "hits": best.hits,
    }


def _curves(found: Search) -> Iterable[Row]:
    """One row for each configuration that is selected at some limit."""
    winners = {limit: found.winner(limit) for limit in LIMITS}
    for i in sorted({i for i in winners.values() if i is not None}):
        yield {
            "kind": "curve",
            "label": found.entry.label,
            "settings": {**found.points[i], **found.entry.fixed},
            "limits": [limit for limit, winner in winners.items() if winner == i],
            "evaluations": np.arange(len(found.run.rewards))[::STRIDE],
            "gap": (found.optimum - found.run.rewards[:, i])[::STRIDE],
            "violation": -found.run.margins[:, i].min(-1)[::STRIDE],
        }


def _projection_errors(model: CMDP, features: Features, found: Search) -> Iterable[Row]:
    """eps_bias and eps_opt of every 25th projection of the configuration selected at the stricter
    limit.
    """
    winner = found.winner(min(LIMITS))
    if found.entry.method not in STEPS or winner is None:
        return
    point = found.points[winner]
    oracle = Projected(STEPS[found.entry.method], features, point["step"], point["surrogate"])
    before, rows = oracle.start(model), []

    def observe(progress: Progress) -> bool:
        nonlocal before
        if not progress.outer_done:
            if progress.evaluations % (5 * STRIDE) == 0:
                pair = oracle.errors(
                    model, before, progress.state, progress.multipliers, progress.penalty
                )
                rows.append((progress.evaluations, *pair))
            before = progress.state
        return False

    zeros = np.zeros(model.constraint_count)
    augmented_lagrangian(
        model, oracle, before, multipliers=zeros, penalty=10.0, outer=10, inner=100, observe=observe
    )
    evaluations, bias, optimiser = (np.array(column) for column in zip(*rows, strict=True))
    yield {
        "kind": "projection errors",
        "label": found.entry.label,
        "settings": point,
        "evaluations": evaluations.astype(int),
        "bias": bias,
        "optimiser": optimiser,
    }


def linear_tables(studies: Sequence[LinearStudy], folder: Path) -> None:
    """`selected`: what every method's grid gives. `classes`: what the features can express at all."""
    selected, classes = [], []
    for one in studies:
        problem, best = PROBLEMS[one.header["problem"]], one.class_optimum
        slots, rank, groups = one.header["tiles"][0], best["rank"], best["groups"]
        classes.append(
            [
                problem,
                slots,
                groups,
                rank,
                best["gap"],
                best["violation"],
                f"{best['hits']} of {STARTS}",
            ]
        )
        for limit in LIMITS:
            chosen = one.selected(limit)
            for entry in ENTRIES:
                if entry.label not in chosen:
                    selected.append(
                        [problem, slots, limit, entry.label, "none within the limit", *[None] * 6]
                    )
                    continue
                row = one.row(chosen[entry.label])
                shown = ", ".join(f"{key} {value:g}" for key, value in row["settings"].items())
                numbers = (
                    row["gap"],
                    row["gap"] - best["gap"],
                    row["violation"],
                    row["worst_violation"],
                )
                mixture = (row.get("mixture_gap"), row.get("mixture_violation"))
                selected.append([problem, slots, limit, entry.label, shown, *numbers, *mixture])
    write_table(
        folder / "selected",
        [
            "problem",
            "d",
            "limit",
            "method",
            "settings",
            "gap to the optimum",
            "gap to the class optimum",
            "violation",
            "worst violation of the last 200",
            "gap of the mixture",
            "violation of the mixture",
        ],
        selected,
    )
    write_table(
        folder / "classes",
        [
            "problem",
            "d",
            "groups of states",
            "dimension of the class",
            "gap of the class optimum",
            "violation",
            "starts that found it",
        ],
        classes,
    )
