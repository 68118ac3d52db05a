"""When to service a machine that runs for ever: the least cost a day, with a floor for its uptime.

On average: `criterion="average"`, no discount. A machine wears a little every day, and the more it
is worn the likelier it breaks. Servicing takes a day and makes it new, repairing a broken one takes
several. A cheap repair saves money and costs days. The limit is a share of days, not a discounted
sum: the machine must work on 82 of 100 days.
"""

import cmdpax

WEAR = 8
STATES = [*(f"wear {w}" for w in range(WEAR)), "broken"]


def actions(state):
    """What can be done in the morning."""
    return ["hurry", "mend"] if state == "broken" else ["run", "service"]


def step(state, action):
    """Where the evening leads, what the day costs, and [1 if the machine worked]."""
    if action == "hurry":
        return {"wear 0": 0.5, "broken": 0.5}, 4.0, [0.0]
    if action == "mend":
        return {"wear 0": 0.2, "broken": 0.8}, 1.0, [0.0]
    if action == "service":
        return {"wear 0": 1.0}, 3.0, [0.0]
    wear = int(state.split()[1])
    breaks = 0.003 * (1 + wear) ** 2
    worn = f"wear {min(wear + 1, WEAR - 1)}"
    return {"broken": breaks, worn: 1 - breaks}, 0.0, [1.0]


def solved(floor):
    """The model with so many working days of 1, and its answer."""
    model = cmdpax.CMDP.from_step(
        STATES,
        actions,
        step,
        initial="wear 0",
        criterion="average",
        minimise=True,
        thresholds=[floor],
        senses=[">="],
        constraint_names=["uptime"],
    )
    result = cmdpax.solve(model)
    cmdpax.check(model, result)
    return model, result


model, result = solved(0.82)
print(result, "\n")
for state, row in zip(STATES, result.policy):
    chances = zip(model.action_names, row)
    print(f"{state:7}", ", ".join(f"{name} {p:.3f}" for name, p in chances if p > 0))
for floor in (0.7, 0.76, 0.8, 0.82, 0.84, 0.86):
    result = solved(floor)[1]
    if result.status == "infeasible":
        print(f"uptime {floor}: impossible, {result.relaxations[0]:.3f} too much")
    else:
        price = f"one per cent more costs {result.multipliers[0] / 100:.4f}"
        print(f"uptime {floor}: {result.reward:.4f} a day, {price}")
