"""Graphs of choices: where runs can stay, and from where an end is surely reached."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cmdpax import CMDP
from cmdpax.exact.endings import end_components, merged, surely, towards
from cmdpax.exact.transient import ended_states


@given(st.integers(0, 2**32 - 1))
def test_end_components_are_those_of_some_policy_that_never_ends(seed):
    """Against all deterministic policies: does any have a class that avoids the end?"""
    rng = np.random.default_rng(seed)
    S, A = 4, 2
    moves = (rng.random((S, A, S)) < 0.35).astype(float)
    moves[..., S - 1] += moves.sum(-1) == 0
    model = CMDP(
        moves / moves.sum(-1, keepdims=True), np.ones((S, A)), np.zeros((0, S, A)), [], 0, 1.0,
        goal=[S - 1],
    )  # fmt: skip
    ended = ended_states(model)
    dense = [model.transitions.matrix.toarray()[i:j] for i, j in zip(
        model.first_choice[:-1], model.first_choice[1:])]  # fmt: skip
    is_endless = False
    for choice in product(*(range(len(rows)) for rows in dense)):
        chain = np.array([rows[a] for rows, a in zip(dense, choice)])
        reaches = np.linalg.matrix_power(np.eye(S) + (chain > 0), S)[:, ended].sum(1) > 0
        is_endless |= bool((~reaches).any())
    label, inner = end_components(model.transitions, model.transitions.by_state(~ended))
    assert inner.any() == (label >= 0).any() == is_endless


def random_moves(seed, S=5, A=2):
    rng = np.random.default_rng(seed)
    moves = (rng.random((S, A, S)) < 0.35) * rng.random((S, A, S))
    moves[..., S - 1] += moves.sum(-1) == 0
    moves /= moves.sum(-1, keepdims=True)
    return CMDP(moves, np.ones((S, A)), np.zeros((0, S, A)), [], 0, 1.0, goal=[S - 1])


@given(st.integers(0, 2**32 - 1))
def test_an_end_is_surely_reached_where_some_policy_has_probability_one(seed):
    """Against all deterministic policies, and the policy that goes towards it."""
    model = random_moves(seed)
    rows, ended = model.transitions, ended_states(model)
    live, kept = surely(rows, np.ones(rows.choices, dtype=bool), ended)
    dense, S = rows.matrix.toarray(), model.states

    def chances(choices):
        return np.linalg.matrix_power(dense[choices], 2**20)[:, ended].sum(1)

    spans = zip(rows.first_choice[:-1], rows.first_choice[1:])
    best = max(
        (chances(list(choice)) > 1 - 1e-9 for choice in product(*(range(i, j) for i, j in spans))),
        key=sum,
    )
    assert (best <= live).all() and best.sum() == live.sum()
    own = chances(towards(rows, kept, ended))
    assert (own[live] > 1 - 1e-9).all() and live[S - 1]


@given(st.integers(0, 2**32 - 1))
def test_merged_rows_lead_where_the_rows_did(seed):
    model = random_moves(seed)
    rows, ended = model.transitions, ended_states(model)
    label, inner = end_components(rows, rows.by_state(~ended))
    whole = merged(rows, label, inner)
    members = np.eye(whole.rows.states)[whole.state]
    np.testing.assert_allclose(
        whole.rows.matrix.toarray(), (rows.matrix.toarray() @ members)[whole.choices]
    )
    np.testing.assert_array_equal(whole.rows.state_of, whole.state[rows.state_of[whole.choices]])
    for s, one in enumerate(label):
        same = np.flatnonzero(whole.state == whole.state[s])
        np.testing.assert_array_equal(same, [s] if one < 0 else np.flatnonzero(label == one))
