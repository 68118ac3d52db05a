"""Random models are solved, and every claim of their certificates is verified in rational numbers.

A float is a rational number: the model, the policy and the certificate are taken as such, and
nothing is rounded anywhere. Rows of probabilities, which miss a sum of one by a rounding, are
divided by their sums. Verified are, by linear systems and policy iteration in `Fraction`s:

- reward and margins of the policy lie within their bounds;
- `max_pi V_0 + w.margins <= dual_bound`, so that no feasible policy is better than claimed;
- `max_pi ray.margins <= ray_bound`, below 0 where the model is called infeasible;
- what is called certified is within eps of optimal and feasible.

Models are so small that `Fraction` is fast enough. Of the smallest, the maximum is compared with
that over all deterministic policies one by one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np

import cmdpax
from models import DISCOUNTS, KINDS, OFFSETS, STRUCTURES, build, turned

STATES, ACTIONS, CONSTRAINTS = 8, 4, 4  # at most
ENUMERATED = 81  # models with so many deterministic policies have all of them tried
Vector = list[Fraction]
Sides = tuple[Fraction | None, Fraction | None]  # None on an open side


def certificates(seeds: Sequence[int], folder: Path) -> Iterator[tuple[int, str | None]]:
    """One model for each seed."""
    for seed in seeds:
        model = draw(seed)
        wrong = refuted(model, cmdpax.solve(model))
        yield 1, f"{wrong}: {model!r}" if wrong else None


def draw(seed: int) -> cmdpax.CMDP:
    """A model of any structure, kind, discount, sense and scale."""
    rng = np.random.default_rng(seed)
    constraints = int(rng.integers(0, CONSTRAINTS + 1))
    model = build(
        str(rng.choice(STRUCTURES)),
        int(rng.integers(1, STATES + 1)),
        int(rng.integers(1, ACTIONS + 1)),
        int(rng.integers(1, 4)),
        float(rng.choice([*DISCOUNTS, 0.99999])),
        seed,
        constraints,
        kind=str(rng.choice(KINDS)),
        start=str(rng.choice(["first", "random", "uniform"])),
        offset=float(rng.choice(OFFSETS)),
    )
    if rng.random() < 0.3:
        available = rng.random((model.states, model.actions)) < 0.7
        available[:, 0] = True
        model = model.replace(available=available)
    if constraints and rng.random() < 0.4:  # some become ranges, or equalities
        widths = rng.choice([0.0, 1e-6, 0.1, np.inf], constraints)
        low = model.limits.bounds[:, 0]
        pairs = np.stack([low, low + widths], 1)
        model = model.replace(thresholds=pairs, senses=None)
    if rng.random() < 0.2:  # badly scaled
        size = 10.0 ** int(rng.integers(-6, 7))
        model = model.replace(reward=model.reward * size)
    if rng.random() < 0.1:  # out of reach, by far
        model = model.replace(thresholds=model.limits.bounds + 10.0 ** int(rng.integers(0, 9)))
    return turned(model, rng.random(constraints) < 0.5, bool(rng.random() < 0.5))


@dataclass(frozen=True)
class Exact:
    """A model in rational numbers."""

    moves: list[list[dict[int, Fraction]]]  # [S][A]: probabilities of the successors
    rewards: list[list[Vector]]  # [1 + m][S][A]
    bounds: list[Sides]  # [m]
    initial: Vector
    discount: Fraction
    choices: list[list[int]]  # [S]: the available actions

    @staticmethod
    def of(model: cmdpax.CMDP) -> "Exact":
        """Floats are taken as they are; probabilities are divided by their sum."""
        states, actions = range(model.states), range(model.actions)
        moves = [[_move(model, s, a) for a in actions] for s in states]
        arrays = model.transitions.filled(np.stack([model.reward, *model.constraints]))
        rewards = [[rationals(row) for row in array.tolist()] for array in arrays]
        sides = [
            tuple(Fraction(side) if np.isfinite(side) else None for side in pair)
            for pair in model.limits.bounds.tolist()
        ]
        allowed = model.as_table(np.ones(model.choices, bool))
        choices = [np.flatnonzero(row).tolist() for row in allowed]
        initial = normalised(model.initial.tolist())
        return Exact(moves, rewards, sides, initial, Fraction(model.discount), choices)

    def values(self, policy: list[Vector], rewards: Sequence[list[Vector]]) -> list[Vector]:
        """`V = (I - gamma P_pi)^-1 x_pi` of k rewards `[S][A]` -> `[k][S]`."""
        count = len(self.moves)
        rows = []
        for s in range(count):
            row = [Fraction(int(s == t)) for t in range(count)]
            for a, share in enumerate(policy[s]):
                for t, chance in self.moves[s][a].items() if share else ():
                    row[t] -= self.discount * share * chance
            sides = [sum(p * x for p, x in zip(policy[s], one[s])) for one in rewards]
            rows.append(row + sides)
        return solved(rows, count)

    def best(self, reward: list[Vector]) -> Fraction:
        """`max_pi V(rho)` of one reward `[S][A]`: policy iteration, which ends at the maximum."""
        actions = [own[0] for own in self.choices]
        while True:
            (values,) = self.values(self.deterministic(actions), [reward])
            improved = list(actions)
            for s, own in enumerate(self.choices):
                worth = {a: reward[s][a] + self.ahead(s, a, values) for a in own}
                best = max(own, key=worth.__getitem__)
                if worth[best] > worth[actions[s]]:
                    improved[s] = best
            if improved == actions:
                return dot(self.initial, values)
            actions = improved

    def best_of_all(self, reward: list[Vector]) -> Fraction:
        """The same by trying every deterministic policy."""
        every = (self.deterministic(actions) for actions in product(*self.choices))
        return max(dot(self.initial, self.values(one, [reward])[0]) for one in every)

    def ahead(self, s: int, a: int, values: Vector) -> Fraction:
        """`gamma sum_t P(t | s, a) V(t)`."""
        return self.discount * sum(chance * values[t] for t, chance in self.moves[s][a].items())

    def scale(self, reward: list[Vector]) -> Fraction:
        """`span(x) / (1 - gamma)` over pairs that can be reached; span 1 if it is 0."""
        seen = {s for s, chance in enumerate(self.initial) if chance}
        fringe = seen
        while fringe:
            ahead = {
                t for s in fringe for a in self.choices[s] for t, p in self.moves[s][a].items() if p
            }
            fringe = ahead - seen
            seen = seen | fringe
        entries = [reward[s][a] for s in seen for a in self.choices[s]]
        return (max(entries) - min(entries) or Fraction(1)) / (1 - self.discount)

    def deterministic(self, actions: Sequence[int]) -> list[Vector]:
        """A policy `[S][A]` that always takes those actions."""
        count = len(self.rewards[0][0])
        return [[Fraction(int(a == own)) for a in range(count)] for own in actions]

    def priced(self, prices: Vector, with_reward: int) -> tuple[list[Vector], Fraction]:
        """`with_reward * r + prices . margins` as a reward `[S][A]`, and its constant.

        A margin is `V - low` or `high - V`. Where both are there, a positive price is of the first
        and a negative one of the second.
        """
        factors, constant = [Fraction(with_reward)], Fraction(0)
        for price, (low, high) in zip(prices, self.bounds):
            is_low = high is None or (low is not None and price >= 0)
            side = low if is_low else high
            size = abs(price) if low is not None and high is not None else price
            factors.append(size if is_low else -size)
            constant += (-size if is_low else size) * side
        pairs = [list(zip(*(one[s] for one in self.rewards))) for s in range(len(self.moves))]
        return [[dot(factors, pair) for pair in own] for own in pairs], constant


def refuted(model: cmdpax.CMDP, result: cmdpax.Result) -> str | None:
    """The first claim of a result that is false in rational numbers; None if all are true."""
    exact, proof = Exact.of(model), result.certificate
    policy = [normalised(row) for row in result.policy.tolist()]
    reward, *totals = (dot(exact.initial, row) for row in exact.values(policy, exact.rewards))
    if not _within(reward, proof.reward_bounds):
        return f"the reward is {float(reward)!r}, claimed in {proof.reward_bounds}"
    margins = [room(*pair) for pair in zip(totals, exact.bounds)]
    for name, margin, claimed in zip(model.constraint_names, margins, proof.margin_bounds.tolist()):
        if not _within(margin, claimed):
            return f"the margin of {name} is {float(margin)!r}, claimed in {claimed}"
    sign = -1 if model.minimise else 1
    best = _maximum(exact, proof.weights, sign)
    if best > sign * Fraction(proof.dual_bound):
        return f"the dual bound is {sign * float(best)!r}, claimed is {proof.dual_bound!r}"
    gap, violation = best - sign * reward, max([-margin for margin in margins], default=Fraction(0))
    if gap > Fraction(proof.gap) or violation > Fraction(proof.violation):
        return f"gap {float(gap)!r} or violation {float(violation)!r} is more than claimed"
    if proof.ray is not None:
        best_ray = _maximum(exact, proof.ray, 0)
        if best_ray > Fraction(proof.ray_bound):
            return f"the ray's bound is {float(best_ray)!r}, claimed is {proof.ray_bound!r}"
    if result.status == "infeasible" and (proof.ray is None or best_ray >= 0):
        return "it is called infeasible, which its ray does not prove"
    if result.status == "certified":
        errors = [best - sign * reward, *(-margin for margin in margins)]
        scaled = [error / exact.scale(one) for error, one in zip(errors, exact.rewards)]
        if max(scaled) > Fraction(result.eps):
            return f"it is called certified, with an error of {float(max(scaled))!r}"
    return None


def _maximum(exact: Exact, prices: np.ndarray, with_reward: int) -> Fraction:
    """`max_pi with_reward V_0 + prices . margins`."""
    reward, constant = exact.priced(rationals(prices.tolist()), with_reward)
    best = exact.best(reward)
    if np.prod([len(own) for own in exact.choices]) <= ENUMERATED:
        assert best == exact.best_of_all(reward)
    return best + constant


def room(total: Fraction, sides: Sides) -> Fraction:
    """The margin of a total within its sides."""
    low, high = sides
    rooms = [] if low is None else [total - low]
    return min(rooms if high is None else [*rooms, high - total])


def _within(value: Fraction, bounds: Sequence[float]) -> bool:
    return Fraction(bounds[0]) <= value <= Fraction(bounds[1])


def _move(model: cmdpax.CMDP, s: int, a: int) -> dict[int, Fraction]:
    """Where a pair leads to; one that does not exist stands for the state's first choice."""
    rows = model.transitions
    k = int(rows.filled(np.arange(model.choices))[s, a])
    own = slice(rows.first_entry[k], rows.first_entry[k + 1])
    chances = normalised(rows.probabilities[own].tolist())
    return dict(zip(rows.successors[own].tolist(), chances, strict=True))


def normalised(row: Sequence[float]) -> Vector:
    """Probabilities with the sum 1."""
    exact = rationals(row)
    return [one / sum(exact) for one in exact]


def rationals(row: Sequence[float]) -> Vector:
    """Floats as what they are."""
    return [Fraction(one) for one in row]


def dot(one: Sequence[Fraction], other: Sequence[Fraction]) -> Fraction:
    """The inner product."""
    return sum((x * y for x, y in zip(one, other, strict=True)), Fraction(0))


def solved(rows: list[Vector], count: int) -> list[Vector]:
    """Solve `count` equations `[count][count + k]`, k sides on the right -> `[k][count]`.

    Gauss-Jordan; the matrix `I - gamma P` is diagonally dominant, so its pivots are not zero.
    """
    for pivot in range(count):
        first = rows[pivot][pivot]
        rows[pivot] = [one / first for one in rows[pivot]]
        for s in range(count):
            factor = rows[s][pivot]
            if s != pivot and factor:
                rows[s] = [x - factor * y for x, y in zip(rows[s], rows[pivot])]
    return [[row[count + side] for row in rows] for side in range(len(rows[0]) - count)]
