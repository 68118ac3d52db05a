"""Explore a grid of 50 x 50 cells as evenly as its walls of chance allow: maximum entropy.

No reward at all: the utility is the entropy of where the policy goes. A random walk hardly leaves
its corner; the best policy spreads over the whole grid, and a plan for the gradient of the entropy
proves how close to the best it is. Give the name of a .png file to draw it.
"""

import sys
from pathlib import Path

import numpy as np

import cmdpax
from cmdpax import utilities

model = cmdpax.environments.grid_world(50, 50, discount=0.99)
model = model.replace(constraints=[], thresholds=[], senses=None, initial=0)  # from a corner
result = cmdpax.solve(model, utility=utilities.entropy(), eps=0.02)
print(result, "\n")
print(cmdpax.check(model, result))

proof = result.certificate
for name, entropy in (("random walk", proof.ranges[0, 0]), ("explorer", result.reward)):
    print(f"{name}: as spread out as {np.exp(entropy):.0f} cells, of {model.states}")

if len(sys.argv) > 1:
    from cmdpax.experiments.pictures import save
    from cmdpax.experiments.policy_pictures import policy_picture

    title = f"maximum entropy: {result.reward:.3f} of at most {proof.dual_bound:.3f}"
    save(policy_picture(model, result.policy, title, heat=True), Path(sys.argv[1]))
