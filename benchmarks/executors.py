"""What executors cost: overhead of a run, and how much faster two workers are than one.

    python benchmarks/executors.py                    # two free cores are needed for the second number to mean anything
    python benchmarks/executors.py --executors local  # without Ray

Overhead: wall seconds of a sweep of one worker beyond the seconds inside its runs, divided by their number; the start of the
executor and of its worker (imports) is listed apart. Speed-up: wall seconds of one worker over those of two, on CPU-bound runs
of about a second, both with their start.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence

from cmdpax.experiments.executors import executor
from cmdpax.experiments.runs import Run, exact_run
from cmdpax.experiments.store import Store


def runs(count: int, steps: int) -> list[Run]:
    settings = [{"step": 0.1 + 0.001 * number, "dual_step": 1.0, "steps": steps} for number in range(count)]
    return [exact_run({"model": "cliff-world", "method": "npg-pd", "settings": one}) for one in settings]


def measure(name: str, jobs: Sequence[Run], workers: int) -> tuple[float, float]:
    """Wall seconds of a sweep, and those inside its runs."""
    with tempfile.TemporaryDirectory() as folder:
        store, started = Store(folder, create=True), time.perf_counter()
        executor(name)(jobs, store, workers, lambda: None)
        return time.perf_counter() - started, sum((store.spent(run) or {})["seconds"] for run in jobs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executors", nargs="+", default=["serial", "local", "ray"])
    parser.add_argument("--overhead-runs", type=int, default=100)
    parser.add_argument("--bound-runs", type=int, default=40)
    parser.add_argument("--bound-steps", type=int, default=2500)
    chosen = parser.parse_args()
    print(f"cores {len(os.sched_getaffinity(0))}, load {os.getloadavg()[0]:.1f}", flush=True)
    for name in chosen.executors:
        few, many = runs(1, 5), runs(chosen.overhead_runs, 5)
        start, inside = measure(name, few, 1)
        wall, within = measure(name, many, 1)
        overhead = (wall - within - (start - inside)) / (len(many) - 1)
        print(f"{name}: start {start - inside:.2f} s, overhead {overhead:.3f} s a run ({len(many)} runs)", flush=True)
        if name != "serial":
            bound = runs(chosen.bound_runs, chosen.bound_steps)
            one, two = measure(name, bound, 1)[0], measure(name, bound, 2)[0]
            print(
                f"{name}: {len(bound)} CPU-bound runs, 1 worker {one:.1f} s, 2 workers {two:.1f} s, {one / two:.2f}x", flush=True
            )


if __name__ == "__main__":
    main()
