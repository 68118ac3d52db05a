"""Transitions per second of every kernel, against this machine's streaming bandwidth (STREAM
triad).

    python benchmarks/kernels.py [--states 1000000] [--repeats 5]

A transition costs 12 bytes of streaming (an int32 successor, a float64 probability) and one gather
from a vector of values. "Of bandwidth" is what those 12 bytes alone amount to: 100% would mean that
gathers are free.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

from cmdpax.environments import garnet
from cmdpax.loops import bellman, systems
from cmdpax.solvers.policy_classes import from_actions

BYTES = 12


def seconds(function: Callable[[], object], repeats: int) -> float:
    function()  # compiles, and touches the memory
    best = np.inf
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - started)
    return best


def triad(repeats: int, entries: int = 20_000_000) -> float:
    """Bytes per second of `a = b + 3 c` on arrays far larger than any cache."""
    b, c, a = np.ones(entries), np.ones(entries), np.empty(entries)

    def once() -> None:
        np.multiply(c, 3.0, out=a)
        np.add(a, b, out=a)

    return 5 * 8 * entries / seconds(once, repeats)  # two passes: 2 + 3 streams


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--states", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    bandwidth = triad(options.repeats)
    print(f"streaming bandwidth {bandwidth / 1e9:.1f} GB/s")
    model = garnet(states=options.states, actions=4, branching=5)
    arrays, discount = (model.successors, model.probabilities), model.discount
    values = np.random.default_rng(0).random(model.states)
    actions, _ = bellman.backup(*arrays, model.reward, values, discount)
    chosen_rows = bellman.policy_rows(*arrays, actions)
    matrix = chosen_rows.matrix
    transposed = matrix.T
    every, chosen = model.successors.size, matrix.nnz
    mixed = 0.5 * from_actions(actions, 4) + 0.5 * from_actions((actions + 1) % 4, 4)
    right = np.ones(model.states)
    rows: list[tuple[str, int, Callable[[], object]]] = [
        (
            "backup and greedy action",
            every,
            lambda: bellman.backup(*arrays, model.reward, values, discount),
        ),
        (
            "Gauss-Seidel sweep",
            every,
            lambda: bellman.sweep(*arrays, model.reward, values, discount, True),
        ),
        ("expected next values", every, lambda: bellman.expected(*arrays, values)),
        ("policy rows, deterministic", chosen, lambda: bellman.policy_rows(*arrays, actions)),
        ("policy rows, two actions mixed", 2 * chosen, lambda: bellman.policy_rows(*arrays, mixed)),
        (
            "fixed-point step with residual",
            chosen,
            lambda: systems.relax(chosen_rows, right, discount, values, 1, 0.0, False),
        ),
        (
            "the same, transposed",
            chosen,
            lambda: systems.relax(chosen_rows, right, discount, values, 1, 0.0, True),
        ),
        ("SciPy product alone", chosen, lambda: matrix @ values),
        ("SciPy transposed product alone", chosen, lambda: transposed @ values),
    ]
    print(f"{'kernel':<32}{'ms':>9}{'M transitions/s':>18}{'of bandwidth':>14}")
    for name, transitions, function in rows:
        taken = seconds(function, options.repeats)
        rate = transitions / taken
        print(f"{name:<32}{taken * 1e3:>9.1f}{rate / 1e6:>18.0f}{BYTES * rate / bandwidth:>14.0%}")


if __name__ == "__main__":
    main()
