"""One update on a small random batch."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from cmdpax.learning import formulas, learner
from cmdpax.learning import scales as module
from cmdpax.learning.config import TrainConfig
from cmdpax.learning.gym_simulator import make_simulator
from cmdpax.learning.learner import assess, init, learn, minibatches, prepare, rescale
from cmdpax.learning.rollout import Batch, cut

TASK = "SafetyHopperVelocity-v1"
CONFIG = TrainConfig(
    method="ppo-alm", batch=200, rollout_steps=100, samples=2_000, hidden=(8,)
).resolved()


def update(number=1, **settings):
    """The state before and after one update, which is not the first, and its metrics."""
    config = replace(CONFIG, **settings)
    before = init(config, make_simulator(TASK, 1))._replace(update=np.asarray(number))
    batch = random_batch()
    batch = batch._replace(output=formulas.apply(before.policy["layers"], batch.observation))
    before, samples = assess(before, batch, 100.0, config)
    return before, *learn(before, samples, np.zeros(1), np.ones(1), 100.0, config)


def random_batch(steps=(100, 2), size=11):
    random = np.random.default_rng(0)
    return Batch(
        random.normal(size=(*steps, size)).astype(np.float32),
        random.normal(size=(steps[1], size)).astype(np.float32),
        np.zeros((*steps, 3), np.float32),
        random.normal(size=(*steps, 3)).astype(np.float32),
        random.normal(size=(2, *steps)).astype(np.float32),
        np.zeros(steps, np.float32),
        np.zeros(steps, np.float32),
        np.broadcast_to(np.arange(steps[0], dtype=np.float32)[:, None], steps),
    )


def predictions(state, scales, batch):
    """What the critics say in the users' units, `[1 + M, T, N]`."""
    outputs = np.asarray(formulas.values(state.critics, batch.observation), np.float64)
    return scales.centre[:, None, None] + scales.output_unit[:, None, None] * outputs


def seen(count, config=CONFIG):
    """The state after so many batches, each with rewards of another size and level."""
    state = init(config, make_simulator(TASK, 1))
    for number in range(count):
        batch = random_batch()
        level, size = 30.0 * number, 2.0 ** (3 * number)
        batch = batch._replace(rewards=level + size * batch.rewards)
        state, samples = assess(state, batch, 100.0, config)
    return state, batch, samples


def test_values_are_centre_plus_unit_times_output():
    state, batch = init(CONFIG, make_simulator(TASK, 1)), random_batch()
    centre, unit = np.array([30.0, -4.0]), np.array([2.0, 0.5])
    raised = [
        [*critic[:-1], {name: part * factor for name, part in critic[-1].items()}]
        for critic, factor in zip(state.critics, unit)
    ]
    for critic, level in zip(raised, centre):
        critic[-1]["bias"] = critic[-1]["bias"] + float(level)
    config = replace(CONFIG, critics="plain")
    ours = prepare(state.policy, state.critics, centre, unit, batch, 100.0, config)
    same = prepare(state.policy, raised, np.zeros(2), np.ones(2), batch, 100.0, config)
    ours, same = ours._replace(centre=0), same._replace(centre=0)
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-4), ours, same
    )


def test_what_followed_is_the_next_row_or_lies_beyond():
    """Where an episode or the batch ended, what truly followed is no row of the batch."""
    state, batch = init(CONFIG, make_simulator(TASK, 1)), random_batch()
    ended, random = np.zeros((100, 2), np.float32), np.random.default_rng(1)
    ended[[10, 10, 60], [0, 1, 1]] = 1
    successors = np.concatenate((batch.observation[1:], batch.observation[:1]))
    successors[cut(ended)] = random.normal(size=(5, 11))
    batch = batch._replace(ended=ended, beyond=successors[cut(ended)])
    config, zero, one = replace(CONFIG, critics="plain"), np.zeros(2), np.ones(2)
    ours = prepare(state.policy, state.critics, zero, one, batch, 100.0, config)
    values = [formulas.values(state.critics, one) for one in (batch.observation, successors)]
    expected = np.stack(
        [  # costs by a decay of their own
            formulas.generalised_advantage(one, *rest, 0 * ended, ended, config.discount, decay)
            for one, *rest, decay in zip(
                batch.rewards, *values, (config.gae, formulas.cost_decay(100.0)), strict=True
            )
        ]
    )
    given = prepare(
        state.policy, state.critics, zero, one, batch, 100.0, replace(config, cost_gae=0.95)
    )
    assert (given.advantages[1] != ours.advantages[1]).any()
    np.testing.assert_array_equal(given.advantages[0], ours.advantages[0])
    np.testing.assert_allclose(ours.advantages, expected.reshape(2, -1), rtol=1e-4, atol=1e-4)


def test_other_units_change_no_prediction():
    """PopArt: what an output stands for moves with every batch, what the critics say does not."""
    state, batch, _ = seen(2)
    other = batch._replace(rewards=500 + 70 * batch.rewards)
    after = assess(state, other, 100.0, CONFIG)[0]
    assert (after.scales.output_unit > 2 * state.scales.output_unit).all()
    level = (after.scales.centre - state.scales.centre)[:, None, None]
    before = predictions(state, state.scales, batch) + level
    size = after.scales.output_unit[:, None, None]
    np.testing.assert_allclose(
        predictions(after, after.scales, batch) / size, before / size, rtol=0, atol=2e-5
    )
    back = rescale(after.critics, after.scales, state.scales)
    jax.tree.map(
        lambda one, same: np.testing.assert_allclose(one, same, atol=1e-3), back, state.critics
    )


def test_one_batch_brings_values_to_their_level():
    """Rewards of 3 for ever are worth 3 / (1 - discount), and costs of -2 likewise."""
    state, batch = init(CONFIG, make_simulator(TASK, 1)), random_batch()
    noise = batch.rewards - batch.rewards.mean((1, 2), keepdims=True)
    batch = batch._replace(rewards=noise + np.array([3.0, -2.0], np.float32)[:, None, None])
    after, samples = assess(state, batch, 100.0, CONFIG)
    expected = np.array([3.0, -2.0]) / (1 - CONFIG.discount)
    np.testing.assert_allclose(after.scales.centre, expected, rtol=1e-3)
    assert abs(np.asarray(samples.targets).mean(0) - expected).max() < 10  # of 600 and 400


def test_where_limits_are_discounted_late_costs_count_less():
    state, batch = init(CONFIG, make_simulator(TASK, 1)), random_batch()
    plain = assess(state, batch, 100.0, CONFIG)[1]
    fading = assess(state, batch, 100.0, replace(CONFIG, discounted=True))[1]
    np.testing.assert_array_equal(fading.advantages[0], plain.advantages[0])
    factor = CONFIG.discount ** batch.age.reshape(-1)
    np.testing.assert_allclose(fading.advantages[1], plain.advantages[1] * factor, rtol=1e-5)
    np.testing.assert_array_equal(fading.targets, plain.targets)


def test_before_the_first_batch_there_is_no_value_but_the_level():
    state, batch, samples = seen(1)
    start = init(CONFIG, make_simulator(TASK, 1))
    nothing = jax.tree.map(np.zeros_like, start.critics)
    zero, one = np.zeros(2, np.float32), np.ones(2, np.float32)
    plain = prepare(start.policy, nothing, zero, one, batch, 100.0, CONFIG)
    np.testing.assert_allclose(samples.targets, plain.targets, rtol=1e-6)
    jax.tree.map(np.testing.assert_array_equal, state.critics, start.critics)


def test_plain_critics_are_believed_from_the_first_batch_on():
    """As the paper's, and as in version 0.1."""
    config = replace(CONFIG, critics="plain")
    _, batch, samples = seen(1, config)
    start = init(config, make_simulator(TASK, 1))
    zero, one = np.zeros(2, np.float32), np.ones(2, np.float32)
    said = prepare(start.policy, start.critics, zero, one, batch, 100.0, config)
    np.testing.assert_array_equal(samples.targets, said.targets)
    assert np.abs(formulas.values(start.critics, samples.observation)).max() > 0.1


def test_critics_learn_normalised_targets():
    """Less their level, one deviation is 25 outputs for the reward, 5 for a cost."""
    losses, units = {}, (module.REWARD_OUTPUTS, module.COST_OUTPUTS)
    for kind in ("normalised", "plain"):
        config = replace(CONFIG, critics=kind, learning_rate=1e-12, passes=1, minibatch=200)
        state, _, samples = seen(1, config)
        targets = np.asarray(samples.targets, np.float64)
        outputs = np.asarray(formulas.values(state.critics, samples.observation)).T
        if kind == "normalised":
            targets = (targets - state.scales.centre) / targets.std(0) * units
        expected = np.square(outputs - targets).mean(0).sum()
        _, metrics = learn(state, samples, np.zeros(1), np.zeros(1), 100.0, config)
        losses[kind] = metrics["critic_loss"]
        assert losses[kind] == pytest.approx(expected, rel=1e-4)
    assert losses["normalised"] != pytest.approx(losses["plain"], rel=0.1)


def test_a_cost_that_never_varies_has_no_advantages_and_a_critic_that_says_so():
    state = init(CONFIG, make_simulator(TASK, 1))
    batch = random_batch()
    batch.rewards[1] = 0
    for number in range(3):
        state, samples = assess(state._replace(update=np.asarray(number)), batch, 100.0, CONFIG)
        assert not np.asarray(samples.advantages[1]).any()
        state, metrics = learn(state, samples, np.zeros(1), np.zeros(1), 100.0, CONFIG)
        assert np.isfinite(metrics["critic_loss"])
    assert state.scales.balance == 0 and state.scales.output_unit[1] == 0


@pytest.mark.parametrize("method", ["spma-alm", "ppo-alm", "trpo-alm", "ppo-lag", "cpo"])
def test_the_first_batch_trains_the_critics_alone(method):
    for number in (0, 1):
        before, after, _ = update(number, method=method, trust_region=0.01)
        same = [
            one.tobytes() == other.tobytes()
            for one, other in zip(
                jax.tree.leaves(jax.tree.map(np.asarray, before.policy)),
                jax.tree.leaves(jax.tree.map(np.asarray, after.policy)),
            )
        ]
        assert all(same) if number == 0 else not any(same)
        moved = jax.tree.map(
            lambda one, other: abs(one - other).max(), before.critics, after.critics
        )
        assert min(jax.tree.leaves(moved)) > 0


@pytest.mark.parametrize("method", ["ppo-alm", "spma-alm"])
def test_beyond_the_kl_stop_only_the_critics_go_on(method, monkeypatch):
    _, stopped, metrics = update(method=method, kl_stop=1e-9)
    _, free, _ = update(method=method, kl_stop=0.0)
    monkeypatch.setattr(
        learner, "minibatches", lambda *arguments: minibatches(*arguments)[:1, :1]
    )  # at the first there is no KL yet
    _, once, _ = update(method=method, kl_stop=0.0)
    assert metrics["kl"] > 1e-9
    for part in ("policy", "policy_adam"):
        jax.tree.map(np.testing.assert_array_equal, getattr(stopped, part), getattr(once, part))
    jax.tree.map(np.testing.assert_array_equal, stopped.critics, free.critics)


def test_below_the_kl_stop_nothing_changes():
    first, second = update(kl_stop=1e9)[1], update(kl_stop=0.0)[1]
    jax.tree.map(np.testing.assert_array_equal, first.policy, second.policy)


def test_a_clipped_gradient_moves_the_policy_less_and_the_critics_as_before():
    """Adam divides lengths out again, but for its epsilon: a gradient far below it hardly moves
    anything.
    """
    free, clipped = (
        update(method="ppo-lag", kl_stop=0.0, gradient_clip=clip)[1:] for clip in (0.0, 1e-12)
    )
    assert clipped[1]["kl"] < 1e-3 * free[1]["kl"]
    jax.tree.map(np.testing.assert_array_equal, clipped[0].critics, free[0].critics)
