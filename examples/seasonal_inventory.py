"""A shop through a year: 52 weeks, a demand that changes with the season, and a service level.

Finite horizon: `horizon=52`, and `step(state, action, time)` knows the week. The shop minimises
what it spends on orders and on stock, and must sell at least 95 per cent of what is asked for. The
policy has a table for every week, `[52, S, A]`; what is left at the end is lost, so that it orders
less and less.
"""

import math

import cmdpax

WEEKS, CAPACITY, ORDERS, MOST = 52, 20, [0, 4, 8, 12], 14


def demand(week):
    """Poisson, with a mean between 2 and 6, cut at 14."""
    mean = 4 - 2 * math.cos(2 * math.pi * week / WEEKS)
    chances = [math.exp(-mean) * mean**k / math.factorial(k) for k in range(MOST + 1)]
    return [chance / sum(chances) for chance in chances]


def step(stock, order, week):
    """Next stock, what is spent, and [goods sold]."""
    held, after, sold = min(stock + order, CAPACITY), {}, 0.0
    for asked, chance in enumerate(demand(week)):
        left = max(held - asked, 0)
        after[left] = after.get(left, 0.0) + chance
        sold += chance * (held - left)
    return after, 3.0 * (order > 0) + 1.0 * (held - stock) + 0.1 * held, [sold]


asked = sum(k * chance for week in range(WEEKS) for k, chance in enumerate(demand(week)))
model = cmdpax.CMDP.from_step(
    range(CAPACITY + 1),
    ORDERS,
    step,
    initial=10,
    horizon=WEEKS,
    minimise=True,
    thresholds=[0.95 * asked],
    senses=[">="],
    constraint_names=["sold"],
)
result = cmdpax.solve(model)
print(result)
cmdpax.check(model, result)
print(f"\nservice {100 * result.values[0] / asked:.2f} per cent of {asked:.1f} asked for")
print(f"one more sold costs {result.multipliers[0]:.2f}\n\norders with 3 in stock:")
for week in (0, 13, 26, 39, 50, 51):
    chances = zip(ORDERS, result.policy[week, 3], strict=True)
    print(
        f"week {week:2}", *(f"{order} ({chance:.2f})" for order, chance in chances if chance > 0.01)
    )
