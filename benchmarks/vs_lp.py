"""cmdpax against linear-programming solvers and Storm, on the same models, one core each, in one
process tree.

    python benchmarks/vs_lp.py --quick             less than five minutes, peers get 10 s
    python benchmarks/vs_lp.py --set targets       the instances of docs/benchmarks.md, peers get
    600 s python benchmarks/vs_lp.py --set full          every family, size, discount and number of
    constraints (days; resumable)

Every run is a process of its own (its peak memory is its own); finished runs are in a JSONL file
and are not repeated. A run counts as solved when its policy, re-evaluated by us, is within eps of
optimal and feasible (peers: ten times that); one that did not finish is shown as such, never as a
ratio against its limit. Times are CPU seconds of the one thread that everybody gets (the median of
five where they are below one): other work on the machine does not count (limits are on the clock).
A peer that failed is not tried on other instances of the same family, discount and number of
constraints that are as large or larger.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

for variable in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402  (threads are set first)
from peers import PEERS, Value  # noqa: E402
from vs_lp_report import EPS, INSTANCE, US, draw, failed_before, key_of, table  # noqa: E402

import cmdpax  # noqa: E402
from cmdpax.environments.families import instance  # noqa: E402
from cmdpax.exact.certificate import certify  # noqa: E402
from cmdpax.exact.discounted import pseudo_reward  # noqa: E402
from cmdpax.exact.planning import plan  # noqa: E402
from cmdpax.experiments.store import installed  # noqa: E402
from cmdpax.solvers.certified import normalise  # noqa: E402

HERE = Path(__file__).parent
MEMORY = 10 * 2**30  # bytes that a run may allocate; a peer that needs more does not finish
SHORT, REPEATS = (
    1.0,
    5,
)  # what takes less than this many CPU seconds is timed this often, and the median counts
PACKAGES = (
    "cmdpax",
    "numpy",
    "scipy",
    "numba",
    "highspy",
    "highspy-extras",
    "ortools",
    "clarabel",
    "stormpy",
)


# ---- instances
# ------------------------------------------------------------------------------------------------------
def instances(name: str) -> list[dict]:
    """The instances of a set: those of the table first, then the spread, then what is too large for
    most peers.
    """
    if name == "quick":
        rows = [("garnet", S, 0.99, 1, 0, EPS) for S in (100, 1000)]
        rows += [
            ("queue", 1000, 0.99, 1, 0, EPS),
            ("queue", 10_000, 0.99, 1, 0, EPS),
            ("grid", 1000, 0.99, 1, 0, EPS),
        ]
        rows += [("inventory", 1000, 0.99, 1, 0, EPS)]
    elif name == "targets":
        families = ("garnet", "queue", "grid", "inventory")
        rows = [("garnet", S, 0.99, 1, seed, EPS) for S in (100, 1000, 3000) for seed in range(3)]
        rows += [(family, S, 0.99, 1, 0, EPS) for family in families for S in (100, 1000, 10_000)]
        rows += list(
            product(("garnet",), (1000,), (0.9, 0.99, 0.999), (1, 3, 10), range(3), (EPS,))
        )
        rows += list(product(families[1:], (1000,), (0.9, 0.99, 0.999), (1, 3, 10), (0,), (EPS,)))
        rows += [(family, S, 0.99, 1, 0, EPS) for S in (100_000, 1_000_000) for family in families]
        rows += [("garnet", 1_000_000, 0.99, 1, 0, 1e-3)]
    else:
        sizes = (100, 1000, 10_000, 100_000, 1_000_000)
        families = ("garnet", "grid", "queue", "inventory")
        everything = product(families, sizes, (0.9, 0.99, 0.999), (1, 3, 10), range(3), (EPS,))
        rows = sorted(everything, key=lambda row: row[1])
    return [dict(zip(INSTANCE, row, strict=True)) for row in dict.fromkeys(rows)]


# ---- one run, in a process of its own
# -------------------------------------------------------------------------------
def run_one(task: dict) -> dict:
    """Solve one instance with one solver; times exclude building the model and importing the
    solver.
    """
    solver, limit = task["solver"], task["limit"]
    small = cmdpax.environments.garnet(states=300, constraints=1, seed=99)
    _solve(solver, small, limit, task["eps"])  # imports, caches
    model = instance(**{key: task[key] for key in INSTANCE[:-1]})
    if solver != US:
        model.reachable, model.matrix  # noqa: B018  (no part of a peer's time)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times: list[tuple[float, float]] = []
    while not times or (times[0][1] < SHORT and len(times) < REPEATS):
        started, used = time.perf_counter(), _cpu_seconds()
        answer = _solve(solver, model, limit, task["eps"])
        taken = answer.seconds if isinstance(answer, Value) else _cpu_seconds() - used
        times.append((time.perf_counter() - started, taken))
    wall, seconds = np.median(times, axis=0).tolist()
    after = max(
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    outcome = {
        "seconds": seconds,
        "wall": wall,
        "peak_mb": after / 1024,
        "extra_mb": (after - before) / 1024,
    }
    if isinstance(answer, Value):
        certificate = cmdpax.solve(normalise(model), EPS).certificate
        error = max(
            certificate.reward_bounds[0] - answer.value, answer.value - certificate.dual_bound, 0.0
        )
        return {**outcome, "error": error, "solved": error <= 10 * EPS}
    policy, weights = answer
    if weights is None:
        return {**outcome, **_quality(model, policy)}
    certificate = certify(
        model, policy, weights, plan(model, pseudo_reward(model, weights)).actions
    )
    gap, violation = certificate.scaled(model)
    return {
        **outcome,
        "gap": gap,
        "violation": violation,
        "solved": max(gap, violation) <= task["eps"],
    }


def _cpu_seconds() -> float:
    """Of this process and of finished children."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


def _solve(solver: str, model: cmdpax.CMDP, limit: float, eps: float):
    if solver == US:
        result = cmdpax.solve(model, eps, time_limit=limit)
        return result.policy, result.multipliers
    answer = PEERS[solver](normalise(model), limit)
    return answer if isinstance(answer, Value) else (answer, None)


def _quality(model: cmdpax.CMDP, policy: np.ndarray) -> dict:
    """True gap and violation of a peer's policy: against the dual bound of our own certified
    solution.
    """
    reference = cmdpax.solve(model, EPS)
    prices = reference.multipliers
    actions = plan(model, pseudo_reward(model, prices)).actions
    gap, violation = certify(model, policy, prices, actions).scaled(model)
    return {"gap": gap, "violation": violation, "solved": max(gap, violation) <= 10 * EPS}


# ---- the driver
# -----------------------------------------------------------------------------------------------------
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the same as --set quick --limit 10")
    parser.add_argument("--set", default="targets", choices=("quick", "targets", "full"))
    parser.add_argument("--limit", type=float, default=600.0, help="seconds a solver gets")
    parser.add_argument("--solvers", nargs="*", default=None, help=f"of {[US, *PEERS]}")
    parser.add_argument("--families", nargs="*", default=("garnet", "queue", "grid", "inventory"))
    parser.add_argument("--records", type=Path, default=None, help="JSONL file with finished runs")
    parser.add_argument(
        "--figure", type=Path, default=None, help="write the time-against-states picture here"
    )
    parser.add_argument(
        "--report-only", action="store_true", help="no runs: table and figure from the records"
    )
    parser.add_argument("--one", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run_one(json.loads(options.one))))
        return
    if options.quick:
        options.set, options.limit = "quick", 10.0
    records = options.records or HERE.parent / "results" / "vs_lp" / f"{options.set}.jsonl"
    solvers = options.solvers or [US, *PEERS]
    if not options.report_only:
        cases = [case for case in instances(options.set) if case["family"] in options.families]
        sweep(cases, solvers, options, records)
    rows = read(records)
    print(table(rows, [US, *PEERS]))
    if options.figure:
        print(f"wrote {draw(rows, [US, *PEERS], options.figure)}")


def sweep(
    cases: list[dict], solvers: list[str], options: argparse.Namespace, records: Path
) -> None:
    records.parent.mkdir(parents=True, exist_ok=True)
    for case in cases:
        for solver in solvers:
            rows = read(records)
            task = {**case, "solver": solver, "limit": options.limit}
            if any(key_of(row) == key_of(task) for row in rows):
                continue
            if smaller := failed_before(rows, task):
                print(f"skip  {solver:14} {_title(case)}: it failed at S={smaller:,}", flush=True)
                continue
            row = {**task, **launch(task), "versions": installed(PACKAGES), "machine": machine()}
            with records.open("a") as out:
                out.write(json.dumps(row) + "\n")
            print(
                f"{'done ' if row['finished'] else 'FAIL '} {solver:14} {_title(case)}:"
                f" {_outcome(row)}",
                flush=True,
            )


def launch(task: dict) -> dict:
    """Run a task in its own process; one that overstays its time by two minutes (building,
    checking) is killed.
    """
    command = [sys.executable, __file__, "--one", json.dumps(task)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=task["limit"] + 120,
            preexec_fn=_restrict,
        )
    except subprocess.TimeoutExpired:
        return {
            "finished": False,
            "solved": False,
            "note": f"no answer within {task['limit']:.0f} s",
        }
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"ended by signal {-done.returncode}"])[-1][
            :200
        ]
        return {"finished": False, "solved": False, "note": reason}
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    late = answer["wall"] > task["limit"]
    note = {"note": f"over {task['limit']:.0f} s"} if late else {}
    return {
        **answer,
        "finished": answer["solved"] or not late,
        **note,
    }  # what a limit stopped may be good enough


def _restrict() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def read(records: Path) -> list[dict]:
    return (
        [json.loads(line) for line in records.read_text().splitlines()] if records.exists() else []
    )


def _title(case: dict) -> str:
    return (
        f"{case['family']} S={case['states']} gamma={case['discount']} m={case['constraints']}"
        f" seed={case['seed']}"
    )


def _outcome(row: dict) -> str:
    if "seconds" not in row:
        return row.get("note", "failed")
    quality = (
        f"gap {row['gap']:.1e}, violation {row['violation']:.1e}"
        if "gap" in row
        else f"value off by {row['error']:.1e}"
    )
    return (
        f"{row['seconds']:.3g} s, {row['peak_mb']:.0f} MB,"
        f" {quality}{'' if row['solved'] else '  NOT within eps'}"
    )


def machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
