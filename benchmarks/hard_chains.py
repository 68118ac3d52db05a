"""Which way of evaluating a policy survives chains that mix slowly or not at all?

    python benchmarks/hard_chains.py [--states 30000] [--discount 0.9999]

The chains of `tests/exact/test_systems.py`, their states numbered at random, without sparse LU:
values and occupancies, to a residual of 1e-9. Compared are the parts of `cmdpax.exact.systems`:
BiCGStab with incomplete LU as the states are numbered, the same in the order of the flow, and the
whole, which restarts and sweeps as long as it helps.
"""

import argparse
import sys
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/exact"))

from test_systems import HARD, hard_chain

from cmdpax.errors import NumericalError
from cmdpax.exact import systems
from cmdpax.exact.systems import System, fixed_point
from cmdpax.loops import compiled
from cmdpax.loops.rows import Matrix

compiled.PATIENCE = 0.0  # seconds are those of machine code


def as_numbered(system: System, right: np.ndarray, tolerance: float) -> np.ndarray:
    start, _ = fixed_point(system, right, tolerance, None)
    return system._krylov(system.full, system.factors, right, tolerance, start)


def in_flow_order(system: System, right: np.ndarray, tolerance: float) -> np.ndarray:
    """One round; without sweeps, none can help it."""
    start, _ = fixed_point(system, right, tolerance, None)
    return system._in_flow_order(right, tolerance, start, lambda: True)


WAYS = {  # how a system is solved, and with which constants of `systems`
    "as numbered, 500 steps": (as_numbered, {"KRYLOV_STEPS": 500}),
    "in the order of the flow, 500 steps": (in_flow_order, {"KRYLOV_STEPS": 500, "SWEEPS": 0}),
    "the whole": (System.solve, {}),
}


def attempt(way: str, system: System, right: np.ndarray) -> tuple[bool, float]:
    """Whether it is solved, and the CPU seconds."""
    function, constants = WAYS[way]
    tolerance, started = 1e-9 * system.size(right), time.process_time()
    with patch.multiple(systems, MAX_LU_STATES=0, **constants):
        try:
            solution = function(system, right, tolerance)
        except NumericalError:
            return False, time.process_time() - started
    seconds = time.process_time() - started
    return system.is_solved(solution, right, tolerance), seconds


def compare(way: str, states: int, discount: float) -> str:
    """One line: how many systems it solves, how fast, and which it does not."""
    rights = {"values": np.random.default_rng(1).random(states)}
    rights["occupancies"] = np.full(states, 1 / states)
    failures, times = [], []
    for chain in HARD:
        rows = Matrix.of(hard_chain(chain, states))
        for kind, right in rights.items():
            system = System(rows, discount, transpose=kind == "occupancies")
            is_solved, seconds = attempt(way, system, right)
            if is_solved:
                times.append(seconds)
            else:
                failures.append(f"{chain} ({kind})")
    span = f"{min(times):.2g} to {max(times):.2g} s" if times else "-"
    total = len(failures) + len(times)
    return f"solves {len(times)} of {total} systems in {span}; not: {', '.join(failures) or 'none'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--states", type=int, default=30_000)
    parser.add_argument("--discount", type=float, default=0.9999)
    options = parser.parse_args()
    small = System(Matrix.of(hard_chain("walk", 500)), 0.999)
    attempt("the whole", small, np.ones(500))  # compiles
    for way in WAYS:
        print(f"{way:36} {compare(way, options.states, options.discount)}", flush=True)


if __name__ == "__main__":
    main()
