"""Concave utilities beside a conic program on occupancies (Clarabel), and at 100,000 states alone.

    python benchmarks/utilities.py --states 100 1000 --out results/utilities/beside.jsonl
    python benchmarks/utilities.py --alone 10000 100000 --limits 0 1 --seconds 1200 \\
        --kinds states recorded distance --out results/utilities/alone.jsonl
    python benchmarks/utilities.py --table results/utilities/*.jsonl

Models are those of `garnet` and `grid_world`, discount .95, with 0 to 3 limits half-way between the
uniform policy and what can be reached. All ready utilities, eps 1e-4 for ours, 1e-8 for Clarabel's
own criteria (its default). CPU seconds; both solve the same arrays, and Clarabel's include making
the program. `off` is what our value lacks of that of Clarabel's policy, as a share of what eps is a
share of; a certificate is false if that policy, less the worth of what it violates, exceeds the
proven bound by more than rounding, 1e-9 of it.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

import cmdpax
from cmdpax import utilities
from cmdpax.exact.standard import StandardForm

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from convex import attained, best_shares

EPS, DISCOUNT, ROUNDING = 1e-4, 0.95, 1e-9
ALPHAS = {"fairness-1": 1.0, "fairness-2": 2.0, "fairness-half": 0.5}
KINDS = (
    *("linear", "states", "pairs", "kl", "recorded", "distance"),
    *(*ALPHAS, "max_min", "soft_limit"),
)


def model_of(family: str, states: int, limits: int, seed: int) -> cmdpax.CMDP:
    """A model whose limits are costs of one's own, that bind."""
    random = np.random.default_rng(seed)
    if family == "garnet":
        plain = cmdpax.environments.garnet(states, 3, constraints=0, discount=DISCOUNT, seed=seed)
    else:
        side = round(states**0.5)
        plain = cmdpax.environments.grid_world(side, side, discount=DISCOUNT)
        plain = plain.replace(constraints=np.zeros((0, plain.choices)), thresholds=[], senses=None)
    costs = random.uniform(size=(limits, plain.choices))
    form = StandardForm.of(plain)
    least = form.criterion.plan(form, -costs.sum(0)).choices if limits else None
    thresholds = []
    for cost in costs:
        typical, low = (
            float(form.criterion.values(form, policy, cost) @ form.initial)
            for policy in (form.uniform_policy(), least)
        )
        thresholds.append((typical + low) / 2)
    return plain.replace(constraints=costs, thresholds=thresholds, senses=["<="] * limits)


def utility_of(model: cmdpax.CMDP, kind: str, seed: int):
    """A utility, and the name and settings of its conic program."""
    random, shape = np.random.default_rng(seed + 1), (model.states, model.actions)
    flat = random.uniform(0.1, 1, size=(3, model.choices))
    rewards = [model.as_table(row) for row in flat]
    visits = random.dirichlet([1.0] * model.choices)
    table = model.as_table(visits)
    assert table.shape == shape
    most = 0.5 * float(flat[0].mean()) / (1 - DISCOUNT)
    if kind in ALPHAS:
        alpha = ALPHAS[kind]
        return utilities.fairness(rewards, alpha), "fairness", {"rewards": flat, "alpha": alpha}
    return {
        "linear": lambda: (utilities.linear(rewards[0]), "linear", {"reward": flat[0]}),
        "states": lambda: (utilities.entropy(), "entropy", {"over": "states"}),
        "pairs": lambda: (utilities.entropy("pairs"), "entropy", {"over": "pairs"}),
        "kl": lambda: (utilities.kl(table), "kl", {"visits": visits}),
        "recorded": lambda: (
            utilities.kl(table, of="recorded"),
            "recorded",
            {"visits": visits},
        ),
        "distance": lambda: (utilities.distance(table), "distance", {"visits": visits}),
        "max_min": lambda: (utilities.max_min(rewards), "max_min", {"rewards": flat}),
        "soft_limit": lambda: (
            utilities.soft_limit(rewards[0], most=most, penalty=2.0),
            "soft_limit",
            {"reward": flat[0], "most": most, "penalty": 2.0},
        ),
    }[kind]()


def ours(model: cmdpax.CMDP, utility, time_limit: float | None):
    started = time.process_time()
    result = cmdpax.solve(model, utility=utility, eps=EPS, time_limit=time_limit)
    return result, time.process_time() - started


def conic(model: cmdpax.CMDP, name: str, settings: dict):
    """Value and margins `[m]` of Clarabel's policy, or None without one, and the CPU seconds."""
    rows = model.transitions.matrix, model.transitions.state_of
    limits = [(-c, -b) for c, b in zip(model.constraints, model.thresholds, strict=True)]
    problem = rows, model.initial, DISCOUNT, limits, name
    started = time.process_time()
    try:
        shares = best_shares(*problem, accuracy=1e-8, **settings)
    except AssertionError:
        return None, time.process_time() - started
    seconds = time.process_time() - started
    return attained(shares, *problem, **settings), seconds


def run(family: str, states: int, kind: str, limits: int, is_alone: bool, seconds: float) -> dict:
    """A row of the record."""
    model = model_of(family, states, limits, seed=limits)
    utility, name, settings = utility_of(model, kind, seed=limits)
    result, cpu = ours(model, utility, seconds)
    checked = str(cmdpax.check(model, result))
    proof = result.certificate
    row = {
        **{"family": family, "states": model.states, "kind": kind, "limits": limits, "eps": EPS},
        **{"status": result.status, "method": result.method, "seconds": cpu},
        **{"gap": result.scaled_gap, "violation": result.scaled_violation},
        "checked": checked.startswith("verified"),
    }
    if is_alone:
        return row
    best, cpu = conic(model, name, settings)
    row |= {"clarabel": cpu, "clarabel_solved": best is not None}
    if best is not None:  # what a policy violates is worth its price
        best = best[0] - float(result.multipliers @ np.maximum(-best[1], 0))
        width = max(float(np.ptp(proof.ranges[0])), 1e-9)
        row["off"] = (best - result.reward) / width
        row["false"] = bool(proof.dual_bound < best - ROUNDING * (1 + abs(best)))
    return row


def table(paths: list[Path]) -> str:
    """Markdown, one row for each kind and size."""
    rows = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    lines = [
        "| utility | states | runs | certified | false | largest `off` | ours, s | Clarabel, s"
        " | Clarabel / ours |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for model in sorted({_model(row) for row in rows}):
        for kind in KINDS:
            own = [row for row in rows if _model(row) == model and row["kind"] == kind]
            if not own:
                continue
            sure = sum(row["status"] == "certified" for row in own)
            beside = [row for row in own if row.get("clarabel_solved")]
            seconds = f"{median(row['seconds'] for row in own):.2g}"
            cells = ["", "", "", ""]
            if beside:
                ratio = median(row["clarabel"] / row["seconds"] for row in beside)
                cells = [
                    str(sum(row["false"] for row in beside)),
                    f"{max(row['off'] for row in beside):.1e}",
                    f"{median(row['clarabel'] for row in beside):.2g}",
                    f"{ratio:.2g}",
                ]
            start = f"| {kind} | {model[1]} {model[0]:,}{model[2]} | {len(own)} | {sure}"
            lines.append(
                f"{start} | {cells[0]} | {cells[1]} | {seconds} | {cells[2]} | {cells[3]} |"
            )
    return "\n".join(lines)


def _model(row: dict) -> tuple[int, str, str]:
    """States, family, and of those solved alone the limits."""
    limits = "" if "clarabel" in row else f", limits: {row['limits']}"
    return row["states"], row["family"], limits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--states", type=int, nargs="*", default=[])
    parser.add_argument("--alone", type=int, nargs="*", default=[])
    parser.add_argument("--limits", type=int, nargs="*", default=[0, 1, 2, 3])
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--families", nargs="*", default=["garnet", "grid"])
    parser.add_argument("--seconds", type=float, default=600.0, help="at the most, of ours")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, nargs="*", help="print the table of such files")
    options = parser.parse_args()
    if options.table:
        print(table(options.table))
        return
    run("garnet", 20, "states", 1, False, 60.0)  # compiles what is compiled once
    for is_alone, sizes in ((False, options.states), (True, options.alone)):
        for states in sizes:
            for family in options.families:
                for limits in options.limits:
                    for kind in options.kinds:
                        row = run(family, states, kind, limits, is_alone, options.seconds)
                        print(json.dumps(row), flush=True)
                        if options.out is not None:
                            options.out.parent.mkdir(parents=True, exist_ok=True)
                            with options.out.open("a") as file:
                                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
