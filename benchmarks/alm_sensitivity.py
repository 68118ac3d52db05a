"""Is the augmented Lagrangian easier to tune, or is its grid in the paper only narrower?

    python benchmarks/alm_sensitivity.py

The paper fixes its penalty at 10 and tries three steps, where rivals search two step sizes over
four decades each. Here the AL methods get a grid as wide: five steps x five penalties. Counted are
configurations that stay within 0.01 of the optimum for the last 200 iterates, in gap and violation:
"of these, within .01 for the last 200" of the tabular study.
"""

import numpy as np

import cmdpax
from cmdpax.environments import finite
from cmdpax.lagrangian import violation
from cmdpax.paper import settings as paper
from cmdpax.paper.exact_study import TAIL

METHODS = ("pqa-alm", "ppg-alm", "npg-alm", "spma-alm")
STEPS = np.array(paper.GRIDS["npg-pd"]["step"])  # those that rivals search
PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
TOLERANCE = 0.01


def steady(model: cmdpax.CMDP, method: str, penalty: float, optimum: float) -> int:
    """How many of the steps stay within the tolerance."""
    settings = {**paper.BUDGETS[method], "penalty": penalty}
    run = cmdpax.trajectory(model, method, step=STEPS, **settings)
    gaps, violations = np.abs(optimum - run.rewards[-TAIL:]), violation(run.margins[-TAIL:])
    return int((np.maximum(gaps, violations).max(0) <= TOLERANCE).sum())


def main() -> None:
    for problem, title in paper.PROBLEMS.items():
        model = finite[problem]()
        optimum = cmdpax.solve(model, eps=1e-10).reward
        for method in METHODS:
            counts = {penalty: steady(model, method, penalty, optimum) for penalty in PENALTIES}
            each = ", ".join(f"{count} at {penalty:g}" for penalty, count in counts.items())
            share = f"{sum(counts.values())} of {len(STEPS) * len(PENALTIES)}"
            print(f"{title:18} {method:9} {share} (by penalty: {each})", flush=True)


if __name__ == "__main__":
    main()
