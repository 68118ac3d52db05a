"""Toy-text environments: the values of their tables, their maps and their names."""

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

from cmdpax import CMDP, InputError
from cmdpax.exact.standard import StandardForm


def frozen_lake() -> Any:
    return gymnasium.make("FrozenLake-v1", is_slippery=True)


def hole(s: int, a: int, successor: int) -> float:
    return float(successor in (5, 7, 11, 12))


def test_from_toy_text_has_the_values_of_the_table() -> None:
    """Values of a random policy, against plain iteration on the environment's own table."""
    env, discount = frozen_lake(), 0.95
    model = CMDP.from_toy_text(env, hole, limit=0.1, discount=discount, cost_name="holes")
    assert (model.states, model.senses, model.constraint_names) == (17, ("<=",), ("holes",))
    assert model.state_names is not None and model.state_names[-1] == "end"
    assert model.available is None
    policy = np.random.default_rng(0).dirichlet(np.ones(4), size=17)
    V, C = np.zeros(16), np.zeros(16)
    for _ in range(800):
        new_V, new_C = np.zeros(16), np.zeros(16)
        for s in range(16):
            for a in range(4):
                for p, successor, gain, terminated in env.unwrapped.P[s][a]:
                    stays = discount * (not terminated)
                    new_V[s] += policy[s, a] * p * (gain + stays * V[successor])
                    new_C[s] += policy[s, a] * p * (hole(s, a, successor) + stays * C[successor])
        V, C = new_V, new_C
    form = StandardForm.of(model)
    rewards = np.stack([model.reward, *model.constraints])
    policy = model.by_choice(policy)
    values = form.criterion.values(form, policy, rewards)
    np.testing.assert_allclose(values[:, :16], [V, C], atol=1e-12)
    assert values[0, 16] == values[1, 16] == 0
    assert float(form.evaluate(policy).margins[0]) == pytest.approx(0.1 - C[0], abs=1e-12)


def test_from_toy_text_explains_what_is_wrong() -> None:
    def attempt(env: Any, cost: Any = hole, **options: Any) -> CMDP:
        return CMDP.from_toy_text(env, cost, limit=0.1, discount=0.9, **options)

    class Bare:
        P = frozen_lake().unwrapped.P

    with pytest.raises(InputError, match=r"no transition table `unwrapped\.P`"):
        attempt(gymnasium.make("CartPole-v1"))
    with pytest.raises(InputError, match=r"initial: shape \(3,\), expected \(17,\)"):
        attempt(frozen_lake(), initial=[1.0, 0.0])
    with pytest.raises(
        InputError, match=r"initial: the environment does not tell it; give the distribution"
    ):
        attempt(Bare())
    for bad in (np.nan, None):
        with pytest.raises(InputError, match=rf"cost\(0, 0, 0\): {bad} is not a finite number"):
            attempt(frozen_lake(), lambda s, a, successor, bad=bad: bad)


def test_a_lake_is_drawn_as_its_map() -> None:
    model = CMDP.from_toy_text(frozen_lake(), hole, limit=0.1, discount=0.9)
    grid = model.grid
    assert grid is not None and grid.hazards == (5, 7, 11, 12) and grid.goals == (15,)
    assert grid.cells[0] == (0.0, 3.0) and grid.cells[15] == (3.0, 0.0)  # the first row is above
    assert grid.absorbing == (16,)
    assert model.state_names is not None and model.state_names[6] == "(1, 2)"
    assert model.action_names == ("left", "down", "right", "up")


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalking-v1"])
def test_actions_lead_where_the_picture_says(name: str) -> None:
    """Off the edge a step stays; into the cliff it leads back to the start."""
    env = gymnasium.make(name, is_slippery=False)
    model = CMDP.from_toy_text(env, lambda s, a, t: 0.0, limit=1.0, discount=0.9)
    grid = model.grid
    assert grid is not None
    places = {place: s for s, place in enumerate(grid.cells[:-1])}
    for s, row in env.unwrapped.P.items():
        for a, [(_, target, *_)] in row.items():
            x, y = grid.cells[s]
            beside = places.get((x + grid.moves[a][0], y + grid.moves[a][1]), s)
            is_cliff = name.startswith("Cliff") and beside in grid.hazards
            if s not in (*grid.hazards, *grid.goals):
                assert target == (36 if is_cliff else beside)


def test_a_taxi_has_names() -> None:
    env = gymnasium.make("Taxi-v4")
    model = CMDP.from_toy_text(env, lambda s, a, t: 1.0, limit=100.0, discount=0.9)
    names = model.state_names
    assert names is not None and len(set(names)) == 501
    assert names[env.unwrapped.encode(2, 3, 4, 1)] == "(2, 3, taxi, G)"
    assert names[env.unwrapped.encode(0, 0, 2, 3)] == "(0, 0, Y, B)"
    drop = model.action_labels.index("drop off")
    s = env.unwrapped.encode(0, 4, 4, 1)  # with the passenger, where he wants to go
    *_, reward, terminated = env.unwrapped.P[s][drop][0]
    assert terminated and reward == 20 and model.as_table(model.reward)[s, drop] == 20


def test_an_unknown_table_has_numbers() -> None:
    table = {0: {0: [(1.0, 1, 0.0, False)]}, 1: {0: [(1.0, 0, 1.0, True)]}}
    model = CMDP.from_toy_text(
        SimpleNamespace(P=table), lambda s, a, t: 0.0, 1.0, 0.9, initial=[1.0, 0.0]
    )
    assert model.state_names == ("0", "1", "end") and model.grid is None
