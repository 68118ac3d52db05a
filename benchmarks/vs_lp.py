"""How fast is cmdpax beside linear-programming solvers and Storm? The same models, one core each.

    python benchmarks/vs_lp.py --quick        six instances anew, in five minutes; 10 s a solver
    python benchmarks/vs_lp.py --set targets  those of docs/benchmarks.md, 600 s; resumable
    python benchmarks/vs_lp.py --set small    20 to 1,000 states, 1 to 50 constraints
    python benchmarks/vs_lp.py --set full     all families, sizes, discounts and m; days, resumable

Every run of a solver is a process of its own (its peak memory is its own). Finished ones are in a
file of JSON lines (of --quick only with --records) and are not repeated, but for ours: it is timed
anew beside every peer that is, because a ratio is printed only between times of one run of this
script. A policy counts as solved when it, evaluated by us, is within eps of optimal and feasible
(peers: ten times that). What did not finish is shown as such, never as a ratio against its limit.

Times are CPU seconds of the one thread that everybody gets (the median of five where they are below
one): other work on the machine does not count. Limits are on the clock. A peer that failed is not
tried on instances of the same family, discount and number of constraints that are as large or
larger.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import numpy as np
from peers import PEERS, Value
from vs_lp_report import EPS, FAMILIES, INSTANCE, US, draw, failed_before, key_of, table, title_of

import cmdpax
from cmdpax.environments.families import instance
from cmdpax.exact.certificate import certify, scaled_errors
from cmdpax.exact.ranges import attained_ranges
from cmdpax.exact.standard import StandardForm
from cmdpax.experiments.executors import ONE_THREAD
from cmdpax.experiments.store import installed

RECORDS = Path(__file__).parents[1] / "results" / "vs_lp"
SOLVERS = (US, *PEERS)
MEMORY = 10 * 2**30  # bytes that a solver may allocate; one that needs more does not finish
PATIENCE = 120  # seconds beyond its limit, to build the model and check the answer, before the kill
SHORT, REPEATS = 1.0, 5  # below so many CPU seconds a time is the median of so many
PEER_PACKAGES = ("highspy", "highspy-extras", "ortools", "clarabel", "stormpy")
PACKAGES = ("cmdpax", "numpy", "scipy", "numba", *PEER_PACKAGES)


# ---- instances
def instances(name: str) -> list[dict]:
    """The instances of a set; of the targets first the table, then the spread, then the largest."""
    sizes, discounts, counts = (100, 1000, 10_000), (0.9, 0.99, 0.999), (1, 3, 10)
    if name == "quick":
        cases = [("garnet", 100), ("garnet", 1000), ("queue", 1000), ("queue", 10_000)]
        cases += [("grid", 1000), ("inventory", 1000)]
        rows = [(*case, 0.99, 1, 0, EPS) for case in cases]
    elif name == "targets":
        rows = list(product(("garnet",), (100, 1000, 3000), (0.99,), (1,), range(3), (EPS,)))
        rows += product(FAMILIES, sizes, (0.99,), (1,), (0,), (EPS,))
        rows += product(("garnet",), (1000,), discounts, counts, range(3), (EPS,))
        rows += product(FAMILIES[1:], (1000,), discounts, counts, (0,), (EPS,))
        rows += [(family, S, 0.99, 1, 0, EPS) for S in (100_000, 1_000_000) for family in FAMILIES]
        rows += [("garnet", 1_000_000, 0.99, 1, 0, 1e-3)]
    elif name == "small":
        rows = list(product(FAMILIES, (20, 100, 250, 1000), (0.99,), (1, 10, 50), (0,), (EPS,)))
    else:
        all_sizes = (*sizes, 100_000, 1_000_000)
        rows = list(product(FAMILIES, all_sizes, discounts, counts, range(3), (EPS,)))
        rows.sort(key=lambda row: row[1])
    return [dict(zip(INSTANCE, row, strict=True)) for row in dict.fromkeys(rows)]


# ---- one solver on one instance, in a process of its own
def run_one(task: dict) -> dict:
    """Solve and judge; times exclude building the model and importing the solver."""
    warm_up = cmdpax.environments.garnet(states=300, seed=99)
    solve(task, warm_up, StandardForm.of(warm_up))  # imports, caches
    model = instance(**{key: task[key] for key in INSTANCE if key != "eps"})
    form = StandardForm.of(model)
    if task["solver"] != US:
        form.reachable, form.transitions.matrix  # noqa: B018  (no part of a peer's time)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times: list[tuple[float, float]] = []
    while not times or (times[0][1] < SHORT and len(times) < REPEATS):
        started, spent = time.perf_counter(), cpu_seconds()
        answer = solve(task, model, form)
        taken = answer.seconds if isinstance(answer, Value) else cpu_seconds() - spent
        times.append((time.perf_counter() - started, taken))
    wall, seconds = np.median(times, axis=0).tolist()
    after = max(usage.ru_maxrss for usage in usages())
    memory = {"peak_mb": after / 1024, "extra_mb": (after - before) / 1024}
    return {"seconds": seconds, "wall": wall, **memory, **judge(task, model, form, answer)}


def solve(task: dict, model: cmdpax.CMDP, form: StandardForm) -> cmdpax.Result | np.ndarray | Value:
    """Ours: a result. A peer's: a policy `[S, A]`, or a value alone."""
    if task["solver"] == US:
        return cmdpax.solve(model, eps=task["eps"], time_limit=task["limit"])
    return PEERS[task["solver"]](form.scaled().form, task["limit"])


def judge(
    task: dict, model: cmdpax.CMDP, form: StandardForm, answer: cmdpax.Result | np.ndarray | Value
) -> dict:
    """True errors of an answer, as shares of what policies can change, and whether it is good.

    A peer's answer is measured against the dual bound of our own certified solution.
    """
    is_ours = isinstance(answer, cmdpax.Result)
    reference = answer if is_ours else cmdpax.solve(model, eps=EPS)
    is_policy = isinstance(answer, np.ndarray)
    weights = model.limits.unfold(reference.multipliers)
    actions = form.criterion.plan(form, form.pseudo_reward(weights)).choices
    policy = answer if is_policy else model.by_choice(reference.policy)
    ranges = attained_ranges(form)
    proof, _ = certify(form, policy, weights, actions, ranges)
    if isinstance(answer, Value):
        offset, width = form.criterion.scale(form, form.reward)
        value = answer.value * width + offset * form.criterion.mass
        error = max(proof.reward_bounds[0] - value, value - proof.dual_bound, 0.0) / width
        return {"error": error, "solved": error <= 10 * task["eps"]}
    units = ranges.tolerances(EPS, model.limits.compared) / EPS
    gap, violation = scaled_errors(proof, units)
    allowed = task["eps"] if is_ours else 10 * task["eps"]
    return {"gap": gap, "violation": violation, "solved": max(gap, violation) <= allowed}


def usages() -> list[resource.struct_rusage]:
    """What this process, and its finished children, have used."""
    return [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]


def cpu_seconds() -> float:
    return sum(usage.ru_utime + usage.ru_stime for usage in usages())


# ---- the driver
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="--set quick --limit 10, anew")
    parser.add_argument("--set", default="targets", choices=("quick", "small", "targets", "full"))
    parser.add_argument("--limit", type=float, default=600.0, help="seconds a solver gets")
    parser.add_argument("--solvers", nargs="*", default=SOLVERS, choices=SOLVERS)
    parser.add_argument("--families", nargs="*", default=FAMILIES, choices=FAMILIES)
    parser.add_argument("--records", type=Path, help="file of JSON lines with finished runs")
    parser.add_argument("--figure", type=Path, help="draw time against states into this file")
    parser.add_argument("--report-only", action="store_true", help="no runs: what is recorded")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run_one(json.loads(options.one))))
        return
    if options.quick:
        options.set, options.limit = "quick", 10.0
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) if options.quick else RECORDS
        records = options.records or home / f"{options.set}.jsonl"
        if not options.report_only:
            cases = [case for case in instances(options.set) if case["family"] in options.families]
            sweep(cases, options.solvers, options.limit, records)
        rows = read(records)
    print(table(rows, SOLVERS))
    if options.figure:
        print(f"wrote {draw(rows, SOLVERS, options.figure)}")


def sweep(cases: list[dict], solvers: list[str], limit: float, records: Path) -> None:
    """Run what is missing in the records, and ours beside each peer that is run."""
    records.parent.mkdir(parents=True, exist_ok=True)
    run = datetime.now(UTC).isoformat(timespec="seconds")
    always = {"run": run, "versions": installed(PACKAGES), "machine": machine()}
    for case in cases:
        rows, due = read(records), []
        finished = {key_of(row) for row in rows}
        for task in ({**case, "solver": solver, "limit": limit} for solver in solvers):
            if key_of(task) in finished:
                continue
            if smaller := failed_before(rows, task):
                print(f"skip  {task['solver']:14} {title_of(case)}: it failed at S={smaller:,}")
                continue
            due.append(task)
        if due and all(task["solver"] != US for task in due):
            due.insert(0, {**case, "solver": US, "limit": limit})
        for task in due:
            row = {**task, **launch(task), **always}
            with records.open("a") as out:
                out.write(json.dumps(row) + "\n")
            word = "done " if row["finished"] else "FAIL "
            print(f"{word} {task['solver']:14} {title_of(case)}: {outcome(row)}", flush=True)


def launch(task: dict) -> dict:
    """Run a task in its own process, which is killed if it takes far too long."""
    command = [sys.executable, __file__, "--one", json.dumps(task)]
    alone = {**os.environ, **ONE_THREAD, "RAYON_NUM_THREADS": "1"}
    failure, seconds = {"finished": False, "solved": False}, f"{task['limit']:.0f} s"
    try:
        process = subprocess.run(
            command,
            env=alone,
            capture_output=True,
            text=True,
            timeout=task["limit"] + PATIENCE,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY)),
        )
    except subprocess.TimeoutExpired:
        return {**failure, "note": f"no answer within {seconds}"}
    if process.returncode:
        last_words = process.stderr.strip().splitlines()
        reason = last_words[-1] if last_words else f"ended by signal {-process.returncode}"
        return {**failure, "note": reason[:200]}
    answer = json.loads(process.stdout.strip().splitlines()[-1])
    if answer["wall"] <= task["limit"]:
        return {**answer, "finished": True}
    # what a limit stopped may be good enough
    return {**answer, "finished": answer["solved"], "note": f"over {seconds}"}


def read(records: Path) -> list[dict]:
    lines = records.read_text().splitlines() if records.exists() else []
    return [json.loads(line) for line in lines]


def outcome(row: dict) -> str:
    if "seconds" not in row:
        return row.get("note", "failed")
    errors = f"value off by {row.get('error', 0):.1e}"
    if "gap" in row:
        errors = f"gap {row['gap']:.1e}, violation {row['violation']:.1e}"
    verdict = "" if row["solved"] else "  NOT within eps"
    return f"{row['seconds']:.3g} s, {row['peak_mb']:.0f} MB, {errors}{verdict}"


def machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
