"""Random models with the structures that break solvers, one with every label, and the path of
large models.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from cmdpax import CMDP, Grid
from cmdpax.exact.discounted import Discounted
from cmdpax.exact.forms import BlockForm
from cmdpax.exact.standard import StandardForm
from cmdpax.loops import components
from cmdpax.loops.compiled import readable
from cmdpax.loops.rows import Block
from cmdpax.model.transitions import Transitions

STRUCTURES = ("random", "cycle", "absorbing", "identity", "reset", "unreachable", "chain")
KINDS = ("normal", "uniform", "binary", "scaled", "redundant", "constant")
DISCOUNTS = (0.0, 0.5, 0.9, 0.99, 0.999)
BLOCK_SHAPE = 6, 2, 3  # states, actions and successors of `block_form`
OFFSETS = (-0.3, -0.05, -1e-3, -1e-6, -3e-7, 0.0, 3e-7, 1e-6, 1e-3, 0.05, 0.3)


def build(
    structure: str,
    states: int,
    actions: int,
    branching: int,
    discount: float,
    seed: int,
    constraints: int = 1,
    *,
    kind: str = "normal",
    start: str = "uniform",
    offset: float | None = None,
) -> CMDP:
    """One model; every constraint is `>=`.

    structure: one of `STRUCTURES`; `unreachable` and `chain` begin in state 0, and `unreachable`
    only ever moves down. kind: of rewards, one of `KINDS`. start: `uniform`, `first` or `random`.
    offset: thresholds lie this share of the scale above what a random policy achieves, so that
    models are feasible, infeasible and in between; None puts them at 0.
    """
    rng = np.random.default_rng(seed)
    own, shape = np.arange(states)[:, None, None], (states, actions, branching)
    successors = rng.integers(0, states, shape)
    if structure == "cycle":
        successors = np.broadcast_to((own + 1) % states, shape)
    elif structure == "absorbing":
        successors[:, 0] = own[:, 0]
    elif structure == "identity":
        successors = np.broadcast_to(own, shape)
    elif structure == "reset":
        successors[:, :, 0] = 0
    elif structure == "unreachable":
        successors = np.minimum(successors, own)
    elif structure == "chain":
        successors = np.clip(own + rng.integers(-1, 2, shape), 0, states - 1)
    transitions = (successors, rng.dirichlet(np.ones(branching), (states, actions)))
    reward, rows = _rewards(rng, kind, (states, actions), constraints)
    if start == "first" or structure in ("unreachable", "chain"):
        initial = np.eye(states)[0]
    elif start == "uniform":
        initial = np.full(states, 1 / states)
    else:
        initial = rng.dirichlet(np.ones(states))
    model = CMDP(transitions, reward, rows, np.zeros(constraints), initial, discount)
    if offset is None:
        return model
    form = StandardForm.of(model)
    policy = rng.dirichlet(np.ones(actions), states)
    achieved = form.evaluate(model.by_choice(policy)).margins
    return model.replace(thresholds=achieved + offset * form.constraint_scales)


def _rewards(
    rng: np.random.Generator, kind: str, shape: tuple[int, int], m: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rewards `[S, A]` and constraint rewards `[m, S, A]`."""
    if kind == "normal":
        return rng.normal(size=shape), rng.normal(size=(m, *shape))
    reward, rows = rng.random(shape), rng.random((m, *shape))
    if kind == "binary":
        return np.round(reward), np.round(rows)
    if kind == "scaled":
        sizes = 10.0 ** rng.integers(-3, 4, (1 + m, 1, 1))
        return reward * sizes[0], (rows - 0.5) * sizes[1:]
    if kind == "redundant" and m > 1:
        rows[1], rows[-1] = rows[0], 1 - rows[0]
    elif kind == "constant" and m:
        rows[0] = 0.25
    return reward, rows


@st.composite
def cmdps(
    draw: st.DrawFn, constraints: tuple[int, int] = (0, 4), states: int = 30, actions: int = 5
) -> CMDP:
    """Models of every structure and kind, with thresholds around what a random policy achieves."""
    return build(
        draw(st.sampled_from(STRUCTURES)),
        draw(st.integers(1, states)),
        draw(st.integers(1, actions)),
        draw(st.integers(1, 4)),
        draw(st.sampled_from(DISCOUNTS)),
        draw(st.integers(0, 2**32 - 1)),
        draw(st.integers(*constraints)),
        kind=draw(st.sampled_from(KINDS)),
        start=draw(st.sampled_from(["first", "random", "uniform"])),
        offset=draw(st.sampled_from(OFFSETS)),
    )


def labelled(**changes: Any) -> CMDP:
    """Three states, two actions, one pair unavailable, two senses, every label."""
    fields: dict[str, Any] = {
        "transitions": [
            [[0.1, 0.2, 0.7], [0.0, 1.0, 0.0]],
            [[1 / 3, 1 / 3, 1 / 3], [1.0, 0.0, 0.0]],
            [[0, 0, 1], [0, 0, 1]],
        ],
        "reward": [[1.0, 0.1], [-2.0, 1e-300], [0.0, 0.3]],
        "constraints": [
            [[1.0, 2.0], [0.0, 0.1], [0.0, 0.0]],
            [[0.0, -1.0], [1 / 7, 0.0], [2.0, 0.0]],
        ],
        "thresholds": [4.0, -1.5],
        "initial": [0.3, 0.7, 0.0],
        "discount": 0.95,
        "senses": ["<=", ">="],
        "available": [[True, True], [True, True], [True, False]],
        "state_names": ["a", "b", "päuse"],
        "action_names": ["go", "stay"],
        "constraint_names": ["energy", "output"],
        "grid": Grid(
            ((0.0, 0.0), (1.0, 0.5), (2.0, 0.0)),
            ((1.0, 0.0), (0.0, 0.0)),
            hazards=(1,),
            goals=(2,),
            absorbing=(2,),
        ),
    }
    return CMDP(**{**fields, **changes})


def assert_same(one: CMDP, other: CMDP) -> None:
    """The same numbers to the last bit, and the same labels."""
    assert one.digest == other.digest
    labels = (
        "senses",
        "minimise",
        "state_names",
        "action_names",
        "constraint_names",
        "grid",
        "notes",
    )
    for label in labels:
        assert getattr(one, label) == getattr(other, label), label
    np.testing.assert_array_equal(one.thresholds, other.thresholds)
    assert one.actions == other.actions
    np.testing.assert_array_equal(one.transitions.action_of, other.transitions.action_of)


def assert_valid(model: CMDP) -> None:
    """Every promise of the class, recomputed."""
    rows, m = model.transitions, model.constraint_count
    S, K = model.states, model.choices
    assert S >= 1 and (np.diff(rows.first_choice) >= 1).all() and rows.first_choice[-1] == K
    assert (np.diff(rows.first_entry) >= 1).all() and rows.first_entry[-1] == len(rows.successors)
    assert model.reward.shape == (K,) and model.constraints.shape == (m, K)
    assert rows.successors.min() >= 0 and rows.successors.max() < S
    assert 0 <= model.discount <= 1
    for array in (rows.probabilities, model.initial, model.reward, model.constraints):
        assert np.isfinite(array).all()
    assert rows.probabilities.min() > 0 and model.initial.min() >= 0
    sums = np.add.reduceat(rows.probabilities, rows.first_entry[:-1])
    np.testing.assert_allclose(sums, 1.0, rtol=1e-12)
    assert model.initial.sum() == pytest.approx(1, rel=1e-12)
    within = np.repeat(np.arange(K), np.diff(rows.first_entry))
    assert (np.diff(rows.successors)[np.diff(within) == 0] > 0).all()
    cells = rows.state_of.astype(int) * model.actions + rows.action_of
    assert (np.diff(cells) > 0).all() and rows.action_of.max() < model.actions
    assert len(model.senses) == len(model.constraint_names) == m
    assert np.isfinite(model.limits.row_thresholds).all()
    assert (model.limits.bounds[:, 0] <= model.limits.bounds[:, 1]).all()


def turned(model: CMDP, which: Sequence[bool], objective: bool = False) -> CMDP:
    """The same problem with the marked constraints (and the objective) the other way round."""
    marked = np.asarray(which, dtype=bool)
    signs = np.where(marked, -1.0, 1.0)
    bounds = np.where(marked[:, None], -model.limits.bounds[:, ::-1], model.limits.bounds)
    return model.replace(
        reward=-model.reward if objective else model.reward,
        minimise=model.minimise != objective,
        constraints=model.constraints * signs[:, None],
        thresholds=bounds,  # pairs say their senses themselves
        senses=None,
        constraint_names=model.constraint_names,
    )


def renumbered(model: CMDP, seed: int) -> CMDP:
    """The same model with its states numbered at random; every state has all actions."""
    order = np.random.default_rng(seed).permutation(model.states)  # the old number of each state
    choices = (order[:, None] * model.actions + np.arange(model.actions)).ravel()
    return model.replace(
        transitions=model.transitions.matrix[choices][:, order],
        reward=model.reward[choices],
        constraints=model.constraints[:, choices],
        initial=model.initial[order],
        state_names=None,
        grid=None,
    )


def block_form(seed: int, **kind: Any) -> tuple[BlockForm, np.ndarray, np.ndarray]:
    """A random form of a function, its transitions `[S, A, S]`, and reward, cost and 1 `[3, S, A]`.

    Its discount is 0.8.
    """
    (S, A, B), rng = BLOCK_SHAPE, np.random.default_rng(seed)
    successors, chances = rng.integers(0, S, (S, A, B)), rng.dirichlet(np.ones(B), (S, A))
    reward, cost = rng.normal(size=(2, S, A))

    def rows(first: int, last: int) -> tuple[np.ndarray, ...]:
        here = slice(first, last)
        return successors[here], chances[here], reward[here], cost[None, here]

    chosen = {"initial": {0: 0.25, 3: 0.75}, "thresholds": [1.0], "senses": "<=", **kind}
    model = CMDP.from_rows(rows, states=S, discount=0.8, **chosen)
    tensor = np.zeros((S, A, S))
    for s, a, b in np.ndindex(S, A, B):
        tensor[s, a, successors[s, a, b]] += chances[s, a, b]
    form = BlockForm.of(model, Discounted(0.8))
    return form, tensor, np.stack([reward, cost, np.ones((S, A))])


def degenerate(seed: int) -> CMDP:
    """Few numbers, copies of choices and of constraints, thresholds that some policy just meets."""
    rng = np.random.default_rng(seed)
    S, A, m, B = (int(rng.integers(*ends)) for ends in ((2, 20), (1, 5), (1, 7), (1, 4)))
    successors = rng.integers(0, S, (S, A, B))
    reward = rng.integers(0, 3, (S, A)).astype(float)
    constraints = rng.integers(0, 2, (m, S, A)).astype(float)
    if A > 1 and seed % 2:
        successors[:, 1], reward[:, 1] = successors[:, 0], reward[:, 0]
        constraints[:, :, 1] = constraints[:, :, 0]
    constraints[-1] = constraints[0]
    discount = float(rng.choice([0.5, 0.9, 0.99, 0.999]))
    rows = successors, np.full((S, A, B), 1 / B)
    model = CMDP(rows, reward, constraints, np.zeros(m), 0, discount)
    form = StandardForm.of(model)
    values = form.evaluate(form.uniform_policy()).margins
    share = rng.choice([0.0, -0.05, 0.05])
    return model.replace(thresholds=values + share * np.abs(values))


def dense_transitions(model: CMDP, policy: np.ndarray) -> np.ndarray:
    """`P_pi [S, S]` by brute force, for choices `[S]` or probabilities `[K]`."""
    matrix, rows = np.zeros((model.states, model.states)), model.transitions
    for s in range(model.states):
        for k in range(rows.first_choice[s], rows.first_choice[s + 1]):
            weight = float(policy[s] == k) if policy.dtype.kind in "iu" else policy[k]
            for e in range(rows.first_entry[k], rows.first_entry[k + 1]):
                matrix[s, rows.successors[e]] += weight * rows.probabilities[e]
    return matrix


def own_block(model: CMDP, first: int, last: int) -> tuple[Block, np.ndarray]:
    """Rows of the states `first .. last - 1`, choices and entries counted from 0, and rewards."""
    first_choice, first_entry, *entries = model.rows(first, last)
    pays = model.reward[first_choice[0] : first_choice[-1]]
    pointers = (readable(part - part[0]) for part in (first_choice, first_entry))
    return Block(*pointers, *entries), readable(pays)


def random_policies(model: CMDP, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """A choice of each state `[S]`, and probabilities `[K]`, some of them 0."""
    rng, first = np.random.default_rng(seed), model.first_choice
    choices = (first[:-1] + rng.integers(0, np.diff(first))).astype(np.int32)
    mixed = rng.exponential(size=model.choices) * (rng.random(model.choices) < 0.7)
    mixed[choices] += 0.1
    return choices, mixed / model.transitions.by_state(model.transitions.sums(mixed))


def uneven(states: int, seed: int, discount: float = 0.9, constraints: int = 1) -> CMDP:
    """A random model with one to four choices of one to five successors, numbered at random."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 5, states)
    near = rng.random() < 0.5  # or else it may go anywhere
    choices = []
    for s in np.repeat(np.arange(states), counts).tolist():
        to = rng.integers(0, states, rng.integers(1, 6))
        to = np.clip(s + rng.integers(-2, 3, len(to)), 0, states - 1) if near else to
        choices.append(dict.fromkeys(to.tolist(), 1 / len(set(to.tolist()))))
    ends = np.cumsum(counts).tolist()
    listed = [choices[end - n : end] for end, n in zip(ends, counts.tolist())]
    K = len(choices)
    rows = rng.random((constraints, K))
    return CMDP(listed, rng.random(K), rows, np.zeros(constraints), 0, discount)


@contextmanager
def large_path(eliminates: bool = True) -> Iterator[None]:
    """Send models of every size down the path of large ones, with elimination or without."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transitions, "is_small", property(lambda transitions: False))
        if not eliminates:
            patch.setattr(components, "LARGE", 2)
            patch.setattr(components, "LARGEST", 0)
        yield
