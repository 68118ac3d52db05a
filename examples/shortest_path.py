"""The cheapest way through a town, on time: a shortest path with a budget for the expected time.

Total reward: `discount=1`, and the run ends at a `goal`. At every crossing one drives east or
north, by the street or by the motorway. The motorway takes a third of the time and costs money;
streets jam now and then. The policy is a choice at every crossing.
"""

import cmdpax

SIZE = 6
END = (SIZE - 1, SIZE - 1)
CROSSINGS = [(x, y) for x in range(SIZE) for y in range(SIZE)]


def roads(crossing):
    """What can be chosen at a crossing; at the end the run is over."""
    x, y = crossing
    ways = [name for name, open_ in (("east", x < SIZE - 1), ("north", y < SIZE - 1)) if open_]
    return [f"{kind} {way}" for way in ways for kind in ("street", "motorway")] or ["stay"]


def step(crossing, road):
    """Where it leads, the toll, and [minutes]."""
    if road == "stay":
        return {crossing: 1.0}, 0.0, [0.0]
    x, y = crossing
    after = (x + 1, y) if road.endswith("east") else (x, y + 1)
    if road.startswith("motorway"):
        return {after: 1.0}, 1.0 + 0.2 * y, [2.0]
    jam = 0.1 + 0.05 * x  # then one stands for a while, and looks again
    return {after: 1 - jam, crossing: jam}, 0.0, [6.0]


def solved(minutes):
    """The model with so much time, and its answer."""
    model = cmdpax.CMDP.from_step(
        CROSSINGS,
        roads,
        step,
        initial=(0, 0),
        discount=1.0,
        goal=[str(END)],
        minimise=True,
        thresholds=[minutes],
        senses=["<="],
        constraint_names=["minutes"],
    )
    return model, cmdpax.solve(model)


model, result = solved(45.0)
print(result, "\n")
cmdpax.check(model, result)
for minutes in (15.0, 25.0, 35.0, 55.0, 75.0):
    result = solved(minutes)[1]
    if result.status == "infeasible":
        print(f"{minutes:.0f} minutes: impossible, {result.relaxations[0]:.1f} more are needed")
    else:
        price = f"a minute saves {result.multipliers[0]:.3f}"
        print(f"{minutes:.0f} minutes: toll {result.reward:.3f}, {price}")
