"""The paper's tabular and log-linear figures, and ours: from `certified` on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cmdpax.environments import cliff_world, finite
from cmdpax.experiments.policy_pictures import policy_picture
from cmdpax.paper import charts
from cmdpax.paper.exact_study import JUDGED, ExactStudy
from cmdpax.paper.settings import PROBLEMS, TOLERANCES
from cmdpax.solvers.solve import solve
from cmdpax.solvers.trajectory import trajectory

LOWEST = 1e-6  # gaps of `features` below this are drawn at it
STRICT = min(TOLERANCES)
LAST_ITERATE = ("PQA-ALM", "RPG-PD", "OPG-PD", "NPG-DD", "ReLOAD", "NPG-NRL")
# settings as panels name them; they stand below the method
SHORT = {
    **{"step": "step", "dual_step": "dual step", "temperature": "temp.", "clip": "clip"},
    **{"projection_step": "proj. step", "inner": "K ="},
}
APPENDIX = (
    *("PQA-ALM", "PPO-Lag", "RPG-PD", "NPG-DD", "ReLOAD"),  # the paper's grid table
    *("NPG-PD", "OPG-PD", "PPO-Lag, dual every step"),  # three more primal-dual methods
)


def first() -> Figure:
    """The paper's first figure: PPG-ALM converges smoothly, NPG-PD's last iterate oscillates.

    Cliff World at the paper's budget. Step sizes are of the paper's grids: NPG-PD's are its best
    there by the final iterate.
    """
    model = cliff_world()
    runs = {
        "PPG-ALM (step 10)": trajectory(model, "ppg-alm", step=10.0),
        "NPG-PD (step 1, dual step 1)": trajectory(model, "npg-pd", step=1.0, dual_step=1.0),
    }
    title = "Cliff World: augmented Lagrangian against primal-dual, last iterates"
    return charts.comparison(runs, solve(model).reward, title)


def optimal_policy(problem: str) -> Figure:
    """A certified optimal policy: arrows as long as their probability, stochastic in one cell."""
    model = finite[problem]()
    result = solve(model, eps=1e-9)
    price = f"price {result.multipliers[0]:.4f}"
    title = f"{PROBLEMS[problem]}: optimal policy, reward {result.reward:.6f}, {price}"
    return policy_picture(model, result.policies[1][0], title)


def all_methods(study: ExactStudy) -> Figure:
    """PQA-ALM against related last-iterate methods."""
    return selected(study, STRICT, LAST_ITERATE, "last-iterate methods, best of each grid")


def selected(
    study: ExactStudy,
    tolerance: float,
    labels: Sequence[str] | None = None,
    words: str = "best of each grid",
) -> Figure:
    """Signed gap and violation of what is selected at a tolerance.

    Zero is the optimum over all policies; with features, the class optimum is marked.
    """
    curves, has_features = {}, study.tiles is not None
    for label, row in study.selected(tolerance, labels).items():
        words_of = (f"{SHORT[name]} {value:g}" for name, value in row["settings"].items())
        heading = "\n".join([label.replace(", ", ",\n", 1), *words_of])
        curves[heading] = (row["evaluations"], row["gap"], row["violation"])
    reference = study.class_optimum["gap"] if has_features else None
    title = f"{study.title}: {words} with final violation <= {tolerance:g}"
    return charts.side_by_side(curves, title, tolerance, reference)


def certified(*studies: ExactStudy) -> Figure:
    """What could be PROVEN after so many evaluations, without knowing the optimum.

    After k evaluations a run holds a policy and has seen dual weights w; the smallest `D(w)` of
    them bounds the optimum. Drawn is the larger of the gap to that bound and the violation: the
    accuracy of the last iterate that a user could vouch for.
    """
    panels = {
        study.title: {
            label: (np.array(row["evaluations"]), np.maximum(row["certified"], row["violation"]))
            for label, row in study.selected(STRICT).items()
        }
        for study in studies
    }
    grid = f"best of each grid with final violation <= {STRICT:g}"
    title = f"Certified accuracy of the last iterate ({grid})"
    return charts.curves(panels, "max(certified gap, violation)", title)


def sensitivity(*studies: ExactStudy) -> Figure:
    """The whole grid, not only its winner: how much tuning does each method need?"""
    panels = {
        study.title: {
            label: np.array(
                [[row[name] for name in JUDGED] for row in study.of(label) if not row["skipped"]],
                dtype=np.float64,  # turns null, which is what a diverged run has, into NaN
            )
            for label in study.labels
        }
        for study in studies
    }
    title = "Every configuration of every grid after 1,000 policy-gradient evaluations"
    return charts.sensitivity(panels, max(TOLERANCES), title)


def three_constraints(*studies: ExactStudy) -> Figure:
    """What every method's grid gives on random models with three constraints that all bind.

    The selected configuration's |gap| and largest violation, final and worst of the last 200.
    """
    figure = Figure(figsize=(13, 7.2))
    panels, labels = figure.subplots(2, 1, sharex=True), studies[0].labels
    words = {"gap": "|optimality gap|", "violation": "largest of three violations"}
    for index, study in enumerate(studies):
        chosen, look = study.selected(STRICT), {**charts.style(index), "linestyle": "none"}
        for number, label in enumerate(labels):
            place = number + 0.22 * (index - (len(studies) - 1) / 2)
            for axes, name in zip(panels, words):
                if label not in chosen:
                    up = {"transform": axes.get_xaxis_transform(), "color": look["color"]}
                    axes.text(place, 0.9, "none", rotation=90, ha="center", fontsize=7, **up)
                    continue
                row = study.row(chosen[label])
                ends = np.maximum(np.abs([row[name], row[f"worst_{name}"]]), charts.FLOOR)
                axes.plot([place, place], ends, color=look["color"], linewidth=0.9)
                axes.plot(place, ends[0], **look)
                axes.plot(place, ends[1], **{**look, "marker": "_", "markersize": 9})
    for axes, name in zip(panels, words.values()):
        axes.axhline(STRICT, color="0.4", linewidth=0.8, linestyle=":")
        unit = f"{name}\n(below {charts.FLOOR:g}: drawn there)"
        charts.panel(axes, yscale="log", ylabel=unit)
    panels[-1].set_xticks(range(len(labels)), labels, rotation=25, ha="right", fontsize=9)
    handles = [
        Line2D([], [], label=study.title, **{**charts.style(index), "linestyle": "none"})
        for index, study in enumerate(studies)
    ]
    dash: Any = {"marker": "_", "color": "0.3", "linestyle": "none", "markersize": 9}
    handles.append(Line2D([], [], label="worst of the last 200 iterates", **dash))
    handles.append(Line2D([], [], color="0.4", linestyle=":", label=f"tolerance {STRICT:g}"))
    kind = f"best of each grid with final violation <= {STRICT:g}; none: no configuration has it"
    return charts.finish(figure, f"Three constraints, all binding: {kind}", handles, below=0.04)


def features(*studies: ExactStudy) -> Figure:
    """|gap| of every method's selected configuration, and of the best policy in each class."""
    figure = Figure(figsize=(12, 4.6))
    row = figure.subplots(1, len(PROBLEMS), sharey=True)
    words = "tile features, and the dimension of their class of policies"
    for axes, problem in zip(row, PROBLEMS):
        own = [study for study in studies if study.problem == problem]
        place = np.arange(len(own))
        best = np.maximum([study.class_optimum["gap"] for study in own], LOWEST)
        bars = {"color": "black", "linewidth": 2.2, "label": "best policy in the class"}
        axes.hlines(best, place - 0.35, place + 0.35, **bars)
        labels, curves = own[0].labels, [study.selected(STRICT) for study in own]
        for index, label in enumerate(labels):
            gaps = [
                abs(study.row(chosen[label])["gap"]) if label in chosen else np.nan
                for study, chosen in zip(own, curves)
            ]
            shift = 0.08 * (index - (len(labels) - 1) / 2)
            look = {**charts.style(index), "linestyle": "none"}
            axes.plot(place + shift, np.maximum(gaps, LOWEST), label=label, **look)
        sizes = [f"d = {one.dimension}\ndimension {one.class_optimum['rank']}" for one in own]
        axes.set_xticks(place, sizes)
        charts.panel(axes, PROBLEMS[problem], xlabel=words, yscale="log")
    row[0].set_ylabel(f"|gap to the optimum over all policies|\n(below {LOWEST:g}: drawn there)")
    row[-1].legend(**charts.BESIDE)
    title = f"What the features cost: best of each grid with final violation <= {STRICT:g}"
    return charts.finish(figure, title)


def projection_errors(*studies: ExactStudy) -> Figure:
    """eps_bias (the class's) and eps_opt (the gradient steps') along the selected PPQA-ALM runs."""
    parts = {"class": ("bias", "-", None), "gradient steps": ("optimiser", ":", "white")}
    figure, kind = Figure(figsize=(11, 4.2)), "projection errors"
    panels = figure.subplots(1, len(PROBLEMS), sharey=True)
    for axes, problem in zip(panels, PROBLEMS):
        own = [study for study in studies if study.problem == problem]
        rows = [(one.dimension, row) for one in own for row in one.of("PPQA-ALM", kind)]
        for index, (dimension, row) in enumerate(rows):
            for name, (column, dashes, fill) in parts.items():
                look = {**charts.style(index), "linestyle": dashes, "markerfacecolor": fill}
                shown, label = np.maximum(row[column], charts.FLOOR), f"d = {dimension}: {name}"
                axes.plot(row["evaluations"], shown, label=label, markevery=6, **look)
        charts.panel(axes, PROBLEMS[problem], xlabel=charts.WORK, yscale="log")
    panels[0].set_ylabel(f"projection error (mean KL)\n(below {charts.FLOOR:g}: drawn there)")
    panels[-1].legend(**charts.BESIDE)
    solid = "what the class cannot express (solid)"
    dotted = "what the 250 gradient steps left over (dotted)"
    return charts.finish(figure, f"PPQA-ALM: {solid}, {dotted}")
