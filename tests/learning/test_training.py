"""Runs: resume after any kill, damaged checkpoints, changed configs, NaN; what multipliers see and
do.
"""

import functools
import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import gymnasium
import jax
import numpy as np
import pytest

import cmdpax
import probes
from cmdpax import InputError, NumericalError, lagrangian
from cmdpax.learning import run_folder as stored
from cmdpax.learning import training
from cmdpax.learning.config import TrainConfig
from cmdpax.learning.gym_simulator import make_simulator
from cmdpax.learning.learner import init
from cmdpax.learning.training import move_multipliers, named, see_margin, train
from short_run import SMALL


def rows(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def last_arrays(folder):
    return stored.read(next(stored.newest(folder / "checkpoints")))[0]


def assert_same_run(folder, other):
    assert (folder / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
    first, second = last_arrays(folder), last_arrays(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)


def test_a_run_is_a_folder(finished):
    assert [row["update"] for row in rows(finished)] == list(range(1, 13))
    assert json.loads((finished / "config.json").read_text())["batch"] == 100
    assert list((finished / "tensorboard").iterdir())
    assert len(list((finished / "checkpoints").glob("*.json"))) == stored.KEPT
    assert not list((finished / "checkpoints").glob("*.part"))


class Stopped(Exception):
    pass


def stop_at(update):
    def report(row):
        if row["update"] == update:
            raise Stopped

    return report


def test_resume_is_bit_identical(finished, tmp_path):
    """Stopped between checkpoints: the rows after the last checkpoint are made again."""
    for update in (1, 5, 8):
        with pytest.raises(Stopped):
            train(SMALL, tmp_path / "cut", resume=update > 1, report=stop_at(update))
    train(SMALL, tmp_path / "cut", resume=True)
    assert_same_run(finished, tmp_path / "cut")


def test_a_damaged_checkpoint_falls_back_to_the_one_before(finished, tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(Stopped):
        train(SMALL, folder, report=stop_at(7))
    newest = next(stored.newest(folder / "checkpoints"))
    data = bytearray(newest.read_bytes())
    data[-5] ^= 1
    newest.write_bytes(data)
    with pytest.warns(UserWarning, match="damaged"):
        train(SMALL, folder, resume=True)
    assert_same_run(finished, folder)


def kill_and_resume(folder, config, kills, random, finished):
    """`kill -9` the training command at random moments of its work; then let it finish, and
    compare.
    """
    fields = ("samples", "batch", "horizon", "passes", "inner", "checkpoint_every")
    settings = [
        part
        for name in fields
        for part in (f"--{name.replace('_', '-')}", str(getattr(config, name)))
    ]
    command = [
        sys.executable,
        "-m",
        "cmdpax",
        "train",
        config.environment,
        "--out",
        str(folder),
        "--hidden",
        "8",
        *settings,
    ]
    metrics = folder / "metrics.jsonl"
    for _ in range(kills):
        resume = ["--resume"] if (folder / "config.json").exists() else []
        wanted = random.integers(1, config.updates)
        process = subprocess.Popen(
            [*command, *resume], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        while process.poll() is None and (
            not metrics.exists() or metrics.read_bytes().count(b"\n") < wanted
        ):
            time.sleep(0.001)
        time.sleep(random.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.wait()
    resume = ["--resume"] if (folder / "config.json").exists() else []
    subprocess.run([*command, *resume], check=True, capture_output=True)
    assert_same_run(finished, folder)


@pytest.mark.slow
def test_fifty_random_kills(finished, tmp_path):
    random = np.random.default_rng(0)
    for trial in range(10):
        kill_and_resume(tmp_path / str(trial), SMALL, 5, random, finished)


def test_resume_with_a_changed_config_shows_the_difference(finished):
    with pytest.raises(InputError, match=r"penalty was 0\.02, is 0\.5"):
        train(replace(SMALL, penalty=0.5), finished, resume=True)


def test_folders_that_do_not_fit(finished, tmp_path):
    with pytest.raises(InputError, match="already holds a run"):
        train(SMALL, finished)
    with pytest.raises(InputError, match="no run to resume"):
        train(SMALL, tmp_path / "nothing", resume=True)
    with pytest.raises(InputError, match="no intact checkpoint"):
        cmdpax.load_policy(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is not a folder"):
        train(SMALL, tmp_path / "file")


@pytest.mark.parametrize("damage", ["missing", "{", "[]"])
def test_a_run_whose_config_is_damaged_is_neither_mixed_with_another_nor_resumed(
    finished, tmp_path, damage
):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    (
        (folder / "config.json").unlink()
        if damage == "missing"
        else (folder / "config.json").write_text(damage)
    )
    with pytest.raises(InputError, match="already holds a run"):
        train(SMALL, folder)
    with pytest.raises(InputError, match=r"not a run folder: it.* config\.json"):
        train(SMALL, folder, resume=True)


def test_rows_of_metrics_are_kept_by_their_update(finished, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    path, lines = (
        folder / "metrics.jsonl",
        (finished / "metrics.jsonl").read_text().splitlines(keepends=True),
    )
    path.write_text("garbage\n" + "".join(lines[:5]) + "\n" + "".join(lines[5:]))
    train(SMALL, folder, resume=True)
    assert path.read_text() == "".join(lines)
    path.write_text("".join(lines[:3] + lines[4:]))
    with pytest.warns(UserWarning, match="lacks 1 of the 12 rows before the checkpoint"):
        train(SMALL, folder, resume=True)
    assert path.read_text() == "".join(lines[:3] + lines[4:])


class Endless(probes.Bandit):
    """Nothing ends."""

    def step(self, action):
        return *super().step(action)[:2], False, False, {"cost": float(action)}


def test_limits_on_cut_episodes_are_warned_of_once(tmp_path):
    gymnasium.register("Endless-train-v0", Endless)
    with pytest.warns(
        UserWarning, match="update 1: no episode ended within the 50 steps of --horizon"
    ) as seen:
        train(replace(SMALL, environment="Endless-train-v0", samples=300), tmp_path / "run")
    assert len([one for one in seen if "horizon" in str(one.message)]) == 1


@pytest.mark.parametrize("wrong", ["reward", "cost", "observation"])
def test_nan_from_an_environment_stops_and_names_the_field(wrong, tmp_path):
    gymnasium.register(
        f"Broken-{wrong}-v0", functools.partial(probes.Broken, wrong), disable_env_checker=True
    )
    with pytest.raises(InputError, match=f"{wrong}.* (nan|not finite)"):
        train(replace(SMALL, environment=f"Broken-{wrong}-v0"), tmp_path / "run")


def test_a_diverged_learner_stops_and_keeps_the_last_good_checkpoint(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    make = training.make_learn

    def poisoned(config):
        learn = make(config)

        def wrapped(learner, *rest):
            learner, metrics = learn(learner, *rest)
            if learner.update == 5:
                learner = learner._replace(
                    policy=jax.tree.map(lambda x: x * np.nan, learner.policy)
                )
            return learner, metrics

        return wrapped

    monkeypatch.setattr(training, "make_learn", poisoned)
    with pytest.raises(
        NumericalError,
        match="update 6 made the policy not finite; the checkpoint of update 4 is kept",
    ):
        train(SMALL, folder)
    assert all(np.isfinite(value).all() for value in last_arrays(folder).values())


def test_multipliers_move_as_in_the_exact_part():
    config = TrainConfig("x", "spma-alm", penalty=0.1, dual_step=0.3, inner=5)
    simulator = make_simulator("probes:Bandit", 1)
    margin = np.array([-2.0])
    learner = init(config, simulator)._replace(multiplier=np.array([2.0]), margin=margin)
    assert move_multipliers(learner, config) is learner  # before the first subproblem was worked on
    due, early = learner._replace(update=np.asarray(10)), learner._replace(update=np.asarray(7))
    assert move_multipliers(early, config) is early
    np.testing.assert_array_equal(
        move_multipliers(due, config).multiplier,
        lagrangian.step_update(np.array([2.0]), 0.1, margin, 0.3),
    )
    plain = replace(config, method="ppo-lag")
    np.testing.assert_allclose(move_multipliers(early, plain).multiplier, [2.0 + 0.3 * 2])
    adam = replace(config, dual_optimiser="adam")
    assert move_multipliers(due, adam).multiplier[0] == pytest.approx(
        2.3
    )  # Adam's first step has the length of its rate
    assert move_multipliers(due, replace(config, method="cpo")) is due


@pytest.mark.parametrize(
    ("kind", "episodes", "share"),
    [("smooth", 2, 0.1), ("smooth", 20, 1), ("smooth", 90, 1), ("latest", 2, 1)],
)
def test_a_margin_counts_for_as_many_episodes_as_it_has(kind, episodes, share):
    config = TrainConfig("x", margin=kind)
    learner = init(config, make_simulator("probes:Bandit", 1))
    first, second = np.array([6.0]), np.array([-3.0])
    learner = see_margin(learner, first, 1, config)
    np.testing.assert_array_equal(learner.margin, first)
    learner = see_margin(learner._replace(update=np.asarray(1)), second, episodes, config)
    np.testing.assert_allclose(learner.margin, (1 - share) * first + share * second)


def test_a_reserve_tightens_what_training_aims_at(tmp_path):
    """PPO-Lag's first step of the multiplier, before which nothing differs, is longer by the step
    times the reserve.
    """
    multipliers = []
    for reserve in (0.0, 0.25):
        config = replace(
            SMALL,
            method="ppo-lag",
            samples=200,
            limit=("cost<=-8",),
            dual_step=0.5,
            reserve=reserve,
        )
        train(config, tmp_path / str(reserve))
        multipliers.append(rows(tmp_path / str(reserve))[1]["multiplier"]["cost"])
    assert multipliers[1] - multipliers[0] == pytest.approx(0.5 * 0.25 * 8)


def test_names_of_arrays_are_paths():
    learner = init(SMALL, make_simulator(SMALL.environment, 1))
    assert {
        "policy/layers/0/weight",
        "policy/log_std",
        "multiplier",
        "seen/mean",
        "update",
    } <= named(learner).keys()


def test_importing_cmdpax_loads_none_of_the_deep_packages():
    code = (
        "import cmdpax, cmdpax.cli, sys; print([m for m in ('jax', 'mujoco', 'gymnasium',"
        " 'safetensors') if m in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    assert answer.stdout.strip() == "[]"
