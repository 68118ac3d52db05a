"""The slow and obvious way: one policy, one configuration, nothing shared with the library but the
model's arrays.
"""

import numpy as np

from cmdpax.environments import garnet


def tiny():
    """Four states, three actions, two constraints: small enough for plain loops, with nothing
    symmetric about it.
    """
    return garnet(states=4, actions=3, branching=2, constraints=2, discount=0.8, seed=5)


def successors(model, s, a):
    """Pairs of a successor and its probability; every state has all actions."""
    rows, k = model.transitions, s * model.actions + a
    own = slice(rows.first_entry[k], rows.first_entry[k + 1])
    return zip(rows.successors[own], rows.probabilities[own], strict=True)


def tables(model):
    """Rewards `[S, A]` and constraint rewards `[m, S, A]`."""
    shape = model.states, model.actions
    return model.reward.reshape(shape), model.constraints.reshape(-1, *shape)


def flow(model, policy):
    matrix = np.zeros((model.states, model.states))
    for s in range(model.states):
        for a in range(model.actions):
            for following, chance in successors(model, s, a):
                matrix[s, following] += policy[s, a] * chance
    return np.eye(model.states) - model.discount * matrix


def value(model, policy, reward):
    return np.linalg.solve(flow(model, policy), (policy * reward).sum(1))


def quality(model, values, reward):
    table = np.array(reward, dtype=float)
    for s in range(model.states):
        for a in range(model.actions):
            for following, chance in successors(model, s, a):
                table[s, a] += model.discount * chance * values[following]
    return table


def weighted(model, multipliers):
    reward, rows = tables(model)
    return reward + sum(price * row for price, row in zip(multipliers, rows, strict=True))


def lagrangian_quality(model, policy, multipliers):
    reward = weighted(model, multipliers)
    return quality(model, value(model, policy, reward), reward)


def soft_quality(model, policy, multipliers, tau):
    reward = weighted(model, multipliers)
    return quality(model, value(model, policy, reward - tau * np.log(policy)), reward)


def margins(model, policy):
    at_start = [model.initial @ value(model, policy, row) for row in tables(model)[1]]
    return np.array(at_start) - model.thresholds


def occupancy(model, policy):
    return np.linalg.solve(flow(model, policy).T, model.initial)


def normalise(powers):
    return powers / powers.sum(1, keepdims=True)


def project(row):
    """Euclidean projection of one row onto the simplex, by bisection on the shift."""
    low, high = row.min() - 1, row.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(row - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(row - high, 0)


def uniform(model):
    return np.full((model.states, model.actions), 1 / model.actions), np.zeros(
        model.constraint_count
    )


def log_linear(table, theta):
    """The policy `pi ~ exp(phi.theta)` of features `[S, A, d]`."""
    logits = table @ theta
    return normalise(np.exp(logits - logits.max(1, keepdims=True)))


def compatible(model, policy, table, target):
    """The shortest w that fits `target [S, A]` by `phi - E_pi phi`, in least squares under the
    policy's own visits.
    """
    weight = np.sqrt((occupancy(model, policy)[:, None] * policy).ravel())
    score = (table - np.einsum("sa,sad->sd", policy, table)[:, None]).reshape(weight.size, -1)
    return np.linalg.lstsq(weight[:, None] * score, weight * target.ravel(), rcond=1e-10)[0]


def slope(function, point):
    """Gradient by central differences."""
    gradient = np.zeros_like(point)
    for place in np.ndindex(point.shape):
        bump = np.zeros_like(point)
        bump[place] = 1e-6
        gradient[place] = (function(point + bump) - function(point - bump)) / 2e-6
    return gradient
