"""What does every part of the recipe for training earn? Each is taken away or changed, by itself.

    python benchmarks/deep_ablation.py [--variants all,base,...] [--seeds 3] [--workers 1]
        [--out results/known_optima/ablation.jsonl] [--velocity Hopper --samples 1e6]
    python benchmarks/deep_ablation.py --table

The tasks are five of the tuning half of `known_optima.py`, and `short-5` for what concerns short
runs alone. Each run is a process of one thread and one line; what is there already is not run
again. Parts that have a setting are changed by it; others are replaced in the process that trains,
before anything is compiled: `VARIANTS` has them all. A variant is run where it can make a
difference. `--velocity` adds a robot's task, with the aim at its limit: violation and regret are
those of its last fifth, the regret against the return in `velocity_defaults.py`.
"""

import json
import sys
import tempfile
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import known_optima
import numpy as np
import velocity_defaults
from known_optima import Row, execute, read
from known_optima_tasks import TASKS, scores

from cmdpax.learning.config import METHODS
from cmdpax.learning.scales import SLOW

FIVE = ("six-states-units", "two-limits", "long-2000", "heater", "rare-danger")
SHORT, RARE, TIGHT, VELOCITY = "short-5", "road", "pump", "velocity"
OUT = velocity_defaults.HOME / "results" / "known_optima" / "ablation.jsonl"
METHOD = "spma-alm"
OWN = METHODS[METHOD]


def no_level(reward: Any, *rest: Any) -> Any:
    """Instead of `formulas.level_shift`."""
    import jax.numpy as jnp

    return jnp.zeros(reward.shape[:-2])


def never(*arguments: Any) -> bool:
    """Instead of `rollout.counts_steps`."""
    return False


def balance_alone(scales: Any, multiplier: Any) -> Any:
    """Instead of `Scales.price`."""
    return scales.balance


def learn_at_once(*arguments: Any) -> Any:
    """Instead of `learner.learn`, which asks for the critics to know whether they warm up."""
    from cmdpax.learning.learner import learn

    *rest, config = arguments
    return learn(*rest, replace(config, critics="plain"))


def assess_by_mean_length(learner: Any, batch: Any, longest: float, config: Any) -> Any:
    """Instead of `learner.assess`: T is the mean length of this batch's episodes."""
    from cmdpax.learning.learner import assess
    from cmdpax.learning.rollout import episodes

    length = float(episodes(batch.rewards, batch.ended).lengths.mean())
    return assess(learner, batch, length, config)


@dataclass(frozen=True)
class Variant:
    """The recipe with one part changed."""

    sentence: str
    settings: dict[str, Any] = field(default_factory=dict)
    patches: dict[str, Any] = field(default_factory=dict)  # names in cmdpax.learning -> instead
    tasks: tuple[str, ...] = (*FIVE, VELOCITY)  # where it can make a difference


OF_THE_REWARD = {"units": "reward", "penalty": 0.02, "dual_step": 0.01, "inner": 10}
ONE_OUTPUT = {"scales.REWARD_OUTPUTS": 1.0, "scales.COST_OUTPUTS": 1.0}
QUARTER, FOURFOLD = 0.25, 4.0
VARIANTS = {
    "base": Variant("the recipe as it is", tasks=(*FIVE, SHORT, RARE, TIGHT, VELOCITY)),
    "units": Variant(
        "penalty .02, dual step .01 every 10 batches, in units of the reward", OF_THE_REWARD
    ),
    "plain-critics": Variant("critics learn values as they are", {"critics": "plain"}),
    "one-decay": Variant("advantages of costs look as far as the reward's", {"cost_gae": 0.95}),
    "short-decay": Variant("advantages of costs look two steps ahead", {"cost_gae": 0.5}),
    "whole-reserve": Variant(
        "the reserve is never given up", patches={"margins.PACE": 0.0}, tasks=(*FIVE, TIGHT)
    ),
    "no-level": Variant(
        "values are not brought to their level", patches={"formulas.level_shift": no_level}
    ),
    "limit-is-no-end": Variant(
        "values go on beyond a time limit that is seen",
        patches={"rollout.counts_steps": never},
        tasks=("long-2000", "heater"),
    ),
    "latest-margin": Variant("margins of the latest batch, unfiltered", {"margin": "latest"}),
    "drift-0.05": Variant("the filter takes costs to drift less", patches={"margins.DRIFT": 0.05}),
    "drift-1": Variant("the filter takes costs to drift more", patches={"margins.DRIFT": 1.0}),
    "no-noise": Variant("units without the estimate's error", patches={"scales.NOISE": 0.0}),
    "all-counted": Variant(
        "a violation counts as it is, however large", patches={"training.MOST_COUNTED": 1e30}
    ),
    "no-brake": Variant(
        "multipliers move as fast as they like", patches={"training.MOST_CHANGE": 1e30}
    ),
    "no-travel": Variant("multipliers no faster in a short run", patches={"training.TRAVEL": 0.0}),
    "no-price": Variant(
        "a large multiplier changes no unit",
        patches={"scales.Scales.price": balance_alone},
        tasks=(*FIVE, RARE),
    ),
    "no-warm-up": Variant(
        "the first batch trains the policy, too", patches={"training.learn": learn_at_once}
    ),
    "one-mean": Variant("sizes of costs by the slow mean alone", patches={"scales.FAST": SLOW}),
    "one-output": Variant("a deviation of the targets is 1 output", patches=ONE_OUTPUT),
    "step-0.3": Variant("SPMA's step fixed at .3", {"spma_step": 0.3}),
    "step-1": Variant("SPMA's step fixed at 1", {"spma_step": 1.0}),
    "mean-length": Variant(
        "T is the mean length of episodes, not their limit",
        patches={"training.assess": assess_by_mean_length},
        tasks=(VELOCITY,),
    ),
    "no-reserve": Variant("the aim is the limit", {"reserve": 0.0}, tasks=FIVE),
    "penalty/4": Variant("a quarter of the penalty", {"penalty": OWN.penalty * QUARTER}),
    "penalty*4": Variant("four times the penalty", {"penalty": OWN.penalty * FOURFOLD}),
    "dual-step/4": Variant("a quarter of the dual step", {"dual_step": OWN.dual_step * QUARTER}),
    "dual-step*4": Variant("four times the dual step", {"dual_step": OWN.dual_step * FOURFOLD}),
    "full-batches": Variant(
        "batches are not smaller in short runs",
        patches={"config.FULL_BATCHES": 1},
        tasks=(SHORT,),
    ),
}


def run(job: Row) -> Row:
    """Train one job in this process with its variant's patches, and judge it."""
    for name, instead in VARIANTS[job["variant"]].patches.items():
        patch(name, instead)
    if job["task"] in TASKS:
        return known_optima.run(job)
    with tempfile.TemporaryDirectory() as folder:
        row = velocity_defaults.run(job, Path(folder) / "run")
    return {name: one for name, one in row.items() if name not in ("curve", "versions")}


def patch(name: str, instead: Any) -> None:
    """Replace `MODULE.NAME` or `MODULE.CLASS.NAME` of cmdpax.learning, which must be there."""
    place, attribute = place_of(name)
    getattr(place, attribute)
    setattr(place, attribute, instead)


def place_of(name: str) -> tuple[Any, str]:
    """The module or class, and the name in it."""
    module, *owner, attribute = name.split(".")
    place: Any = import_module(f"cmdpax.learning.{module}")
    for one in owner:
        place = getattr(place, one)
    return place, attribute


def jobs_of(names: list[str], seeds: int, robot: str | None, samples: int, quick: Row) -> list[Row]:
    """All runs of these variants; `quick` has settings for a trial."""
    jobs = []
    for seed in range(seeds):
        for name in names:
            for task in VARIANTS[name].tasks:
                settings = {**VARIANTS[name].settings, **quick}
                if task == VELOCITY:
                    settings = {"samples": samples, "reserve": 0.0, **settings}
                    task = robot
                if task:
                    job = {"task": task, "method": METHOD, "seed": seed, "settings": settings}
                    jobs.append({**job, "variant": name})
    return jobs


def table(rows: list[Row]) -> str:
    """Markdown: a row for each variant, a column for each task.

    A cell has the medians of violation and regret over seeds, then the largest violation, all in
    per cent; the last columns are over the five tasks together.
    """
    robots = [name for name in velocity_defaults.REFERENCES if any(name == r["task"] for r in rows)]
    columns = [*FIVE, SHORT, RARE, TIGHT, *robots]
    heads = ["variant", "what is changed", *columns, "violation <= 5%", "largest", "median regret"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, variant in VARIANTS.items():
        mine = [row for row in rows if row["variant"] == name]
        if not mine:
            continue
        cells = [cell([row for row in mine if row["task"] == task]) for task in columns]
        five, together = [row for row in mine if row["task"] in FIVE], [""] * 3
        if {row["task"] for row in five} == {*FIVE}:
            within, largest, median, _ = scores(five)
            together = [f"{within:.0%} of {len(five)}", f"{largest:+.1f}", f"{median:.1f}"]
        lines.append(f"| {' | '.join([name, variant.sentence, *cells, *together])} |")
    return "\n".join(lines)


def cell(rows: list[Row]) -> str:
    """`violation / regret (largest violation)` of all seeds; those of a failed run are infinite."""
    if not rows:
        return ""
    beyond = [max(row["violation"].values()) if "violation" in row else np.inf for row in rows]
    lost = [row.get("regret", np.inf) for row in rows]
    return f"{np.median(beyond):+.1f} / {np.median(lost):.1f} ({max(beyond):+.1f})"


def main() -> None:
    parser = known_optima.options_of_runs(__doc__, OUT)
    parser.add_argument("--variants", default="all")
    parser.add_argument("--velocity", choices=velocity_defaults.REFERENCES)
    parser.add_argument("--samples", type=float, default=1e6, help="of the velocity task")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.job:
        print(json.dumps(run(json.loads(options.job))))
        return
    if options.table:
        print(table(read(options.out)))
        return
    names = [*VARIANTS] if options.variants == "all" else options.variants.split(",")
    for name in names:
        if name not in VARIANTS:
            sys.exit(f"no variant '{name}'; there are {', '.join(VARIANTS)}.")
    quick = dict(map(known_optima.setting, options.set))
    jobs = jobs_of(names, options.seeds, options.velocity, int(options.samples), quick)
    execute(jobs, options.out, options.workers, __file__)


if __name__ == "__main__":
    main()
