"""cmdpax against linear-programming solvers and Storm, on the same models, one core each, in one process tree.

    python benchmarks/vs_lp.py --quick             about five minutes, peers get 60 s
    python benchmarks/vs_lp.py --set targets       the instances of the table in docs/benchmarks.md, peers get 600 s
    python benchmarks/vs_lp.py --set full          every family, size, discount and number of constraints (days; resumable)

Every run is a process of its own (its peak memory is its own); finished runs are in a JSONL file and are not repeated. A run
counts as solved when its policy, re-evaluated by us, is within eps of optimal and feasible (peers: ten times that); one that did
not finish is shown as such, never as a ratio against its limit. Times are CPU seconds of the one thread that everybody gets:
other work on the machine does not count (limits are on the clock).
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402  (threads are set first)
from peers import PEERS  # noqa: E402

import cmdpax  # noqa: E402
from cmdpax.certificate import certify  # noqa: E402
from cmdpax.evaluation import occupancy, pseudo_reward, under_policy  # noqa: E402
from cmdpax.planning import plan  # noqa: E402
from cmdpax.solve import normalise  # noqa: E402

HERE = Path(__file__).parent
EPS = 1e-6
US = "cmdpax"
PACKAGES = ("cmdpax", "numpy", "scipy", "numba", "highspy", "highspy-extras", "ortools", "clarabel", "stormpy")


# ---- instances ------------------------------------------------------------------------------------------------------
def build(family: str, states: int, discount: float, constraints: int, seed: int) -> cmdpax.CMDP:
    """One instance; constraints beyond a family's own are random rewards with binding, jointly feasible thresholds."""
    make = cmdpax.environments.finite
    if family == "garnet":
        return make["garnet"](states=states, constraints=constraints, discount=discount, seed=seed)
    if family == "grid":
        side = round(np.sqrt(states))
        model = make["grid-world"](width=side, height=side, discount=discount, seed=seed)
    elif family == "queue":
        model = make["queue"](capacity=states - 1, discount=discount, arrival=0.4 + 0.01 * seed)
    else:
        model = make["inventory"](capacity=states - 1, discount=discount)
    return model if constraints == 1 else more_constraints(model, constraints, seed)


def more_constraints(model: cmdpax.CMDP, total: int, seed: int) -> cmdpax.CMDP:
    """Add random constraints; thresholds are what a mixture of a reward-greedy and a constraint-greedy policy achieves."""
    rng = np.random.default_rng(seed)
    rows = np.concatenate([model.constraints, rng.random((total - 1, model.states, model.actions))])
    wide = model.replace(constraints=rows, thresholds=np.zeros(total), constraint_names=None)
    scaled = wide.constraints / wide.constraint_scales[:, None, None]
    ends = [plan(wide, wide.reward).actions, plan(wide, scaled.mean(0)).actions]
    values = np.array([under_policy(wide.constraints, a) @ occupancy(wide, a) for a in ends])
    return wide.replace(thresholds=0.4 * values[0] + 0.6 * values[1] - 1e-3 * wide.constraint_scales)


def instances(name: str) -> list[dict]:
    """The instances of a set, smallest first."""
    if name == "quick":
        rows = [("garnet", S, 0.99, 1, 0) for S in (100, 1000, 3000)]
        rows += [("garnet", 1000, 0.99, 3, 0), ("queue", 1000, 0.99, 1, 0), ("queue", 10_000, 0.99, 1, 0)]
        rows += [("grid", 1024, 0.99, 1, 0), ("inventory", 1000, 0.99, 1, 0), ("garnet", 100_000, 0.99, 1, 0)]
    elif name == "targets":
        rows = [("garnet", S, 0.99, 1, seed) for S in (100, 1000, 3000) for seed in range(3)]
        rows += [("garnet", 1000, g, m, 0) for g in (0.9, 0.999) for m in (1,)]
        rows += [("garnet", 1000, 0.99, m, 0) for m in (3, 10)]
        rows += [("queue", S, 0.99, 1, 0) for S in (100, 1000, 10_000, 100_000)]
        rows += [("grid", S, 0.99, 1, 0) for S in (100, 1024, 10_000, 99_856)]
        rows += [("inventory", S, 0.99, 1, 0) for S in (100, 1000)]
        rows += [("garnet", S, 0.99, 1, 0) for S in (10_000, 100_000, 1_000_000)]
    else:
        sizes = (100, 1000, 10_000, 100_000, 1_000_000)
        everything = product(("garnet", "grid", "queue", "inventory"), sizes, (0.9, 0.99, 0.999), (1, 3, 10), range(3))
        rows = sorted(everything, key=lambda row: row[1])
    keys = ("family", "states", "discount", "constraints", "seed")
    return [dict(zip(keys, row, strict=True)) for row in rows]


# ---- one run, in a process of its own -------------------------------------------------------------------------------
def run_one(task: dict) -> dict:
    """Solve one instance with one solver; times exclude building the model and importing the solver."""
    solver, limit = task["solver"], task["limit"]
    small = cmdpax.environments.garnet(states=300, constraints=1, seed=99)
    _solve(solver, small, limit, task["eps"])  # imports, caches
    model = build(**{key: task[key] for key in ("family", "states", "discount", "constraints", "seed")})
    model.reachable, model.matrix  # noqa: B018  (shared by all, not part of anybody's time)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started, used = time.perf_counter(), _cpu_seconds()
    answer = _solve(solver, model, limit, task["eps"])
    wall, seconds = time.perf_counter() - started, _cpu_seconds() - used
    after = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    outcome = {"seconds": seconds, "wall": wall, "peak_mb": after / 1024, "extra_mb": (after - before) / 1024}
    if isinstance(answer, float):
        return {**outcome, "value": answer, "solved": True, "note": "a value at precision 1e-4, no policy"}
    policy, weights = answer
    if weights is None:
        return {**outcome, **_quality(model, policy)}
    certificate = certify(model, policy, weights, plan(model, pseudo_reward(model, weights)).actions)
    gap, violation = certificate.scaled(model)
    return {**outcome, "gap": gap, "violation": violation, "solved": max(gap, violation) <= task["eps"]}


def _cpu_seconds() -> float:
    """Of this process and of finished children."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


def _solve(solver: str, model: cmdpax.CMDP, limit: float, eps: float):
    if solver == US:
        result = cmdpax.solve(model, eps, time_limit=limit)
        return result.policy, result.multipliers
    answer = PEERS[solver](normalise(model), limit)
    return answer if isinstance(answer, float) else (answer, None)


def _quality(model: cmdpax.CMDP, policy: np.ndarray) -> dict:
    """True gap and violation of a peer's policy: against the dual bound of our own certified solution."""
    reference = cmdpax.solve(model, EPS)
    prices = reference.multipliers
    actions = plan(model, pseudo_reward(model, prices)).actions
    gap, violation = certify(model, policy, prices, actions).scaled(model)
    return {"gap": gap, "violation": violation, "solved": max(gap, violation) <= 10 * EPS}


# ---- the driver -----------------------------------------------------------------------------------------------------
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the same as --set quick --limit 60 without Storm")
    parser.add_argument("--set", default="targets", choices=("quick", "targets", "full"))
    parser.add_argument("--limit", type=float, default=600.0, help="seconds a solver gets")
    parser.add_argument("--solvers", nargs="*", default=None, help=f"of {[US, *PEERS]}")
    parser.add_argument("--families", nargs="*", default=("garnet", "queue", "grid", "inventory"))
    parser.add_argument("--eps", type=float, default=EPS)
    parser.add_argument("--records", type=Path, default=None, help="JSONL file with finished runs")
    parser.add_argument("--figure", type=Path, default=None, help="write the time-against-states picture here")
    parser.add_argument("--report-only", action="store_true", help="no runs: table and figure from the records")
    parser.add_argument("--one", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run_one(json.loads(options.one))))
        return
    if options.quick:
        options.set, options.limit = "quick", 60.0
    records = options.records or HERE.parent / "results" / "vs_lp" / f"{options.set}.jsonl"
    solvers = options.solvers or [name for name in (US, *PEERS) if not (options.quick and name == "storm")]
    if not options.report_only:
        cases = [case for case in instances(options.set) if case["family"] in options.families]
        sweep(cases, solvers, options, records)
    rows = read(records)
    print(table(rows))
    if options.figure:
        draw(rows, options.figure)


def sweep(cases: list[dict], solvers: list[str], options: argparse.Namespace, records: Path) -> None:
    records.parent.mkdir(parents=True, exist_ok=True)
    done = {_key(row) for row in read(records)}
    given_up = {(row["solver"], row["family"]) for row in read(records) if not row["finished"] and row["solver"] != US}
    for case in cases:
        for solver in solvers:
            task = {**case, "solver": solver, "eps": options.eps, "limit": options.limit}
            if _key(task) in done:
                continue
            if (solver, case["family"]) in given_up:  # it failed on a smaller one of this family
                print(f"skip  {solver:14} {_title(case)}: did not finish a smaller instance", flush=True)
                continue
            row = {**task, **launch(task), "versions": versions(), "machine": machine()}
            if not row["finished"]:
                given_up.add((solver, case["family"]))
            with records.open("a") as out:
                out.write(json.dumps(row) + "\n")
            print(f"{'done ' if row['finished'] else 'FAIL '} {solver:14} {_title(case)}: {_outcome(row)}", flush=True)


def launch(task: dict) -> dict:
    """Run a task in its own process; one that overstays its time by half is killed."""
    command = [sys.executable, __file__, "--one", json.dumps(task)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=1.5 * task["limit"] + 120)
    except subprocess.TimeoutExpired:
        return {"finished": False, "solved": False, "note": f"no answer within {task['limit']:.0f} s"}
    if done.returncode:
        return {"finished": False, "solved": False, "note": (done.stderr.strip().splitlines() or ["died"])[-1][:200]}
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    finished = answer["wall"] <= task["limit"]
    return {**answer, "finished": finished, **({} if finished else {"note": f"over {task['limit']:.0f} s"})}


def read(records: Path) -> list[dict]:
    return [json.loads(line) for line in records.read_text().splitlines()] if records.exists() else []


def _key(row: dict) -> tuple:
    return tuple(row[key] for key in ("family", "states", "discount", "constraints", "seed", "solver", "eps"))


def _title(case: dict) -> str:
    return f"{case['family']} S={case['states']} gamma={case['discount']} m={case['constraints']} seed={case['seed']}"


def _outcome(row: dict) -> str:
    if "seconds" not in row:
        return row.get("note", "failed")
    quality = f"gap {row['gap']:.1e}, violation {row['violation']:.1e}" if "gap" in row else f"value {row['value']:.6g}"
    return f"{row['seconds']:.3g} s, {row['peak_mb']:.0f} MB, {quality}{'' if row['solved'] else '  NOT within eps'}"


def versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def table(rows: list[dict]) -> str:
    """Markdown: our time, then every peer's time and ratio; what failed says so."""
    solvers = [name for name in (US, *PEERS) if any(row["solver"] == name for row in rows)]
    peers = [name for name in solvers if name != US]
    lines = [
        f"| instance | {US} | {' | '.join(peers)} | best LP / {US} |",
        "|---|---|" + "---|" * (len(peers) + 1),
    ]
    cases = list(dict.fromkeys((*_key(row)[:5], row["eps"]) for row in rows))
    for case in cases:
        found = {row["solver"]: row for row in rows if (*_key(row)[:5], row["eps"]) == case}
        if US not in found:
            continue
        ours = found[US]
        cells, ratios = [], []
        for name in peers:
            row = found.get(name)
            if row is None:
                cells.append("not run")
            elif not row["finished"]:
                cells.append("did not finish")
            else:
                wrong = "" if row["solved"] else f" (off by {max(row['gap'], row['violation']):.0e})"
                cells.append(f"{row['seconds']:.3g} s{wrong}")
                if row["solved"] and "gap" in row:
                    ratios.append(row["seconds"] / ours["seconds"])
        family, states, discount, constraints, seed, eps = case
        title = f"{family} S={states:,} gamma={discount} m={constraints} seed={seed}" + (f" eps={eps:g}" if eps != EPS else "")
        ran = any(name in found for name in peers)
        best = f"{min(ratios):.3g}x" if ratios else "no LP finished" if ran else "not run yet"
        lines.append(f"| {title} | {ours['seconds']:.3g} s, {ours['extra_mb']:.0f} MB | {' | '.join(cells)} | {best} |")
    return "\n".join(lines)


def draw(rows: list[dict], path: Path) -> None:
    """Time against states, log-log, one panel a family (gamma .99, one constraint); crosses are peers that failed."""
    from matplotlib.figure import Figure

    from cmdpax.experiments.figures import STYLES, save

    families = [name for name in ("garnet", "queue", "grid", "inventory") if any(row["family"] == name for row in rows)]
    figure = Figure(figsize=(4.2 * len(families), 4))
    panels = np.atleast_1d(figure.subplots(1, len(families), sharey=True))
    for axes, family in zip(panels, families, strict=True):
        for name, style, marker in zip((US, *PEERS), STYLES, "os^vDPX", strict=False):
            mine = [
                row
                for row in rows
                if (row["solver"], row["family"], row["discount"], row["constraints"]) == (name, family, 0.99, 1)
            ]
            good = [row for row in mine if row["finished"] and row["solved"] and row["eps"] == EPS]
            sizes = sorted({row["states"] for row in good})
            times = [float(np.median([row["seconds"] for row in good if row["states"] == size])) for size in sizes]
            if sizes:
                width = 2.6 if name == US else 1.3
                axes.plot(sizes, times, marker=marker, markersize=4, linewidth=width, label=name, **style)
            for row in mine:
                if not (row["finished"] and row["solved"]):
                    height = row.get("seconds", row["limit"])
                    axes.plot(row["states"], height, marker="x", markersize=8, color=style["color"], linestyle="none")
        axes.set(xscale="log", yscale="log", xlabel="states S", title=family)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("CPU seconds, one core (x: not solved)")
    handles = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=len(handles), frameon=False, fontsize=9)
    figure.suptitle("certified 1e-6, gamma = 0.99, one constraint")
    figure.subplots_adjust(bottom=0.24, wspace=0.08, top=0.86)
    print(f"wrote {save(figure, path)}")


if __name__ == "__main__":
    main()
