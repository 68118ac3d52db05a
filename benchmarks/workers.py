"""How much faster does a slow environment train with workers?

    python benchmarks/workers.py               # three rounds, on two free cores
    python benchmarks/workers.py --workers 4

An environment that waits 5 ms in every step is trained on by this process, by one worker, and by N.
They take turns, so that ratios survive what else the machine does: the median of all rounds, in
wall-clock time, and whether the metrics are the same bytes. A worker's start is part of it.
"""

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium
import numpy as np

from cmdpax import train

SECONDS = 0.005  # a step


class Slow(gymnasium.Env):
    """A point that is pushed to the origin; pushing costs. Episodes have 100 steps."""

    observation_space = gymnasium.spaces.Box(-9, 9, (2,))
    action_space = gymnasium.spaces.Box(-1, 1, (2,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        """Anywhere near."""
        super().reset(seed=seed)
        self.place, self.age = self.np_random.normal(size=2), 0
        return self.place.copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Wait, and move."""
        time.sleep(SECONDS)
        self.age += 1
        self.place = (self.place + 0.1 * action).clip(-9, 9)
        cost = float(np.abs(action).sum())
        return (
            self.place.copy(),
            -float(np.abs(self.place).sum()),
            False,
            self.age == 100,
            {"cost": cost},
        )


def timed(workers: int | None, samples: int) -> tuple[float, bytes]:
    """Seconds of a training, and its metrics."""
    settings: dict[str, Any] = {"samples": samples, "batch": 800, "rollout_steps": 200}
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        run = train(
            Slow, limits=["cost<=25"], folder=Path(folder) / "run", workers=workers, **settings
        )
        return time.perf_counter() - start, (run.folder / "metrics.jsonl").read_bytes()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--samples", type=int, default=8_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    timed(None, 800)  # compiles
    kinds = [None, *sorted({1, options.workers})]
    rounds = [[timed(kind, options.samples) for kind in kinds] for _ in range(options.rounds)]
    print(f"{options.samples} steps of {1000 * SECONDS:g} ms, {options.rounds} rounds")
    for place, kind in enumerate(kinds):
        seconds = [row[place][0] for row in rounds]
        ratios = [row[0][0] / row[place][0] for row in rounds]
        same = all(row[place][1] == rounds[0][0][1] for row in rounds)
        name = "this process" if kind is None else f"{kind} workers"
        print(
            f"{name}: {median(seconds):.1f} s, {median(ratios):.2f} times as fast"
            f" ({min(ratios):.2f} to {max(ratios):.2f}),"
            f" {'the same metrics' if same else 'OTHER METRICS'}"
        )


if __name__ == "__main__":
    main()
