"""Three methods on one problem, each with a whole grid of step sizes in one run.

Settings may be arrays: `trajectory` then carries that batch in front, and histories are `[steps,
batch]`. One step is one policy-gradient evaluation, so equal lengths are equal budgets.
"""

import numpy as np

import cmdpax

model = cmdpax.environments.cliff_world()
best = cmdpax.solve(model, eps=1e-10).reward
steps = np.array([0.03, 0.1, 0.3, 1.0, 3.0])
runs = {
    "pqa-alm": cmdpax.trajectory(model, "pqa-alm", step=steps, penalty=10, outer=10, inner=50),
    "npg-pd": cmdpax.trajectory(model, "npg-pd", step=steps, dual_step=0.3, steps=500),
    "reload": cmdpax.trajectory(model, "reload", step=steps, dual_step=0.3, steps=500),
}
print("last iterate: |best - reward| + violation, for each step size")
print(f"{'method':10}", *(f"{step:>10g}" for step in steps))
for name, run in runs.items():
    violation = np.maximum(-run.margins, 0).max(-1)  # [500 + 1, 5]
    error = abs(best - run.rewards) + violation
    print(f"{name:10}", *(f"{number:10.2e}" for number in error[-1]))
    tail = error[-100:]
    print(f"{'  swing':10}", *(f"{number:10.2e}" for number in tail.max(0) - tail.min(0)))
one = cmdpax.trajectory(model, "pqa-alm", step=0.3, penalty=10, outer=10, inner=50)
proven = cmdpax.certified_gaps(model, one, every=100)
print("proven gap of PQA-ALM, every 100 evaluations:", *(f"{gap:.1e}" for gap in proven))
