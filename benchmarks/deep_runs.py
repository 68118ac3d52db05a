"""Long deep runs: a queue that survives being stopped, and small records of what it finished.

    python benchmarks/deep_runs.py run --runs RUNS                    # as often as there are free cores; stop and start at will
    python benchmarks/deep_runs.py collect --runs RUNS --out results/deep

`run` trains every (task, method, seed) in the order below, one folder `RUNS/<task>-<method>-<seed>` each, and resumes what was
cut short; a lock per folder keeps two queues apart. SIGTERM stops queue and training between two checkpoints. CPU seconds are
those of the training process, added up over interruptions (what an interruption threw away included).

`collect` writes the small record of every finished run (`cmdpax/paper/deep_records.py`); `cmdpax reproduce deep` draws them.
"""

import argparse
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from cmdpax.paper import deep_records

TASKS = ("HalfCheetah", "Ant", "Hopper")
METHODS = ("ppo-lag", "spma-alm", "ppo-alm", "cpo")


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
            if not (folder / "evaluation.json").exists():
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
    subprocess.run([*command, "evaluate", str(folder)], stdout=subprocess.DEVNULL, check=True)  # leaves evaluation.json there


def collect(runs: Path, out: Path) -> None:
    """Small records of every finished run."""
    for evaluation in sorted(runs.glob("*/evaluation.json")):
        run = evaluation.parent
        seconds = sum(map(float, (runs / f"{run.name}.cpu").read_text().split()))
        deep_records.collect(run, out / run.name, seconds)
        print(run.name, f"{seconds:.0f} CPU-seconds")


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
