"""How much our velocity tasks cost on top of MuJoCo itself: batched steps against a bare `mj_step`
loop, per CPU-second.

    python benchmarks/physics.py [--seconds 3] [--count 20]

Both sides step the same states with the same actions, taking turns, so that a noisy machine
disturbs both alike. The last columns are our steps per second of the clock on one thread and on all
(`NUMBA_NUM_THREADS`).
"""

import argparse
import time

import mujoco
import numpy as np

from cmdpax.learning.velocity import TASKS, VelocitySimulator
from cmdpax.loops.compiled import shared_threads, thread_count


def compare(name: str, count: int, seconds: float) -> tuple[float, float]:
    """Steps per CPU-second on one thread: (bare loop, ours)."""
    ours, bare = VelocitySimulator(name, count), VelocitySimulator(name, count)
    ours.shared = None
    (
        ours.reset(0),
        ours.step(np.zeros((count, ours.model.nu))),
    )  # loads the compiled part, once a process
    ours.reset(0), bare.reset(0)
    random, spent, steps = np.random.default_rng(0), np.zeros(2), 0
    frames = ours.task.frame_skip
    while spent.sum() < seconds:
        actions = random.uniform(-1, 1, (25, count, ours.model.nu))
        for ours_data, bare_data in zip(
            ours.data, bare.data
        ):  # the same states, whatever ended on our side
            bare_data.qpos[:], bare_data.qvel[:] = ours_data.qpos, ours_data.qvel
        started = time.process_time()
        for action in actions:
            for data, chosen in zip(bare.data, action):
                data.ctrl[:] = chosen
                mujoco.mj_step(bare.model, data, frames)
        between = time.process_time()
        for action in actions:
            ours.step(action)
        spent += between - started, time.process_time() - between
        steps += actions.shape[0] * count
    return steps / spent[0], steps / spent[1]


def clocked(name: str, count: int, seconds: float) -> tuple[float, float]:
    """Our steps per second of the clock: (on one thread, on all), taking turns."""
    sides = [VelocitySimulator(name, count), VelocitySimulator(name, count)]
    sides[0].shared, sides[1].shared = None, shared_threads()
    spent, steps, random = np.zeros(2), 0, np.random.default_rng(0)
    for side in sides:
        side.reset(0)
    while spent.sum() < seconds:
        actions = random.uniform(-1, 1, (25, count, sides[0].model.nu))
        for index, side in enumerate(sides):
            started = time.perf_counter()
            for action in actions:
                side.step(action)
            spent[index] += time.perf_counter() - started
        steps += actions.shape[0] * count
    return steps / spent[0], steps / spent[1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--count", type=int, default=20)
    options = parser.parse_args()
    print(
        f"{options.count} simulations; steps per CPU-second on one thread, steps per second of the"
        f" clock on {thread_count()}"
    )
    print(
        f"{'task':30} {'bare mj_step':>14} {'ours':>10}   overhead   {'one thread':>10} {'all':>10}"
    )
    for task in TASKS:
        bare_rate, our_rate = compare(task, options.count, options.seconds)
        alone, together = clocked(task, options.count, options.seconds)
        print(
            f"{task:30} {bare_rate:14.0f} {our_rate:10.0f}   {bare_rate / our_rate - 1:7.1%}  "
            f" {alone:10.0f} {together:10.0f}"
        )
