"""Components in their order against brute force; what is solved with them against dense solves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmdpax.loops import components
from cmdpax.loops.bellman import expected, policy_rows
from cmdpax.loops.components import (
    Order,
    find_order,
    inside,
    outside,
    part,
    send_outside,
    solve_small,
)
from cmdpax.model.cmdp import CMDP
from models import STRUCTURES, build, dense_transitions, random_policies, uneven


def model_of(structure: str, states: int, seed: int) -> CMDP:
    if structure == "uneven":
        return uneven(states, seed)
    return build(structure, states, 2, 1 + seed % 2, 0.9, seed)


def reaches(model: CMDP) -> np.ndarray:
    """`[S, S]` booleans: whether t is reached from s in any number of steps, 0 included."""
    step = dense_transitions(model, model.transitions.uniform_policy()) > 0
    reach = step | np.eye(model.states, dtype=bool)
    for _ in range(int(np.ceil(np.log2(model.states + 1)))):
        reach = reach @ reach
    return reach


CASES = st.tuples(st.sampled_from([*STRUCTURES, "uneven"]), st.integers(1, 40), st.integers(0, 999))


@settings(max_examples=200)
@given(CASES)
def test_components_are_those_of_mutual_reachability_and_sinks_come_first(case):
    model = model_of(*case)
    order, reach = find_order(model.transitions), reaches(model)
    assert sorted(order.states) == list(range(model.states))
    number = np.empty(model.states, dtype=int)
    number[order.states] = np.repeat(np.arange(len(order.starts) - 1), np.diff(order.starts))
    np.testing.assert_array_equal(number[:, None] == number, reach & reach.T)
    sources, targets = np.nonzero(dense_transitions(model, model.transitions.uniform_policy()))
    assert (number[targets] <= number[sources]).all()
    leaks = np.zeros(len(order.leaks), dtype=bool)
    leaks[number[sources[number[sources] != number[targets]]]] = True
    np.testing.assert_array_equal(order.leaks, leaks)
    np.testing.assert_array_equal(order.states[order.place], np.arange(model.states))


def test_groups_cover_all_components_in_order(monkeypatch):
    monkeypatch.setattr(components, "LARGE", 4)
    for seed in range(20):
        order = find_order(uneven(40, seed).transitions)
        sizes = np.diff(order.starts)
        assert [first for first, _, _ in order.groups] == [
            0,
            *(last for _, last, _ in order.groups[:-1]),
        ]
        assert order.groups[-1][1] == len(sizes)
        for first, last, is_large in order.groups:
            assert (
                (last == first + 1 and sizes[first] >= 4)
                if is_large
                else (sizes[first:last] < 4).all()
            )


def corridor(states: int, names: np.ndarray, back: float = 0.3) -> CMDP:
    """A walk on a line whose states are numbered by `names`."""
    own = np.arange(states)
    to = np.stack([np.minimum(own + 1, states - 1), np.maximum(own - 1, 0)], 1)[:, None]
    successors = np.empty((states, 1, 2), dtype=int)
    successors[names] = names[to]
    chances = np.broadcast_to([1 - back, back], successors.shape)
    return CMDP((successors, chances), np.zeros((states, 1)), [], [], 0, 0.9)


def test_a_walk_that_is_numbered_at_random_is_put_in_order():
    names = np.random.default_rng(0).permutation(5000)
    order = find_order(corridor(5000, names).transitions)
    walk = np.argsort(names)[order.states]  # where on the line each state stands
    assert len(order.starts) == 2 and not order.is_plain
    assert (np.abs(np.diff(walk)) == 1).all()


@pytest.mark.parametrize(
    "model", [corridor(3000, np.arange(3000)), build("random", 3000, 3, 3, 0.9, 0)]
)
def test_what_is_in_order_or_cannot_be_keeps_its_numbering(model):
    order = find_order(model.transitions)
    largest = int(np.argmax(np.diff(order.starts)))
    assert (np.diff(order.members(largest, largest + 1).astype(int)) > 0).all()


@settings(max_examples=100)
@given(CASES, st.sampled_from([0.0, 0.9, 0.999]))
def test_small_components_are_solved_one_after_another(case, discount):
    model = model_of(*case)
    order, rng = find_order(model.transitions), np.random.default_rng(0)
    for policy in random_policies(model):
        matrix, dense = policy_rows(model.transitions, policy), dense_transitions(model, policy)
        right = rng.normal(size=(2, model.states))
        for transpose in (False, True):
            vectors = right.copy()
            solve_small(matrix, order.states, order.starts, discount, vectors, transpose)
            system = np.eye(model.states) - discount * (dense.T if transpose else dense)
            exact = np.linalg.solve(system, right.T).T
            np.testing.assert_allclose(vectors, exact, atol=1e-11 / (1 - discount))


def test_a_part_is_a_model_of_its_own():
    """Its rows and what lies beyond it make the rows of the whole."""
    model = uneven(40, 3)
    rows, rng = model.transitions, np.random.default_rng(0)
    states = rng.permutation(40).astype(np.uint32)
    starts, leaks = np.array([0, 10, 25, 40], dtype=np.uint32), np.array([True, True, False])
    order, own = Order(states, starts, leaks, ~leaks, leaks), states[10:25]
    values = rng.normal(size=40)
    inner, choices, beyond = part(rows, order, 1, values)
    expected_choices = [
        k for s in own for k in range(rows.first_choice[s], rows.first_choice[s + 1])
    ]
    assert choices.tolist() == expected_choices
    assert (inner.states, inner.choices) == (15, len(choices))
    whole = rows.matrix.toarray()[choices] @ values
    np.testing.assert_allclose(expected(inner, values[own]) + beyond, whole, atol=1e-14)
    counts = rows.first_choice[own + 1] - rows.first_choice[own]
    np.testing.assert_array_equal(np.diff(inner.whole.first_choice), counts)
    part(rows, order, 2, values)
    assert list(order.kept) == [2]  # what leads nowhere else does not depend on values


def test_a_protocol_is_put_in_the_order_of_its_flow():
    """A long cycle with short cuts, numbered at random: all transitions but those that close it."""
    states, rng = 2000, np.random.default_rng(0)
    names, own = rng.permutation(states), np.arange(states)
    ahead = np.stack([own + 1, own + rng.integers(1, 9, states)], 1)
    ahead[ahead >= states] = 0
    successors = np.empty((states, 1, 2), dtype=int)
    successors[names, 0] = names[ahead]
    model = CMDP((successors, np.full(successors.shape, 0.5)), np.zeros(states), [], [], 0, 0.9)
    order = find_order(model.transitions)
    assert len(order.starts) == 2 and order.flows.all() and not order.leaks.any()
    later = order.place[names[ahead]] > order.place[names][:, None]
    assert later.mean() < 0.02


def test_inside_and_outside_make_the_whole():
    model = uneven(40, 3)
    choices, _ = random_policies(model)
    matrix, dense = policy_rows(model.transitions, choices), dense_transitions(model, choices)
    states = np.random.default_rng(0).permutation(40).astype(np.uint32)
    place, own = np.argsort(states).astype(np.uint32), states[10:25]
    values, mass = np.random.default_rng(1).normal(size=(2, 40))
    within = inside(matrix, own, place, 10).matrix.toarray()
    np.testing.assert_allclose(within, dense[np.ix_(own, own)])
    others = np.setdiff1d(np.arange(40), own)
    sums = outside(matrix, own, place, 10, values)
    np.testing.assert_allclose(sums, dense[np.ix_(own, others)] @ values[others])
    sent = np.zeros(40)
    send_outside(matrix, own, place, 10, mass[:15], sent)
    np.testing.assert_allclose(sent[others], mass[:15] @ dense[np.ix_(own, others)])
    assert not sent[own].any()
