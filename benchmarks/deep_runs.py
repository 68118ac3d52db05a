"""Long deep runs: a queue that survives being stopped, and small records of what it finished.

    python benchmarks/deep_runs.py run --runs RUNS                    # as often as there are free cores; stop and start at will
    python benchmarks/deep_runs.py collect --runs RUNS --out results/deep

`run` trains every (task, method, seed) in the order below, one folder `RUNS/<task>-<method>-<seed>` each, and resumes what was
cut short; a lock per folder keeps two queues apart. SIGTERM stops queue and training between two checkpoints. CPU seconds are
those of the training process, added up over interruptions (what an interruption threw away included).

`collect` writes, for every finished run, `config.json`, at most 300 rows of `metrics.jsonl`, `evaluation.json`, `summary.json`:
how much the cost swings at the end, and how many samples it took to come near the paper's return. Batches of 2,000 and of 20,000
steps are made comparable by first averaging rows over windows of 20,000 steps.
"""

import argparse
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

TASKS = ("HalfCheetah", "Ant", "Hopper")
METHODS = ("ppo-lag", "spma-alm", "ppo-alm", "cpo")
PAPER = {  # return at 1e7 samples
    "spma-alm": {"Ant": 3202, "HalfCheetah": 2933, "Hopper": 1687},
    "ppo-alm": {"Ant": 3043, "HalfCheetah": 2934, "Hopper": 1644},
    "ppo-lag": {"Ant": 3224, "HalfCheetah": 3010, "Hopper": 1675},
    "cpo": {"Ant": 3011, "HalfCheetah": 2686, "Hopper": 1683},
}
LIMIT = 25.0
WINDOW = 20_000  # samples over which rows are averaged
ROWS = 300


def run_all(runs: Path, samples: int, seeds: Sequence[int], tasks: Sequence[str], methods: Sequence[str]) -> None:
    """Train whatever is not finished and not being trained by another queue."""
    for seed, task, method in product(seeds, tasks, methods):
        folder = runs / f"{task}-{method}-{seed}"
        folder.parent.mkdir(parents=True, exist_ok=True)
        with open(runs / f".{folder.name}.lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if not (runs / f"{folder.name}.evaluation.json").exists():
                print("running", folder.name, flush=True)
                run_one(folder, task, method, seed, samples)


def run_one(folder: Path, task: str, method: str, seed: int, samples: int) -> None:
    """Train to the end, from wherever it stopped, and evaluate."""
    command = [sys.executable, "-m", "cmdpax"]
    settings = [f"Safety{task}Velocity-v1", "--method", method, "--seed", str(seed), "--samples", str(samples)]
    resume = ["--resume"] if (folder / "config.json").exists() else []
    process = subprocess.Popen([*command, "train", *settings, "--out", str(folder), *resume], stderr=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    _, status, usage = os.wait4(process.pid, 0)
    with open(folder.parent / f"{folder.name}.cpu", "a", encoding="utf-8") as seconds:
        seconds.write(f"{usage.ru_utime + usage.ru_stime:.1f}\n")
    if status:
        raise SystemExit(f"{folder.name} stopped with status {status}; the same command continues it.")
    found = subprocess.run([*command, "evaluate", str(folder), "--json"], capture_output=True, check=True)
    (folder.parent / f"{folder.name}.evaluation.json").write_bytes(found.stdout)


def windows(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[int, float, float]]:
    """Samples, mean return and mean cost of successive windows of 20,000 samples."""
    size = max(1, round(WINDOW / rows[0]["samples"]))
    for start in range(0, len(rows) - size + 1, size):
        part = rows[start : start + size]
        yield part[-1]["samples"], np.mean([r["return"] for r in part]), np.mean([r["cost"]["cost"] for r in part])  # type: ignore[misc]


def summarise(rows: Sequence[dict[str, Any]], task: str, method: str) -> dict[str, Any]:
    """What a run's records say: the last fifth of training, and the way there."""
    late = rows[-len(rows) // 5 :]
    cost = np.array([row["cost"]["cost"] for row in late])
    returns = np.array([row["return"] for row in late])
    averaged = list(windows(rows))
    late_costs = np.array([cost for _, _, cost in averaged[-len(averaged) // 5 :]])
    wanted = 0.95 * PAPER[method][task]
    reached = [samples for samples, gained, spent in averaged if gained >= wanted and spent <= LIMIT]
    matched = [samples for samples, gained, spent in averaged if gained >= PAPER[method][task] and spent <= LIMIT]
    return {
        "samples": rows[-1]["samples"],
        "last_fifth": {
            "return": float(returns.mean()),
            "cost": float(cost.mean()),
            "cost_deviation_of_updates": float(cost.std()),
            "cost_deviation_of_windows": float(late_costs.std()),
            "updates_above_limit": float((cost > LIMIT).mean()),
            "windows_above_limit": float((late_costs > LIMIT).mean()),
        },
        "samples_to_95_percent_of_paper_while_feasible": reached[0] if reached else None,
        "samples_to_paper_while_feasible": matched[0] if matched else None,
    }


def collect(runs: Path, out: Path) -> None:
    """Small records of every finished run."""
    for evaluation in sorted(runs.glob("*.evaluation.json")):
        name = evaluation.name.removesuffix(".evaluation.json")
        task, method = name.split("-", 1)[0], name.split("-", 1)[1].rsplit("-", 1)[0]
        folder, target = runs / name, out / name
        target.mkdir(parents=True, exist_ok=True)
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        summary = summarise([json.loads(line) for line in lines], task, method)
        summary["cpu_seconds"] = sum(map(float, (runs / f"{name}.cpu").read_text().split()))
        every = -(-len(lines) // ROWS)
        kept = lines[every - 1 :: every]
        (target / "metrics.jsonl").write_text("\n".join(kept) + "\n")
        (target / "config.json").write_bytes((folder / "config.json").read_bytes())
        (target / "evaluation.json").write_bytes(evaluation.read_bytes())
        (target / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
        print(name, json.dumps(summary))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "collect"))
    parser.add_argument("--runs", type=Path, required=True, help="where the run folders are")
    parser.add_argument("--out", type=Path, default=Path("results/deep"), help="where collect puts its records")
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    chosen = parser.parse_args()
    if chosen.what == "run":
        run_all(chosen.runs, chosen.samples, chosen.seeds, chosen.tasks, chosen.methods)
    else:
        collect(chosen.runs, chosen.out)


if __name__ == "__main__":
    main()
