"""Is the augmented Lagrangian easier to tune, or is its grid in the paper only narrower? `python
benchmarks/alm_sensitivity.py`

The paper fixes its penalty at 10 and tries three steps, where rivals search two step sizes over
four decades each. Here the AL methods get a grid as wide: five steps x five penalties. Counted are
configurations within 0.01 of the optimum by the final iterate that keep within it for the last 200,
in gap and violation: "of these, within .01 for the last 200" of the tabular study.
"""

import numpy as np

from cmdpax.environments import cliff_world, deep_sea
from cmdpax.lagrangian import violation
from cmdpax.paper.exact_study import TAIL
from cmdpax.solvers.certified import solve
from cmdpax.solvers.table import FIVE, trajectory

PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)


def main():
    for model, problem in ((cliff_world(), "Cliff World"), (deep_sea(), "Deep Sea")):
        optimum = solve(model, eps=1e-10).reward
        for method in ("pqa-alm", "ppg-alm", "npg-alm", "spma-alm"):
            counts = []
            for penalty in PENALTIES:
                run = trajectory(model, method, step=np.array(FIVE), penalty=penalty)
                errors = np.maximum(
                    np.abs(optimum - run.rewards[-TAIL:]), violation(run.margins[-TAIL:])
                )
                counts.append(int((errors.max(0) <= 0.01).sum()))
            each = ", ".join(
                f"{count} at {penalty:g}" for count, penalty in zip(counts, PENALTIES, strict=True)
            )
            print(
                f"{problem:12} {method:9} {sum(counts)} of {5 * len(PENALTIES)} (by penalty:"
                f" {each})"
            )


if __name__ == "__main__":
    main()
