"""The paper's six log-linear figures, and two of our own: what the features cost, and how exact the
projections were.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from cmdpax.paper.charts import FLOOR, side_by_side, style
from cmdpax.paper.linear import ENTRIES, LIMITS, LinearStudy
from cmdpax.paper.tabular import PROBLEMS

LOWEST = 1e-6  # gaps below this are drawn at it


def selected_in_class(study: LinearStudy, limit: float = min(LIMITS)) -> Figure:
    """Signed gap and violation of the configurations selected at `limit`; zero is the optimum over
    all policies.
    """
    chosen = {
        label: (row["evaluations"], row["gap"], row["violation"])
        for label, row in study.selected(limit).items()
    }
    curves = {
        label.replace(", " if ", " in label else " ", "\n", 1): curve
        for label, curve in chosen.items()
    }
    title = f"{study.title}: best of each grid with final violation <= {limit:g}"
    return side_by_side(curves, title, limit, study.class_optimum["gap"])


def features(studies: Sequence[LinearStudy]) -> Figure:
    """|gap| of every method's selected configuration against the features, with the best policy in
    each class.
    """
    figure = Figure(figsize=(12, 4.6))
    row = figure.subplots(1, len(PROBLEMS), sharey=True)
    limit = min(LIMITS)
    for axes, (problem, title) in zip(row, PROBLEMS.items(), strict=True):
        mine = [study for study in studies if study.header["problem"] == problem]
        place = np.arange(len(mine))
        best = np.maximum([study.class_optimum["gap"] for study in mine], LOWEST)
        axes.hlines(
            best,
            place - 0.35,
            place + 0.35,
            color="black",
            linewidth=2.2,
            label="best policy in the class",
        )
        for index, entry in enumerate(ENTRIES):
            found = [study.selected(limit).get(entry.label) for study in mine]
            gaps = [
                np.nan if row is None else abs(study.row(row)["gap"])
                for study, row in zip(mine, found, strict=True)
            ]
            shift = 0.08 * (index - (len(ENTRIES) - 1) / 2)
            axes.plot(
                place + shift,
                np.maximum(gaps, LOWEST),
                label=entry.label,
                **{**style(index), "linestyle": "none"},
            )
        axes.set_yscale("log")
        axes.set_xticks(
            place, [f"d = {s.dimension}\ndimension {s.class_optimum['rank']}" for s in mine]
        )
        axes.set_xlabel("tile features, and the dimension of their class of policies")
        axes.set_title(title, fontsize=10)
        axes.grid(alpha=0.3)
    row[0].set_ylabel(f"|gap to the optimum over all policies|\n(below {LOWEST:g}: drawn there)")
    row[-1].legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)
    figure.suptitle(
        f"What the features cost: best of each grid with final violation <= {limit:g}", fontsize=11
    )
    figure.tight_layout()
    return figure


def projection_errors(studies: Sequence[LinearStudy]) -> Figure:
    """eps_bias (the class's) and eps_opt (the gradient steps') along the selected PPQA-ALM runs."""
    figure = Figure(figsize=(11, 4.2))
    row = figure.subplots(1, len(PROBLEMS), sharey=True)
    for axes, (problem, title) in zip(row, PROBLEMS.items(), strict=True):
        mine = [
            study
            for study in studies
            if study.header["problem"] == problem and ENTRIES[0].label in study.errors
        ]
        for index, study in enumerate(mine):
            errors = study.errors[ENTRIES[0].label]
            for name, field, dashes, fill in (
                ("class", "bias", "-", None),
                ("gradient steps", "optimiser", ":", "white"),
            ):
                look = {
                    **style(index),
                    "linestyle": dashes,
                    "markevery": 6,
                    "markerfacecolor": fill,
                }
                shown = np.maximum(errors[field], FLOOR)
                axes.plot(
                    errors["evaluations"], shown, label=f"d = {study.dimension}: {name}", **look
                )
        axes.set_yscale("log")
        axes.set_xlabel("policy-gradient evaluations")
        axes.set_title(title, fontsize=10)
        axes.grid(alpha=0.3)
    row[0].set_ylabel(f"projection error (mean KL)\n(below {FLOOR:g}: drawn there)")
    row[-1].legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)
    figure.suptitle(
        "PPQA-ALM: what the class cannot express (solid), what the 250 gradient steps left over"
        " (dotted)",
        fontsize=11,
    )
    figure.tight_layout()
    return figure
