"""What identifies a model, and that of version 0.1 (files of it are in `test_archive.py`)."""

from hashlib import sha256
from typing import Any

import numpy as np
import scipy.sparse as sp

from cmdpax import Grid
from cmdpax.model.digest import digest_of, digest_of_0_1
from two_states import COST, DENSE, GOOD, MASK, build


def test_digest_is_of_what_is_said_not_of_labels_or_storage() -> None:
    model = build()
    sparse = [sp.csr_array(DENSE[:, a]) for a in range(2)]
    same: list[dict[str, Any]] = [
        {"state_names": ["a", "b"], "action_names": ["x", "y"], "constraint_names": ["c"]},
        {"grid": Grid(((0.0, 0.0), (1.0, 0.0)), ((0.0, 1.0), (1.0, 0.0)))},
        {"transitions": sparse},
        {"transitions": sp.coo_array(DENSE.reshape(4, 2))},
        {"transitions": DENSE.tolist(), "reward": [[1, 2], [0, 3]]},
        {"transitions": (np.array([[[0, 1, 1]] * 2] * 2), wide_rows())},
        {"senses": [">="], "minimise": False, "available": np.ones((2, 2), dtype=bool)},
    ]
    for changes in same:
        assert build(**changes).digest == model.digest, changes
    chances = DENSE.copy()
    chances[0, 0] = [0.5 + 1e-9, 0.5 - 1e-9]
    other: list[dict[str, Any]] = [
        {"discount": 0.8},
        {"thresholds": [2.5]},
        {"senses": ["<="]},
        {"senses": ["=="]},
        {"thresholds": [(2.0, 3.0)]},
        {"minimise": True},
        {"initial": [0.5, 0.5]},
        {"reward": np.zeros((2, 2))},
        {"constraints": [COST + 1]},
        {"constraints": [COST, COST], "thresholds": [2.0, 2.0]},
        {"transitions": chances},
        {"available": MASK},
    ]
    digests = [build(**changes).digest for changes in other]
    assert len({model.digest, *digests}) == 1 + len(other)
    assert build(reward=np.full((2, 2), -0.0)).digest == build(reward=np.zeros((2, 2))).digest
    turned = build(constraints=[-COST], thresholds=[-2.0], senses=["<="])
    assert turned.digest != model.digest  # it is said the other way round


def wide_rows() -> np.ndarray:
    """The probabilities of `DENSE` for successors 0, 1, 1: as lists with an unused place."""
    return np.concatenate([DENSE, np.zeros((2, 2, 1))], axis=2)


def test_a_digest_depends_on_what_ends_a_run() -> None:
    goal = build(discount=1.0, goal=[1], initial=0)
    models = [build(), goal, build(discount=1.0, criterion="average")]
    models += [goal.replace(may_stay=True), build(discount=1.0, horizon=3), build(horizon=3)]
    assert len({digest_of(model) for model in models}) == len(models)


def test_the_digest_of_version_0_1_is_of_padded_rows() -> None:
    """Of `<=` it took the constraint, and the threshold, times -1."""
    hasher = sha256()
    successors = np.array([[[0, 1], [1, 0]], [[0, 0], [0, 1]]], dtype=np.int32)
    chances = np.array([[[0.5, 0.5], [1.0, 0.0]], [[1.0, 0.0], [0.25, 0.75]]])
    reward, initial = np.array(GOOD["reward"]), np.array(GOOD["initial"])
    for array in (successors, chances, reward, 0.0 - COST[None], np.array([-2.0]), initial):
        hasher.update(str(array.shape).encode() + array.tobytes())
    hasher.update(b"0.9")
    model = build(senses="<=")
    assert digest_of_0_1(model) == hasher.hexdigest()
    assert model.matches(f"0.1:{hasher.hexdigest()}") and not model.matches(hasher.hexdigest())
