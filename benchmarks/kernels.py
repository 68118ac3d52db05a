"""How near are the compiled loops to this machine's streaming bandwidth (STREAM triad)?

    python benchmarks/kernels.py [--states 1000000] [--repeats 5]

A transition costs 12 bytes of streaming (an int32 successor, a float64 probability) and one gather
from a vector of values. "Of bandwidth" is what those 12 bytes alone amount to: 100% would mean that
gathers are free. Seconds are the clock's, on as many threads as numba has (`NUMBA_NUM_THREADS`).
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from timing import best_seconds

from cmdpax.environments import garnet
from cmdpax.loops import bellman, compiled, systems

compiled.PATIENCE = 0.0  # seconds are those of machine code

BYTES = 12
TRIAD_ENTRIES = 20_000_000  # far more than fit into any cache
Kernel = tuple[str, int, Callable[[], object]]  # its name, transitions of a call, the call


def seconds(call: Callable[[], object], repeats: int) -> float:
    call()  # compiles, and touches the memory
    return best_seconds(call, rounds=repeats, clock=time.perf_counter)[0]


def triad(repeats: int) -> float:
    """Bytes per second of `a = b + 3 c`."""
    b, c, a = np.ones(TRIAD_ENTRIES), np.ones(TRIAD_ENTRIES), np.empty(TRIAD_ENTRIES)

    def once() -> None:
        np.multiply(c, 3.0, out=a)
        np.add(a, b, out=a)

    return 5 * 8 * TRIAD_ENTRIES / seconds(once, repeats)  # two passes: 2 + 3 streams


def kernels(states: int) -> list[Kernel]:
    model = garnet(states=states, actions=4, branching=5)
    chain = model.transitions
    reward, discount, right = model.reward, model.discount, np.ones(states)
    values = np.random.default_rng(0).random(states)
    actions, _ = bellman.backup(chain, reward, values, discount)
    others = chain.first_choice[:-1] + (actions + 1) % 4
    mixed = (chain.deterministic(actions) + chain.deterministic(others)) / 2
    rows = bellman.policy_rows(chain, actions)
    matrix, transposed = rows.matrix, rows.matrix.T
    step = partial(systems.relax, rows, right, discount, values, 1, 0.0)
    every, chosen = len(chain.successors), matrix.nnz
    return [
        (
            "backup and greedy action",
            every,
            lambda: bellman.backup(chain, reward, values, discount),
        ),
        (
            "Gauss-Seidel sweep",
            every,
            lambda: bellman.sweep(chain, reward, values, discount, True),
        ),
        ("expected next values", every, lambda: bellman.expected(chain, values)),
        ("policy rows, deterministic", chosen, lambda: bellman.policy_rows(chain, actions)),
        ("policy rows, two actions mixed", 2 * chosen, lambda: bellman.policy_rows(chain, mixed)),
        ("fixed-point step with residual", chosen, lambda: step(False)),
        ("the same, transposed", chosen, lambda: step(True)),
        ("SciPy product alone", chosen, lambda: matrix @ values),
        ("SciPy transposed product alone", chosen, lambda: transposed @ values),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--states", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    bandwidth = triad(options.repeats)
    print(f"streaming bandwidth {bandwidth / 1e9:.1f} GB/s")
    print(f"{'kernel':<32}{'ms':>9}{'M transitions/s':>18}{'of bandwidth':>14}")
    for name, transitions, call in kernels(options.states):
        taken = seconds(call, options.repeats)
        rate = transitions / taken
        print(f"{name:<32}{taken * 1e3:>9.1f}{rate / 1e6:>18.0f}{BYTES * rate / bandwidth:>14.0%}")


if __name__ == "__main__":
    main()
