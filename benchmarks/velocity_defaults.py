"""Do the defaults reach on the velocity tasks what settings in units of the reward reached?

    python benchmarks/velocity_defaults.py [--tasks Hopper,HalfCheetah,Ant] [--methods spma-alm]
        [--samples 2e6] [--seeds 3] [--set reserve=0] [--workers 1]
    python benchmarks/velocity_defaults.py --table

Each run is a process of one thread and one line of `results/velocity_defaults/runs.jsonl`: mean
return and cost over the last fifth, verdict, CPU-seconds, a curve of 50 points, versions. What is
there already is not run again. A run that was killed goes on from the last checkpoint of its folder
(`--folders`); its CPU-seconds are then those of the last part, in proportion (0: it was finished).

Training aims at the limit, 25 (`reserve=0`). References: at 2e6 samples `REFERENCES`, measured with
penalty .02 and dual step .01 in units of the reward and the same aim; at 1e7 the last fifth of the
records in `results/deep`, whose aim is 20: `--samples 1e7 --seeds 1 --set reserve=0.2`.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
from known_optima import Row, execute, read, setting

HOME = Path(__file__).parents[1]
RECORDS = HOME / "results" / "velocity_defaults" / "runs.jsonl"
LIMIT = 25.0
# mean return and cost of the last fifth at 2e6 samples: means of three seeds, of Ant one
REFERENCES = {"Hopper": (1721.0, 25.7), "HalfCheetah": (2895.0, 24.4), "Ant": (2794.0, 22.7)}
REFERENCE_SAMPLES, LONG_SAMPLES, POINTS = 2_000_000, 10_000_000, 50
HEADER = (
    *("task", "method", "settings", "samples", "seeds", "return", "cost", "reference: return"),
    *("cost", "ratio of returns", "cost / aim", "verdicts", "CPU-s"),
)


def run(job: Row, folder: Path) -> Row:
    """Train one job in this process, or go on with it, and summarise its rows."""
    import cmdpax
    from cmdpax.experiments.store import versions

    started, resume = time.process_time(), (folder / "config.json").exists()
    updates = []
    training = cmdpax.train(
        f"Safety{job['task']}Velocity-v1",
        job["method"],
        limits=[f"cost<={LIMIT:g}"],
        folder=folder,
        resume=resume,
        callback=lambda row: updates.append(row["update"]),
        seed=job["seed"],
        **job["settings"],
    )
    seconds, rows = time.process_time() - started, training.metrics
    late = last_fifth(rows)
    return {
        **job,
        "samples": rows[-1]["samples"],
        **late,
        "violation": {"cost": 100 * (late["cost"] / LIMIT - 1)},
        "regret": lost(job["task"], late["return"]),
        "verdict": str(training.verdict),
        "seconds": round(seconds * len(rows) / len(updates), 1) if updates else 0.0,
        "resumed": resume,
        "curve": curve(rows),
        "versions": versions(),
    }


def last_fifth(rows: list[Row]) -> Row:
    """Mean return and cost over the last fifth."""
    late = rows[-max(1, len(rows) // 5) :]
    return {"return": float(np.mean(returns(late))), "cost": float(np.mean(costs(late)))}


def returns(rows: list[Row]) -> list[float]:
    return [row["return"] for row in rows]


def costs(rows: list[Row]) -> list[float]:
    return [row["cost"]["cost"] for row in rows]


def curve(rows: list[Row]) -> list[list[float]]:
    """Samples, mean return and mean cost of each fiftieth of the run, in five digits."""
    parts = np.array_split(np.arange(len(rows)), min(POINTS, len(rows)))
    points = []
    for part in parts:
        group = [rows[i] for i in part]
        means = (np.mean(returns(group)), np.mean(costs(group)))
        points.append([group[-1]["samples"], *(float(f"{mean:.5g}") for mean in means)])
    return points


def long_reference(
    task: str, method: str, deep: Path = HOME / "results" / "deep"
) -> tuple[float, float] | None:
    """Mean return and cost of the last fifth over the seeds that `results/deep` has; or None."""
    summaries = sorted(deep.glob(f"{task}-{method}-*/summary.json"))
    late = [json.loads(path.read_text())["last_fifth"] for path in summaries]
    if not late:
        return None
    return np.mean([one["return"] for one in late]), np.mean([one["cost"] for one in late])


def reference(task: str, method: str, samples: int) -> tuple[float, float] | None:
    """Return and cost to compare with; None where nothing was measured."""
    if samples == REFERENCE_SAMPLES and method == "spma-alm":
        return REFERENCES[task]
    return long_reference(task, method) if samples == LONG_SAMPLES else None


def lost(task: str, mean: float) -> float:
    """By how much a return is below the reference of 2e6 samples, in per cent."""
    return 100 * (1 - mean / REFERENCES[task][0])


def table(rows: list[Row]) -> str:
    """Markdown: a row for each task, method and settings, means over seeds, then each."""
    groups = dict[tuple[str, ...], list[Row]]()
    for row in sorted(rows, key=lambda row: row["seed"]):
        settings = {name: one for name, one in row["settings"].items() if name != "samples"}
        words = " ".join(f"{name}={one}" for name, one in settings.items())
        groups.setdefault((row["task"], row["method"], words, row["samples"]), []).append(row)
    lines = [f"| {' | '.join(HEADER)} |", "|---" * len(HEADER) + "|"]
    for (task, method, words, samples), group in sorted(groups.items()):
        mean, cost = (np.mean([row[name] for row in group]) for name in ("return", "cost"))
        gained = " ".join(f"{row['return']:,.0f}" for row in group)
        spent = " ".join(f"{row['cost']:.1f}" for row in group)
        aim = LIMIT * (1 - (group[0]["settings"].get("reserve") or 0))
        said = " ".join(row["verdict"].partition(":")[0] for row in group)
        seconds = np.mean([row["seconds"] for row in group])
        before = reference(task, method, samples)
        beside = ["-"] * 3
        if before:
            beside = [f"{before[0]:,.0f}", f"{before[1]:.1f}", f"{mean / before[0]:.3f}"]
        cells = [task, method, words, f"{samples:,}", str(len(group))]
        cells += [f"{mean:,.0f} ({gained})", f"{cost:.1f} ({spent})", *beside]
        cells += [f"{cost / aim:.3f}", said, f"{seconds:,.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", default=",".join(REFERENCES))
    parser.add_argument("--methods", default="spma-alm")
    parser.add_argument("--samples", type=float, default=REFERENCE_SAMPLES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", nargs="*", default=["reserve=0"], metavar="NAME=VALUE")
    parser.add_argument("--out", type=Path, default=RECORDS)
    parser.add_argument("--folders", type=Path, default=Path("runs") / "velocity_defaults")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        job = json.loads(options.job)
        print(json.dumps(run(job, Path(job.pop("folder")))))
        return
    if options.table:
        print(table(read(options.out)))
        return
    settings = {"samples": int(options.samples), **dict(map(setting, options.set))}
    words = "-".join(f"{name}={one}" for name, one in settings.items())
    jobs = []
    for seed in range(options.seeds):
        for method in options.methods.split(","):
            for task in options.tasks.split(","):
                if task not in REFERENCES:
                    sys.exit(f"no task '{task}'; there are {', '.join(REFERENCES)}.")
                folder = options.folders.absolute() / f"{task}-{method}-{words}-{seed}"
                job = {"task": task, "method": method, "seed": seed, "settings": settings}
                jobs.append({**job, "folder": str(folder)})
    execute(jobs, options.out, options.workers, __file__)


if __name__ == "__main__":
    main()
