"""How much faster does a slow environment train with workers?

    python benchmarks/workers.py               # one run of each, on two free cores
    python benchmarks/workers.py --workers 4

An environment that waits 5 ms in every step is trained on by this process, then by one worker, then
by N: wall-clock time, and whether the metrics are the same bytes. A worker's start is part of it.
"""

import argparse
import tempfile
import time
from pathlib import Path
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
    parser.add_argument("--samples", type=int, default=16_000)
    options = parser.parse_args()
    timed(None, 800)  # compiles
    alone, expected = timed(None, options.samples)
    print(f"{options.samples} steps of {1000 * SECONDS:g} ms")
    print(f"in this process: {alone:.1f} s")
    for workers in sorted({1, options.workers}):
        seconds, metrics = timed(workers, options.samples)
        same = "the same metrics" if metrics == expected else "OTHER METRICS"
        print(f"workers {workers}: {seconds:.1f} s, {alone / seconds:.2f} times as fast, {same}")


if __name__ == "__main__":
    main()
