"""Does the numbering of states cost time, or change a verdict?

    python benchmarks/numbering.py OUT.jsonl
    python benchmarks/numbering.py OUT.jsonl 'queue 1e5, .999'      these rows of the record again

A corridor, a grid world and a queue as they are built, and with their states numbered at random:
seconds of `cmdpax.solve` (one thread, the best of nine, solves of both taking turns), and the
verdicts of 200 random numberings of small ones, feasible and infeasible.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from timing import best_seconds

import cmdpax
from cmdpax.environments import garnet, grid_world, queue

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from cmdpax.loops import compiled
from models import renumbered

compiled.PATIENCE = 0.0  # seconds are those of machine code

PERMUTATIONS = 200


def corridor(states: int, discount: float, noise: float = 0.0) -> cmdpax.CMDP:
    """Right or left on a line; the last cell pays, and every step costs a random amount."""
    own, rng = np.arange(states), np.random.default_rng(1)
    right, left = np.minimum(own + 1, states - 1), np.maximum(own - 1, 0)
    to = np.stack([np.stack([right, left], 1), np.stack([left, right], 1)], 1)
    chances = np.broadcast_to([1 - noise, noise], to.shape)
    reward = np.zeros((states, 2))
    reward[-1] = 1.0
    limits = {"constraints": [rng.random((states, 2))], "thresholds": [0.5 / (1 - discount)]}
    return cmdpax.CMDP((to, chances), reward, **limits, initial=0, discount=discount, senses="<=")


LARGE: dict[str, Any] = {
    "corridor 1e4, .999": lambda: corridor(10_000, 0.999),
    "corridor 1e4, .99999": lambda: corridor(10_000, 0.99999),
    "corridor 1e4, .99999, 1% noise": lambda: corridor(10_000, 0.99999, 0.01),
    "grid 1e4, .99": lambda: grid_world(100, 100),
    "grid 1e5, .99": lambda: grid_world(316, 316),
    "queue 1e4, .99": lambda: queue(9_999),
    "queue 1e5, .999": lambda: queue(99_999, discount=0.999),
}
SMALL: dict[str, Any] = {
    "corridor": corridor(400, 0.999),
    "noisy corridor": corridor(400, 0.9999, 0.01),
    "grid": grid_world(20, 20, seed=3),
    "infeasible grid": grid_world(20, 20, seed=3, feasible=False),
    "queue": queue(400),
    "infeasible queue": queue(400, feasible=False),
    "garnet": garnet(300, constraints=2, seed=1),
}


def main(out: Path, wanted: list[str]) -> None:
    lines = out.read_text().splitlines() if wanted else []
    rows = {row["model"]: row for row in map(json.loads, lines)}
    for name in wanted or LARGE:
        model = LARGE[name]()
        other = renumbered(model, 0)
        results = [cmdpax.solve(model), cmdpax.solve(other)]
        calls = [
            lambda m=m: cmdpax.solve(m.replace(transitions=m.transitions.matrix))
            for m in (model, other)
        ]
        ordered, permuted = best_seconds(*calls, rounds=9)
        rows[name] = {"model": name, "seconds": ordered, "renumbered": permuted}
        rows[name] |= {"status": [result.status for result in results]}
        print(f"{name:32} {ordered:7.3f} s {permuted:7.3f} s {permuted / ordered:5.2f}", flush=True)
    for name, model in () if wanted else SMALL.items():
        numberings = [renumbered(model, seed) for seed in range(PERMUTATIONS)]
        verdicts = Counter(cmdpax.solve(one).status for one in [model, *numberings])
        rows[name] = {"model": name, "verdicts": dict(verdicts)}
        print(f"{name:32} {dict(verdicts)}", flush=True)
    out.write_text("".join(json.dumps(row) + "\n" for row in rows.values()))


if __name__ == "__main__":
    cmdpax.solve(garnet(300))  # compiles
    main(Path(sys.argv[1]), sys.argv[2:])
