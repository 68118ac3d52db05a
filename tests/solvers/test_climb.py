"""Utilities through the door: against a conic program, and every claim by the checker."""

import signal

import numpy as np
import pytest
from utility_theorem import cliff, measured, smooth_ones, two_states

import cmdpax
from cmdpax import utilities
from cmdpax.environments import grid_world
from cmdpax.errors import CertificateError, InputError
from cmdpax.exact.discounted import Discounted
from cmdpax.solvers.door import Door
from models import large_path, renumbered

EPS = 1e-4
KINDS = (
    *("linear", "states", "pairs", "kl", "recorded", "distance"),
    *("fairness-1", "fairness-2", "fairness-half", "max_min", "soft_limit"),
)


def random_model(seed, states=None):
    """A model with 0 to 3 constraints that some policy meets with room, and positive rewards."""
    random = np.random.default_rng(seed)
    S, A, m = states or int(random.integers(2, 16)), int(random.integers(2, 4)), seed % 4
    gamma, transitions = float(random.uniform(0.5, 0.95)), random.dirichlet([0.3] * S, (S, A))
    reward, constraints = random.uniform(size=(S, A)), random.uniform(size=(m, S, A))
    policy = random.dirichlet([1.0] * A, S)
    initial = random.dirichlet([1.0] * S)
    under = np.einsum("sa,sat->st", policy, transitions)
    values = np.linalg.solve(
        np.eye(S) - gamma * under, np.einsum("sa,msa->sm", policy, constraints)
    )
    thresholds = 0.98 * (initial @ values)
    return cmdpax.CMDP(transitions, reward, constraints, thresholds, initial, gamma)


def utility_of(model, kind, seed):
    """A utility, and the name and settings of its conic program."""
    random, shape = np.random.default_rng(seed), (model.states, model.actions)
    rewards, visits = random.uniform(size=(3, *shape)), random.dirichlet([1.0] * model.choices)
    table, flat = visits.reshape(shape), [row.reshape(-1) for row in rewards]
    alphas = {"fairness-1": 1.0, "fairness-2": 2.0, "fairness-half": 0.5}
    if kind in alphas:
        alpha = alphas[kind]
        return utilities.fairness(rewards, alpha), "fairness", {"rewards": flat, "alpha": alpha}
    most = 0.4 / (1 - model.discount)
    ready = {
        "linear": (utilities.linear(), "linear", {"reward": model.reward}),
        "states": (utilities.entropy(), "entropy", {"over": "states"}),
        "pairs": (utilities.entropy("pairs"), "entropy", {"over": "pairs"}),
        "kl": (utilities.kl(table), "kl", {"visits": visits}),
        "recorded": (utilities.kl(table, of="recorded"), "recorded", {"visits": visits}),
        "distance": (utilities.distance(table), "distance", {"visits": visits}),
        "max_min": (utilities.max_min(rewards), "max_min", {"rewards": flat}),
        "soft_limit": (
            utilities.soft_limit("reward", most=most, penalty=2.0),
            "soft_limit",
            {"reward": model.reward, "most": most, "penalty": 2.0},
        ),
    }
    return ready[kind]


def optimum(model, name, settings):
    from convex import best_utility

    matrix, owner = model.transitions.matrix.toarray(), model.transitions.state_of
    limits = list(zip(model.constraints, model.thresholds, strict=True))
    return best_utility((matrix, owner), model.initial, model.discount, limits, name, **settings)


def agree(seed, kind):
    """Solve one random model, check the certificate, and compare with the conic program."""
    model = random_model(seed)
    utility, name, settings = utility_of(model, kind, seed)
    result = cmdpax.solve(model, utility=utility, eps=EPS)
    assert result.status == "certified", (seed, kind, str(result))
    cmdpax.check(model, result)
    (best, margins), proof = optimum(model, name, settings), result.certificate
    best -= float(result.multipliers @ np.maximum(-margins, 0))
    width = max(np.ptp(proof.ranges[0]), 1e-9)
    assert proof.dual_bound >= best - 1e-9 * (1 + abs(best)), (seed, kind)  # no false certificate
    # what is violated within eps may be worth its price
    worth = float(result.multipliers @ np.maximum(-result.margins, 0))
    assert result.reward >= best - EPS * width - 1e-6 * (1 + abs(best)), (seed, kind)
    assert result.reward <= best + worth + 1e-6 * (1 + abs(best)), (seed, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_the_optimum_is_that_of_a_conic_program(kind):
    agree(KINDS.index(kind), kind)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300))
def test_300_random_models_agree_with_a_conic_program(seed):
    agree(1000 + seed, KINDS[seed % len(KINDS)])


@pytest.mark.parametrize("method", ["pqa-alm", "ppg-alm", "npg-alm", "spma-alm"])
def test_every_gradient_step_reaches_the_same_optimum(method):
    model = random_model(4, states=5)
    utility = utilities.entropy("pairs")
    best = cmdpax.solve(model, utility=utility, eps=1e-5)
    other = cmdpax.solve(model, method, utility=utility, eps=1e-3)
    assert other.status == "certified" and other.method == method
    assert other.reward == pytest.approx(best.reward, abs=2e-3)
    cmdpax.check(model, other)


def test_a_linear_utility_is_the_reward():
    model = random_model(5)
    plain, same = cmdpax.solve(model), cmdpax.solve(model, utility=utilities.linear(), eps=1e-7)
    assert same.reward == pytest.approx(plain.reward, abs=1e-6)


def test_minimise_is_the_same_said_the_other_way_round():
    model = random_model(6)
    visits = np.ones((model.states, model.actions))
    most = cmdpax.solve(model, utility=utilities.kl(visits), eps=EPS)
    least = cmdpax.solve(model, utility=utilities.kl(visits, minimise=True), eps=EPS)
    assert least.minimise and least.reward == -most.reward
    assert least.certificate.dual_bound == -most.certificate.dual_bound
    assert np.array_equal(least.policy, most.policy)
    cmdpax.check(model, least)


def test_an_infeasible_model_is_answered_with_its_proof():
    model = random_model(1)
    model = model.replace(thresholds=np.array([10 / (1 - model.discount)]))
    result = cmdpax.solve(model, utility=utilities.entropy())
    assert result.status == "infeasible" and result.utility is None
    cmdpax.check(model, result)


def test_ones_own_functions_are_said_to_be_numerical():
    model = random_model(8)
    own = utilities.own(lambda d: -float((d**2).sum()), lambda d: -2 * d)
    result = cmdpax.solve(model, utility=own, eps=EPS)
    ready = utilities.distance(np.ones((model.states, model.actions)))
    assert result.policy == pytest.approx(
        cmdpax.solve(model, utility=ready, eps=EPS).policy, abs=0.1
    )
    assert "numerical" in str(result)
    assert "provided that it is concave" in str(cmdpax.check(model, result))


def test_what_is_not_concave_is_refused():
    own = utilities.own(lambda d: float((d**2).sum()), lambda d: 2 * d)
    with pytest.raises(InputError, match="not concave"):
        cmdpax.solve(random_model(9), utility=own)
    wrong = utilities.own(lambda d: -float((d**2).sum()), lambda d: 2 * d)
    with pytest.raises(InputError, match="check both functions"):
        cmdpax.solve(random_model(9), utility=wrong)


def square(d):
    return -float((d**2).sum())


@pytest.mark.parametrize(
    ("value", "gradient", "sentence"),
    [
        (lambda d: float("nan"), lambda d: -2 * d, "not finite at the uniform policy"),
        (lambda d: float("inf"), lambda d: -2 * d, "not finite at the uniform policy"),
        (lambda d: -(d**2), lambda d: -2 * d, "its value has shape"),
        (lambda d: "high", lambda d: -2 * d, "its value is str"),
        (lambda d: 1j, lambda d: -2 * d, "its value is complex"),
        (square, lambda d: -2 * d[:, 0], "its gradient has shape"),
        (square, lambda d: 1.0, "its gradient has shape"),
        (square, lambda d: None, "its gradient has shape"),
        (square, lambda d: "steep", "its gradient is str"),
        (square, lambda d: np.nan * d, "its gradient is not finite"),
    ],
)
def test_ones_own_functions_that_give_no_numbers_are_refused(value, gradient, sentence):
    with pytest.raises(InputError, match=sentence):
        cmdpax.solve(random_model(9), utility=utilities.own(value, gradient))


def test_likelihood_is_numerical_and_entropy_is_proven():
    model = random_model(8)
    log = np.arange(1.0, 1 + model.choices).reshape(model.states, model.actions)
    likelihood, divergence = utilities.kl(log, of="recorded"), utilities.kl(log)
    for utility, is_proven in ((likelihood, False), (divergence, True)):
        result = cmdpax.solve(model, utility=utility, eps=EPS)
        verified = str(cmdpax.check(model, result))
        assert ("numerical" in str(result)) is not is_proven
        assert ("no modulus of continuity" in verified) is not is_proven
        assert "provided" not in verified  # it is a ready one, which is concave


def test_where_no_policy_changes_anything_rounding_is_no_gap():
    """The logarithm of 1 is 0, and so is what eps is a share of."""
    transitions = np.array([[[0, 1.0]], [[0, 1.0]]])
    model = cmdpax.CMDP(transitions, np.array([[1.0], [0.0]]), [], [], 0, 1.0)
    result = cmdpax.solve(model, utility=utilities.fairness(["reward"]))
    assert result.status == "certified" and result.reward == pytest.approx(0, abs=1e-12)
    cmdpax.check(model, result)


def model_of(kind):
    """Four states, where all run on; or end with chance .2, but for one that may stay."""
    random = np.random.default_rng(0)
    transitions, reward = random.dirichlet([1.0] * 4, (4, 2)), random.uniform(0.1, 1, (4, 2))
    if kind in ("discounted", "average", "finite"):
        how = {"discounted": {"discount": 0.9}, "finite": {"horizon": 5}}
        own = how.get(kind, {"criterion": "average"})
        return cmdpax.CMDP(transitions, reward, [], [], 0, **own)
    ends = np.zeros((5, 2, 5))
    ends[:4, :, :4], ends[:4, :, 4], ends[4, :, 4] = 0.8 * transitions, 0.2, 1
    paid = np.vstack([reward, np.zeros((1, 2))])
    if kind == "total with cycles":
        ends[0, 0], paid = np.eye(5)[0], -paid
    return cmdpax.CMDP(ends, paid, [], [], 1, 1.0)


@pytest.mark.parametrize("kind", ["discounted", "total", "total with cycles", "average", "finite"])
def test_the_criteria_of_a_utility_are_those_it_says(kind):
    model = model_of(kind)
    every = [
        utilities.soft_limit("reward", most=0.1),
        utilities.entropy(),
        utilities.linear() + utilities.entropy(),
        utilities.max_min(["reward", 2 * model.reward]),
    ]
    for utility in every:
        if kind in utility.criteria:
            result = cmdpax.solve(model, utility=utility, eps=1e-3)
            assert result.status == "certified"
            cmdpax.check(model, result)
        else:
            with pytest.raises(InputError, match=f"models only, and this one is {kind}"):
                cmdpax.solve(model, utility=utility)


def test_arrays_of_steps_are_refused_where_nobody_could_check_them():
    table = np.ones((4, 2))
    with pytest.raises(InputError, match="give names, or numbers by choice"):
        cmdpax.solve(model_of("finite"), utility=utilities.fairness([table]))


@pytest.mark.parametrize(
    ("utility", "sentence"),
    [
        ("entropy", "give one of cmdpax.utilities"),
        (utilities.fairness(["reward", "no such"]), "has no function 'no such'"),
        (utilities.distance(np.ones((3, 7))), "expected"),
        (utilities.fairness([-np.ones((5, 2))]), "not finite at the uniform policy"),
    ],
)
def test_a_utility_that_does_not_fit_is_refused_in_one_sentence(utility, sentence):
    random = np.random.default_rng(0)
    transitions = random.dirichlet([1.0] * 5, (5, 2))
    model = cmdpax.CMDP(transitions, np.ones((5, 2)), [], [], 0, 0.9)
    with pytest.raises(InputError, match=sentence):
        cmdpax.solve(model, utility=utility)


def test_methods_without_gradients_take_no_utility():
    model = random_model(2)
    with pytest.raises(InputError, match="takes no utility"):
        cmdpax.solve(model, "lp", utility=utilities.entropy())
    with pytest.raises(InputError, match="no gradient"):
        cmdpax.solve(model, "npg-alm", utility=utilities.max_min(["reward", "c0"]))


def test_visits_need_a_discount():
    transitions = np.zeros((2, 1, 2))
    transitions[:, 0, 1] = 1.0
    model = cmdpax.CMDP(transitions, np.array([[1.0], [0.0]]), [], [], 0, 1.0)
    with pytest.raises(InputError, match="discounted"):
        cmdpax.solve(model, utility=utilities.entropy())


def test_a_false_claim_is_refused():
    from dataclasses import replace

    model = random_model(10)
    result = cmdpax.solve(model, utility=utilities.entropy(), eps=EPS)
    proof = result.certificate
    claims = [
        replace(proof, dual_bound=proof.dual_bound - 0.01),
        replace(proof, reward_bounds=(proof.reward_bounds[0] + 0.01,) * 2),
        replace(proof, utility=replace(proof.utility, at_uniform=-5.0)),
        replace(proof, utility=replace(proof.utility, policy=proof.utility.policy * 1.01)),
        replace(proof, utility=None),
    ]
    for claim in claims:
        with pytest.raises(CertificateError):
            cmdpax.check(model, replace(result, certificate=claim))


@pytest.mark.parametrize("make", [two_states, cliff])
def test_pqa_keeps_to_its_theorem(make):
    """`F* - F_K <= 32 L (1 + 1/((1-gamma) rho_min)) / ((1-gamma)^2 rho_min K)`, L of the step."""
    model = make()
    assert (model.initial > 0).all()
    for utility in smooth_ones(model).values():
        gaps, bound = measured(model, utility, steps=300)
        assert (gaps <= bound).all() and (gaps > -1e-9).all()
        assert gaps[-1] < gaps[0] and (np.diff(gaps) <= 1e-12).all()


@pytest.mark.parametrize("projection", ["newton", "reverse"])
@pytest.mark.parametrize("kind", ["ready", "own"])
def test_projected_pqa_climbs_a_utility_with_features(kind, projection):
    """To the visits of a policy that is known, by either divergence of the projection."""
    model = random_model(4, states=5)
    features = np.eye(5 * model.actions).reshape(5, model.actions, -1)
    form = cmdpax.exact.standard.StandardForm.of(model)
    policy = np.random.default_rng(0).dirichlet([3.0] * model.actions, 5)
    visits = form.criterion.share(form, model.by_choice(policy))[:, None] * policy
    utility = utilities.distance(visits)
    if kind == "own":
        value = utility.terms[0].value
        utility = utilities.own(value, lambda d: -2 * (d - visits))
    how = {"features": features, "outer": 3, "inner": 60, "projection_step": projection}
    run = cmdpax.trajectory(model, "ppqa-alm", utility=utility, **how)
    assert run.rewards[-1] == pytest.approx(0, abs=1e-4 * abs(run.rewards[0]))
    assert run.policy == pytest.approx(policy, abs=0.05)


@pytest.mark.parametrize("kind", ["soft_limit", "entropy", "max_min"])
def test_a_large_model_numbered_at_random_has_the_utility_of_one_in_order(kind):
    """The door put states in order, and utilities did not: a false result was "certified"."""
    ordered = grid_world(24, 24, seed=1, discount=0.9)
    utility = {
        "soft_limit": utilities.soft_limit("reward", least=1.0),
        "entropy": utilities.entropy(),
        "max_min": utilities.max_min(["reward", *ordered.constraint_names]),
    }[kind]
    with large_path():
        model = renumbered(ordered, 0)
        assert Door(model, 1e-2).renumbered is not None
        result = cmdpax.solve(model, utility=utility, eps=1e-2)
    cmdpax.check(model, result)
    other = cmdpax.solve(ordered, utility=utility, eps=1e-2)
    room = result.certificate.gap + other.certificate.gap + 0.02 * abs(other.reward)
    assert result.status == "certified" and abs(result.reward - other.reward) <= room


@pytest.mark.parametrize("kind", ["soft_limit", "entropy", "fairness", "max_min"])
def test_a_time_limit_is_kept_and_said(kind):
    """Where phase 1 had no time, the optimum of the model's own reward came back, certified."""
    model = cmdpax.environments.garnet(states=300, constraints=4, seed=1)
    model = model.replace(reward=model.reward - model.reward.min())
    utility = {
        "soft_limit": utilities.soft_limit("reward", least=100.0),
        "entropy": utilities.entropy(),
        "fairness": utilities.fairness(["reward"]),
        "max_min": utilities.max_min(["reward", "c0"]),
    }[kind]
    result = cmdpax.solve(model, utility=utility, time_limit=0)
    assert (result.status, result.reason, result.utility) == ("limit", "time", utility)
    cmdpax.check(model, result)


def test_a_limit_that_a_utility_does_not_keep_is_refused():
    model, utility = cmdpax.environments.cliff_world(), utilities.entropy()
    with pytest.raises(InputError, match="leave it out for a utility"):
        cmdpax.solve(model, utility=utility, memory_limit=64)
    with pytest.raises(InputError, match="npg-alm has a fixed budget; set its outer and inner"):
        cmdpax.solve(model, "npg-alm", utility=utility, step=0.1, time_limit=60)


def test_an_interrupt_ends_max_min(monkeypatch):
    """It went on with the next of its four tolerances."""
    model, calls, plan = cmdpax.environments.garnet(states=30, constraints=2), [], Discounted.plan

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == 8:
            signal.raise_signal(signal.SIGINT)
        return plan(*arguments, **options)

    monkeypatch.setattr(Discounted, "plan", interrupted)
    with pytest.warns(UserWarning, match="best policy so far"):
        result = cmdpax.solve(model, utility=utilities.max_min(["reward", "c0"]), eps=1e-9)
    assert (result.status, result.reason) == ("limit", "time")
