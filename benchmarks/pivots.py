"""When is the key simplex to take over from the augmented Lagrangian? What its rule was chosen by.

    python benchmarks/pivots.py [--sizes 1000] [--constraints 1 10 50] [--plans 0 10 20 40]
    python benchmarks/pivots.py --degenerate 1000

CPU milliseconds of `solve`, the best of three in turns, with so many plans before pivots; at the
end without any pivots, and with the rule, `solvers/key_simplex.plans_before_pivots`. In brackets
the pivots, none where the search had ended before.

--degenerate: so many models of few numbers, with copies of choices and of constraints and with
thresholds that some policy just meets (`tests/models.py`). Pivots may not stall: how did they end,
after how many, and what does `solve` say of each?
"""

import argparse
from collections import Counter
from collections.abc import Callable
from functools import partial

import numpy as np
from timing import best_seconds
from vs_lp import fresh, model_of
from vs_lp_report import CELL, FAMILIES

import cmdpax
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers import stages
from cmdpax.solvers.key_simplex import by_pivots
from cmdpax.solvers.solve import scaled_form
from models import degenerate

Rule = Callable[[StandardForm], int | None]
ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--families", nargs="*", default=FAMILIES, choices=FAMILIES)
    parser.add_argument("--sizes", nargs="*", type=int, default=(1000,))
    parser.add_argument("--constraints", nargs="*", type=int, default=(1, 10, 50))
    parser.add_argument("--discount", type=float, default=0.99)
    parser.add_argument("--plans", nargs="*", type=int, default=(0, 10, 20, 40))
    parser.add_argument("--degenerate", type=int)
    options = parser.parse_args()
    if options.degenerate:
        print(endings(options.degenerate))
        return
    rules: dict[str, Rule] = {str(plans): after(plans) for plans in options.plans}
    rules |= {"never": after(None), "rule": stages.plans_before_pivots}
    print("| family, S, m | " + " | ".join(rules) + " |")
    print("|---" * (1 + len(rules)) + "|", flush=True)
    for states in options.sizes:
        for family in options.families:
            for m in options.constraints:
                model = model_of(dict(zip(CELL, (family, states, m, options.discount))))
                pivots = [solved(model, rule) for rule in rules.values()]  # and compile
                calls = (partial(solved, model, rule) for rule in rules.values())
                times = best_seconds(*calls, rounds=ROUNDS)
                cells = (f"{1e3 * one:.0f} ({n:,})" for one, n in zip(times, pivots, strict=True))
                print(f"| {family}, {states:,}, {m} | {' | '.join(cells)} |", flush=True)


def endings(count: int) -> str:
    """How pivots end on degenerate models, after how many, and the verdicts of `solve`."""
    ends: Counter[str] = Counter()
    pivots, multiples = np.empty(count, int), np.empty(count)
    for seed in range(count):
        model = degenerate(seed)
        outcome = by_pivots(scaled_form(model, 1e-6).form, 1e-6)
        trouble = outcome.answer is None and outcome.ray is None
        ends["trouble" if trouble else "optimal" if outcome.answer else "infeasible"] += 1
        ends[f"solve: {cmdpax.solve(model).status}"] += 1
        pivots[seed] = outcome.pivots
        multiples[seed] = outcome.pivots / (model.states + model.constraint_count)
    said = ", ".join(f"{name} {n:,}" for name, n in sorted(ends.items()))
    middle, most = np.median(pivots), pivots.max()
    return f"{said}; pivots: median {middle:.0f}, at most {most}, {multiples.max():.1f} (S + m)"


def after(plans: int | None) -> Rule:
    """Pivots after so many plans, whatever the form."""
    return lambda form: plans


def solved(model: cmdpax.CMDP, rule: Rule) -> int:
    """Solve by a rule; the pivots of the answer."""
    stages.plans_before_pivots = rule
    result = cmdpax.solve(fresh(model))
    assert result.status == "certified"
    return int(result.trace[-1]["evaluations"]) if result.method == "key-simplex" else 0


if __name__ == "__main__":
    main()
