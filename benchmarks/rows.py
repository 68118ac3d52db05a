"""Models that are functions: memory and time of a backup, a solve and a check, by size.

    python benchmarks/rows.py pricing 1e5 1e6 1e7      one limit; prices of a season's stock
    python benchmarks/rows.py garnet 1e5 1e6           random rows, made anew by hashing each time
    python benchmarks/rows.py pricing 1e8 --free       no limit

Every size has a process of its own, whose peak memory is printed; `--records FILE` keeps a line of
JSON for each.
"""

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from numba import njit

import cmdpax
from cmdpax.exact.standard import form_of
from cmdpax.loops import compiled

compiled.PATIENCE = 0.0  # seconds are those of machine code

PRICES, SOLD = np.array([1.0, 0.8, 0.6, 0.4]), np.array([0.2, 0.35, 0.5, 0.7])
DAYS_PER_UNIT = 4  # of a season, for each unit of stock at its beginning


def pricing(states: int, free: bool) -> cmdpax.CMDP:
    """A season: state (day, stock), action a price; a unit is sold with the price's probability.

    `revenue` is maximised, discounted by .999 a day; limit: so many units sold at the least.
    """
    stock = round((states / DAYS_PER_UNIT) ** 0.5)
    days, width = DAYS_PER_UNIT * stock, stock + 1

    @njit(nogil=True)
    def rows(first, last):
        n, A = last - first, len(PRICES)
        successors, chances = np.empty((n, A, 2), np.int32), np.empty((n, A, 2))
        reward, sold = np.empty((n, A)), np.empty((1, n, A))
        for i in range(n):
            day, left = divmod(first + i, width)
            tomorrow = (day + 1) * width
            for a in range(A):
                chance = SOLD[a] if left > 0 and day < days else 0.0
                successors[i, a, 0] = tomorrow + left - 1 if chance > 0 else first + i
                successors[i, a, 1] = tomorrow + left if day < days else first + i
                chances[i, a, 0], chances[i, a, 1] = chance, 1.0 - chance
                reward[i, a], sold[0, i, a] = PRICES[a] * chance, chance
        return successors, chances, reward, sold if not free else sold[:0]

    soonest = SOLD.max() * (1 - 0.999 ** (stock / SOLD.max())) / (1 - 0.999)  # all at the lowest
    limits = {} if free else {"thresholds": [0.98 * soonest], "constraint_names": ["units sold"]}
    size = (days + 1) * width
    return cmdpax.CMDP.from_rows(rows, states=size, initial=stock, discount=0.999, **limits)


def garnet(states: int, free: bool) -> cmdpax.CMDP:
    """Five random successors with random probabilities for each of four actions, all hashed."""

    @njit(nogil=True)
    def number(key):  # splitmix64, as a number in [0, 1)
        key = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
        key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.float64((key ^ (key >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53

    @njit(nogil=True)
    def rows(first, last):
        n, A, B = last - first, 4, 5
        successors, chances = np.empty((n, A, B), np.int32), np.empty((n, A, B))
        reward, cost = np.empty((n, A)), np.empty((1, n, A))
        for i in range(n):
            for a in range(A):
                key = ((first + i) * A + a) * 16 + 1
                total = 0.0
                for b in range(B):
                    successors[i, a, b] = int(number(key + b) * states)
                    chances[i, a, b] = number(key + B + b) + 1e-3
                    total += chances[i, a, b]
                for b in range(B):
                    chances[i, a, b] /= total
                reward[i, a], cost[0, i, a] = number(key + 10), number(key + 11)
        return successors, chances, reward, cost if not free else cost[:0]

    limits = {} if free else {"thresholds": [60.0], "senses": ">="}
    return cmdpax.CMDP.from_rows(rows, states=states, initial=0, discount=0.99, **limits)


def run(family: str, states: int, free: bool) -> dict:
    """Build, back up once, solve and check; CPU seconds of each, and the process's peak."""
    build = {"pricing": pricing, "garnet": garnet}[family]
    model = build(1000, free)
    cmdpax.check(model, cmdpax.solve(model))  # compiles
    base, times = peak(), {}
    model = timed(times, "build", lambda: build(states, free))
    form = form_of(model)
    kind = {"values": np.zeros(model.states), "stop": lambda: True}
    timed(times, "backup", lambda: form.criterion.plan(form, form.reward, **kind))
    kind.clear()
    result = timed(times, "solve", lambda: cmdpax.solve(model))
    solved = peak()
    verified = timed(times, "check", lambda: cmdpax.check(model, result))
    row = {"family": family, "states": model.states, "constraints": model.constraint_count}
    row |= {"status": result.status, "reward": result.reward, "checked": str(verified)}
    row |= {"gap": result.scaled_gap, "violation": result.scaled_violation, "seconds": times}
    row |= {"plans": len(result.trace), "base_gb": base, "solve_gb": solved, "check_gb": peak()}
    return {**row, "machine": f"{platform.machine()}, Python {platform.python_version()}"}


def timed(times: dict, name: str, call):
    started = time.process_time()
    answer = call()
    times[name] = round(time.process_time() - started, 3)
    return answer


def peak() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("family", choices=("pricing", "garnet"))
    parser.add_argument("states", nargs="+", type=float)
    parser.add_argument("--free", action="store_true", help="no limit")
    parser.add_argument("--records", type=Path)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run(options.family, int(options.states[0]), options.free)))
        sys.exit()
    for size in options.states:
        command = [sys.executable, __file__, options.family, str(size), "--one"]
        line = subprocess.check_output(command + ["--free"] * options.free, text=True)
        line = line.strip().splitlines()[-1]
        print(line, flush=True)
        if options.records:
            options.records.parent.mkdir(parents=True, exist_ok=True)
            with options.records.open("a") as out:
                out.write(line + "\n")
