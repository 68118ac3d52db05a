"""Share a wireless link between four users under an energy budget: proportional fairness.

The channel of each user is good or bad and changes by itself; in every slot the station sends to
one user, with low or high power, or rests. The sum of rates starves the users far away; the sum of
their logarithms does not, and max-min makes them equal. Give the name of a .png file to draw it.
"""

import itertools
import sys
from pathlib import Path

import numpy as np

import cmdpax
from cmdpax import utilities

USERS, STAYS = 4, 0.8  # a channel stays as it is with this probability
DISTANCE = np.array([1.0, 1.5, 2.5, 4.0])  # of each user from the station
ENERGY, DISCOUNT = {"low": 1.0, "high": 3.0}, 0.95
channels = list(itertools.product((0, 1), repeat=USERS))  # 1 is good
actions = [(user, power) for user in range(USERS) for power in ENERGY] + [(None, "rest")]

S, A = len(channels), len(actions)
moves = np.array(
    [[np.prod(np.where(np.equal(x, y), STAYS, 1 - STAYS)) for y in channels] for x in channels]
)
transitions = np.repeat(moves[:, None], A, axis=1)
rates, energy = np.zeros((USERS, S, A)), np.zeros((S, A))
for s, channel in enumerate(channels):
    for a, (user, power) in enumerate(actions):
        if user is not None:
            signal = ENERGY[power] * (4.0 if channel[user] else 0.5) / DISTANCE[user] ** 2
            rates[user, s, a], energy[s, a] = np.log2(1 + signal), ENERGY[power]

total = 1 / (1 - DISCOUNT)
model = cmdpax.CMDP(
    transitions,
    rates.sum(0),
    [energy],
    [1.2 * total],
    initial=np.full(S, 1 / S),
    discount=DISCOUNT,
    senses=["<="],
    constraint_names=["energy"],
)
shares = {}
for name, utility in {
    "sum of rates": utilities.linear(),
    "proportional": utilities.fairness(rates),
    "alpha = 3": utilities.fairness(rates, alpha=3.0),
    "max-min": utilities.max_min(rates),
}.items():
    result = cmdpax.solve(model, utility=utility, eps=1e-4)
    cmdpax.check(model, result)
    # channels change by themselves, so that all are equally likely all the time
    shares[name] = (rates * result.policy).sum((1, 2)) / S
    numbers = " ".join(f"{rate:.3f}" for rate in shares[name])
    price = result.multipliers[0]
    print(f"{name:13} {result.status}: rates {numbers}, sum {shares[name].sum():.3f}", end=", ")
    print(f"energy {result.values[0] / total:.3f} a slot, its price {price:.4f}")

if len(sys.argv) > 1:
    from matplotlib.figure import Figure

    from cmdpax.experiments.pictures import HATCHES, STYLES, save

    figure = Figure(figsize=(8, 3.6))
    axes = figure.add_subplot()
    for i, (name, own) in enumerate(shares.items()):
        place = np.arange(USERS) + 0.2 * (i - 1.5)
        axes.bar(place, own, 0.19, label=name, color=STYLES[i]["color"], hatch=HATCHES[i])
    axes.set_xticks(range(USERS), [f"user {i}\ndistance {d:g}" for i, d in enumerate(DISTANCE)])
    axes.set(ylabel="rate a slot", title="four ways to share a link, 1.2 units of energy a slot")
    axes.legend(frameon=False)
    save(figure, Path(sys.argv[1]))
