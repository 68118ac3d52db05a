"""Runs: resume after any kill, damaged checkpoints, changed configs, NaN; what multipliers see and
do.
"""

import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from dataclasses import replace

import gymnasium
import jax
import numpy as np
import pytest

import cmdpax
import probes
from cmdpax import InputError, NumericalError, lagrangian
from cmdpax.learning import checkpoints, run_folder, training
from cmdpax.learning.config import TrainConfig
from cmdpax.learning.gym_simulator import make_simulator
from cmdpax.learning.learner import init
from cmdpax.learning.run_folder import RunFolder
from cmdpax.learning.saved import leaves_by_path
from cmdpax.learning.training import Dual, train
from cmdpax.model.limits import Limits
from short_run import SMALL


def small(folder, **settings):
    """A short training."""
    return train(**{**SMALL, "folder": folder, **settings})


def assert_same_run(folder, other):
    assert (folder / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
    first, second = (RunFolder(one).newest()[0] for one in (folder, other))
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)


def test_a_run_is_a_folder(finished):
    assert [row["update"] for row in RunFolder(finished).rows()] == list(range(1, 13))
    config = {"environment": SMALL["environment"], "batch": 100, "limits": ["cost<=25"]}
    assert config.items() <= RunFolder(finished).config.items()
    assert list((finished / "tensorboard").iterdir())
    kept = len(list((finished / "checkpoints").glob("*.json")))
    assert kept == run_folder.CHECKPOINTS_KEPT
    assert not list((finished / "checkpoints").glob("*.part"))


class Stopped(Exception):
    pass


def stop_at(update):
    def callback(row):
        if row["update"] == update:
            raise Stopped

    return callback


def test_resume_is_bit_identical(finished, tmp_path):
    """Stopped between checkpoints: the rows after the last checkpoint are made again."""
    for update in (1, 5, 8):
        with pytest.raises(Stopped):
            small(tmp_path / "cut", resume=update > 1, callback=stop_at(update))
    small(tmp_path / "cut", resume=True)
    assert_same_run(finished, tmp_path / "cut")


def test_a_damaged_checkpoint_falls_back_to_the_one_before(finished, tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(Stopped):
        small(folder, callback=stop_at(7))
    newest = RunFolder(folder).checkpoints()[0]
    data = bytearray(newest.read_bytes())
    data[-5] ^= 1
    newest.write_bytes(data)
    with pytest.warns(UserWarning, match="damaged"):
        small(folder, resume=True)
    assert_same_run(finished, folder)


def as_words(folder, **settings):
    """The same training as words of the command line."""
    settings = {**SMALL, "hidden": 8, "out": folder, **settings}
    options = [(f"--{name.replace('_', '-')}", str(value)) for name, value in settings.items()]
    return ["train", SMALL["environment"], *(word for option in options[1:] for word in option)]


LIMITED = """
import resource, sys
from cmdpax.cli.main import main
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
main(sys.argv[2:])
"""


@pytest.mark.parametrize("limit", [3_000, 40_960])
def test_a_file_that_may_not_grow_ends_a_run_with_one_sentence(finished, tmp_path, limit):
    """First the rows do not fit, then neither events nor rows: what was saved goes on as if nothing
    had happened.
    """
    folder = tmp_path / "run"
    more = {"samples": 40_000} if limit > 10_000 else {}
    if more:
        folder.mkdir()
        (folder / "tensorboard").write_text("a file where a folder should be")
    command = [sys.executable, "-c", LIMITED, str(limit), *as_words(folder, **more)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("cmdpax: ")]
    file = re.escape(str(folder))
    if limit > 10_000:
        assert sum("TensorBoard sees no more of this run" in line for line in said) == 1
        stopped = rf"metrics\.jsonl: File too large; the checkpoint of update \d+ is kept in {file}"
    else:
        stopped = r".*File too large; there was no checkpoint yet"
    assert re.search(rf"^cmdpax: {file}/{stopped}; the same command with --resume", said[-1])
    assert "Traceback" not in done.stderr and not list(folder.rglob("*.part"))
    if not more:
        small(folder, resume=True)
        assert_same_run(finished, folder)


def test_the_second_of_two_resumes_is_refused(finished, tmp_path):
    """It loses no row of the first."""
    folder, seen = tmp_path / "run", []
    with pytest.raises(Stopped):
        small(folder, callback=stop_at(5))

    def resume_as_well(row):
        if row["update"] == 7:
            command = [sys.executable, "-m", "cmdpax", *as_words(folder), "--resume"]
            seen.append(subprocess.run(command, capture_output=True, text=True, check=False))

    small(folder, resume=True, callback=resume_as_well)
    (second,) = seen
    assert second.returncode == 2 and "is being trained by another process" in second.stderr
    assert_same_run(finished, folder)


def test_resume_with_a_changed_config_shows_the_difference(finished):
    with pytest.raises(InputError, match=r"penalty was 1\.0, is 0\.5"):
        small(finished, penalty=0.5, resume=True)


def test_a_finished_run_goes_on_with_more_samples_and_says_how_step_sizes_decay(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "run")
    before = (folder / "metrics.jsonl").read_bytes()
    with pytest.warns(
        UserWarning, match=r"at update 12, with 2,400 .* 1,200: .* 50% .*, where they were 0%"
    ):
        longer = small(folder, samples=2400, resume=True)
    assert (folder / "metrics.jsonl").read_bytes().startswith(before)
    rows, config = longer.metrics, RunFolder(folder).config
    assert [row["update"] for row in rows] == list(range(1, 25))
    assert (config["samples"], config["planned"]) == (2400, [1200])
    assert rows[12]["kl"] > 0  # steps that had decayed to 0 move the policy again
    cut = shutil.copytree(finished, tmp_path / "cut")
    with pytest.warns(UserWarning, match="goes on"), pytest.raises(Stopped):
        small(cut, samples=2400, resume=True, callback=stop_at(17))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it has as many samples now
        small(cut, samples=2400, resume=True)
    assert_same_run(folder, cut)
    with pytest.raises(InputError, match="samples was 2400, is 1200"):
        small(folder, resume=True)


def test_a_longer_run_keeps_batches_that_were_left_open(tmp_path):
    """Below 100,000 samples they depend on how many there are."""
    settings = {**SMALL, "environment": probes.Bandit, "batch": None, "rollout_steps": None}
    train(**{**settings, "samples": 1000}, folder=tmp_path / "run")
    batch = RunFolder(tmp_path / "run").config["batch"]
    assert batch < 40
    with pytest.warns(UserWarning, match="goes on"):
        train(**{**settings, "samples": 2000}, folder=tmp_path / "run", resume=True)
    config = RunFolder(tmp_path / "run").config
    assert config["batch"] == batch and len(RunFolder(tmp_path / "run").rows()) == 2000 // batch


@pytest.fixture
def begun(monkeypatch):
    """The arrays with which trainings begin, one after the other."""
    states, learn = [], training._learn

    def spy(learner, *rest):
        states.append(leaves_by_path(learner))
        return learn(learner, *rest)

    monkeypatch.setattr(training, "_learn", spy)
    return states


def test_a_run_starts_from_anothers_policy_and_critics(finished, tmp_path, begun):
    source = RunFolder(finished).newest()[0]
    run = small(tmp_path / "run", limits="cost<=5", seed=3, start=finished)
    (state,) = begun
    parts = ("policy/", "seen/", "critics/", "scales/centre", "scales/square")
    for name, value in source.items():
        if name.startswith(parts):
            np.testing.assert_array_equal(state[name], value, err_msg=name)
    assert state["update"] == state["multiplier"] == state["policy_adam/count"] == 0
    assert RunFolder(run.folder).config["start"] == str(finished)
    assert len(run.metrics) == 12


def test_critics_are_taken_of_costs_that_both_runs_limit(tmp_path, begun):
    settings = {**SMALL, "environment": probes.TwoLimits, "samples": 300}
    train(**settings, limits="noise<=0.5", folder=tmp_path / "first")
    source = RunFolder(tmp_path / "first").newest()[0]
    limits = ("heat<=0.2", "noise<=0.1")
    train(**settings, limits=limits, folder=tmp_path / "second", start=tmp_path / "first")
    state = begun[1]
    for row, other in ((0, 0), (2, 1)):
        name = f"critics/{row}/0/weight"
        np.testing.assert_array_equal(state[name], source[f"critics/{other}/0/weight"])
        assert state["scales/square"][row] == source["scales/square"][other] > 0
    assert state["scales/square"][1] == 0
    assert (state["critics/1/0/weight"] != source["critics/1/0/weight"]).any()


def test_a_start_that_was_killed_before_its_first_checkpoint_starts_there_again(finished, tmp_path):
    whole = small(tmp_path / "whole", start=finished, samples=600)
    with pytest.raises(Stopped):
        small(tmp_path / "cut", start=finished, samples=600, callback=stop_at(1))
    small(tmp_path / "cut", samples=600, resume=True)
    assert_same_run(whole.folder, tmp_path / "cut")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"hidden": (9,)}, r"has other layers \(hidden \[8\], here \[9\]\); give the same"),
        ({"environment": probes.Bandit}, "not what the policy was trained in"),
        ({"start": "nowhere"}, "nowhere is not a run folder: there is no such folder"),
    ],
)
def test_a_start_that_does_not_fit(finished, tmp_path, settings, sentence):
    with pytest.raises(InputError, match=sentence):
        train(**{**SMALL, "start": finished, **settings}, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_without_limits_of_ones_own_the_costs_are_named(tmp_path):
    with pytest.raises(InputError, match="has no cost named 'cost', but heat, noise; give limits"):
        train(probes.TwoLimits, samples=300, folder=tmp_path / "run")


def test_a_batch_that_no_memory_holds_is_refused(tmp_path):
    """The system would end the process without a word."""

    class Endless(probes.Bandit):
        action_space = gymnasium.spaces.Discrete(10**8)

        def step(self, action):
            return super().step(min(int(action), 1))

    with pytest.raises(InputError, match=r"100,000,000 in an action takes 120 GB; make them small"):
        small(tmp_path / "run", environment=Endless)
    assert not (tmp_path / "run").exists()


def test_folders_that_do_not_fit(finished, tmp_path):
    with pytest.raises(InputError, match="already holds a run"):
        small(finished)
    with pytest.raises(InputError, match="no run to resume"):
        small(tmp_path / "nothing", resume=True)
    with pytest.raises(InputError, match="is not a run folder"):
        cmdpax.load_policy(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is not a folder"):
        small(tmp_path / "file")


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
        small(folder)
    with pytest.raises(InputError, match=r"not a run folder: it.* config\.json"):
        small(folder, resume=True)


def test_rows_of_metrics_are_kept_by_their_update(finished, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    path, lines = (
        folder / "metrics.jsonl",
        (finished / "metrics.jsonl").read_text().splitlines(keepends=True),
    )
    path.write_text("garbage\n" + "".join(lines[:5]) + "\n" + "".join(lines[5:]))
    small(folder, resume=True)
    assert path.read_text() == "".join(lines)
    path.write_text("".join(lines[:3] + lines[4:]))
    with pytest.warns(UserWarning, match="lacks 1 of the 12 rows before the checkpoint"):
        small(folder, resume=True)
    assert path.read_text() == "".join(lines[:3] + lines[4:])


class Endless(probes.Bandit):
    """Nothing ends."""

    def step(self, action):
        return *super().step(action)[:2], False, False, {"cost": float(action)}


def test_limits_on_cut_episodes_are_warned_of_once(tmp_path):
    gymnasium.register("Endless-train-v0", Endless)
    with pytest.warns(
        UserWarning, match="update 1: no episode ended within the 50 steps of rollout_steps"
    ) as seen:
        small(tmp_path / "run", environment="Endless-train-v0", samples=300)
    assert len([one for one in seen if "rollout_steps" in str(one.message)]) == 1


@pytest.mark.parametrize("wrong", ["reward", "cost", "observation"])
def test_nan_from_an_environment_stops_and_names_the_field(wrong, tmp_path):
    gymnasium.register(
        f"Broken-{wrong}-v0", functools.partial(probes.Broken, wrong), disable_env_checker=True
    )
    with pytest.raises(InputError, match=f"{wrong}.* (nan|not finite)"):
        small(tmp_path / "run", environment=f"Broken-{wrong}-v0")


def test_a_diverged_learner_stops_and_keeps_the_last_good_checkpoint(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    learn = training.learn

    def poisoned(learner, *rest):
        learner, metrics = learn(learner, *rest)
        if learner.update == 5:
            learner = learner._replace(policy=jax.tree.map(lambda x: x * np.nan, learner.policy))
        return learner, metrics

    monkeypatch.setattr(training, "learn", poisoned)
    with pytest.raises(
        NumericalError,
        match="update 6 made the policy not finite; the checkpoint of update 4 is kept",
    ):
        small(folder)
    for name, value in RunFolder(folder).newest()[0].items():  # no episodes yet: NaN, -inf
        assert name in ("margins/last", "margins/best") or np.isfinite(value).all(), name


def dual(margin=-2.0, penalty=0.1, step=0.3, fastest=np.inf):
    return Dual(*(np.array([value]) for value in (margin, margin, penalty, step, fastest)))


def test_multipliers_move_as_in_the_exact_part():
    config = TrainConfig(inner=5).resolved()
    learner = init(config, make_simulator("probes:Bandit", 1))
    learner = learner._replace(multiplier=np.array([2.0]))
    assert dual().move(learner, config) is learner  # before the first subproblem was worked on
    due, early = learner._replace(update=np.asarray(10)), learner._replace(update=np.asarray(7))
    assert dual().move(early, config) is early
    np.testing.assert_array_equal(
        dual().move(due, config).multiplier,
        lagrangian.step_update(np.array([2.0]), 0.1, np.array([-2.0]), 0.3),
    )
    plain = replace(config, method="ppo-lag")
    np.testing.assert_allclose(dual().move(early, plain).multiplier, [2.0 + 0.3 * 2])
    assert dual(fastest=0.25).move(early, plain).multiplier == 2.25
    assert dual(5.0, fastest=0.25).move(early, plain).multiplier == 1.75
    adam = replace(config, dual_optimiser="adam")
    assert dual().move(due, adam).multiplier[0] == pytest.approx(
        2.3
    )  # Adam's first step has the length of its rate
    assert dual().move(due, replace(config, method="cpo")) is due


def measured(config, totals=(6.0, 8.0)):
    """A learner that has seen a batch of two episodes with these totals of the limit's row."""
    random, learner = np.random.default_rng(0), init(config, make_simulator("probes:Bandit", 1))
    advantages = random.normal(size=(2, 50)).astype(np.float32)
    scales = learner.scales.add(advantages, advantages.T + 1, 7.0)
    margins = learner.margins.add(np.array([totals]), scales.reach)
    return learner._replace(scales=scales, margins=margins)


@pytest.mark.parametrize("method", ["spma-alm", "ppo-lag"])
def test_penalties_and_dual_steps_are_so_many_units(method):
    config = TrainConfig(method=method, penalty=0.7, dual_step=0.3, reserve=0.5).resolved()
    learner, limits = measured(config), Limits.parse(["cost>=5"])
    own = Dual.of(learner, limits, config)
    unit = learner.scales.units(np.sqrt(learner.margins.error), np.zeros(1))
    assert unit > 0 and own.margin == 7.0 - 7.5
    np.testing.assert_allclose(own.penalty, 0.7 * unit if method == "spma-alm" else 0.0)
    np.testing.assert_allclose(own.step, 0.3 * unit)
    theirs = Dual.of(learner, limits, replace(config, units="reward"))
    assert theirs.penalty == (0.7 if method == "spma-alm" else 0.0)
    assert theirs.margin == own.margin and theirs.step == 0.3


def test_beyond_what_an_update_can_mend_a_violation_counts_no_more():
    """So far beyond the limit the penalty pushes as hard as the reward pulls, not harder."""
    config, limits = TrainConfig(reserve=0.0, penalty=1.0).resolved(), Limits.parse(["cost>=5000"])
    learner = measured(config)
    own = Dual.of(learner, limits, config)
    assert own.margin == 7.0 - 5000
    np.testing.assert_allclose(own.penalty * -own.counted, learner.scales.balance)
    moved = own.move(learner._replace(update=np.asarray(1)), replace(config, dual_step=9.0))
    np.testing.assert_allclose(moved.multiplier, training.MOST_CHANGE * learner.scales.balance)
    short = TrainConfig(reserve=0.0, samples=50_000).resolved()
    np.testing.assert_allclose(
        Dual.of(learner, limits, short).fastest * short.updates,
        training.TRAVEL * learner.scales.balance,
    )
    near = Dual.of(learner, Limits.parse(["cost>=7.001"]), config)
    assert near.counted == near.margin
    theirs = Dual.of(learner, limits, replace(config, units="reward"))
    assert theirs.counted == own.margin


def test_margins_are_filtered_or_those_of_the_latest_batch(tmp_path):
    """The first batch is taken as it is; later ones as far as they tell more than chance."""
    settings = {"environment": "probes:TwoLimits", "limits": "noise<=0.5", "rollout_steps": 10}
    for kind in ("smooth", "latest"):
        rows = small(tmp_path / kind, margin=kind, **settings).metrics
        assert rows[0]["estimate"] == pytest.approx(rows[0]["cost"])
        apart = [abs(row["estimate"]["noise"] - row["cost"]["noise"]) for row in rows[1:]]
        assert (max(apart) < 1e-12) if kind == "latest" else (min(apart) > 1e-6)


def test_a_reserve_tightens_what_training_aims_at(tmp_path):
    """PPO-Lag's first step of the multiplier, before which nothing differs, is longer by the step
    times the reserve.
    """
    multipliers = []
    for reserve in (0.0, 0.25):
        settings = {"method": "ppo-lag", "limits": "cost<=-8", "dual_step": 0.5, "units": "reward"}
        run = small(tmp_path / str(reserve), samples=200, reserve=reserve, **settings)
        multipliers.append(run.metrics[1]["multiplier"]["cost"])
        assert run.metrics[1]["aim"]["cost"] == pytest.approx(-8 - 8 * reserve)
    assert multipliers[1] - multipliers[0] == pytest.approx(0.5 * 0.25 * 8)


def test_without_a_reserve_of_its_own_training_aims_at_what_a_hundred_episodes_keep(tmp_path):
    settings = {"environment": "probes:TwoLimits", "limits": "noise<=0.5", "rollout_steps": 10}
    rows = small(tmp_path / "run", **settings).metrics
    chance = rows[0]["cost"]["noise"]  # each of a hundred one-step episodes costs 1 or 0
    deviation = np.sqrt(chance * (1 - chance) * 100 / 99)
    assert rows[0]["aim"]["noise"] == pytest.approx(0.5 - 1.645 * deviation / 10)


def test_a_run_ends_with_a_verdict(tmp_path):
    settings = {"environment": "probes:TwoLimits", "rollout_steps": 10, "samples": 300}
    limits = ["heat<=0.9", "noise<=-0.1"]
    run = small(tmp_path / "run", limits=limits, **settings)
    assert isinstance(run.verdict, cmdpax.Verdict)
    assert run.verdict.word == "exceeded" and run.verdict.episodes == 100
    assert run.verdict.mean == pytest.approx(run.metrics[-1]["cost"])
    assert run.verdict.confidence["heat"] > 0.99 and run.verdict.confidence["noise"] < 0.01
    (sentence,) = run.out_of_reach
    best = min(row["estimate"]["noise"] for row in run.metrics)
    assert f"noise<=-0.1 was not kept at any time; the best estimate was {best:.4g}" in sentence
    again = small(tmp_path / "run", limits=limits, resume=True, **settings)
    assert again.verdict == run.verdict and again.out_of_reach == run.out_of_reach
    kept = small(tmp_path / "kept", limits="heat<=0.9", **settings)
    assert kept.verdict.word == "kept" and kept.out_of_reach == ()
    free = small(tmp_path / "free", method="ppo", limits=(), **settings)
    assert free.verdict is None and free.out_of_reach == ()


METHODS = ("spma-alm", "ppo-alm", "trpo-alm", "ppo-lag", "cpo")


def milled(folder, method, factors=(1.0, 1.0, 1.0), **settings):
    """Policy and multipliers after 12 updates where reward, heat and noise are multiplied."""
    limits = [f"heat<={4 * factors[1]!r}", f"noise<={0.5 * factors[2]!r}"]
    shape = {"batch": 100, "rollout_steps": 50, "samples": 1_200, "passes": 4, "minibatch": 50}
    settings = {**shape, "hidden": (8,), "limits": limits, **settings}
    run = train(functools.partial(probes.Mill, factors), method, folder=folder, **settings)
    arrays = RunFolder(folder).newest()[0]
    policy = {name: array for name, array in arrays.items() if name.startswith("policy/")}
    return policy, arrays["multiplier"], run.metrics


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("reward", "heat"), [(2.0**7, 2.0**-9), (1000.0, 0.01)], ids=["powers", "others"]
)
def test_other_units_make_the_same_policy(method, reward, heat, tmp_path):
    """Powers of two: the same bytes. Other factors: all 12 updates agree to 1e-5, a hundredth of
    what the policies move.
    """
    factors = (reward, heat, 1.0)
    policy, multipliers, rows = milled(tmp_path / "own", method)
    scaled, prices, _ = milled(tmp_path / "scaled", method, factors)
    start = milled(tmp_path / "start", method, samples=100)[0]
    rates = np.array([reward / heat, reward])  # a multiplier is a price, reward per cost
    assert max(abs(policy[name] - start[name]).max() for name in policy) > 1e-3
    if method != "cpo":  # which has no multipliers
        assert (multipliers > 0).all() and rows[-1]["weight"]["noise"] > 0
    if np.log2(reward) % 1 == 0:
        assert {name: array.tobytes() for name, array in policy.items()} == {
            name: array.tobytes() for name, array in scaled.items()
        }
        np.testing.assert_array_equal(prices, multipliers * rates)
    else:
        for name in policy:
            np.testing.assert_allclose(scaled[name], policy[name], rtol=0, atol=1e-5)
        np.testing.assert_allclose(prices, multipliers * rates, rtol=1e-4)


def test_in_units_of_the_reward_other_units_are_another_problem(tmp_path):
    settings = {"method": "spma-alm", "units": "reward", "penalty": 0.1, "dual_step": 0.1}
    policy, scaled = (
        milled(tmp_path / str(reward), factors=(reward, 1.0, 1.0), **settings)[0]
        for reward in (1.0, 2.0)
    )
    assert max(abs(policy[name] - scaled[name]).max() for name in policy) > 1e-3


@pytest.mark.parametrize("method", ["spma-alm", "trpo-alm", "ppo-lag", "cpo"])
def test_a_range_has_one_signed_multiplier(method, tmp_path):
    """Below its range a cost is worth something, above it the opposite; in the files by name."""
    for bounds, sign in (("0.8<=heat<=0.9", 1), ("-0.9<=heat<=-0.8", -1)):
        settings = {"environment": "probes:TwoLimits", "method": method, "samples": 400}
        limits = [bounds, "noise<=0.5"]
        run = small(tmp_path / bounds, limits=limits, rollout_steps=10, **settings)
        last = run.metrics[-1]
        assert last["cost"].keys() == last["multiplier"].keys() == {"heat", "noise"}
        assert 0 <= last["cost"]["heat"] <= 1
        assert np.sign(last["weight"]["heat"]) == (0 if method == "cpo" else sign)
        small(tmp_path / bounds, limits=limits, rollout_steps=10, resume=True, **settings)


def test_the_plain_lagrangian_weighs_by_its_multipliers(tmp_path):
    settings = {"limits": "cost<=-8", "samples": 400, "initial_std": 0.6}  # so noisy that it costs
    rows = small(tmp_path / "lag", method="ppo-lag", **settings).metrics
    assert rows[-1]["multiplier"]["cost"] > 0
    assert all(row["weight"] == row["multiplier"] for row in rows)
    rows = small(tmp_path / "alm", method="ppo-alm", **settings).metrics
    assert rows[0]["weight"]["cost"] == 0  # nothing has a cost yet, so nothing has a price
    assert all(row["weight"]["cost"] > row["multiplier"]["cost"] for row in rows[1:])


@pytest.fixture
def run_of_0_1(finished, tmp_path):
    """The finished run as 0.1 would have left it.

    Its config has other names, its critics have an offset and no scales, its checkpoints have no
    checksum of their notes.
    """
    folder = tmp_path / "old"
    shutil.copytree(finished, folder)
    config = json.loads((folder / "config.json").read_text())
    config["limit"], config["horizon"] = config.pop("limits"), config.pop("rollout_steps")
    config |= {"critic_centre": 0.1, "reserve": 0.0, "penalty": 0.02, "dual_step": 0.01}
    for name in ("units", "critics", "cost_gae"):
        del config[name]
    (folder / "config.json").write_text(json.dumps(config))
    for path in RunFolder(folder).checkpoints():
        arrays, notes = checkpoints.read_checkpoint(path)
        own = ("policy/", "critics/", "policy_adam/", "critics_adam/", "dual_adam/", "seen/")
        old = {name: array for name, array in arrays.items() if name.startswith(own)}
        old |= {name: arrays[name] for name in ("multiplier", "update")}
        old |= {"centre": np.zeros(2), "margin": np.zeros(1)}
        path.write_bytes(checkpoints.pack(old))
        first = {"checkpoint": notes["checkpoint"]}
        first["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        rest = {name: notes[name] for name in notes if name not in (*first, "notes_sha256")}
        path.with_suffix(".json").write_text(json.dumps({**first, **rest}, indent=1))
    return folder


def test_a_run_of_0_1_is_read_and_evaluated(finished, run_of_0_1):
    config = RunFolder(run_of_0_1).config
    settings = {name: value for name, value in config.items() if name != "environment"}
    meaning = TrainConfig.of(settings)
    assert (meaning.units, meaning.critics, meaning.penalty) == ("reward", "plain", 0.02)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # none of its checkpoints is taken for damaged
        policy = cmdpax.load_policy(run_of_0_1)
        evidence = cmdpax.evaluate(run_of_0_1, episodes=2)
    observation = np.linspace(-1, 1, 11)
    np.testing.assert_array_equal(
        policy.core.best(observation), cmdpax.load_policy(finished).core.best(observation)
    )
    assert evidence == cmdpax.evaluate(finished, episodes=2)


def test_a_run_of_0_1_is_not_resumed(run_of_0_1):
    """Its learner had other parts. One sentence says so, and nothing in the folder changes."""
    before = {path: path.read_bytes() for path in run_of_0_1.rglob("*.safetensors")}
    with pytest.raises(InputError, match="was started with another config"):
        small(run_of_0_1, resume=True)
    config = RunFolder(run_of_0_1).config
    settings = {name: config[name] for name in ("units", "critics", "cost_gae")}
    settings |= {"reserve": 0.0, "penalty": 0.02, "dual_step": 0.01}
    with pytest.raises(InputError, match="has other arrays than this config needs"):
        small(run_of_0_1, resume=True, **settings)
    assert before == {path: path.read_bytes() for path in run_of_0_1.rglob("*.safetensors")}


class Heater(probes.Meter):
    """An environment that is given as it is."""


class Odd:
    """No environment."""


def test_environments_by_name_function_class_and_object(tmp_path):
    """The same run, whichever way the environment is given; of an object there is one copy."""
    settings = {"samples": 300, "rollout_steps": 100}
    runs = {
        "name": small(tmp_path / "a", environment="probes:Meter", **settings),
        "class": small(tmp_path / "b", environment=probes.Meter, **settings),
        "function": small(tmp_path / "c", environment=lambda: probes.Meter(), **settings),
        "object": train(
            **{**SMALL, "environment": probes.Meter(), "samples": 300, "folder": tmp_path / "d"}
            | {"rollout_steps": 100}
        ),
    }
    for run in runs.values():
        assert_same_run(run.folder, tmp_path / "a")
        assert run.policy.core.updates == 3 and len(run.metrics) == 3
    names = [RunFolder(run.folder).config["environment"] for run in runs.values()]
    assert names == ["probes:Meter", "probes:Meter", names[2], "Meter (object)"]
    assert names[2].endswith("<lambda> (object)")
    evidence = [cmdpax.evaluate(run, episodes=2) for run in runs.values()]
    assert all(one["stochastic"].returns == (10.0, 10.0) for one in evidence)
    with pytest.raises(InputError, match=r"environment 'Meter \(object\)' is not known"):
        cmdpax.evaluate(runs["object"].folder)
    again = cmdpax.evaluate(runs["object"].folder, environment=Heater, episodes=2)
    assert again["deterministic"].costs["cost"].mean == 10


def test_an_object_takes_all_steps_of_a_batch(tmp_path):
    settings = {name: value for name, value in SMALL.items() if name != "rollout_steps"}
    settings |= {"environment": probes.Meter(), "samples": 200}
    run = train(**settings, folder=tmp_path / "run")
    assert RunFolder(run.folder).config["rollout_steps"] == 100
    with pytest.raises(InputError, match="2 copies are needed, but an environment object is one"):
        train(**settings, rollout_steps=50, folder=tmp_path / "other")


def test_what_is_no_environment(tmp_path):
    with pytest.raises(InputError, match="environment"):
        small(tmp_path / "run", environment=Odd())
    assert not (tmp_path / "run").exists()


PICTURES = {"environment": "learning.pictures:make", "batch": 80, "rollout_steps": 40}
PICTURES |= {"samples": 320, "passes": 2, "minibatch": 40, "checkpoint_every": 1}
NETWORKS = {"convolutional": None, "learning.pictures:pooled": "learning.pictures:pooled"}


@pytest.mark.parametrize("name", NETWORKS)
def test_images_are_seen_by_convolutions_or_by_a_network_of_ones_own(name, tmp_path):
    """Resumed, by workers and loaded again it is the same policy."""
    settings = {**PICTURES, "network": NETWORKS[name]}
    whole = small(tmp_path / "whole", **settings)
    assert RunFolder(whole.folder).config["network"] == name
    assert whole.policy.core.encoder.name == name
    for row in whole.metrics:
        assert 0 <= row["return"] <= 20 and np.isfinite(row["kl"])
    with pytest.raises(Stopped):
        small(tmp_path / "again", **settings, callback=stop_at(2))
    small(tmp_path / "again", **settings, resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "again")
    small(tmp_path / "elsewhere", **settings, workers=2)
    assert_same_run(tmp_path / "whole", tmp_path / "elsewhere")
    seen = np.random.default_rng(0).integers(0, 255, (4, 12, 12, 3))
    loaded = cmdpax.load_policy(whole.folder, trust=True)
    for one in (loaded, whole.policy):
        one.reset(seed=3)
    np.testing.assert_array_equal(loaded(seen), whole.policy(seen))
    assert cmdpax.evaluate(whole.folder, trust=True, episodes=2)["stochastic"].length == 20
    still = {**settings, "learning_rate": 1e-12, "start": tmp_path / "whole"}
    started = small(tmp_path / "started", **still).policy.core
    for ours, theirs in zip(started.encoded, whole.policy.core.encoded, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-8)


def test_a_module_is_not_imported_because_a_folder_names_it(tmp_path):
    small(tmp_path / "run", **PICTURES, network="learning.pictures:pooled")
    for attempt in (cmdpax.load_policy, cmdpax.evaluate):
        with pytest.raises(
            InputError, match=r"names the network 'learning.pictures:pooled', which"
        ):
            attempt(tmp_path / "run")


def test_points_of_an_image_share_a_mean_and_a_spread(tmp_path):
    core = small(tmp_path / "run", **PICTURES).policy.core
    assert len(np.unique(core.mean)) == len(np.unique(core.scale)) == 1
    assert 20 < core.mean[0] < 40 and 0.01 < core.scale[0] < 0.1


def test_a_start_from_another_network_is_refused(tmp_path):
    small(tmp_path / "run", **PICTURES)
    with pytest.raises(InputError, match="network convolutional, here dense"):
        small(tmp_path / "other", **PICTURES, network="dense", start=tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("network", [None, "learning.pictures:pooled"])
def test_a_policy_learns_to_look(network, tmp_path):
    """Half of the actions are right at random, all of them for who sees where the dot is."""
    settings = {"samples": 12_000, "limits": ["cost<=15"], "folder": tmp_path / "run"}
    run = train("learning.pictures:make", network=network, **settings)
    assert run.metrics[0]["return"] < 13 and run.metrics[-1]["return"] > 18


def test_policies_are_evaluated_along_a_run(tmp_path, finished):
    """The numbers are those of `evaluate`; the training is what it is without."""
    settings = {"evaluate_every": 5, "evaluate_episodes": 3}
    run, rows = small(tmp_path / "run", **settings), []
    measured = [row["update"] for row in run.metrics if "evaluated" in row]
    assert measured == [5, 10]
    for row in run.metrics:
        rows.append({name: one for name, one in row.items() if "evaluated" not in name})
    assert rows == RunFolder(finished).rows()
    short = small(tmp_path / "short", **settings, callback=lambda row: None, samples=1_000)
    evidence = cmdpax.evaluate(short, episodes=3)
    last = short.metrics[-1]
    for name, kind in (("", "stochastic"), ("_deterministic", "deterministic")):
        seen = evidence[kind]
        expected = {cost: one.mean for cost, one in seen.costs.items()}
        expected["return"] = seen.reward.mean
        assert last[f"evaluated{name}"] == expected


def test_by_default_a_run_lies_in_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = small(None, environment="probes:Bandit", samples=100, seed=3)
    assert run.folder == training.default_folder("probes:Bandit", "spma-alm", 3)
    assert str(run.folder) == "runs/probes-Bandit-spma-alm-3" and run.folder.is_dir()


def test_a_run_stays_in_its_folder_if_its_environment_leaves(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()

    def leaving():
        os.chdir(tmp_path / "elsewhere")
        return probes.Bandit()

    monkeypatch.chdir(tmp_path)
    small("run", environment=leaving, samples=100)
    assert len(RunFolder(tmp_path / "run").rows()) == 1
    assert not list((tmp_path / "elsewhere").iterdir())


def test_two_trainings_do_not_share_a_folder(tmp_path):
    def also(row):
        with pytest.raises(InputError, match="is being trained by another process"):
            small(tmp_path / "run", samples=200, resume=True)

    small(tmp_path / "run", samples=200, callback=also)
    assert len(RunFolder(tmp_path / "run").rows()) == 2


def test_importing_cmdpax_loads_none_of_the_deep_packages():
    code = (
        "import cmdpax, cmdpax.cli, sys; print([m for m in ('jax', 'mujoco', 'gymnasium',"
        " 'safetensors') if m in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"


KEPT = {"environment": "probes:Bandit", "limits": "cost<=0.3", "samples": 6_000}
KEPT |= {"batch": 100, "rollout_steps": 50, "checkpoint_every": 1}
CHANCES = {42: 0.05, 46: 0.1, 48: 0.15, 52: 0.4, 60: 0.9}  # of the arm that pays and costs


@pytest.fixture
def by_hand(monkeypatch):
    """Each update leaves a policy that pulls arm 1 with a chance of .6, or that of `CHANCES`."""

    def learn(learner, *others):
        chance = CHANCES.get(int(learner.update) + 1, 0.6)
        layer = dict.fromkeys(("weight", "bias"))
        *hidden, last = learner.policy["layers"]
        layer["weight"] = 0 * last["weight"]
        layer["bias"] = np.log(np.array([1 - chance, chance], np.float32))
        return learner._replace(policy={"layers": [*hidden, layer]}), {}

    monkeypatch.setattr(training, "learn", learn)


def kept_files(folder):
    """Names and bytes of whatever a choice leaves behind."""
    assert not (folder / "candidates").exists()
    return {file.name: file.read_bytes() for file in sorted(folder.glob("kept.*"))}


@pytest.fixture
def chosen(by_hand, tmp_path):
    run = small(tmp_path / "chosen", **KEPT)
    assert run.kept == "kept the policy of update 48 of 60: the last was beyond its limit on cost"
    return run


def test_a_run_whose_last_policy_exceeds_a_limit_keeps_an_earlier_one(chosen, monkeypatch):
    """Metrics and checkpoints are those of a run that judges nothing."""
    assert chosen.policy.core.updates == 48 and chosen.verdict.word == "kept"
    assert chosen.verdict.episodes == 100 and chosen.verdict.mean["cost"] < 0.3
    loaded = cmdpax.load_policy(chosen.folder)
    assert loaded.core.updates == 48
    np.testing.assert_array_equal(loaded.core.biases[-1], chosen.policy.core.biases[-1])
    assert cmdpax.evaluate(chosen)["stochastic"].updates == 48
    assert int(RunFolder(chosen.folder).newest()[0]["update"]) == 60
    monkeypatch.setattr(training, "candidates", lambda updates: [])
    monkeypatch.setattr(training, "choose", lambda *arguments: None)
    plain = small(chosen.folder.with_name("plain"), **KEPT)
    assert plain.verdict.word == "exceeded" and plain.kept == ""  # by the last training episodes
    assert_same_run(chosen.folder, plain.folder)
    assert not kept_files(plain.folder)


def test_the_same_policy_is_kept_whatever_is_killed_when(chosen, tmp_path, monkeypatch):
    """Among the candidates, while they are judged, between the files of the one that is kept, and
    before the others are removed.
    """
    folder, own, calls = tmp_path / "cut", training.collect, []
    with pytest.raises(Stopped):
        small(folder, **KEPT, callback=stop_at(50))
    assert len(list((folder / "candidates").glob("*.json"))) == 5

    def stopping(*arguments):
        calls.append(arguments)
        if len(calls) == 13:  # the third of the six that judge
            raise Stopped
        return own(*arguments)

    monkeypatch.setattr(training, "collect", stopping)
    with pytest.raises(Stopped):
        small(folder, **KEPT, resume=True)
    monkeypatch.setattr(training, "collect", own)
    write = checkpoints.write_bytes

    def failing(path, data):
        if path.name == "kept.json":
            raise Stopped
        write(path, data)

    monkeypatch.setattr(checkpoints, "write_bytes", failing)
    with pytest.raises(Stopped):
        small(folder, **KEPT, resume=True)
    assert cmdpax.load_policy(folder).core.updates == 60  # nothing is chosen yet
    monkeypatch.setattr(checkpoints, "write_bytes", write)
    clear = RunFolder.clear

    def stopped(run):
        raise Stopped

    monkeypatch.setattr(RunFolder, "clear", stopped)
    with pytest.raises(Stopped):
        small(folder, **KEPT, resume=True)
    monkeypatch.setattr(RunFolder, "clear", clear)
    again = small(folder, **KEPT, resume=True)
    assert (again.kept, again.verdict) == (chosen.kept, chosen.verdict)
    assert kept_files(folder) == kept_files(chosen.folder)
    assert_same_run(folder, chosen.folder)
    once_more = small(folder, **KEPT, resume=True)  # nothing is judged twice
    assert (once_more.kept, once_more.verdict) == (chosen.kept, chosen.verdict)


def test_a_damaged_candidate_cannot_be_kept(by_hand, tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(Stopped):
        small(folder, **KEPT, callback=stop_at(59))
    (file,) = (folder / "candidates").glob("*48.safetensors")
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)
    with pytest.warns(UserWarning, match=r"00000048\.safetensors is damaged.* cannot be kept"):
        run = small(folder, **KEPT, resume=True)
    assert run.policy.core.updates == 46 and "update 46 of 60" in run.kept


def test_workers_change_nothing_about_what_is_kept(chosen, tmp_path):
    small(tmp_path / "others", **KEPT, workers=2)
    assert kept_files(tmp_path / "others") == kept_files(chosen.folder)


def test_a_longer_run_goes_on_from_its_last_policy(chosen):
    """What was kept is the run's until it has another checkpoint."""
    longer = KEPT | {"samples": 6_500}
    with pytest.warns(UserWarning, match="goes on at update 60"), pytest.raises(Stopped):
        small(chosen.folder, **longer, resume=True, callback=stop_at(61))
    assert RunFolder(chosen.folder).kept() is None
    assert cmdpax.load_policy(chosen.folder).core.updates == 61
    rows = RunFolder(chosen.folder).rows()
    assert rows[60]["return"] == pytest.approx(CHANCES[60], abs=0.1)  # what acts is the last


def test_a_start_takes_the_policy_that_was_kept(chosen, tmp_path):
    run = small(tmp_path / "next", **KEPT | {"samples": 100}, start=chosen.folder)
    assert run.metrics[0]["return"] == pytest.approx(CHANCES[48], abs=0.15)


def test_a_last_policy_that_keeps_its_limits_is_kept(by_hand, tmp_path):
    run = small(tmp_path / "run", **KEPT | {"limits": "cost<=0.95"})
    assert run.kept == "" and run.policy.core.updates == 60 and run.verdict.episodes == 100
    assert cmdpax.load_policy(run.folder).core.updates == 60
    assert kept_files(run.folder).keys() == {"kept.json", "kept.safetensors"}
