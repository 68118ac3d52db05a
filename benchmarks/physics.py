"""What does training cost on top of MuJoCo itself, a bare loop of `mj_step`?

    python benchmarks/physics.py [--updates 60] [--task NAME ...] [--omnisafe-python PATH]
                                 [--record FILE]
    python benchmarks/physics.py --table                    the records, in Markdown

Every velocity task, spma-alm with its default settings, on one thread, in steps per CPU-second:

- bare: a loop of `mj_step`, with the very actions that the training takes, from the same starts;
- loop: our batches, which is physics, acting and bookkeeping;
- training: all of it, without starting; `whole` with it, as many updates as asked for.

The three take turns in one process, update by update, so that a noisy machine disturbs all alike;
the median update counts. `first` and `second start` are CPU-seconds before the first update is
done, more than an update takes: imports and compilation, with empty caches and with what the first
start left there. OmniSafe's PPOLag, whose interpreter lives elsewhere (`vs_omnisafe.py`), takes the
settings of that benchmark, one epoch of 20,000 steps; it compiles nothing, and its imports are not
counted. The table has the ratio of our training to it, without a start and with the first one,
which compiles everything, over as many updates as were timed; its minibatches are of 64, ours of
256. The next columns are steps of 20 simulations per second of the clock on one thread and on all
(`NUMBA_NUM_THREADS`). A task is a line of `results/physics/tasks.jsonl`, with settings and
versions; measured again, it takes the place of the line before.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from vs_omnisafe import EPOCH, omnisafe, omnisafe_versions, seconds_of

from cmdpax.experiments.store import versions
from cmdpax.files.reading import read_rows
from cmdpax.files.written import write_rows
from cmdpax.learning import training
from cmdpax.learning.velocity import TASKS, VelocitySimulator
from cmdpax.loops.compiled import shared_threads, thread_count

RECORDS = Path(__file__).parents[1] / "results" / "physics" / "tasks.jsonl"
BATCH = 2_000  # of the default settings
STEPS, COUNT = 25, 20  # of a turn and simulations, where threads are compared
COLUMNS = ("bare", "loop", "training", "share", "whole", "first start", "second start")
ALL = (*COLUMNS, "omnisafe", "one thread", "all threads")
RATIOS = ("training / omnisafe", "with the first start")
Side = Callable[[np.ndarray], None]  # takes actions [STEPS, COUNT, a]


def replay(bare: VelocitySimulator, batch: Any, seed: tuple[int, ...]) -> float:
    """CPU-seconds of `mj_step` for a batch that was collected from this seed; starts are free."""
    bare.reset(int(np.random.default_rng(seed).integers(2**31)))
    actions = bare.action_space.to_environment(batch.action).astype(np.float64)
    frames, spent, started = bare.task.frame_skip, 0.0, time.process_time()
    for action, ended in zip(actions, batch.ended.astype(bool)):
        for data, chosen in zip(bare.data, action):
            data.ctrl[:] = chosen
            mujoco.mj_step(bare.model, data, frames)
        if ended.any():
            spent += time.process_time() - started
            bare.restart(np.flatnonzero(ended))
            started = time.process_time()
    return spent + time.process_time() - started


def train(task: str, updates: int) -> None:
    """Train in this process; print CPU-seconds of bare, loop and training, update after update."""
    rows: list[list[float]] = []
    collect, bare = training.collect, VelocitySimulator(task, BATCH // 1_000)

    def collected(simulator: Any, policy: Any, limits: Any, steps: int, seed: Any) -> Any:
        started = time.process_time()
        batch, raw = collect(simulator, policy, limits, steps, seed)
        loop, started = time.process_time() - started, time.process_time()
        rows.append([replay(bare, batch, seed), loop, time.process_time() - started])
        return batch, raw

    training.collect, marks = collected, []
    with tempfile.TemporaryDirectory() as folder:
        training.train(
            task,
            folder=Path(folder) / "run",
            callback=lambda _: marks.append(time.process_time()),
            samples=updates * BATCH,
            batch=BATCH,
        )
    replays = np.array([row[2] for row in rows])
    whole = np.diff([0.0, *marks]) - replays
    print("SECONDS", json.dumps([[row[0], row[1], own] for row, own in zip(rows, whole)]))


def measure(task: str, updates: int) -> dict[str, float]:
    """The columns of one task; caches are empty at first."""
    with tempfile.TemporaryDirectory() as caches:
        os.environ.update(XDG_CACHE_HOME=caches, NUMBA_CACHE_DIR=caches)
        command = [sys.executable, __file__, "--train", task, "--updates"]
        first = np.array(seconds_of([*command, "50"]))
        seconds = np.array(seconds_of([*command, str(updates)]))
    usual = np.median(seconds[2:], axis=0)
    bare, loop, whole = BATCH / usual
    starts = [float(rows[:2, 2].sum() - 2 * usual[2]) for rows in (first, seconds)]
    every = updates * BATCH / seconds[:, 2].sum()
    return dict(zip(COLUMNS, map(float, (bare, loop, whole, whole / bare, every, *starts))))


def stepping(simulator: VelocitySimulator) -> Side:
    """The side that steps a simulator, in its initial state, with the compiled part loaded."""
    simulator.reset(0)
    simulator.step(np.zeros((simulator.count, simulator.model.nu)))
    simulator.reset(0)

    def side(actions: np.ndarray) -> None:
        for action in actions:
            simulator.step(action)

    return side


def clocked(name: str, seconds: float = 3.0) -> np.ndarray:
    """Our steps per second of the clock: on one thread, on all; they take turns."""
    alone, together = VelocitySimulator(name, COUNT), VelocitySimulator(name, COUNT)
    alone.shared, together.shared = None, shared_threads()
    sides, random = (stepping(alone), stepping(together)), np.random.default_rng(0)
    spent, turns = np.zeros(2), 0
    while spent.sum() < seconds:
        actions = random.uniform(-1, 1, (STEPS, COUNT, alone.model.nu))
        for index, side in enumerate(sides):
            started = time.perf_counter()
            side(actions)
            spent[index] += time.perf_counter() - started
        turns += 1
    return turns * STEPS * COUNT / spent


def cells(row: dict[str, Any]) -> list[str]:
    """A record as it is printed; what was not measured is a dash."""
    shown = {"share": "{:.0%}", "first start": "{:.1f}", "second start": "{:.1f}"}
    return [shown.get(name, "{:.0f}").format(row[name]) if name in row else "-" for name in ALL]


def ratios(row: dict[str, Any]) -> list[str]:
    """Our training over OmniSafe's, without a start and with the first one of a machine."""
    if "omnisafe" not in row:
        return ["-"] * len(RATIOS)
    steps = row["updates"] * row["batch"]
    started = steps / (steps / row["training"] + row["first start"])
    return [f"{own / row['omnisafe']:.1f}" for own in (row["training"], started)]


def keep(row: dict[str, Any], path: Path) -> None:
    """Write a record in the place of an older one of its task."""
    path.parent.mkdir(parents=True, exist_ok=True)
    others = [one for one in read_rows(path)[0] if one["task"] != row["task"]]
    write_rows(path, sorted([*others, row], key=lambda one: one["task"]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--updates", type=int, default=60, help="at least 50, of 2,000 steps each")
    parser.add_argument("--task", nargs="*", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--omnisafe-python", help="the interpreter of its virtual environment")
    parser.add_argument("--record", type=Path, default=RECORDS, help="JSON lines, one a task")
    parser.add_argument("--table", action="store_true", help="print the records, measure nothing")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        train(options.train, options.updates)
        return
    if options.table:
        print("|", " | ".join(("task", *ALL, *RATIOS)), "|")
        print("|---|" + "---:|" * len((*ALL, *RATIOS)))
        for row in read_rows(options.record)[0]:
            name = row["task"].removeprefix("Safety").removesuffix("Velocity-v1")
            print(f"| {name} |", " | ".join([*cells(row), *ratios(row)]), "|")
        return
    print(f"steps per CPU-second; starts in CPU-seconds; on {thread_count()} threads: clock")
    line = "{:30} {:>8} {:>8} {:>9} {:>6} {:>8} {:>12} {:>13} {:>9} {:>11} {:>12}".format
    print(line("task", *ALL))
    header = {"method": "spma-alm", "updates": options.updates, "batch": BATCH}
    header |= {"unit": "steps per CPU-second", "threads": thread_count(), "versions": versions()}
    for task in options.task:
        row: dict[str, Any] = {"task": task, **header, **measure(task, options.updates)}
        if options.omnisafe_python:
            row["omnisafe"] = EPOCH / omnisafe(options.omnisafe_python, "PPOLag", task, 1)
            row["omnisafe versions"] = omnisafe_versions(options.omnisafe_python)
        row["one thread"], row["all threads"] = map(float, clocked(task))
        print(line(task, *cells(row)), flush=True)
        keep(row, options.record)


if __name__ == "__main__":
    main()
