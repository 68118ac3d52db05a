"""Imitate somebody from 1,000 recorded transitions, and keep away from hazards while doing so.

The log holds states and actions, no rewards. The utility is minus the divergence of what was
recorded from where the policy goes, and the model's own constraint is put around it: the expert was
careless, the imitation must not be. Give the name of a .png file to draw it.
"""

import sys
from pathlib import Path

import numpy as np

import cmdpax
from cmdpax import utilities

model = cmdpax.environments.grid_world(12, 12, discount=0.95)
shape = model.states, model.actions
careless = model.replace(constraints=[], thresholds=[], senses=None)
expert = cmdpax.solve(careless).policy

# the log: an episode ends with probability 1 - discount, so visits are discounted ones
random, matrix = np.random.default_rng(0), model.transitions.matrix.toarray()
states, actions = [], []
state = random.choice(model.states, p=model.initial)
for _ in range(1000):
    action = random.choice(model.actions, p=expert[state])
    states.append(state)
    actions.append(action)
    state = random.choice(model.states, p=matrix[state * model.actions + action])
    if random.uniform() > model.discount:
        state = random.choice(model.states, p=model.initial)

recorded = utilities.recorded_visits(states, actions, shape, smoothing=0.01)
for name, problem in (("as it was", careless), ("with limits", model)):
    utility = utilities.kl(recorded, minimise=True)
    result = cmdpax.solve(problem, utility=utility, eps=1e-3)
    print(f"{name}: {result.status}, divergence {result.reward:.4f}", end="")
    print(f" (best possible: at least {result.certificate.dual_bound:.4f})")
    print(" ", cmdpax.check(problem, result))
print(f"hazard visits {result.values[0]:.3f}, allowed {model.thresholds[0]:.3f}")

if len(sys.argv) > 1:
    from cmdpax.experiments.pictures import save
    from cmdpax.experiments.policy_pictures import policy_picture

    title = "imitation of 1,000 transitions, within the limit of hazard visits"
    save(policy_picture(model, result.policy, title, heat=True), Path(sys.argv[1]))
