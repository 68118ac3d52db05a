"""What do our velocity tasks cost on top of MuJoCo itself, a bare loop of `mj_step`?

    python benchmarks/physics.py [--seconds 3] [--count 20]

Steps per CPU-second on one thread: both sides step the same states with the same actions, taking
turns, so that a noisy machine disturbs both alike. The last columns are our steps per second of the
clock on one thread and on all (`NUMBA_NUM_THREADS`).
"""

import argparse
import time
from collections.abc import Callable

import mujoco
import numpy as np

from cmdpax.learning.velocity import TASKS, VelocitySimulator
from cmdpax.loops.compiled import shared_threads, thread_count

STEPS = 25  # of every simulation in one turn
Side = Callable[[np.ndarray], None]  # takes actions [STEPS, count, a]


def rates(
    sides: tuple[Side, Side],
    shape: tuple[int, ...],
    seconds: float,
    clock: Callable[[], float],
    before: Callable[[], None] = lambda: None,
) -> np.ndarray:
    """Steps per second of two sides that take turns; `before` is called ahead of every turn."""
    random, spent, turns = np.random.default_rng(0), np.zeros(2), 0
    while spent.sum() < seconds:
        actions = random.uniform(-1, 1, shape)
        before()
        for index, side in enumerate(sides):
            started = clock()
            side(actions)
            spent[index] += clock() - started
        turns += 1
    return turns * shape[0] * shape[1] / spent


def stepping(simulator: VelocitySimulator) -> Side:
    """The side that steps a simulator, in its initial state, with the compiled part loaded."""
    simulator.reset(0)
    simulator.step(np.zeros((simulator.count, simulator.model.nu)))
    simulator.reset(0)

    def side(actions: np.ndarray) -> None:
        for action in actions:
            simulator.step(action)

    return side


def compare(name: str, count: int, seconds: float) -> np.ndarray:
    """Steps per CPU-second on one thread: bare loop, ours."""
    ours, bare = VelocitySimulator(name, count), VelocitySimulator(name, count)
    ours.shared, frames = None, ours.task.frame_skip

    def bare_side(actions: np.ndarray) -> None:
        for action in actions:
            for data, chosen in zip(bare.data, action):
                data.ctrl[:] = chosen
                mujoco.mj_step(bare.model, data, frames)

    def same_states() -> None:  # whatever ended on our side
        for own, other in zip(ours.data, bare.data):
            other.qpos[:], other.qvel[:] = own.qpos, own.qvel

    bare.reset(0)
    shape = (STEPS, count, ours.model.nu)
    return rates((bare_side, stepping(ours)), shape, seconds, time.process_time, same_states)


def clocked(name: str, count: int, seconds: float) -> np.ndarray:
    """Our steps per second of the clock: on one thread, on all."""
    alone, together = VelocitySimulator(name, count), VelocitySimulator(name, count)
    alone.shared, together.shared = None, shared_threads()
    sides = stepping(alone), stepping(together)
    return rates(sides, (STEPS, count, alone.model.nu), seconds, time.perf_counter)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="for each of two comparisons")
    parser.add_argument("--count", type=int, default=20, help="simulations that step together")
    options = parser.parse_args()
    print(f"{options.count} simulations, steps per CPU-second; on {thread_count()} threads: clock")
    row = "{:30} {:>12} {:>10} {:>9} {:>12} {:>10}".format
    print(row("task", "bare mj_step", "ours", "overhead", "one thread", "all"))
    for task in TASKS:
        bare, ours = compare(task, options.count, options.seconds)
        alone, together = clocked(task, options.count, options.seconds)
        own = f"{ours:.0f}", f"{bare / ours - 1:.1%}", f"{alone:.0f}", f"{together:.0f}"
        print(row(task, f"{bare:.0f}", *own), flush=True)


if __name__ == "__main__":
    main()
