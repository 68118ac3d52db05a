"""A machine that wears out: maximise profit with at most so much maintenance.

A model is a function `step(state, action)`; a budget is a `<=`. The answer is one policy, a proof,
and the price of the budget: what one more unit of it would earn.
"""

import cmdpax

WEAR = ["new", "good", "worn", "broken"]


def step(state, action):
    """Where it goes with which probability, the profit, and the hours of maintenance."""
    wear = WEAR.index(state)
    if action == "repair":
        return {"new": 1.0}, -1.0, [2.0 + wear]
    worse = WEAR[min(wear + 1, 3)]
    profit = [10.0, 8.0, 4.0, 0.0][wear]
    return ({worse: 1.0} if worse == state else {state: 0.7, worse: 0.3}), profit, [0.0]


model = cmdpax.CMDP.from_step(
    WEAR,
    ["run", "repair"],
    step,
    initial={"new": 1.0},
    discount=0.95,
    thresholds=[8.0],
    senses=["<="],
    constraint_names=["hours"],
)
result = cmdpax.solve(model)
print(result)
cmdpax.check(model, result)  # verified by code that shares nothing with the solver
for state, probabilities in zip(model.state_names, result.policy):
    print(f"{state:8} repair with probability {probabilities[1]:.3f}")
print("\n hours    profit   price of an hour")
for point in cmdpax.frontier(model, "hours", points=6):
    print(f"{point.threshold:6.2f} {point.reward:9.2f} {point.multiplier:10.2f}")
