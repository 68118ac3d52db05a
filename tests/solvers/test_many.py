"""Many models at once: each result is what `solve` proves, whatever stands beside it."""

from fractions import Fraction

import numpy as np
import pytest

import cmdpax
from cmdpax import InputError, solve, solve_many
from cmdpax.environments import cliff_world, garnet, grid_world, queue


def agree(model, one, other):
    assert one.status == other.status
    cmdpax.check(model, one)
    room = one.certificate.gap + other.certificate.gap + 1e-9
    if one.status == "certified":
        assert abs(one.reward - other.reward) <= room


@pytest.mark.parametrize("constraints", [1, 4])
def test_a_list_agrees_with_solve_and_with_the_linear_program(constraints):
    models = [garnet(states=12, constraints=constraints, seed=seed) for seed in range(25)]
    for model, result in zip(models, solve_many(models), strict=True):
        agree(model, result, solve(model))
        assert result.method == "key-simplex" and result.digest == model.digest
        assert result.reward == pytest.approx(solve(model, "lp").reward, abs=1e-6)
        assert result.multipliers == pytest.approx(solve(model).multipliers, abs=1e-6)


def test_models_of_all_kinds_stand_side_by_side():
    """Other shapes and senses, offsets, no constraints, a goal, a horizon, infeasible ones."""
    small = garnet(states=15, constraints=2, seed=3)
    models = [
        small,
        queue(capacity=14),
        garnet(states=15, constraints=2, seed=4, feasible=False),
        small.replace(reward=small.reward + 1e6),
        small.replace(reward=-small.reward, minimise=True),
        small.replace(thresholds=[(5.0, 9.0), 5.0]),
        small.replace(senses="<=", thresholds=[7.0, 7.0]),
        garnet(states=15, constraints=0),
        cliff_world(),
        grid_world(25, 25),
        small.replace(discount=0.9999),
    ]
    for model, result in zip(models, solve_many(models), strict=True):
        agree(model, result, solve(model))


def test_rows_of_fields_make_models_of_one():
    model, rng = garnet(states=10, constraints=2), np.random.default_rng(0)
    thresholds = model.thresholds - 0.1 * rng.random((6, 2))
    rewards = model.as_table(model.reward) * (1 + 0.1 * rng.standard_normal((6, 10, 4)))
    results = solve_many(model, thresholds=thresholds, reward=rewards)
    for bounds, reward, result in zip(thresholds, rewards, results, strict=True):
        own = model.replace(thresholds=bounds, reward=reward)
        assert result.digest == own.digest
        agree(own, result, solve(own))


def test_certificates_hold_in_rational_arithmetic():
    """Gap and violation of exactly evaluated policies, on models of four states."""
    models = [garnet(states=4, actions=2, branching=2, seed=seed) for seed in range(8)]
    for model, result in zip(models, solve_many(models), strict=True):
        reward, value = _exact_values(model, result.policy)
        low, high = result.certificate.reward_bounds
        assert Fraction(low) <= reward <= Fraction(high)
        margin = value - Fraction(float(model.thresholds[0]))
        low, high = result.certificate.margin_bounds[0]
        assert Fraction(float(low)) <= margin <= Fraction(float(high))


def _exact_values(model, policy):
    """Value of the reward and of the constraint, by Gauss elimination with fractions."""
    rows, S, gamma = model.transitions, model.states, Fraction(model.discount)
    shares = [[Fraction(float(p)) for p in row] for row in policy]
    shares = [[p / sum(row) for p in row] for row in shares]
    system = [[Fraction(int(s == t)) for t in range(S)] for s in range(S)]
    sides = [[Fraction(0), Fraction(0)] for _ in range(S)]
    for s in range(S):
        for a, k in enumerate(range(rows.first_choice[s], rows.first_choice[s + 1])):
            own = slice(rows.first_entry[k], rows.first_entry[k + 1])
            chances = [Fraction(float(p)) for p in rows.probabilities[own]]
            for t, chance in zip(rows.successors[own], chances):
                system[s][t] -= gamma * shares[s][a] * chance / sum(chances)
            for i, numbers in enumerate((model.reward, model.constraints[0])):
                sides[s][i] += shares[s][a] * Fraction(float(numbers[k]))
    for s in range(S):
        pivot = system[s][s]
        system[s] = [x / pivot for x in system[s]]
        sides[s] = [x / pivot for x in sides[s]]
        for t in range(S):
            if t != s:
                factor = system[t][s]
                system[t] = [x - factor * y for x, y in zip(system[t], system[s])]
                sides[t] = [x - factor * y for x, y in zip(sides[t], sides[s])]
    start = [Fraction(float(p)) for p in model.initial]
    return tuple(sum(p * side[i] for p, side in zip(start, sides)) / sum(start) for i in range(2))


def test_neighbours_start_from_each_other():
    """The same model again needs no pivot to speak of; a strange one before it does no harm."""
    model = garnet(states=20, constraints=3)
    first, again = solve_many([model, model])
    assert again.trace[0]["evaluations"] <= first.trace[0]["evaluations"]
    assert again.reward == pytest.approx(first.reward, abs=1e-9)


def test_the_callback_sees_every_model():
    rows = []
    solve_many([queue(capacity=5), queue(capacity=6)], callback=rows.append)
    assert [(row["done"], row["models"]) for row in rows] == [(1, 2), (2, 2)]
    assert solve_many([]) == []


@pytest.mark.parametrize(
    ("models", "changes", "sentence"),
    [
        (queue(), {}, "one model is given and nothing changes"),
        (queue(), {"thresholds": 3.0}, "thresholds: it needs an axis in front"),
        (queue(), {"thresholds": [[1.0], [2.0, 3.0]]}, "model 1: thresholds: 2 given for 1"),
        (queue(), {"thresholds": [[1.0]], "discount": [0.9, 0.8]}, "thresholds 1, discount 2"),
        ([queue(), 3], {}, "model 1: a CMDP is needed, not int"),
        ([queue()], {"thresholds": [[1.0]]}, "thresholds are for one model"),
        (3, {}, "a list of CMDPs is needed, not int"),
        ([queue()], {"callback": 3}, "callback: it must be a function"),
    ],
)
def test_bad_input(models, changes, sentence):
    with pytest.raises(InputError, match=sentence):
        solve_many(models, **changes)
