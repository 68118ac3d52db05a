"""A reservoir whose mean release must stay in a range: a two-sided limit.

Releasing water makes electricity. The river below needs a minimum, and floods above a maximum: on
average over the discounted future between 1.65 and 1.9 units a season. One limit, one margin (the
room to the nearer side) and one signed price: positive where the lower side binds, negative where
the upper one does.
"""

import cmdpax

LEVELS, RELEASES, DISCOUNT = 9, [0, 1, 2, 3], 0.95
INFLOW = {0: 0.2, 1: 0.3, 2: 0.3, 4: 0.2}


def step(level, release):
    """Next level, the value of the electricity, and [water released, water spilled]."""
    released = min(release, level)
    after, spilled = {}, 0.0
    for inflow, chance in INFLOW.items():
        full = level - released + inflow
        after[min(full, LEVELS - 1)] = after.get(min(full, LEVELS - 1), 0.0) + chance
        spilled += chance * max(full - LEVELS + 1, 0)
    head = 1 + level / LEVELS  # the fuller, the more a unit is worth
    return after, head * released**0.8, [float(released), spilled]


def solved(low, high):
    """The answer with a mean release between two numbers."""
    mass = 1 / (1 - DISCOUNT)  # what a mean of 1 adds up to
    model = cmdpax.CMDP.from_step(
        range(LEVELS),
        RELEASES,
        step,
        initial=4,
        discount=DISCOUNT,
        thresholds=[(low * mass, high * mass), 0.2 * mass],
        senses=["in", "<="],
        constraint_names=["release", "spill"],
    )
    result = cmdpax.solve(model)
    cmdpax.check(model, result)
    return result


print(solved(1.65, 1.9), "\n")
for low, high in ((1.3, 1.4), (1.4, 1.9), (1.65, 1.9), (2.0, 2.2)):
    result = solved(low, high)
    mean = (1 - DISCOUNT) * result.values[0] if result.status == "certified" else float("nan")
    print(f"{low} to {high}: {result.status}, mean {mean:.3f}, price {result.multipliers[0]:+.3f}")
