import itertools
import json
from dataclasses import asdict, fields

import numpy as np
import pytest

import probes
from cmdpax import InputError
from cmdpax.learning.config import METHODS, TrainConfig
from cmdpax.learning.run_folder import RunFolder
from cmdpax.learning.training import train
from short_run import SMALL


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"method": "spma-al"}, "method 'spma-al' is not known; did you mean 'spma-alm'"),
        ({"learning_rat": 1}, "setting 'learning_rat' is not known; did you mean 'learning_rate'"),
        ({"limits": ("price<=3",)}, "does not have"),
        ({"limits": ()}, "needs at least one limit"),
        ({"limits": (25,)}, "limits: 25 is no text"),
        ({"limits": "cost"}, "limit 'cost' is not understood"),
        ({"batch": 130}, "batch 130 is not a multiple of rollout_steps 50"),
        ({"batch": "many"}, "batch is 'many'; it must be a whole number"),
        ({"rollout_steps": 0}, "rollout_steps is 0; it must be a whole number of at least 1"),
        ({"samples": 1200.5}, r"samples is 1200\.5; it must be a whole number"),
        ({"penalty": -1.0}, r"penalty is -1\.0; it must be positive"),
        ({"gae": 1.5}, "must lie in"),
        ({"reserve": 1.5}, r"reserve is 1\.5; it must lie in"),
        ({"reserve": -0.1}, r"reserve is -0\.1; it must lie in"),
        ({"samples": 50}, "fewer than one batch"),
        ({"units": "euro"}, "units 'euro' is not known"),
        ({"critics": "normalized"}, "critics 'normalized' is not known; did you mean"),
        ({"minibatch": 101}, "larger than batch"),
        ({"discount": -0.5}, r"discount is -0\.5"),
        ({"environment": "SafetyHoperVelocity-v1"}, "did you mean"),
        ({"rescale": True}, "set standardise to separate"),
        ({"standardise": "seperate"}, "standardise 'seperate' is not known; did you mean"),
        ({"kl_stop": -1.0}, r"kl_stop is -1\.0; it must be a number, at least 0"),
        ({"gradient_clip": -5.0}, r"gradient_clip is -5\.0; it must be a number, at least 0"),
        (
            {"method": "trpo-alm", "gradient_clip": 1.0},
            "trpo-alm has a trust region instead; leave",
        ),
        ({"surrogate": "paper"}, "surrogate"),
        ({"method": "cpo", "cpo_step": "half"}, "cpo_step"),
        ({"seed": 10**20}, "seed is 1.*0; it must be a whole number between 0 and 4294967295"),
        ({"seed": -1}, "seed is -1"),
        ({"hidden": (64, 1_000_000_000)}, "hidden is 1000000000; .* between 1 and 10000"),
        ({"batch": 10**9, "samples": 10**10}, "batch is 1000000000; .* between 1 and 10000000"),
        ({"samples": 10**24}, "samples is 1000000000000000000000000; .* between 1 and"),
    ],
)
def test_bad_settings(settings, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        train(**{**SMALL, **settings}, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_method_fills_in_its_own_settings():
    configs = [TrainConfig(method=name).resolved() for name in ("spma-alm", "cpo", "ppo-alm")]
    own = [(config.batch, config.kl_stop, config.penalty) for config in configs]
    assert own == [(2_000, 0.02, 1.0), (5_000, 0.0, 1.0), (2_000, 0.03, 1.0)]
    chosen = {"kl_stop": 0.3, "penalty": 0.7, "minibatch": 64}
    assert chosen.items() <= asdict(TrainConfig(method="ppo-alm", **chosen).resolved()).items()
    small = [TrainConfig(batch=batch, rollout_steps=50).resolved() for batch in (100, 1_000)]
    assert [config.minibatch for config in small] == [100, 256]
    assert small[0].resolved() == small[0]


@pytest.mark.parametrize(
    ("samples", "limit", "copies", "batch", "steps"),
    [
        (2_000_000, None, None, 2_000, 1_000),
        (2_000_000, 5, None, 2_000, 1_000),
        (2_000_000, 200, None, 2_000, 1_000),
        (2_000_000, 300, None, 1_800, 900),
        (2_000_000, 1_000, None, 2_000, 1_000),
        (2_000_000, 2_000, None, 2_000, 2_000),
        (2_000_000, 3_000, None, 3_000, 3_000),
        (50_000, None, None, 1_000, 1_000),  # fifty updates
        (50_000, 5, None, 1_000, 1_000),
        (50_000, 200, None, 1_000, 1_000),
        (50_000, 1_000, None, 1_000, 1_000),
        (50_000, 2_000, None, 2_000, 2_000),  # an episode is not cut
        (2_000_000, None, 1, 2_000, 2_000),
        (2_000_000, 300, 1, 1_800, 1_800),
        (50_000, 5, 1, 1_000, 1_000),
        (50_000, 2_000, 1, 2_000, 2_000),
        (1_500, 2_000, None, 1_500, 1_500),  # there is no more
        (1_000, 5, None, 20, 20),
        (3, 5, None, 3, 3),
    ],
)
def test_batches_are_whole_episodes_of_about_the_methods_own_size(
    samples, limit, copies, batch, steps
):
    config = TrainConfig(samples=samples).resolved(limit, copies)
    assert (config.batch, config.rollout_steps) == (batch, steps)
    assert config.minibatch == min(256, batch)


@pytest.mark.parametrize("method", ["spma-alm", "cpo"])
def test_whatever_the_length_of_episodes_a_batch_holds_whole_ones(method):
    for samples, limit, copies in itertools.product(
        (10_000, 50_000, 10**6, 10**7), (None, *range(1, 60), 333, 700, 1_200, 5_000), (None, 1)
    ):
        config = TrainConfig(method=method, samples=samples).resolved(limit, copies)
        assert config.rollout_steps % (limit or 1) == config.batch % config.rollout_steps == 0
        assert copies is None or config.batch == config.rollout_steps
        own = min(METHODS[method].batch, samples * METHODS[method].batch // 100_000)
        assert config.batch <= max(own, limit or 0) and config.batch > own / 2
        short = limit is None or limit <= own
        assert config.updates >= (100_000 // METHODS[method].batch if short else 2)


def test_a_batch_or_steps_that_are_chosen_stay():
    chosen = TrainConfig(batch=130).resolved(50)
    assert (chosen.batch, chosen.rollout_steps) == (130, 130)
    assert TrainConfig(batch=600).resolved(50).rollout_steps == 600
    assert TrainConfig(batch=4_000).resolved(50).rollout_steps == 1_000
    assert TrainConfig(batch=4_000).resolved(50, 1).rollout_steps == 4_000
    chosen = TrainConfig(rollout_steps=70).resolved(50)
    assert (chosen.batch, chosen.rollout_steps) == (1_960, 70)
    chosen = TrainConfig(rollout_steps=70, batch=140).resolved(1_000)
    assert (chosen.batch, chosen.rollout_steps) == (140, 70)


def test_settings_by_name_are_those_of_json():
    config = TrainConfig(limits=("cost<=1", "heat>=2"), hidden=(8, 8), samples=1e5).resolved()
    assert TrainConfig.of(json.loads(json.dumps(asdict(config)))).resolved() == config
    assert config.samples == 100_000 and isinstance(config.samples, int)
    assert TrainConfig.of({"limits": "cost<=3", "hidden": 8}) == TrainConfig(
        limits=("cost<=3",), hidden=(8,)
    )


# every setting with another value, and the methods that use it: None for all of them
DESCENT, REGION = {"spma-alm", "ppo-alm", "ppo-lag"}, {"trpo-alm", "cpo"}
DUAL, AUGMENTED = (
    {"spma-alm", "ppo-alm", "trpo-alm", "ppo-lag"},
    {"spma-alm", "ppo-alm", "trpo-alm"},
)
OTHER = {
    "method": ("spma", None),
    "limits": (("cost<=-3",), None),
    "discounted": (True, None),
    "reserve": (0.5, None),
    "seed": (7, None),
    "samples": (240, None),
    "batch": (20, None),
    "rollout_steps": (20, None),
    "passes": (1, None),
    "minibatch": (10, None),
    "learning_rate": (2e-3, None),
    "decay": (False, None),
    "critics": ("plain", None),
    "clip": (1e-4, {"ppo-alm", "ppo-lag"}),
    "spma_step": (0.9, {"spma-alm"}),
    "surrogate": ("printed", {"spma-alm"}),
    "trust_region": (1e-4, REGION),
    "cpo_step": ("full", {"cpo"}),
    "kl_stop": (1e-9, DESCENT),
    "gradient_clip": (1e-9, DESCENT | {"cpo"}),
    "penalty": (0.7, AUGMENTED),
    "inner": (1, AUGMENTED),
    "units": ("reward", DUAL),
    "dual_step": (0.5, DUAL),
    "dual_optimiser": ("adam", DUAL),
    "margin": ("latest", DUAL),
    "standardise": ("separate", DUAL),
    "rescale": (True, DUAL),
    "discount": (0.5, None),
    "gae": (0.1, None),
    "cost_gae": (0.1, None),
    "hidden": ((5,), None),
    "initial_std": (0.9, None),
    "network": ("learning.pictures:doubled", None),
    "checkpoint_every": (1, None),
    "evaluate_every": (2, None),
    "evaluate_episodes": (3, None),
}
QUICK = {("spma-alm", "spma_step"), ("ppo-lag", "gradient_clip"), ("trpo-alm", "penalty")}
QUICK |= {
    ("cpo", "trust_region"),
    ("cpo", "reserve"),
    ("cpo", "cpo_step"),
    ("cpo", "gradient_clip"),
}
QUICK |= {("spma-alm", "surrogate"), ("spma-alm", "decay")}
EVERY = [
    pytest.param(*pair, marks=[] if pair in QUICK else pytest.mark.slow)
    for pair in itertools.product(sorted(DUAL | {"cpo"}), OTHER)
    if OTHER[pair[1]][1] is None or pair[0] in OTHER[pair[1]][1]
]


class Walk(probes.Throttle):
    """Seven steps; the action costs as much as it moves."""

    def reset(self, *, seed=None, options=None):
        self.age = 0
        return super().reset(seed=seed)

    def step(self, action):
        self.age += 1
        reward, info = super().step(action)[1], {"cost": float(action[0])}
        return np.full(1, self.age / 7, np.float32), reward, self.age == 7, False, info


def result(folder, **settings):
    """The bytes that a tiny run with a limit that binds leaves behind."""
    small = {"samples": 160, "batch": 40, "rollout_steps": 40, "passes": 2, "minibatch": 20}
    small |= {"hidden": (4,), "inner": 2, "limits": ("cost<=-2",), "standardise": "combined"}
    if settings.get("rescale"):
        small["standardise"] = "separate"
    train(Walk, **{**small, **settings}, folder=folder)
    run = RunFolder(folder)
    return run.rows(), [path.read_bytes() for path in run.checkpoints()]


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """The result of each method with the usual settings, made once."""
    made = {}

    def of(**settings):
        key = json.dumps(settings)
        if key not in made:
            made[key] = result(tmp_path_factory.mktemp("settings") / "run", **settings)
        return made[key]

    return of


def test_every_setting_is_tried():
    assert OTHER.keys() == {field.name for field in fields(TrainConfig)}
    assert set(METHODS) == DUAL | {"cpo", "ppo", "spma"}


@pytest.mark.parametrize(("method", "name"), EVERY)
def test_every_setting_is_used(method, name, before, tmp_path):
    """Another value of a setting makes another result; none is read and then ignored."""
    needed = {"rescale": {"standardise": "separate"}, "evaluate_episodes": {"evaluate_every": 2}}
    usual = {"method": method, **needed.get(name, {})}
    other = {**usual, name: OTHER[name][0]}
    if name == "batch":
        other["rollout_steps"] = OTHER[name][0]
    assert before(**usual) == before(**usual)
    assert result(tmp_path / "run", **other) != before(**usual)


UNUSED = [(method, name) for method, own in METHODS.items() for name in sorted(own.unused)]
QUICKLY_UNUSED = {("cpo", "dual_step"), ("cpo", "units"), ("ppo-lag", "inner"), ("ppo", "penalty")}


@pytest.mark.parametrize(
    ("method", "name"),
    [
        pytest.param(*pair, marks=[] if pair in QUICKLY_UNUSED else pytest.mark.slow)
        for pair in UNUSED
    ],
)
def test_what_is_unused_changes_nothing(method, name, before, tmp_path):
    """So that sweeps need not repeat a run for it."""
    assert OTHER[name][1] is not None and method not in OTHER[name][1]
    rows, checkpoints = result(tmp_path / "run", method=method, **{name: OTHER[name][0]})
    usual_rows, usual_checkpoints = before(method=method)
    assert rows == usual_rows
    if name != "spma_step":  # of which a checkpoint has the present one, used or not
        assert checkpoints == usual_checkpoints
