"""What is proven of a utility F, from its own value and gradient?

`F <= offset + g.V + G.d` for every policy, by the tangent at any point; so the best value of
`sum_j g_j r_j + (1 - gamma) G`, with constraints by their prices, bounds the optimum.
"""

from typing import Any

import numpy as np

from cmdpax.checker.bounds import Row, lagrangian_bound, policy_bounds
from cmdpax.checker.demands import demand, vector
from cmdpax.checker.facts import UNIT, Facts, available, longest_row
from cmdpax.checker.tolerances import FLOOR


def utility_bounds(
    facts: Facts,
    result: Any,
    utility: Any,
    policy: np.ndarray,
    rows: list[Row],
    weights: np.ndarray,
) -> tuple[float, float, float, float]:
    """The utility's interval, `sign` times the most of any policy, and the tolerance.

    F is what is maximised, `sign` times the utility.
    """
    model, proof, sign = facts.model, result.certificate, -1.0 if utility.minimise else 1.0
    own, claimed = proof.utility, sign * proof.utility.at_uniform
    functions = [_function(model, reward) for reward in utility.rewards]
    low, high, _ = _policy_utility(facts, utility, functions, policy, own.policy)
    uniform = np.repeat(1 / np.diff(model.first_choice), np.diff(model.first_choice))
    _, at_uniform, size = _policy_utility(facts, utility, functions, uniform, own.uniform)
    demand(
        at_uniform <= claimed,
        f"the uniform policy is claimed to have at most {claimed}, provable is {at_uniform}",
    )
    ends = sorted((own.at_uniform, proof.dual_bound))
    is_said = ends == sorted(np.asarray(proof.ranges)[0].tolist())
    demand(is_said, "the range of the utility is not from the uniform policy to the bound")
    values, visits = np.asarray(own.values, dtype=np.float64), own.visits
    offset, slopes, table = utility.tangent(values, visits)
    reward = sum((g * x for g, x in zip(slopes, functions)), np.zeros(len(policy)))
    if table is not None:
        reward = reward + (1 - model.discount) * np.asarray(table)[available(model)]
    demand(
        bool(np.isfinite(reward).all() and np.isfinite(offset)),
        "the gradient of the utility is not finite where its tangent touches",
    )
    bound = offset + lagrangian_bound(facts, reward, rows, weights, proof.dual_potential)
    best = sign * proof.dual_bound
    floor = FLOOR * max(abs(best), abs(claimed), size)
    tolerance = max(result.eps * abs(best - claimed), floor)
    low, high = (low, high) if sign > 0 else (-high, -low)
    return low, high, bound + utility.doubt(values, visits), tolerance


def _function(model: Any, reward: Any) -> np.ndarray:
    """A function of the model by choice, `[K]`: by its name, or an array."""
    if not isinstance(reward, str):
        table = np.asarray(reward, dtype=np.float64)
        return table[available(model)] if table.ndim == 2 else table
    if reward == "reward":
        return np.asarray(model.reward)
    demand(reward in model.constraint_names, f"the model has no function '{reward}'")
    return np.asarray(model.constraints[model.constraint_names.index(reward)])


def _policy_utility(
    facts: Facts, utility: Any, functions: list[np.ndarray], policy: np.ndarray, proof: Any
) -> tuple[float, float, float]:
    """Interval of the utility of a policy `[K]`, and the size of its terms.

    proof: potentials `[k, S]` of its k values, or visits `[1, S]`.
    """
    model, visits, doubt = facts.model, None, 0.0
    if utility.is_of_values:
        ends = [policy_bounds(facts, policy, x, v) for x, v in zip(functions, proof, strict=True)]
        low, high = np.array(ends).T
    else:
        nu = vector(np.asarray(proof)[0], model.states)
        mass = np.repeat(nu, np.diff(model.first_choice)) * policy
        off = _visits_off(model, nu, mass)
        middles = np.array([float((x * mass).sum()) for x in functions])
        sizes = np.array([float(np.abs(x).max()) for x in functions])
        around = sizes / (1 - model.discount) * off
        low, high = middles - around, middles + around
        visits = np.zeros((model.states, model.actions))
        visits[available(model)] = (1 - model.discount) * mass
        doubt = utility.modulus(off, visits.size) if utility.is_proven else 0.0
    middle = (low + high) / 2
    doubt += utility.doubt(middle, visits)
    least = utility.value(utility.lowest(low, high), visits) - doubt
    if not utility.has_gradient:
        return least, utility.value(high, visits) + doubt, utility.size(middle, visits)
    slopes = utility.gradient(middle, visits)[0]
    most = utility.value(middle, visits) + float(np.abs(slopes) @ (high - low)) / 2
    return least, most + doubt, utility.size(middle, visits)


def _visits_off(model: Any, nu: np.ndarray, mass: np.ndarray) -> float:
    """`|rho + gamma P' mu - nu|_1`: what the visits as shares can be off by, with rounding."""
    inflow = np.asarray(model.initial, dtype=np.float64).copy()
    rows = model.rows(0, model.states)
    lengths = np.diff(rows.first_entry.astype(np.int64))
    flows = model.discount * np.repeat(mass, lengths) * rows.probabilities
    inflow += np.bincount(rows.successors, flows, model.states)
    rounding = UNIT * (longest_row(model) + model.actions + model.states**0.5 + 8)
    return float(np.abs(inflow - nu).sum()) + 2 * rounding * float(mass.sum())
