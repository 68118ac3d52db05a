"""An oracle of one's own becomes a certified solver: Frank-Wolfe steps in occupancies.

Algorithm 1 asks an oracle for better policies on a concave utility, the augmented Lagrangian; its
gradient is a pseudo-reward `r + w.c`. This one plans for that reward and moves towards the plan.
Multipliers, penalty, stopping and the proof are the solver's.
"""

from types import SimpleNamespace

import numpy as np

import cmdpax


class FrankWolfe:
    check_every, patience, shares = 1, None, np.geomspace(1e-6, 1, 200)

    def start(self, form, columns=None):
        return self.point(form, form.uniform_policy())

    def point(self, form, policy):  # a state: every value is linear in the visits by choice, [K]
        values, visits = form.evaluate(policy), form.criterion.visits(form, policy)
        visits = form.transitions.by_state(visits) * policy
        return SimpleNamespace(**{**vars(values), "visits": visits})

    def advance(self, form, state, utility):
        plan, shares = self.gap(form, state, utility).plan, self.shares[:, None]
        aim = self.point(form, form.transitions.deterministic(plan.choices))
        rewards = state.reward + self.shares * (aim.reward - state.reward)
        margins = state.margins + shares * (aim.margins - state.margins)
        best = np.argmax(utility.value(rewards, margins))  # of 200 points on the way to the plan
        visits = state.visits + shares[best] * (aim.visits - state.visits)
        return SimpleNamespace(visits=visits, reward=rewards[best], margins=margins[best])

    def gap(self, form, state, utility):
        weights = utility.weights(state.margins)
        plan = form.criterion.plan(form, form.pseudo_reward(weights))
        current = state.reward + weights @ (state.margins + form.thresholds)
        return cmdpax.CertifiedGap(plan.value - float(current), weights, plan)

    def candidates(self, form, state):
        return [state]

    def policy(self, form, state):
        visits, rows = state.visits + 1e-15, form.transitions
        return visits / rows.by_state(rows.sums(visits))


model = cmdpax.environments.deep_sea()
result = cmdpax.solve(model, FrankWolfe(), eps=1e-3)
print(result)
print(cmdpax.check(model, result))
