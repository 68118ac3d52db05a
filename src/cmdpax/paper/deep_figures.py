"""The paper's deep figures: learning curves, box plot of final costs, ablations. Each says which
share of the budget it shows.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from cmdpax.experiments.results import Row
from cmdpax.paper import training_charts
from cmdpax.paper.deep import ABLATIONS, Study, budget
from cmdpax.paper.deep_records import LIMIT, PAPER, TASKS, TITLES, Record

POINTS = 100  # of a learning curve: each is a mean over one hundredth of the samples


def learning_curves(found: Study) -> Figure:
    """Return and cost against samples, mean and 95% interval over seeds."""
    panels: dict[str, Any] = {
        quantity: {
            task: {
                TITLES[m]: _curves(found.of(task, m), quantity) for m in TITLES if found.of(task, m)
            }
            for task in TASKS
        }
        for quantity in ("return", "cost")
    }
    marks: dict[str, Any] = {
        "return": {task: {TITLES[m]: PAPER[m][task][0] for m in TITLES} for task in TASKS},
        "cost": {task: {TITLES[m]: PAPER[m][task][2] + LIMIT for m in TITLES} for task in TASKS},
    }
    title = f"Velocity tasks: {found.size}"
    return training_charts.learning_curves(panels, list(TITLES.values()), marks, LIMIT, title)


def _curves(records: Sequence[Record], quantity: str) -> tuple[np.ndarray, np.ndarray]:
    longest = max(record.rows[-1]["samples"] for record in records)
    fewest = min(len(record.rows) for record in records)
    edges = np.linspace(0, longest, min(POINTS, fewest) + 1)
    return (edges[1:] + edges[:-1]) / 2, np.stack(
        [record.curve(quantity, edges) for record in records]
    )


def violations(found: Study) -> Figure:
    """Box plot of the final policy's cost over the limit."""
    panels = {
        task: {
            TITLES[m]: [record.episodes()[1] for record in found.of(task, m)]
            for m in TITLES
            if found.of(task, m)
        }
        for task in TASKS
    }
    title = f"Final policies, every episode of every seed: {found.size}"
    return training_charts.box_plot(panels, list(TITLES.values()), title)


def ablation(found: Study, name: str) -> Figure:
    """Final return and cost against the number of inner batches, a line for each penalty or dual
    step.
    """
    field, spec = ABLATIONS[name]
    rows, settings = found.ablations[name], spec().settings
    panels: dict[tuple[str, str], Any] = {}
    tasks = [task for task in TASKS if any(row["task"] == task for row in rows)]
    for task in tasks:
        for method in ("spma-alm", "ppo-alm"):
            here = [row for row in rows if (row["task"], row["method"]) == (task, method)]
            if here:
                lines = {
                    value: [row for row in here if row[field] == value] for value in settings[field]
                }
                panels[task, TITLES[method]] = {
                    quantity: {
                        value: _points(line, quantity) for value, line in lines.items() if line
                    }
                    for quantity in ("return", "excess")
                }
    words = {"penalty": "penalty", "dual_step": "dual step"}[field]
    seeds = len({row["seed"] for row in rows})
    size = budget([row["samples"] for row in rows], [seeds], 10)
    lacking = ", ".join(task for task in TASKS if task not in tasks)
    title = f"{words.capitalize()} and K: {size}" + (f"\nno records: {lacking}" if lacking else "")
    methods = [TITLES["spma-alm"], TITLES["ppo-alm"]]
    return training_charts.ablation(
        panels, tasks, methods, words, settings[field], settings["inner"], title
    )


def _points(rows: Sequence[Row], quantity: str) -> tuple[np.ndarray, np.ndarray]:
    inner = sorted({row["inner"] for row in rows})
    seeds = sorted({row["seed"] for row in rows})
    values = np.full((len(seeds), len(inner)), np.nan)
    for row in rows:
        values[seeds.index(row["seed"]), inner.index(row["inner"])] = row[quantity]
    return np.array(inner), values
