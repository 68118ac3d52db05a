"""Layouts of other libraries give the same model as our own."""

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import scipy.sparse as sp

from cmdpax import CMDP, InputError, solve
from cmdpax.exact.standard import StandardForm

S, A = 3, 3  # square on purpose: no shape says which axis is which
RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(S), size=(A, S))  # [A, S, S]
PAID = RNG.random((A, S, S))  # by transition
REWARD, COST = RNG.random((S, A)), RNG.random((S, A))
REST = {"thresholds": [4.0], "senses": "<=", "initial": 0}


def plain(reward=REWARD, cost=COST) -> CMDP:
    """The same model, its rows stated one by one."""
    rows = [[P[a, s] for a in range(A)] for s in range(S)]
    return CMDP(np.array(rows), reward, [cost], discount=0.9, **REST)


def objects(matrices):
    array = np.empty(len(matrices), dtype=object)
    array[:] = [sp.csr_matrix(one) for one in matrices]
    return array


FORMS = {
    "array": lambda P: P,
    "list": list,
    "sparse": lambda P: [sp.csr_array(one) for one in P],
    "matrices": lambda P: tuple(sp.csc_matrix(one) for one in P),
    "objects": objects,
}


@pytest.mark.parametrize("form", FORMS)
def test_mdptoolbox_matrices_in_every_form(form):
    model = CMDP.from_mdptoolbox(FORMS[form](P), REWARD, 0.9, constraints=[COST], **REST)
    assert model.digest == plain().digest


@pytest.mark.parametrize("form", FORMS)
def test_mdptoolbox_rewards_of_transitions_are_means(form):
    expected = np.array([[P[a, s] @ PAID[a, s] for a in range(A)] for s in range(S)])
    matrices = FORMS[form](PAID)
    model = CMDP.from_mdptoolbox(P, matrices, 0.9, constraints=[matrices], **REST)
    np.testing.assert_allclose(model.reward, expected.ravel(), rtol=1e-14)
    np.testing.assert_allclose(model.constraints[0], expected.ravel(), rtol=1e-14)


def test_mdptoolbox_rewards_of_states_hold_for_every_action():
    model = CMDP.from_mdptoolbox(P, [1.0, 2.0, 3.0], 0.9, initial=0)
    assert model.as_table(model.reward).tolist() == [[1.0] * 3, [2.0] * 3, [3.0] * 3]
    assert model.constraint_count == 0 and model.reward.shape == (9,)


def test_the_forest_of_mdptoolbox():
    """`mdptoolbox.example.forest()`: 3 states, wait or cut; at discount .9 its policy is to wait,
    and V = [26.244, 29.484, 33.484] (its documentation)."""
    wait = [[0.1, 0.9, 0.0], [0.1, 0.0, 0.9], [0.1, 0.0, 0.9]]
    cut = [[1.0, 0.0, 0.0]] * 3
    model = CMDP.from_mdptoolbox([wait, cut], [[0, 0], [0, 1], [4, 2]], 0.9, initial=0)
    values = [solve(model.replace(initial=s)).reward for s in range(3)]
    np.testing.assert_allclose(values, [26.244, 29.484, 33.484], rtol=1e-9)


MDPTOOLBOX = {
    "P not square": (np.ones((2, 2, 3)), [0, 0], r"P\[0\]: shape \(2, 3\), expected \(3, 3\)"),
    "P empty": ([], [0], r"P: give a matrix \[S, S\] for each action"),
    "R transposed": (P[:2], np.zeros((2, 3)), r"R: shape \(2, 3\), expected \[S\], \[S, A\] or"),
    "R too few": (P, FORMS["sparse"](PAID[:2]), r"R: 2 matrices for 3 actions"),
}


@pytest.mark.parametrize(("matrices", "rewards", "sentence"), MDPTOOLBOX.values(), ids=MDPTOOLBOX)
def test_mdptoolbox_refusals(matrices, rewards, sentence):
    with pytest.raises(InputError, match=sentence):
        CMDP.from_mdptoolbox(matrices, rewards, 0.9, initial=0)


def test_quantecon_tables_and_pairs_are_one_model():
    Q = P.transpose(1, 0, 2)
    model = CMDP.from_quantecon(REWARD, Q, 0.9, constraints=[COST], **REST)
    assert model.digest == plain().digest
    s, a = (part.ravel() for part in np.indices((S, A)))
    for order in (np.arange(9), RNG.permutation(9)):
        for rows in (Q.reshape(9, S)[order], sp.csr_array(Q.reshape(9, S)[order])):
            pairs = REWARD.ravel()[order], rows, 0.9, s[order], a[order]
            own = CMDP.from_quantecon(*pairs, constraints=[COST.ravel()[order]], **REST)
            assert own.digest == model.digest


def test_quantecon_constraints_have_the_shape_of_the_rewards():
    with pytest.raises(InputError, match=r"constraints\[0\]: shape \(3,\), expected \(3, 3\) as R"):
        CMDP.from_quantecon(REWARD, P.transpose(1, 0, 2), 0.9, constraints=[COST[0]], **REST)


def test_quantecon_minus_infinity_is_no_action():
    """The example of QuantEcon's documentation: state 0 has two actions, state 1 one;
    at beta .95 the values are -8.57142857 and -20."""
    R, Q = [[5, 10], [-1, -np.inf]], [[(0.5, 0.5), (0, 1)], [(0, 1), (0.5, 0.5)]]
    table = CMDP.from_quantecon(R, Q, 0.95, initial=0)
    pairs = CMDP.from_quantecon(
        [5, 10, -1], [(0.5, 0.5), (0, 1), (0, 1)], 0.95, [0, 0, 1], [0, 1, 0], initial=0
    )
    assert table.choices == 3 and table.digest == pairs.digest
    for model in (table, pairs):
        assert solve(model).reward == pytest.approx(-8.57142857, abs=1e-8)
        assert solve(model.replace(initial=1)).reward == pytest.approx(-20, abs=1e-8)


QUANTECON = {
    "shapes": ((np.zeros((2, 2)), np.ones((2, 2, 3))), r"R \(2, 2\) and Q \(2, 2, 3\) do not fit"),
    "pairs": ((np.zeros(2), np.ones((3, 2)), 0.9, [0, 1], [0, 0]), r"Q \(3, 2\) do not fit"),
    "twice": ((np.zeros(2), np.eye(2), 0.9, [0, 0], [1, 1]), "state 0, action 1 is listed twice"),
    "none": ((np.zeros(2), np.eye(2), 0.9, [0, 0], [0, 1]), "state 1: the action set is empty"),
    "range": ((np.zeros(2), np.eye(2), 0.9, [0, 2], [0, 0]), r"s_indices\[1\] is 2; it must lie"),
    "size": ((np.zeros(2), np.eye(2), 0.9, [0], [0, 0]), r"s_indices: shape \(1,\) of int64, exp"),
    "NaN": ((np.full((1, 1), np.nan), np.ones((1, 1, 1))), "reward of state 0, action 0 is nan"),
}


@pytest.mark.parametrize(("arguments", "sentence"), QUANTECON.values(), ids=QUANTECON)
def test_quantecon_refusals(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        CMDP.from_quantecon(*arguments, **({"beta": 0.9} if len(arguments) < 3 else {}), initial=0)


# ---- Gymnasium's toy text
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
