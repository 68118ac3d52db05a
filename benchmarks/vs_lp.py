"""How fast is cmdpax beside linear-programming solvers and Storm? The same models, one core each.

    python benchmarks/vs_lp.py                          the whole grid; days, resumable
    python benchmarks/vs_lp.py --sizes 20 100 250       a part of it
    python benchmarks/vs_lp.py --quick                  six cells anew, in minutes; 10 s a peer
    python benchmarks/vs_lp.py --report-only --figure docs/images/vs-lp.png

A cell is a family, a number of states S, of constraints m and a discount. Each has a process of its
own, on one thread, in which everybody solves the same model in turns. Times are CPU seconds of
solving alone, the median of five where they are below one: building models and matrices, imports
and compilation count for nobody. A peer is stopped after max(60 s, 20 times ours), or, where
another has finished, after three times that one's time (60 s at the least), and counts as at least
the CPU time it took by then. A policy counts as solved when it, evaluated by us, is within eps of
optimal and feasible (peers: ten times that); of Storm, which has none, the value is looked at.

Finished peers are in a file of JSON lines and are not repeated, ours is timed anew beside each that
is: a ratio is printed only between times of one process. `--anew` repeats everybody.
"""

import argparse
import json
import os
import platform
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from peers import PEERS, Outcome, policy_of
from vs_lp_report import CELL, COUNTS, EPS, FAMILIES, SIZES, US, draw, key_of, report, title_of

import cmdpax
from cmdpax.exact.certificate import certify, scaled_errors
from cmdpax.exact.ranges import attained_ranges
from cmdpax.exact.standard import StandardForm
from cmdpax.experiments.store import installed
from cmdpax.loops import compiled
from cmdpax.processes import ONE_THREAD
from cmdpax.solvers.programs import occupancy_program

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from instances import between_two_policies, instance

compiled.PATIENCE = 0.0  # seconds are those of machine code

RECORDS = Path(__file__).parents[1] / "results" / "vs_lp" / "grid.jsonl"
MEMORY = 6 * 2**30  # bytes that a process may allocate; who needs more does not finish
SHORT, REPEATS = 1.0, 5  # below so many CPU seconds a time is the median of so many
LIMIT, TIMES = 60.0, 20.0  # what a peer gets: seconds, and multiples of our time
SLOWER, LEAST = 3.0, 60.0  # a peer that is so much slower than another is stopped, after 60 s
SOON = 10.0  # what a peer gets with --quick
PATIENCE = 60.0  # seconds that a peer may overrun its own limit before it is killed
BUILDING = 900.0  # seconds for building a cell's model, and judging an answer
PEER_PACKAGES = ("highspy", "highspy-extras", "ortools", "clarabel", "stormpy")
PACKAGES = ("cmdpax", "numpy", "scipy", "numba", *PEER_PACKAGES)
QUICK = (("garnet", 100), ("garnet", 1000), ("queue", 1000), ("queue", 10_000))


def cells() -> list[dict[str, Any]]:
    """The grid, from small to large; at 1,000 states two more discounts."""
    rows = list(product(SIZES, (0.99,), COUNTS, FAMILIES))
    rows += product((1000,), (0.9, 0.9999), COUNTS, FAMILIES)
    rows.sort(key=lambda row: row[0])
    return [dict(zip(CELL, (family, S, m, discount))) for S, discount, m, family in rows]


def model_of(cell: dict[str, Any]) -> cmdpax.CMDP:
    """The model of a cell; without constraints, that of one constraint with it left out.

    A tight grid: limits lie nine tenths of the way to what can be met at all (m = 1); with more, at
    `0.1 V(reward's optimum) + 0.9 V(constraints' optimum)`.
    """
    family, m = cell["family"], cell["constraints"]
    is_tight = family == "tight grid"
    own, kind = ("grid", {"tightness": 0.9}) if is_tight else (family, {})
    model = instance(own, cell["states"], cell["discount"], max(m, 1), **kind)
    if m == 0:
        nothing = np.zeros((0, model.choices))
        return model.replace(constraints=nothing, thresholds=[], senses=None, constraint_names=None)
    if is_tight and m > 1:
        model = between_two_policies(model, 0.1)
    return model


# ---- one cell, in a process of its own
def run_cell(cell: dict[str, Any], peers: list[str], quick: bool) -> None:
    """Print a line when a solver starts, one with its first time, and one with its median."""
    for size in (20, 300):
        warm_up = cmdpax.environments.garnet(states=size, seed=99)
        cmdpax.solve(warm_up)
    model = model_of(cell)
    cmdpax.solve(model)  # whatever this kind of model compiles
    form = StandardForm.of(model)
    scaled = form.scaled().form
    program = occupancy_program(scaled)
    form.reachable  # noqa: B018  (no part of anybody's time)
    times: dict[str, list[float]] = {name: [] for name in (US, *peers)}
    rows: dict[str, dict[str, Any]] = {}
    limit, ranges = SOON if quick else LIMIT, attained_ranges(form)
    best = np.inf  # of peers, on the clock
    for name in times:
        allowed = min(limit, max(LEAST, SLOWER * best))
        begin(name, allowed)
        spent = time.process_time()
        try:
            answer, seconds, wall = timed(starter(name, model, scaled, program, allowed))
        except Exception as error:  # a peer may fail in any way
            spent, note = time.process_time() - spent, str(error)[:200]
            row = {"solver": name, "limit": allowed, "finished": False, "note": note}
            say({**row, "spent": spent})
            continue
        if name == US:
            reference = answer
            limit = limit if quick else max(LIMIT, TIMES * seconds)
        row = {"solver": name, "limit": allowed, "wall": wall}
        row |= judge(model, form, scaled, ranges, answer, reference)
        row["finished"] = wall <= allowed or row["solved"] or name == US
        if name not in (US, "storm") and row["solved"]:
            best = min(best, wall)
        rows[name], times[name] = row, [seconds]
        say({**row, "seconds": seconds})
    for _ in range(REPEATS - 1):
        for name in [name for name, own in times.items() if own and own[0] < SHORT]:
            begin(name, limit)
            times[name].append(timed(starter(name, model, scaled, program, limit))[1])
    for name, row in rows.items():
        own = times[name]
        say({**row, "seconds": float(np.median(own)), "repeats": len(own)})


def begin(name: str, limit: float) -> None:
    say({"starts": name, "limit": limit, "clock": time.process_time()})


def say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def starter(name: str, model: cmdpax.CMDP, scaled: StandardForm, program: Any, limit: float) -> Any:
    """What is timed."""
    if name == US:
        return partial(cmdpax.solve, fresh(model), eps=EPS)
    return PEERS[name](scaled, program, limit)


def fresh(model: cmdpax.CMDP) -> cmdpax.CMDP:
    """A copy that has found nothing out about itself yet: the order of its states, and so on."""
    rows = model.transitions
    arrays = rows.first_choice, rows.first_entry, rows.successors, rows.probabilities
    copy = type(rows)(*arrays, rows.actions, rows.labels, rows.missed, rows.horizon)
    return model.replace(transitions=copy)


def timed(run: Callable[[], Any]) -> tuple[Any, float, float]:
    """What it returns, CPU seconds, and those of the clock."""
    started, spent = time.perf_counter(), time.process_time()
    answer = run()
    seconds, wall = time.process_time() - spent, time.perf_counter() - started
    if isinstance(answer, Outcome):
        return answer.found, answer.seconds, wall
    return answer, seconds, wall


def judge(
    model: cmdpax.CMDP,
    form: StandardForm,
    scaled: StandardForm,
    ranges: Any,
    answer: Any,
    reference: cmdpax.Result,
) -> dict[str, Any]:
    """True errors of an answer, as shares of what policies can change, and whether it is good.

    A peer's answer is measured against the dual bound of our own certified solution.
    """
    units = ranges.tolerances(EPS, model.limits.compared) / EPS
    if isinstance(answer, cmdpax.Result):
        gap, violation = answer.scaled_gap, answer.scaled_violation
        return {"gap": gap, "violation": violation, "solved": answer.status == "certified"}
    if isinstance(answer, float):
        offset, width = form.criterion.scale_of(*form.span(form.reward))
        value = answer * width + offset * form.criterion.mass
        sign = -1.0 if model.minimise else 1.0
        low, high = sorted((sign * reference.reward, sign * reference.certificate.dual_bound))
        error = max(low - value, value - high, 0.0) / float(units[0])
        return {"error": error, "solved": error <= 10 * EPS}
    weights = model.limits.unfold(reference.multipliers)
    choices = form.criterion.plan(form, form.pseudo_reward(weights)).choices
    policy = policy_of(scaled, answer)
    proof, _ = certify(form, ((1.0, policy),), weights, choices, ranges)
    gap, violation = scaled_errors(proof, units)
    return {"gap": gap, "violation": violation, "solved": max(gap, violation) <= 10 * EPS}


# ---- the driver
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="six cells, 10 s a peer, no records")
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES, choices=SIZES)
    parser.add_argument("--families", nargs="*", default=FAMILIES, choices=FAMILIES)
    parser.add_argument("--constraints", nargs="*", type=int, default=COUNTS, choices=COUNTS)
    parser.add_argument("--discounts", nargs="*", type=float, default=(0.99, 0.9, 0.9999))
    parser.add_argument("--peers", nargs="*", default=tuple(PEERS), choices=tuple(PEERS))
    parser.add_argument("--anew", action="store_true", help="also what is recorded")
    parser.add_argument("--records", type=Path, default=RECORDS, help="JSON lines, one a solver")
    parser.add_argument("--figure", type=Path, help="draw the heat map into this file")
    parser.add_argument("--report-only", action="store_true", help="no runs: what is recorded")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        task = json.loads(options.cell)
        run_cell(task["cell"], task["peers"], task["quick"])
        return
    wanted = [
        cell
        for cell in cells()
        if cell["family"] in options.families
        and cell["states"] in options.sizes
        and cell["constraints"] in options.constraints
        and cell["discount"] in options.discounts
    ]
    with tempfile.TemporaryDirectory() as folder:
        records = options.records
        if options.quick:
            records = Path(folder) / "quick.jsonl"
            pairs = (*QUICK, ("grid", 1000), ("inventory", 1000))
            wanted = [dict(zip(CELL, (family, S, 1, 0.99))) for family, S in pairs]
        if not options.report_only:
            sweep(wanted, list(options.peers), records, options.anew, options.quick)
        rows = read(records)
    print(report(rows))
    if options.figure:
        print(f"wrote {draw(rows, options.figure)}")


def sweep(wanted: list[dict], peers: list[str], records: Path, anew: bool, quick: bool) -> None:
    """Run what is missing in the records, and ours beside each peer that is run."""
    records.parent.mkdir(parents=True, exist_ok=True)
    for cell in wanted:
        finished = {key_of(row) for row in read(records)}
        due = [name for name in peers if can(name, cell)]
        if not anew:
            due = [name for name in due if key_of({**cell, "solver": name}) not in finished]
        while due:
            run = datetime.now(UTC).isoformat(timespec="milliseconds")
            always = {**cell, "run": run, "versions": installed(PACKAGES), "machine": machine()}
            rows = launch(cell, due, quick)
            if US not in rows:
                print(f"FAIL  {title_of(cell)}: {rows}", flush=True)
                break
            with records.open("a") as out:
                out.writelines(json.dumps({**row, **always}) + "\n" for row in rows.values())
            for row in rows.values():
                print(f"{row['solver']:14} {title_of(cell)}: {outcome(row)}", flush=True)
            due = [name for name in due if name not in rows]


def can(peer: str, cell: dict[str, Any]) -> bool:
    """Storm's Pareto curves have as many dimensions as there are constraints."""
    return peer != "storm" or cell["constraints"] <= 1


def launch(cell: dict[str, Any], peers: list[str], quick: bool) -> dict[str, dict[str, Any]]:
    """The rows of a cell's process; it ends at the first peer that crashes or overruns."""
    task = json.dumps({"cell": cell, "peers": peers, "quick": quick})
    alone = {**os.environ, **ONE_THREAD, "RAYON_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--cell", task]
    process = subprocess.Popen(
        command,
        env=alone,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY)),
    )
    rows: dict[str, dict[str, Any]] = {}
    running, clock, before = "", 0.0, children_seconds()
    failure: dict[str, Any] = {"finished": False, "solved": False}
    for line in lines_of(process):
        if line is None:
            failure["note"] = "killed: it overran its limit"
            process.kill()
        elif "starts" in line:
            running, clock = line["starts"], line["clock"]
            failure["limit"] = line["limit"]
        else:
            rows[line["solver"]] = {"solved": False, **line}
            running = ""
    words = process.stderr.read().strip().splitlines() if process.stderr else []
    code = process.wait()
    if code:
        failure.setdefault("note", (words[-1] if words else f"ended by signal {-code}")[:200])
        failure["spent"] = children_seconds() - before - clock
        rows.setdefault(running, {"solver": running, **failure})
    return rows


def children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def lines_of(process: Any) -> Iterator[dict[str, Any] | None]:
    """What the process prints; None once it is silent for too long."""
    patience = BUILDING
    while True:
        ready, _, _ = select.select([process.stdout], [], [], patience)
        if not ready:
            yield None
            return
        text = process.stdout.readline()
        if not text:
            return
        if not text.startswith("{"):  # Storm warns here
            continue
        line = json.loads(text)
        patience = line["limit"] + PATIENCE if line.get("starts", US) != US else BUILDING
        yield line


def read(records: Path) -> list[dict[str, Any]]:
    lines = records.read_text().splitlines() if records.exists() else []
    return [json.loads(line) for line in lines]


def outcome(row: dict[str, Any]) -> str:
    if "seconds" not in row:
        return row.get("note", "failed")
    errors = f"value off by {row.get('error', 0):.1e}"
    if "gap" in row:
        errors = f"gap {row['gap']:.1e}, violation {row['violation']:.1e}"
    verdict = "" if row["solved"] else "  NOT within eps"
    return f"{row['seconds']:.3g} s, {errors}{verdict}"


def machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
