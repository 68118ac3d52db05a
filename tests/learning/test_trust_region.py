import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.optimize import minimize

from cmdpax.learning import formulas, trust_region
from cmdpax.learning.trust_region import best_step, improve


def problem(seed, count, size=4):
    random = np.random.default_rng(seed)
    root = random.normal(size=(size, size))
    hessian = root @ root.T + 0.1 * np.eye(size)
    g, rows = random.normal(size=size), random.normal(size=(count, size))
    return hessian, g, rows, 0.2 * random.normal(size=count), 0.05 * random.uniform(0.2, 2)


def solved(hessian, g, rows, margin, radius):
    inverse = np.linalg.inv(hessian)
    step = best_step(g @ inverse @ g, rows @ inverse @ g, rows @ inverse @ rows.T, margin, radius)
    return step, inverse @ (step.objective * g + rows.T @ step.constraints)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_quadratic_subproblem_against_brute_force(count):
    """A general solver never finds a better feasible step; where none is feasible, it finds none
    either.
    """
    cases = set()
    for seed in range(40):
        hessian, g, rows, margin, radius = problem(seed, count)
        step, x = solved(hessian, g, rows, margin, radius)
        cases.add(step.case)
        assert x @ hessian @ x <= 2 * radius * (1 + 1e-6)
        ball = {"type": "ineq", "fun": lambda y, h=hessian, r=radius: 2 * r - y @ h @ y}
        planes = {"type": "ineq", "fun": lambda y, m=margin, a=rows: m + a @ y}
        if step.case == "recover":
            # the largest worst margin inside the ball stays negative
            start = np.append(x, (margin + rows @ x).min())
            bounds = [
                {"type": "ineq", "fun": lambda z, h=hessian, r=radius: 2 * r - z[:-1] @ h @ z[:-1]},
                {"type": "ineq", "fun": lambda z, m=margin, a=rows: m + a @ z[:-1] - z[-1]},
            ]
            assert (
                minimize(lambda z: -z[-1], start, constraints=bounds, method="SLSQP").x[-1] < 1e-6
            )
        else:
            assert (margin + rows @ x >= -1e-6).all()
            found = minimize(
                lambda y, g=g: -g @ y, x * 0.9, constraints=[ball, planes], method="SLSQP"
            )
            feasible = (
                margin + rows @ found.x >= -1e-7
            ).all() and found.x @ hessian @ found.x <= 2 * radius + 1e-7
            assert not feasible or -found.fun <= g @ x + 1e-5
    assert cases == ({"free"} if count == 0 else {"free", "bounded", "recover"})


def test_recovery_climbs_straight_back():
    hessian, g = np.diag([1.0, 4.0]), np.array([1.0, 0.0])
    step, x = solved(hessian, g, np.array([[0.0, 1.0]]), np.array([-5.0]), 0.02)
    assert step.case == "recover"
    np.testing.assert_allclose(x, [0, np.sqrt(2 * 0.02 / 4)], atol=1e-9)


def directions(policy, observation, action, advantages):
    old = formulas.log_probability(policy, observation, action)
    found = trust_region._directions(policy, observation, action, old, advantages)
    return [np.asarray(part, np.float64) for part in found]


def by_hand(product, target):
    """Fifteen iterations of conjugate gradients in float64."""
    x, residual, direction = np.zeros_like(target), target, target
    for _ in range(trust_region.ITERATIONS):
        image, square = product(direction), residual @ residual
        if square < 1e-30:
            break
        step = square / (direction @ image)
        x, residual = x + step * direction, residual - step * image
        direction = residual + residual @ residual / square * direction
    return x


@pytest.mark.parametrize("choices", [2, 3])
@pytest.mark.parametrize("gaussian", [True, False])
def test_directions_are_those_of_conjugate_gradients(gaussian, choices):
    """Also where they are exact after few iterations, and for a gradient that is zero."""
    random = np.random.default_rng(0)
    policy = formulas.init_policy(jax.random.key(0), (1, 4, choices), 0.6 if gaussian else None)
    observation = jnp.ones((200, 1), jnp.float32)
    action = random.normal(size=(200, choices)) if gaussian else random.integers(choices, size=200)
    advantages = jnp.array(random.normal(size=(3, 200)), jnp.float32).at[2].set(0.0)
    gradients, solutions = directions(policy, observation, jnp.asarray(action), advantages)
    flat, unravel = ravel_pytree(policy)

    def mean_kl(parameters):
        return formulas.kl(policy, unravel(parameters), observation).mean()

    hessian = np.asarray(jax.hessian(mean_kl)(flat), np.float64)
    hessian += trust_region.DAMPING * np.eye(len(flat))
    for gradient, solution in zip(gradients, solutions):
        expected = by_hand(lambda x: hessian @ x, gradient)
        scale = np.abs(expected).max() + 1e-12
        np.testing.assert_allclose(solution / scale, expected / scale, atol=1e-4)


@pytest.mark.parametrize("margin", [[], [5.0], [0.0], [-50.0]])
def test_a_step_keeps_its_promises(margin):
    random = np.random.default_rng(0)
    policy = formulas.init_policy(jax.random.key(0), (3, 16, 2), 0.6)
    observation = jnp.array(random.normal(size=(500, 3)), jnp.float32)
    action = formulas.apply(policy["layers"], observation) + 0.6 * random.normal(size=(500, 2))
    wish = np.asarray(action)[:, 0] * np.sign(np.asarray(observation)[:, 0])
    price = -np.asarray(action)[:, 0] - np.asarray(action)[:, 1]
    advantages = np.stack([wish, price])[: 1 + len(margin)]
    advantages = jnp.array(advantages - advantages.mean(1, keepdims=True), jnp.float32)
    moved, happened = improve(
        policy, observation, action, advantages, np.array(margin), 100.0, 0.01
    )
    ratio = np.exp(
        np.asarray(
            formulas.log_probability(moved, observation, action)
            - formulas.log_probability(policy, observation, action)
        )
    )
    change = (ratio * np.asarray(advantages)).mean(1)
    assert 0 < float(formulas.kl(policy, moved, observation).mean()) <= 0.01
    assert happened["backtracks"] < 20
    if margin == [-50.0]:
        assert happened["case"] == "recover" and change[1] > 0
    else:
        assert change[0] > 0
    if margin == [0.0]:
        assert 100 * change[1] >= -1e-6


def test_coming_back_to_a_limit_may_cost_reward():
    """Slightly violated, with reward and constraint opposed: the step gives reward up, as far as
    the trust region goes.
    """
    random = np.random.default_rng(0)
    policy = formulas.init_policy(jax.random.key(0), (3, 16, 1), 0.6)
    observation = jnp.array(random.normal(size=(500, 3)), jnp.float32)
    action = formulas.apply(policy["layers"], observation) + 0.6 * random.normal(size=(500, 1))
    wish = np.asarray(action)[:, 0] - np.asarray(action)[:, 0].mean()
    advantages = jnp.array(np.stack([wish, -wish]), jnp.float32)
    moved, happened = improve(
        policy, observation, action, advantages, np.array([-0.5]), 100.0, 0.01
    )
    assert happened["case"] == "recover" and happened["kl"] > 0.005
    rest = (np.array([-0.5]), 100.0, 0.01)
    _, published = improve(policy, observation, action, advantages, *rest, only_recovers=False)
    assert published["case"] == "bounded" and 0 < published["kl"] < happened["kl"]
    assert float(formulas.apply(moved["layers"], observation).mean()) < float(
        formulas.apply(policy["layers"], observation).mean()
    )
