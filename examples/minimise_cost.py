"""A shop that orders goods: the least cost, with a service level and a range for the stock.

`minimise=True` turns the goal, `>=` asks for service, and a pair `(low, high)` is a range. Whatever
the sense, a margin is the room that is left, and a price is what one unit of room would save.
"""

import cmdpax

CAPACITY, DEMAND, DISCOUNT = 6, {0: 0.3, 1: 0.4, 2: 0.2, 3: 0.1}, 0.9


def step(stock, order):
    """Next stock, the cost of ordering and holding, and [goods sold, goods held]."""
    after, filled = {}, 0.0
    held = min(stock + order, CAPACITY)
    for demand, probability in DEMAND.items():
        sold = min(held, demand)
        after[held - sold] = after.get(held - sold, 0.0) + probability
        filled += probability * sold
    cost = 2.0 * (order > 0) + 1.0 * order + 0.2 * held
    return after, cost, [filled, float(held)]


model = cmdpax.CMDP.from_step(
    range(CAPACITY + 1),
    [0, 2, 4],
    step,
    initial={0: 1.0},
    discount=DISCOUNT,
    minimise=True,
    thresholds=[8.5, (20.0, 30.0)],  # discounted totals: ten steps' worth
    senses=[">=", "in"],
    constraint_names=["sold", "held"],
)
print(cmdpax.solve(model), "\n")
for level in (8.0, 9.0, 10.0):  # another service level is another model
    result = cmdpax.solve(model.replace(thresholds=[level, (20.0, 30.0)]))
    sold, held = result.values
    print(f"{result.status}: sold {sold:.2f} (asked {level}), held {held:.2f}", end=", ")
    print(f"cost {result.reward:.3f}, {result.multipliers[0]:.2f} for one more sold")
