"""The state of a training as leaves, there and back; what runs make of it is in `test_training`."""

import numpy as np
import pytest

from cmdpax import InputError
from cmdpax.learning.config import TrainConfig
from cmdpax.learning.gym_simulator import make_simulator
from cmdpax.learning.learner import init
from cmdpax.learning.run_folder import RunFolder
from cmdpax.learning.saved import (
    acting_leaves,
    begin_from,
    leaves_by_path,
    policy_of,
    restore,
    save,
    with_leaves,
)
from short_run import SMALL

SIMULATOR = make_simulator(SMALL["environment"], 1)


def state(**settings):
    own = {k: v for k, v in SMALL.items() if k != "environment"}
    config = TrainConfig.of({**own, **settings}).resolved()
    return init(config, SIMULATOR), config


def test_names_of_arrays_in_files_are_those_of_0_1():
    learner, _ = state()
    names = {"policy/layers/0/weight", "policy/log_std", "multiplier", "seen/mean"}
    assert names | {"update", "seen/total"} <= leaves_by_path(learner).keys()


def test_leaves_make_the_same_state_again():
    learner, _ = state()
    leaves = leaves_by_path(learner)
    other = with_leaves(learner, {name: leaf + 1 for name, leaf in leaves.items()})
    for name, leaf in leaves_by_path(with_leaves(other, leaves)).items():
        np.testing.assert_array_equal(leaf, leaves[name])
    acting = acting_leaves(learner)
    assert acting.keys() < leaves.keys() and not any(name.startswith("critics/") for name in acting)
    again = policy_of(with_leaves(other, acting), SIMULATOR)
    np.testing.assert_array_equal(again.weights[0], policy_of(learner, SIMULATOR).weights[0])


def test_a_state_is_restored_unless_its_arrays_are_others(tmp_path):
    learner, config = state()
    run = RunFolder(tmp_path / "run")
    assert restore(learner, run, SIMULATOR) is learner
    with run.begin({"environment": SMALL["environment"], **vars(config)}):
        save(with_leaves(learner, {"multiplier": np.array([3.5])}), SIMULATOR, run)
    np.testing.assert_array_equal(restore(learner, run, SIMULATOR).multiplier, [3.5])
    wider, _ = state(hidden=(3,))
    with pytest.raises(InputError, match="has other arrays than this config needs"):
        restore(wider, run, SIMULATOR)
    began = begin_from(run, learner, SIMULATOR, config)
    np.testing.assert_array_equal(began.multiplier, learner.multiplier)
    with pytest.raises(InputError, match="has other layers"):
        begin_from(run, *state(hidden=(3,))[:1], SIMULATOR, state(hidden=(3,))[1])
