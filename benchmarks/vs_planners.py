"""Planning alone, without constraints: ours beside `mdpsolver` and QuantEcon, from zero values.

    pip install mdpsolver quantecon
    python benchmarks/vs_planners.py [--records results/vs_lp/planners.jsonl]

Everybody gets the same model (Garnet, queue, grid; 1e4 and 1e5 states; discount .99), one thread,
and starts from zero values. Each of a peer's algorithms is run at a tolerance of 1e-6, the error of
its values is measured in every state against a plan exact to rounding, and ours is asked for an
error that is not larger than what was measured, and measured too. Times are CPU seconds of solving
alone, the median of three in turns; finding the order of states is part of ours, compilation of
nobody's. A peer's row is its fastest algorithm that is within 1e-4; who takes more than 120 s is
stopped, and counts as at least that.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.environments.families import instance
from cmdpax.exact.standard import StandardForm
from cmdpax.experiments.store import installed
from cmdpax.processes import ONE_THREAD

CASES = [(family, S) for S in (10_000, 100_000) for family in ("garnet", "queue", "grid")]
ALGORITHMS = {
    "mdpsolver": ("mpi", "mpi gs", "vi", "vi gs", "pi"),
    "quantecon": ("modified_policy_iteration", "policy_iteration", "value_iteration"),
}
TOLERANCE, WORST, LIMIT, REPEATS = 1e-6, 1e-4, 120.0, 3


def fresh(family: str, states: int) -> StandardForm:
    """The form without constraints; nothing is known of the order of its states."""
    model = instance(family, states)  # type: ignore[arg-type]
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
    parser.add_argument("--records", type=Path)
    parser.add_argument("--report-only", action="store_true")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        peer, algorithm, family, states = options.one
        print(json.dumps(run_one(peer, algorithm, family, int(states))))
        return
    rows = [json.loads(line) for line in options.records.open()] if options.report_only else sweep()
    if options.records and not options.report_only:
        options.records.parent.mkdir(parents=True, exist_ok=True)
        options.records.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(report(rows))


def sweep() -> list[dict[str, Any]]:
    rows, versions = [], installed(("cmdpax", "numpy", "numba", "mdpsolver", "quantecon"))
    for family, states in CASES:
        for peer, algorithms in ALGORITHMS.items():
            for algorithm in algorithms:
                row = {"family": family, "states": states, "peer": peer, "algorithm": algorithm}
                command = [sys.executable, __file__, "--one", peer, algorithm, family, str(states)]
                environment = {**os.environ, **ONE_THREAD}
                kind: dict[str, Any] = {"env": environment, "text": True, "capture_output": True}
                try:
                    done = subprocess.run(command, **kind, timeout=2 * LIMIT)
                    lines = done.stdout.strip().splitlines()
                    words = done.stderr.strip().splitlines()
                    own = (
                        json.loads(lines[-1]) if done.returncode == 0 else {"note": words[-1][:200]}
                    )
                except subprocess.TimeoutExpired:
                    own = {"note": f"not within {LIMIT:.0f} s"}
                rows.append({**row, **own, "versions": versions})
                print({**row, **own}, file=sys.stderr, flush=True)
    return rows


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
