"""A clinic with two kinds of patients that must be treated alike: an equality.

Others come more often, and pay less. `==` asks that in expectation as many of the one kind are
admitted as of the other. Its price is signed: it is positive where the balance would rather fall.
"""

import cmdpax

BEDS, DISCOUNT = 4, 0.97
ARRIVALS = {"urgent": 0.25, "other": 0.55, "nobody": 0.2}
STATES = [(busy, who) for busy in range(BEDS + 1) for who in ARRIVALS]


def options(state):
    """Admit who asks, if a bed is free, or send him away."""
    busy, who = state
    return ["send away"] if who == "nobody" or busy == BEDS else ["admit", "send away"]


def step(state, action):
    """Next state, the profit, and [urgent cases less others that were admitted]."""
    busy, who = state
    admitted = action == "admit"
    busy += admitted
    chances = {}
    for leaves, gone in ((0, 1 - 0.15 * busy), (1, 0.15 * busy)):
        for asks, arrives in ARRIVALS.items():
            after = (busy - leaves, asks)
            chances[after] = chances.get(after, 0.0) + gone * arrives
    chances = {after: chance for after, chance in chances.items() if chance > 0}
    profit = {"urgent": 5.0, "other": 2.0}[who] if admitted else 0.0
    balance = {"urgent": 1.0, "other": -1.0}[who] if admitted else 0.0
    return chances, profit, [balance]


model = cmdpax.CMDP.from_step(
    STATES,
    options,
    step,
    initial=(0, "nobody"),
    discount=DISCOUNT,
    thresholds=[0.0],
    senses=["=="],
    constraint_names=["balance"],
)
result = cmdpax.solve(model)
print(result)
cmdpax.check(model, result)
admit = model.action_names.index("admit")
print("\nbusy  admit urgent  admit others")
for busy in range(BEDS):
    chances = [result.policy[STATES.index((busy, who)), admit] for who in ("urgent", "other")]
    print(f"{busy:4} {chances[0]:13.2f} {chances[1]:13.2f}")
unfair = cmdpax.solve(model.replace(constraints=[], thresholds=[], senses=None))
print(f"\nprofit {result.reward:.3f}, without the equality {unfair.reward:.3f}")
