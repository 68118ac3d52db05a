"""What does an executor cost per run, and how much faster are two workers than one?

    python benchmarks/executors.py                    # needs two free cores for the second answer
    python benchmarks/executors.py --executors local  # without Ray

Overhead: seconds of a sweep of one worker beyond those inside its runs, divided by their number.
The start of the executor and of its worker (imports) is listed apart. Speed-up: wall seconds of one
worker over those of two, on CPU-bound runs of about a second, both with their start.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence

import numpy as np

from cmdpax.experiments.executors import EXECUTORS, find_executor
from cmdpax.experiments.runs import Run, exact_run
from cmdpax.experiments.store import Store


def make_runs(count: int, steps: int) -> list[Run]:
    problem = {"model": "cliff-world", "method": "npg-pd"}
    fixed = {"dual_step": 1.0, "steps": steps}
    return [
        exact_run({**problem, "settings": {"step": 0.1 + 0.001 * number, **fixed}})
        for number in range(count)
    ]


def measure(name: str, runs: Sequence[Run], workers: int) -> tuple[np.ndarray, np.ndarray]:
    """Wall and CPU seconds of a sweep, and those inside its runs; CPU seconds without Ray's own."""
    with tempfile.TemporaryDirectory() as folder:
        store, started = Store(folder, create=True), clock()
        find_executor(name)(runs, store, workers, lambda: None)
        whole, spent = clock() - started, [store.spent(run) for run in runs]
        return whole, np.array([[row["seconds"], row["cpu_seconds"]] for row in spent]).sum(0)


def clock() -> np.ndarray:
    """Wall seconds, and CPU seconds of this process and of its ended children."""
    times = os.times()
    own, ended = times.user + times.system, times.children_user + times.children_system
    return np.array([time.perf_counter(), own + ended])


def overhead(name: str, count: int) -> str:
    """One line: what the start costs, and what each of `count` short runs costs beside itself."""
    start = np.subtract(*measure(name, make_runs(1, 5), 1))
    each = (np.subtract(*measure(name, make_runs(count, 5), 1)) - start) / (count - 1)
    return (
        f"start {start[0]:.2f} s ({start[1]:.2f} s CPU),"
        f" overhead {each[0]:.3f} s a run ({each[1]:.3f} s CPU), {count} runs"
    )


def speed_up(name: str, count: int, steps: int) -> str:
    """One line: two workers against one."""
    runs = make_runs(count, steps)
    one, two = (measure(name, runs, workers)[0][0] for workers in (1, 2))
    times = f"1 worker {one:.1f} s, 2 workers {two:.1f} s, {one / two:.2f}x"
    return f"{count} CPU-bound runs, {times}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = list(EXECUTORS)
    parser.add_argument("--executors", nargs="+", default=names, choices=names)
    parser.add_argument("--overhead-runs", type=int, default=100, help="at least 2")
    parser.add_argument("--bound-runs", type=int, default=40, help="0: no speed-up is measured")
    parser.add_argument("--bound-steps", type=int, default=2500)
    options = parser.parse_args()
    print(f"cores {len(os.sched_getaffinity(0))}, load {os.getloadavg()[0]:.1f}", flush=True)
    for name in options.executors:
        print(f"{name}: {overhead(name, options.overhead_runs)}", flush=True)
        if name != "serial" and options.bound_runs:
            print(f"{name}: {speed_up(name, options.bound_runs, options.bound_steps)}", flush=True)


if __name__ == "__main__":
    main()
