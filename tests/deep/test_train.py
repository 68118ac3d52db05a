"""Runs: resume after any kill, damaged checkpoints, changed configs, NaN; and the policy that is deployed."""

import functools
import json
import os
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
from cmdpax.cli import main
from cmdpax.deep import networks, stored
from cmdpax.deep import train as training
from cmdpax.deep.config import METHODS, PAPER_GRIDS, TrainConfig, paper_settings
from cmdpax.deep.learner import init
from cmdpax.deep.train import move_multipliers, named, see_margin, train
from cmdpax.environments.gym_adapter import make_simulator

SMALL = TrainConfig(
    "SafetyHopperVelocity-v1", samples=1_200, batch=100, horizon=50, passes=2, hidden=(8,), inner=2, checkpoint_every=2
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A short run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    train(SMALL, folder)
    return folder


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
    """`kill -9` the training command at random moments of its work; then let it finish, and compare."""
    fields = ("samples", "batch", "horizon", "passes", "inner", "checkpoint_every")
    settings = [part for name in fields for part in (f"--{name.replace('_', '-')}", str(getattr(config, name)))]
    command = [sys.executable, "-m", "cmdpax", "train", config.environment, "--out", str(folder), "--hidden", "8", *settings]
    metrics = folder / "metrics.jsonl"
    for _ in range(kills):
        resume = ["--resume"] if (folder / "config.json").exists() else []
        wanted = random.integers(1, config.updates)
        process = subprocess.Popen([*command, *resume], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        while process.poll() is None and (not metrics.exists() or metrics.read_bytes().count(b"\n") < wanted):
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


@pytest.mark.parametrize("wrong", ["reward", "cost", "observation"])
def test_nan_from_an_environment_stops_and_names_the_field(wrong, tmp_path):
    gymnasium.register(f"Broken-{wrong}-v0", functools.partial(probes.Broken, wrong), disable_env_checker=True)
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
                learner = learner._replace(policy=jax.tree.map(lambda x: x * np.nan, learner.policy))
            return learner, metrics

        return wrapped

    monkeypatch.setattr(training, "make_learn", poisoned)
    with pytest.raises(NumericalError, match="update 6 made the policy not finite"):
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
        move_multipliers(due, config).multiplier, lagrangian.step_update(np.array([2.0]), 0.1, margin, 0.3)
    )
    plain = replace(config, method="ppo-lag")
    np.testing.assert_allclose(move_multipliers(early, plain).multiplier, [2.0 + 0.3 * 2])
    adam = replace(config, dual_optimiser="adam")
    assert move_multipliers(due, adam).multiplier[0] == pytest.approx(2.3)  # Adam's first step has the length of its rate
    assert move_multipliers(due, replace(config, method="cpo")) is due


@pytest.mark.parametrize(
    ("kind", "episodes", "share"), [("smooth", 2, 0.1), ("smooth", 20, 1), ("smooth", 90, 1), ("latest", 2, 1)]
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
    """PPO-Lag's first step of the multiplier, before which nothing differs, is longer by the step times the reserve."""
    multipliers = []
    for reserve in (0.0, 0.25):
        config = replace(SMALL, method="ppo-lag", samples=200, limit=("cost<=-8",), dual_step=0.5, reserve=reserve)
        train(config, tmp_path / str(reserve))
        multipliers.append(rows(tmp_path / str(reserve))[1]["multiplier"]["cost"])
    assert multipliers[1] - multipliers[0] == pytest.approx(0.5 * 0.25 * 8)


def test_deployed_policy_equals_jax(finished):
    policy = cmdpax.load_policy(finished)
    simulator = make_simulator(SMALL.environment, 1)
    learner = training.restore(init(SMALL.resolved(), simulator), finished)
    observation = np.random.default_rng(0).normal(size=(50, simulator.observation_size))
    seen = np.clip((observation - learner.seen.mean) * learner.seen.scale, -10, 10).astype(np.float32)
    np.testing.assert_allclose(policy(observation), networks.apply(learner.policy["layers"], seen), atol=1e-5)
    np.testing.assert_allclose(policy(observation[0]), policy(observation)[0], atol=1e-6)
    checkpoint = next(stored.newest(finished / "checkpoints"))
    np.testing.assert_array_equal(cmdpax.load_policy(checkpoint)(observation), policy(observation))


def test_evaluate_and_film(finished, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["evaluate", str(finished), "--episodes", "4", "--json"])
    assert stop.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert json.loads((finished / "evaluation.json").read_text()) == found
    for kind in ("stochastic", "deterministic"):
        seen = found[kind]
        assert seen["episodes"] == 4 and len(seen["returns"]) == 4
        assert seen["reward"]["worst"] == min(seen["returns"]) and seen["costs"]["cost"]["worst"] == max(seen["totals"]["cost"])
        assert (
            seen["reward"]["bound"] < seen["reward"]["mean"] and seen["costs"]["cost"]["bound"] >= seen["costs"]["cost"]["mean"]
        )
    with pytest.raises(SystemExit) as stop:
        main(["evaluate", str(tmp_path)])
    assert stop.value.code == 2 and "not a run folder" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        main(["film", str(finished), "--out", str(tmp_path / "policy.avi")])
    assert stop.value.code == 2


@pytest.mark.slow
def test_film_is_a_film(finished, tmp_path):
    """In a process of its own: MuJoCo chooses its GL when it is imported."""
    for name in ("policy.gif", "policy.mp4"):
        command = [sys.executable, "-m", "cmdpax", "film", str(finished), "--out", str(tmp_path / name), "--steps", "10"]
        subprocess.run(command, check=True, env={**os.environ, "MUJOCO_GL": "egl"})
        assert (tmp_path / name).stat().st_size > 1000


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"method": "spma-al"}, "did you mean 'spma-alm'"),
        ({"limit": ("price<=3",)}, "does not have"),
        ({"limit": ()}, "needs at least one limit"),
        ({"batch": 130}, "not a multiple of horizon"),
        ({"penalty": -1.0}, "penalty is -1.0"),
        ({"gae": 1.5}, "must lie in"),
        ({"samples": 50}, "fewer than one batch"),
        ({"minibatch": 101}, "larger than batch"),
        ({"discount": -0.5}, "discount is -0.5"),
        ({"environment": "SafetyHoperVelocity-v1"}, "did you mean"),
    ],
)
def test_bad_settings(settings, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        train(replace(SMALL, **settings), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_papers_settings_are_a_preset():
    config = paper_settings(TrainConfig("SafetyAntVelocity-v1", dual_step=0.1))
    assert (config.samples, config.standardise, config.dual_optimiser) == (10_000_000, "separate", "adam")
    assert config.dual_step == 0.1  # what the user set stays
    assert (config.resolved().discount, config.kl_stop) == (0.99, 0.0)
    batches = [paper_settings(TrainConfig("x", name)).resolved().batch for name in ("cpo", "ppo-lag", "ppo-alm")]
    assert batches == [20_000, 20_000, 2_000]
    names = set(vars(SMALL))
    assert all(set(grid) <= names for grid in PAPER_GRIDS.values()) and set(PAPER_GRIDS) <= set(METHODS)


def test_a_method_fills_in_its_own_settings():
    found = {name: TrainConfig("x", name).resolved() for name in ("spma-alm", "cpo", "ppo-alm")}
    assert [(config.batch, config.kl_stop) for config in found.values()] == [(2_000, 0.02), (5_000, 0.0), (2_000, 0.05)]
    assert [config.penalty for config in found.values()] == [0.02, 0.02, 0.05]
    chosen = TrainConfig("x", "ppo-alm", kl_stop=0.3, penalty=0.7).resolved()
    assert (chosen.kl_stop, chosen.penalty) == (0.3, 0.7)


def test_names_of_arrays_are_paths():
    learner = init(SMALL, make_simulator(SMALL.environment, 1))
    assert {"policy/layers/0/weight", "policy/log_std", "multiplier", "seen/mean", "update"} <= named(learner).keys()


def test_importing_cmdpax_loads_none_of_the_deep_packages():
    code = "import cmdpax, cmdpax.cli, sys; print([m for m in ('jax', 'mujoco', 'gymnasium', 'safetensors') if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert answer.stdout.strip() == "[]"
