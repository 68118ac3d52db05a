"""A finite horizon: how it is written, what it means, and that files keep it."""

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import cmdpax
from cmdpax import CMDP, InputError, check, load_model, load_result, methods, save_model, solve
from cmdpax.files.arrays import arrays_in
from cmdpax.files.reading import opened
from cmdpax.learning.portable import load_policy
from models import assert_same, assert_valid

H, S, A = 4, 3, 2


def staged(seed: int = 0, **changes) -> dict:
    """Everything depends on the time; one constraint `<=`."""
    rng = np.random.default_rng(seed)
    fields = {
        "transitions": rng.dirichlet(np.ones(S), (H, S, A)),
        "reward": rng.normal(size=(H, S, A)),
        "constraints": rng.random((1, H, S, A)),
        "thresholds": [1.5],
        "initial": rng.dirichlet(np.ones(S)),
        "senses": "<=",
        "horizon": H,
    }
    return fields | changes


def stationary(seed: int = 0, **changes) -> dict:
    fields = staged(seed)
    fields |= {name: fields[name][0] for name in ("transitions", "reward")}
    return fields | {"constraints": fields["constraints"][:, 0]} | changes


def plain_value(fields: dict, policy: np.ndarray, x: np.ndarray, discount: float = 1.0) -> float:
    """Forwards through time, with loops."""
    chances, total = np.array(fields["initial"]), 0.0
    for t in range(H):
        after = np.zeros(S)
        for s in range(S):
            for a in range(A):
                share = chances[s] * policy[t, s, a]
                total += discount**t * share * x[t, s, a]
                after += share * fields["transitions"][t, s, a]
        chances = after
    return total


def linear_program(fields: dict, discount: float = 1.0) -> float:
    """The optimum by visits `[H, S, A]` of a dense linear program."""
    P, n = fields["transitions"], H * S * A
    index = np.arange(n).reshape(H, S, A)
    flow, right = np.zeros((H * S, n)), np.zeros(H * S)
    right[:S] = fields["initial"]
    for t in range(H):
        for s in range(S):
            flow[t * S + s, index[t, s]] = 1.0
            if t:
                flow[t * S + s, index[t - 1].ravel()] -= P[t - 1, ..., s].ravel()
    weights = discount ** np.arange(H)[:, None, None]
    costs = (fields["constraints"][0] * weights).reshape(1, -1)
    best = linprog(-(fields["reward"] * weights).ravel(), costs, fields["thresholds"], flow, right)
    return -best.fun


@pytest.mark.parametrize("discount", [None, 0.7, 0.9999])
@pytest.mark.parametrize("seed", [0, 2, 4])
def test_the_optimum_is_that_of_a_linear_program_over_time(seed, discount):
    fields = staged(seed)
    model = CMDP(**fields, discount=discount)
    assert_valid(model)
    result, gamma = solve(model), 1.0 if discount is None else discount
    assert result.status == "certified" and result.policy.shape == (H, S, A)
    assert result.reward == pytest.approx(linear_program(fields, gamma), abs=1e-7)
    earned = plain_value(fields, result.policy, fields["reward"], gamma)
    paid = plain_value(fields, result.policy, fields["constraints"][0], gamma)
    assert (earned, paid) == pytest.approx((result.reward, result.values[0]), abs=1e-9)
    assert check(model, result).status == "certified"


@pytest.mark.parametrize("name", [name for name, row in methods.items() if not row.trace])
def test_every_method_that_plans_takes_it(name):
    model = CMDP(**staged())
    assert "finite" in methods[name].criteria
    result = solve(model, name, eps=1e-5)
    assert result.status == "certified" and check(model, result)
    assert result.reward == pytest.approx(solve(model).reward, abs=1e-4)


@pytest.mark.parametrize("name", ["pqa-alm", "npg-pd"])
def test_methods_by_gradients_say_that_they_do_not(name):
    with pytest.raises(InputError, match=r"^method '.*' takes .* only, and this one is finite"):
        solve(CMDP(**staged()), name)


def test_one_model_in_every_way_it_is_written():
    fields = stationary()
    P, r, c = fields["transitions"], fields["reward"], fields["constraints"]
    model = CMDP(**fields)
    by_choice = {"reward": r.ravel(), "constraints": c.reshape(1, -1)}
    cells = np.arange(S)
    every = [
        {"transitions": [P] * H, "reward": [r] * H, "constraints": [[c[0]] * H]},
        {"transitions": np.stack([P] * H), "constraints": [c[0]] * H},
        {"transitions": [[sp.csr_array(P[:, a]) for a in range(A)]] * H},
        {"transitions": [sp.csr_array(P[:, a]) for a in range(A)]},
        {"transitions": P.reshape(S * A, S), "first_choice": A * np.arange(S + 1), **by_choice},
        {"transitions": [P.reshape(S * A, S)] * H, "first_choice": A * np.arange(S + 1)},
        {"transitions": (np.broadcast_to(cells, P.shape), P)},
        {"transitions": [(np.broadcast_to(cells, P.shape), P)] * H},
        {"transitions": [[dict(zip(cells, row)) for row in state] for state in P]},
        {"reward": np.tile(r.ravel(), H), "available": np.ones((H, S, A), bool)},
    ]
    for other in every:
        assert CMDP(**fields | other).digest == model.digest
    written = CMDP.from_step(
        range(S),
        range(A),
        lambda s, a, t: (dict(enumerate(P[s, a])), r[s, a], [c[0, s, a]]),
        thresholds=[1.5],
        initial=dict(enumerate(fields["initial"])),
        senses="<=",
        horizon=H,
    )
    assert written.digest == model.digest


def test_what_is_paid_at_the_end_and_on_the_way():
    """Terminal rewards, and rewards of transitions, as one expects them."""
    fields, rng = staged(1), np.random.default_rng(5)
    ends, costs = rng.normal(size=S), rng.normal(size=(1, S))
    there = rng.normal(size=(H, S, A, S))
    model = CMDP(
        **fields | {"reward": there},
        discount=0.9,
        terminal_reward=ends,
        terminal_constraints=costs,
    )
    P = fields["transitions"]
    reward = (P * there).sum(-1)
    reward[-1] += 0.9 * P[-1] @ ends
    cost = fields["constraints"][0].copy()
    cost[-1] += 0.9 * P[-1] @ costs[0]
    np.testing.assert_allclose(model.as_table(model.reward), reward, atol=1e-14)
    np.testing.assert_allclose(model.as_table(model.constraints)[0], cost, atol=1e-14)


def test_actions_that_exist_at_some_times_and_goals():
    fields, mask = staged(2), np.ones((H, S, A), bool)
    mask[1, 0, 0] = mask[2, :, 1] = False
    model = CMDP(**fields, available=mask)
    np.testing.assert_array_equal(model.available, mask)
    policy = model.uniform_policy()
    np.testing.assert_array_equal(policy > 0, mask)
    np.testing.assert_array_equal(model.as_table(model.by_choice(policy)), policy)
    result = solve(model)
    assert not result.policy[~mask].any() and check(model, result)
    ended = CMDP(**stationary(2), goal=[2])
    assert not ended.as_table(ended.reward)[:, 2].any()
    assert check(ended, solve(ended))


@given(st.integers(0, 2**32 - 1))
def test_no_policy_beats_the_bound(seed):
    """Random policies: none that keeps the limit earns more than is said to be possible."""
    fields = staged(seed % 50)
    result, rng = solve(CMDP(**fields)), np.random.default_rng(seed)
    policy = rng.dirichlet(np.full(A, 0.3), (H, S))
    margin = 1.5 - plain_value(fields, policy, fields["constraints"][0])
    earned = plain_value(fields, policy, fields["reward"])
    best, price = result.certificate.dual_bound, result.multipliers[0]
    assert earned + price * margin <= best + 1e-9
    assert result.status == "certified" or margin < 0


@pytest.mark.parametrize("discount", [None, 0.9])
@pytest.mark.parametrize("offset", [1e6, -1e9])
def test_a_constant_costs_few_digits(offset, discount):
    """Every policy has all steps; a constant in rewards or in a cost adds what it must."""
    plain, moved = staged(), staged()
    steps = H if discount is None else (1 - 0.9**H) / 0.1
    moved["reward"] = plain["reward"] + offset
    moved["constraints"] = plain["constraints"] + offset
    moved["thresholds"] = [1.5 + offset * steps]
    result = solve(CMDP(**moved, discount=discount))
    first = solve(CMDP(**plain, discount=discount))
    assert result.status == first.status == "certified" and check(
        CMDP(**moved, discount=discount), result
    )
    rounding = 1e-12 * abs(offset)  # of one step, as documented
    low, high = result.certificate.ranges[0]
    assert result.certificate.gap <= 1e-6 * (high - low) + rounding
    assert result.reward - offset * steps == pytest.approx(first.reward, abs=1e-5 + rounding)


def test_replace_keeps_the_horizon_and_takes_what_the_constructor_takes():
    model = CMDP(**staged())
    assert model.replace(thresholds=[2.0]).transitions is model.transitions
    other = model.replace(reward=np.ones((S, A)), initial=1)
    assert solve(other).reward == pytest.approx(H)
    with pytest.raises(InputError, match="horizon"):
        model.replace(available=np.ones((S, A), bool))
    assert "horizon=4" in repr(model) and "4 steps" in str(model)
    assert model.criterion == "finite" and model.policy_shape == (H, S, A)


@pytest.mark.parametrize("suffix", ["npz", "json"])
@pytest.mark.parametrize("fields", [staged(), stationary(), staged(available=np.eye(S)[:, :A] < 1)])
def test_files_keep_it(tmp_path, suffix, fields):
    model = CMDP(**fields, state_names=["a", "b", "c"], discount=0.95)
    save_model(model, tmp_path / f"model.{suffix}")
    loaded = load_model(tmp_path / f"model.{suffix}")
    assert_same(loaded, model)
    assert loaded.horizon == H
    result = solve(model)
    cmdpax.save_result(result, tmp_path / "result.npz")
    again = load_result(tmp_path / "result.npz")
    np.testing.assert_array_equal(again.policy, result.policy)
    assert check(loaded, again)


def test_a_stationary_model_is_written_as_one_by_hand(tmp_path):
    model = CMDP(**stationary())
    save_model(model, tmp_path / "model.json")
    data = json.loads((tmp_path / "model.json").read_text())
    data["transitions"] = [
        {key: value for key, value in entry.items() if key != "time"}
        for entry in data["transitions"]
        if entry["time"] == 0
    ]
    (tmp_path / "model.json").write_text(json.dumps(data))
    assert load_model(tmp_path / "model.json").digest == model.digest


def test_a_file_with_another_horizon_is_refused(tmp_path):
    save_model(CMDP(**staged()), tmp_path / "model.npz")
    with opened(tmp_path / "model.npz") as file:
        arrays = {name: read() for name, read in arrays_in(file).items() if name != "meta"}
    meta = {"format": "cmdpax-model", "version": 3, "senses": ["<="]}
    for horizon in (2, 14, 0, "x"):
        np.savez(tmp_path / "bad.npz", **arrays, meta=json.dumps({**meta, "horizon": horizon}))
        with pytest.raises(InputError, match=r"meta.horizon is"):
            load_model(tmp_path / "bad.npz")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"horizon": 0}, "horizon is 0; it must be a whole number"),
        ({"horizon": 5}, "transitions: 4 steps for a horizon of 5"),
        ({"reward": np.zeros((H + 1, S, A))}, r"reward: shape \(5, 3, 2\), expected"),
        ({"constraints": np.zeros((1, 2, S, A))}, r"constraints\[0\]: shape \(2, 3, 2\), expected"),
        ({"available": np.ones((2, S, A), bool)}, "available: 2 steps for a horizon of 4"),
        ({"terminal_reward": [1.0]}, r"terminal_reward: shape \(1,\), expected \(3,\)"),
        ({"horizon": None, "discount": 1.0, "terminal_reward": [1.0]}, "give a horizon= too"),
        ({"horizon": None, "reward": 0}, "transitions: shape"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        CMDP(**staged() | changes)


def test_without_a_horizon_a_discount_is_needed():
    fields = stationary() | {"horizon": None}
    with pytest.raises(InputError, match=r"discount: give it, for example 0\.95; or horizon="):
        CMDP(**fields)


def test_the_checker_refuses_another_policy():
    model = CMDP(**staged())
    result = solve(model)
    late = result.policy.copy()
    late[-1] = late[-1, :, ::-1]
    for policy in (late, result.policy[0], result.policy[1:]):
        with pytest.raises(cmdpax.CertificateError):
            check(model, replace(result, policy=policy))


def test_a_saved_policy_knows_the_time(tmp_path):
    model = CMDP(**staged())
    result = solve(model.replace(thresholds=[100.0]))
    cmdpax.save_result(result, tmp_path / "result.npz")
    policy = load_policy(tmp_path / "result.npz")
    policy.reset(0)
    for t in range(H):
        assert policy(1) == result.policy[t, 1].argmax()
