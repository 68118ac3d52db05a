"""What a tolerance by range costs: large models certified at 1e-6, of what policies can change.

    python benchmarks/tolerance.py                    (all, some minutes)
    python benchmarks/tolerance.py queue-1e4 season   (some)

Each model is built and solved in a process of its own: CPU seconds of the ranges alone and of the
whole `solve` (one thread; compiled code is loaded before), the plans of the method, the certified
gap as a share of the reward and of its range, the price with its interval, and the memory of the
process at its peak. `season` is a seasonal inventory with a finite horizon: 10,000 stock levels, 52
weeks whose demand differs, 8 order sizes, 11 outcomes, a service level and a range for the stock.
`average-1e5` is the queue on average, with energy .25 a step; `path-1e5` a way through a town of
316 x 316 crossings in any direction; one step in ten slips sideways or stays; risk has a budget.
"""

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable

import numpy as np

import cmdpax
from cmdpax import environments
from cmdpax.exact.ranges import attained_ranges
from cmdpax.exact.standard import StandardForm
from cmdpax.loops import compiled

compiled.PATIENCE = 0.0  # seconds are those of machine code

EPS = 1e-6


def season(
    levels: int = 10_000, weeks: int = 52, orders: int = 8, outcomes: int = 11
) -> cmdpax.CMDP:
    """Stock that is ordered and sold through a year; numbers are shares of the store."""
    sizes = np.linspace(0, levels // 5, orders).astype(int)
    stock = np.arange(levels)[:, None]
    held = np.minimum(stock + sizes, levels - 1)
    spread = np.linspace(-2, 2, outcomes)
    chances = np.exp(-(spread**2) / 2)
    chances /= chances.sum()
    stages, rewards, rows = [], [], []
    for week in range(weeks):
        mean = levels / 10 * (1 + 0.5 * np.sin(2 * np.pi * week / weeks))
        demand = np.round(mean * (1 + 0.4 * spread)).astype(int)
        left = np.maximum(held[..., None] - demand, 0).astype(np.int32)
        stages.append((left, np.broadcast_to(chances, left.shape)))
        ordered = (held - stock) / levels
        rewards.append(100 * ordered + held / levels + 5 * (sizes > 0) / levels)
        rows.append([(held - left @ chances) / levels, held / levels])
    return cmdpax.CMDP(
        stages,
        rewards,
        np.swapaxes(rows, 0, 1),
        [0.085 * weeks, (0.1 * weeks, 0.4 * weeks)],
        levels // 2,
        senses=[">=", "in"],
        minimise=True,
        horizon=weeks,
        constraint_names=["sold", "held"],
    )


def path(side: int = 316) -> cmdpax.CMDP:
    """Minutes from one corner to the other: total reward, and policies that never end."""
    rng, S = np.random.default_rng(0), side * side
    y, x = np.divmod(np.arange(S), side)
    ways = [(0, 1), (1, 0), (0, -1), (-1, 0)]
    to = np.stack(
        [np.clip(y + dy, 0, side - 1) * side + np.clip(x + dx, 0, side - 1) for dy, dx in ways], 1
    )
    here = np.broadcast_to(np.arange(S)[:, None], (S, 4))
    successors = np.stack([to, np.roll(to, -1, 1), np.roll(to, 1, 1), here], -1).astype(np.int32)
    chances = np.broadcast_to([0.9, 0.03, 0.03, 0.04], successors.shape).copy()
    successors[-1], chances[-1] = S - 1, [1.0, 0.0, 0.0, 0.0]
    minutes, risk = rng.uniform(1, 2, (S, 4)), rng.uniform(0, 1, S)[:, None] ** 3
    minutes[-1], risk[-1] = 0.0, 0.0
    return cmdpax.CMDP(
        (successors, chances),
        minutes,
        [np.broadcast_to(risk, (S, 4))],
        [0.12 * 2 * side],
        0,
        1.0,
        goal=S - 1,
        senses=["<="],
        minimise=True,
    )


MODELS: dict[str, Callable[[], cmdpax.CMDP]] = {
    "queue-1e4": lambda: environments.queue(capacity=9_999),
    "queue-1e5": lambda: environments.queue(capacity=99_999),
    "queue-1e6": lambda: environments.queue(capacity=999_999),
    "grid-100": lambda: environments.grid_world(width=100, height=100),
    "grid-300": lambda: environments.grid_world(width=300, height=300),
    "garnet-1e5": lambda: environments.garnet(states=100_000),
    "season": season,
    "average-1e5": lambda: environments.queue(99_999).replace(
        criterion="average", thresholds=[0.25]
    ),
    "path-1e5": path,
}


def measured(name: str) -> str:
    """One row of the table."""
    cmdpax.solve(environments.queue(capacity=500))  # loads what is compiled
    cmdpax.solve(environments.garnet(states=500))
    cmdpax.solve(season(300, 3, 2, 3))
    model = MODELS[name]()
    started = time.process_time()
    attained_ranges(StandardForm.of(model))
    ranges = time.process_time() - started
    started = time.process_time()
    result = cmdpax.solve(model, eps=EPS)
    seconds = time.process_time() - started
    cmdpax.check(model, result)
    gap, (low, high) = result.certificate.gap, result.certificate.ranges[0]
    price, (least, most) = result.multipliers[0], result.price_bounds[0]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    plans = result.trace[-1]["evaluations"]
    shares = f"{gap / abs(result.reward):.0e} | {gap / (high - low):.0e}"
    prices = f"{price:.4g} ({least:.4g} to {most:.4g})"
    times = f"{ranges:.2f} | {plans} | {seconds:.2f}"
    return f"| {name} | {result.status} | {times} | {shares} | {prices} | {memory:.1f} |"


def main() -> None:
    head = "model | status | ranges, s | plans | solve, s | gap / reward | gap / range | price"
    print(f"| {head} | GB |\n|---|---|---|---|---|---|---|---|---|")
    for name in sys.argv[1:] or MODELS:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.apply(measured, (name,)), flush=True)


if __name__ == "__main__":
    main()
