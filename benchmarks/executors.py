"""What executors cost: overhead of a run, and how much faster two workers are than one.

    python benchmarks/executors.py                    # two free cores are needed for the second
    number to mean anything python benchmarks/executors.py --executors local  # without Ray

Overhead: wall seconds of a sweep of one worker beyond the seconds inside its runs, divided by their
number; the start of the executor and of its worker (imports) is listed apart. Speed-up: wall
seconds of one worker over those of two, on CPU-bound runs of about a second, both with their start.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence

import numpy as np

from cmdpax.experiments.executors import find_executor
from cmdpax.experiments.runs import Run, exact_run
from cmdpax.experiments.store import Store


def runs(count: int, steps: int) -> list[Run]:
    settings = [
        {"step": 0.1 + 0.001 * number, "dual_step": 1.0, "steps": steps} for number in range(count)
    ]
    return [
        exact_run({"model": "cliff-world", "method": "npg-pd", "settings": one}) for one in settings
    ]


def measure(name: str, jobs: Sequence[Run], workers: int) -> tuple[np.ndarray, np.ndarray]:
    """Wall and CPU seconds of a sweep, and those inside its runs; Ray's CPU seconds are not seen
    from here.
    """
    with tempfile.TemporaryDirectory() as folder:
        store, started = Store(folder, create=True), clock()
        find_executor(name)(jobs, store, workers, lambda: None)
        spent = [store.spent(run) for run in jobs]
        inside = np.array([sum(one[key] for one in spent) for key in ("seconds", "cpu_seconds")])
        return clock() - started, inside


def clock() -> np.ndarray:
    """Wall seconds, and CPU seconds of this process and of its ended children."""
    times = os.times()
    return np.array(
        [
            time.perf_counter(),
            times.user + times.system + times.children_user + times.children_system,
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--executors", nargs="+", default=["serial", "local", "ray"])
    parser.add_argument("--overhead-runs", type=int, default=100)
    parser.add_argument("--bound-runs", type=int, default=40)
    parser.add_argument("--bound-steps", type=int, default=2500)
    chosen = parser.parse_args()
    print(f"cores {len(os.sched_getaffinity(0))}, load {os.getloadavg()[0]:.1f}", flush=True)
    for name in chosen.executors:
        few, many = runs(1, 5), runs(chosen.overhead_runs, 5)
        start = np.subtract(*measure(name, few, 1))
        overhead = (np.subtract(*measure(name, many, 1)) - start) / (len(many) - 1)
        print(f"{name}: start {start[0]:.2f} s ({start[1]:.2f} s CPU), ", end="")
        print(
            f"overhead {overhead[0]:.3f} s a run ({overhead[1]:.3f} s CPU), {len(many)} runs",
            flush=True,
        )
        if name != "serial" and chosen.bound_runs:
            bound = runs(chosen.bound_runs, chosen.bound_steps)
            one, two = (measure(name, bound, workers)[0][0] for workers in (1, 2))
            print(
                f"{name}: {len(bound)} CPU-bound runs, 1 worker {one:.1f} s, 2 workers {two:.1f} s,"
                f" {one / two:.2f}x",
                flush=True,
            )


if __name__ == "__main__":
    main()
