"""The paper's tabular and log-linear figures; ours are `certified`, `sensitivity`, `features` and
`projection_errors`.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cmdpax.environments import cliff_world, finite
from cmdpax.experiments.pictures import policy_picture
from cmdpax.paper import charts
from cmdpax.paper.exact_study import JUDGED, ExactStudy
from cmdpax.paper.settings import PROBLEMS, TOLERANCES
from cmdpax.solvers.solve import solve, trajectory

LOWEST = 1e-6  # gaps of `features` below this are drawn at it
STRICT = min(TOLERANCES)
LAST_ITERATE = ("PQA-ALM", "RPG-PD", "OPG-PD", "NPG-DD", "ReLOAD", "NPG-NRL")
# the paper's grid table and three more primal-dual methods
APPENDIX = (
    "PQA-ALM",
    "PPO-Lag",
    "RPG-PD",
    "NPG-DD",
    "ReLOAD",
    "NPG-PD",
    "OPG-PD",
    "PPO-Lag, dual every step",
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
    return policy_picture(model, result.policy, title)


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
    curves, reference = {}, None
    for label, row in study.selected(tolerance, labels).items():
        if study.tiles is not None:  # labels in two lines
            label = label.replace(", " if ", " in label else " ", "\n", 1)
        curves[label] = (row["evaluations"], row["gap"], row["violation"])
    if study.tiles is not None:
        reference = study.class_optimum["gap"]
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


def features(*studies: ExactStudy) -> Figure:
    """|gap| of every method's selected configuration, and of the best policy in each class."""
    figure = Figure(figsize=(12, 4.6))
    row = figure.subplots(1, len(PROBLEMS), sharey=True)
    for axes, problem in zip(row, PROBLEMS):
        own = [study for study in studies if study.problem == problem]
        place = np.arange(len(own))
        best = np.maximum([study.class_optimum["gap"] for study in own], LOWEST)
        bars = {"color": "black", "linewidth": 2.2, "label": "best policy in the class"}
        axes.hlines(best, place - 0.35, place + 0.35, **bars)
        labels = own[0].labels
        for index, label in enumerate(labels):
            curves = [study.selected(STRICT).get(label) for study in own]
            gaps = [
                np.nan if curve is None else abs(study.row(curve)["gap"])
                for study, curve in zip(own, curves)
            ]
            shift = 0.08 * (index - (len(labels) - 1) / 2)
            look = {**charts.style(index), "linestyle": "none"}
            axes.plot(place + shift, np.maximum(gaps, LOWEST), label=label, **look)
        sizes = [f"d = {one.dimension}\ndimension {one.class_optimum['rank']}" for one in own]
        axes.set_xticks(place, sizes)
        _panel(
            axes, PROBLEMS[problem], "tile features, and the dimension of their class of policies"
        )
    row[0].set_ylabel(f"|gap to the optimum over all policies|\n(below {LOWEST:g}: drawn there)")
    row[-1].legend(**charts.BESIDE)
    title = f"What the features cost: best of each grid with final violation <= {STRICT:g}"
    return charts.finish(figure, title)


def projection_errors(*studies: ExactStudy) -> Figure:
    """eps_bias (the class's) and eps_opt (the gradient steps') along the selected PPQA-ALM runs."""
    figure = Figure(figsize=(11, 4.2))
    row = figure.subplots(1, len(PROBLEMS), sharey=True)
    for axes, problem in zip(row, PROBLEMS):
        own = [
            (study.dimension, errors)
            for study in studies
            if study.problem == problem
            for errors in study.of("PPQA-ALM", "projection errors")
        ]
        for index, (dimension, errors) in enumerate(own):
            for name, column, dashes, fill in (
                ("class", "bias", "-", None),
                ("gradient steps", "optimiser", ":", "white"),
            ):
                look = {**charts.style(index), "linestyle": dashes, "markerfacecolor": fill}
                shown = np.maximum(errors[column], charts.FLOOR)
                label = f"d = {dimension}: {name}"
                axes.plot(errors["evaluations"], shown, label=label, markevery=6, **look)
        _panel(axes, PROBLEMS[problem], charts.WORK)
    row[0].set_ylabel(f"projection error (mean KL)\n(below {charts.FLOOR:g}: drawn there)")
    row[-1].legend(**charts.BESIDE)
    title = (
        "PPQA-ALM: what the class cannot express (solid), what the 250 gradient steps left over"
        " (dotted)"
    )
    return charts.finish(figure, title)


def _panel(axes: Axes, title: str, xlabel: str) -> None:
    axes.set_yscale("log")
    axes.set_xlabel(xlabel)
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)
