"""Which way of evaluating a policy survives chains that mix slowly or not at all? `python
benchmarks/hard_chains.py`

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
from cmdpax.exact import systems as linear
from cmdpax.exact.systems import System, fixed_point
from cmdpax.loops.systems import Rows

KRYLOV_STEPS = 500


def as_numbered(system, right, tolerance):
    start, _ = fixed_point(system, right, tolerance, None)
    return system._krylov(system.full, system.factors, right, tolerance, start)


def in_flow_order(system, right, tolerance):
    start, _ = fixed_point(system, right, tolerance, None)
    return system._in_flow_order(
        right, tolerance, start, lambda: True
    )  # one round, and no sweep can help it


def whole(system, right, tolerance):
    return system.solve(right, tolerance)


WAYS = {
    "as numbered, 500 steps": (as_numbered, {"KRYLOV_STEPS": KRYLOV_STEPS}),
    "in the order of the flow, 500 steps": (
        in_flow_order,
        {"KRYLOV_STEPS": KRYLOV_STEPS, "SWEEPS": 0},
    ),
    "the whole": (whole, {}),
}


def attempt(way, settings, system, right):
    """Whether it is solved, and the CPU seconds."""
    tolerance, started = 1e-9 * system.size(right), time.process_time()
    with patch.multiple(linear, MAX_LU_STATES=0, **settings):
        try:
            solved = system.is_solved(way(system, right, tolerance), right, tolerance)
        except NumericalError:
            solved = False
    return solved, time.process_time() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--states", type=int, default=30_000)
    parser.add_argument("--discount", type=float, default=0.9999)
    chosen = parser.parse_args()
    kinds = {"values": False, "occupancies": True}
    attempt(whole, {}, System(Rows.of(hard_chain("walk", 500)), 0.999), np.ones(500))  # compiles
    for name, (way, settings) in WAYS.items():
        failed, seconds = [], []
        for chain in HARD:
            rows = Rows.of(hard_chain(chain, chosen.states))
            for kind, transpose in kinds.items():
                right = (
                    np.full(chosen.states, 1 / chosen.states)
                    if transpose
                    else np.random.default_rng(1).random(chosen.states)
                )
                solved, spent = attempt(
                    way, settings, System(rows, chosen.discount, transpose), right
                )
                seconds += [spent] if solved else []
                failed += [] if solved else [f"{chain} ({kind})"]
        total = len(HARD) * len(kinds)
        times = f"{min(seconds):.2g} to {max(seconds):.2g} s" if seconds else "-"
        print(
            f"{name:38} solves {total - len(failed)} of {total} systems in {times}; not:"
            f" {', '.join(failed) or 'none'}"
        )


if __name__ == "__main__":
    main()
