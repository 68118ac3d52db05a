"""How are limits kept along a run? Margin, multiplier, weight and penalty of the heater, drawn.

    python benchmarks/limits_along_a_run.py --train --figure docs/images/limits-along-a-run.png

`--train` makes the records anew, `results/limits_along_a_run/` (config and metrics of one run of
100,000 samples with the defaults); without it the picture is drawn from those that are there. The
heater is the tutorial's: `known_optima_tasks.py`.
"""

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from known_optima_tasks import TASKS
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cmdpax.experiments.pictures import STYLES, save
from cmdpax.learning.run_folder import RunFolder
from cmdpax.model.limits import Limits

RECORDS = Path(__file__).parents[1] / "results" / "limits_along_a_run"
KEPT = ("config.json", "metrics.jsonl")
UNIT = "minute"  # of the energy: at full power
Line = tuple[str, np.ndarray, dict[str, Any]]  # its label, values at every update, its look


def train(records: Path) -> None:
    """One run of the heater with the defaults; what the picture needs of it is kept."""
    import cmdpax

    task = TASKS["heater"]
    records.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        environment, limits = task.problem.environment(), list(task.limits)
        print(cmdpax.train(environment, limits=limits, folder=run, samples=task.samples).verdict)
        for name in KEPT:
            shutil.copy(run / name, records / name)


def picture(run: RunFolder) -> Figure:
    """Three panels over the samples: cost and margin; multiplier and weight; penalty."""
    rows, limits = run.rows(), Limits.parse(run.config["limits"])
    (name,), samples = limits.names, np.array([row["samples"] for row in rows]) / 1000

    def column(kind: str) -> np.ndarray:
        return np.array([row[kind][name] for row in rows])

    solid, dashed, mixed, dotted, *_ = STYLES
    grey = {"color": "0.45", "linestyle": "none", "marker": "o", "markersize": 3}
    estimate, aim = column("estimate"), column("aim")
    limit = np.full(len(rows), limits.entries[0])
    panels: list[tuple[str, list[Line]]] = [
        (
            f"{name} of an episode\n({UNIT}s at full power)",
            [
                ("mean of a batch", column("cost"), grey),
                ("estimate", estimate, solid),
                ("aim", aim, mixed),
                (f"limit {limit[0]:g}", limit, dashed),
            ],
        ),
        (
            f"reward per {UNIT}",
            [("multiplier", column("multiplier"), solid), ("weight", column("weight"), dotted)],
        ),
        (f"reward per {UNIT}²", [("penalty", column("penalty"), solid)]),
    ]
    figure = Figure(figsize=(9, 8))
    places = figure.subplots(3, 1, sharex=True, height_ratios=[2, 1.3, 1])
    for axes, (unit, lines) in zip(places, panels):
        for _, values, look in lines:
            axes.plot(samples, values, linewidth=1.6, **look)
        axes.set_ylabel(unit)
        if axes is not places[0]:
            axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        label(axes, float(samples[-1]), lines)
    places[0].fill_between(samples, estimate, aim, color="0.85", label="margin: aim less estimate")
    places[0].legend(loc="upper right", frameon=False, fontsize=9)
    places[-1].set(xlabel="samples, in thousands", xlim=(0, samples[-1]))
    figure.align_ylabels(places)
    return figure


def label(axes: Axes, end: float, lines: list[Line]) -> None:
    """Names at the right ends of lines, pushed apart where they would lie on each other."""
    low, high = axes.get_ylim()
    gap, last = 0.09 * (high - low), -np.inf
    for text, values, look in sorted(lines, key=lambda line: line[1][-1]):
        last = max(float(values[-1]), last + gap)
        place = {"xytext": (8, 0), "textcoords": "offset points", "va": "center", "fontsize": 9}
        axes.annotate(text, (end, last), color=look["color"], annotation_clip=False, **place)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--figure", type=Path, default=Path("limits-along-a-run.png"))
    options = parser.parse_args()
    if options.train:
        train(options.records)
    print(save(picture(RunFolder(options.records)), options.figure))


if __name__ == "__main__":
    main()
