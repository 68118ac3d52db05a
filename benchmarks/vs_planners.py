"""Planning alone, without constraints: ours beside `mdpsolver` and QuantEcon, from zero values.

    pip install mdpsolver quantecon
    python benchmarks/vs_planners.py [--families garnet] [--sizes 10000]
    python benchmarks/vs_planners.py --report-only

Everybody gets the same model (Garnet, queue, grid; 1e4 and 1e5 states; discount .99), one thread,
and starts from zero values. Each of a peer's algorithms is run at a tolerance of 1e-6, the error of
its values is measured in every state against a plan exact to rounding, and ours is asked for an
error that is not larger than what was measured, and measured too. Times are CPU seconds of solving
alone, the median of three in turns; finding the order of states is part of ours, compilation of
nobody's. A peer's row is its fastest algorithm that is within 1e-4; who takes more than 30 CPU
seconds is stopped. Cells that are in the records are not run again.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.exact.standard import StandardForm
from cmdpax.experiments.store import installed
from cmdpax.loops import compiled
from cmdpax.processes import ONE_THREAD

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from instances import instance

compiled.PATIENCE = 0.0  # seconds are those of machine code

RECORDS = Path(__file__).parents[1] / "results" / "vs_lp" / "planners.jsonl"
FAMILIES, SIZES = ("garnet", "queue", "grid"), (10_000, 100_000)
CASES = [(family, S) for S in SIZES for family in FAMILIES]
KEY = "family", "states", "peer", "algorithm"
ALGORITHMS = {
    "mdpsolver": ("mpi", "mpi gs", "vi", "vi gs", "pi"),
    "quantecon": ("modified_policy_iteration", "policy_iteration", "value_iteration"),
}
NAMES = [name for own in ALGORITHMS.values() for name in own]
TOLERANCE, WORST, LIMIT, REPEATS = 1e-6, 1e-4, 30, 3
BUILDING = 10  # CPU seconds in which a peer takes a model over


def fresh(family: str, states: int) -> StandardForm:
    """The form without constraints; nothing is known of the order of its states."""
    model = instance(family, states)
    form = StandardForm.of(model)
    nothing = np.zeros((0, form.choices))
    return form.replace(constraints=nothing, thresholds=np.zeros(0))


def mdpsolver_run(form: StandardForm, algorithm: str) -> tuple[np.ndarray, float]:
    import mdpsolver

    rows, A = form.transitions, form.actions
    first, to = rows.first_entry.tolist(), rows.successors.tolist()
    chances = rows.probabilities.tolist()
    pointers = [
        [(first[s * A + a], first[s * A + a + 1]) for a in range(A)] for s in range(form.states)
    ]
    solver = mdpsolver.model()
    solver.mdp(
        discount=form.criterion.discount,
        rewards=form.reward.reshape(form.states, A).tolist(),
        tranMatProbs=[[chances[i:j] for i, j in own] for own in pointers],
        tranMatColumns=[[to[i:j] for i, j in own] for own in pointers],
    )
    name, _, update = algorithm.partition(" ")
    started = time.process_time()
    solver.solve(
        algorithm=name,
        update=update or "standard",
        tolerance=TOLERANCE,
        parallel=False,
        makeFinalCheck=False,  # without its post-processing values are off by a constant
    )
    seconds = time.process_time() - started
    return np.array(solver.getValueVector()), seconds


def quantecon_run(form: StandardForm, algorithm: str) -> tuple[np.ndarray, float]:
    from quantecon.markov import DiscreteDP

    rows = form.transitions
    states, actions = np.repeat(np.arange(form.states), form.actions), rows.action_of
    problem = DiscreteDP(form.reward, rows.matrix, form.criterion.discount, states, actions)
    zeros = np.zeros(form.states)
    kind = {"method": algorithm, "v_init": zeros, "epsilon": TOLERANCE, "max_iter": 100_000}
    problem.solve(**{**kind, "max_iter": 1})  # compiles
    started = time.process_time()
    values = problem.solve(**kind).v
    return np.asarray(values), time.process_time() - started


def run_one(peer: str, algorithm: str, family: str, states: int) -> dict[str, Any]:
    """A peer's time and error, and ours at an error that is not larger."""
    form = fresh(family, states)
    exact = form.criterion.plan(form, form.reward, tolerance=0.0).values
    own = {"mdpsolver": mdpsolver_run, "quantecon": quantecon_run}[peer]
    theirs, ours, errors = [], [], []
    for _ in range(REPEATS):
        most = int(time.process_time()) + BUILDING + LIMIT
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
        values, seconds = own(form, algorithm)
        theirs.append(seconds)
        error = float(np.abs(values - exact).max())
        rows = form.transitions
        arrays = rows.first_choice, rows.first_entry, rows.successors, rows.probabilities
        copy = type(rows)(*arrays, rows.actions, rows.labels, rows.missed)
        anew = form.replace(transitions=copy)
        started = time.process_time()
        best = anew.criterion.plan(anew, anew.reward, tolerance=error)
        ours.append(time.process_time() - started)
        errors.append(float(np.abs(best.values - exact).max()))
        if seconds > 10:
            break
    return {
        **{"seconds": float(np.median(theirs)), "error": error},
        **{"ours": float(np.median(ours)), "our_error": max(errors), "repeats": len(theirs)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--families", nargs="*", default=FAMILIES, choices=FAMILIES)
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES, choices=SIZES)
    parser.add_argument("--algorithms", nargs="*", default=NAMES, choices=NAMES)
    parser.add_argument("--report-only", action="store_true")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        peer, algorithm, family, states = options.one
        print(json.dumps(run_one(peer, algorithm, family, int(states))))
        return
    records: Path = options.records
    records.parent.mkdir(parents=True, exist_ok=True)
    rows = list(map(json.loads, records.open())) if records.exists() else []
    wanted = [case for case in CASES if case[0] in options.families and case[1] in options.sizes]
    for row in () if options.report_only else sweep(rows, wanted, options.algorithms):
        rows.append(row)
        with records.open("a") as out:
            out.write(json.dumps(row) + "\n")
    print(report(rows))


def sweep(
    rows: list[dict[str, Any]], wanted: list[tuple[str, int]], names: list[str]
) -> Iterator[dict[str, Any]]:
    """What is not among the rows yet, one after another."""
    versions = installed(("cmdpax", "numpy", "numba", "mdpsolver", "quantecon"))
    finished = {tuple(row[name] for name in KEY) for row in rows}
    pairs = [(peer, one) for peer, own in ALGORITHMS.items() for one in own if one in names]
    for (family, states), (peer, algorithm) in product(wanted, pairs):
        if (family, states, peer, algorithm) in finished:
            continue
        row = dict(zip(KEY, (family, states, peer, algorithm), strict=True))
        command = [sys.executable, __file__, "--one", peer, algorithm, family, str(states)]
        kind: dict[str, Any] = {"text": True, "capture_output": True}
        done = subprocess.run(command, env={**os.environ, **ONE_THREAD}, **kind)
        if done.returncode == 0:
            row |= json.loads(done.stdout.strip().splitlines()[-1])
        else:
            words = done.stderr.strip().splitlines()
            late = f"not within {LIMIT} s"
            row["note"] = late if done.returncode < 0 or not words else words[-1][:200]
        print(row, file=sys.stderr, flush=True)
        yield {**row, "versions": versions}


def report(rows: list[dict[str, Any]]) -> str:
    """Markdown: the fastest algorithm of every peer within the worst error."""
    lines = ["| model | peer | algorithm | its time, s | its error | ours, s | error | ratio |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for family, states in CASES:
        for peer in ALGORITHMS:
            own = [
                row
                for row in rows
                if (row["family"], row["states"], row["peer"]) == (family, states, peer)
            ]
            good = [row for row in own if row.get("error", np.inf) <= WORST]
            if not good:
                said = "; ".join(f"{row['algorithm']}: {row.get('note', 'off')}" for row in own)
                lines.append(f"| {family} {states:,} | {peer} | {said} | | | | | |")
                continue
            best = min(good, key=lambda row: row["seconds"])
            lines.append(
                f"| {family} {states:,} | {peer} | {best['algorithm']} | {best['seconds']:.3g}"
                f" | {best['error']:.1e} | {best['ours']:.3g} | {best['our_error']:.1e}"
                f" | {best['seconds'] / best['ours']:.2g} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
