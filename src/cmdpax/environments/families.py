"""Families of models of any size, and thresholds that bind and can still be met."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.exact.standard import StandardForm
from cmdpax.loops.bellman import greedy
from cmdpax.model.cmdp import CMDP
from cmdpax.model.numbers import refuse_huge

MAX_NAMED_STATES = 10_000
PLANNED = 1e-4  # share of the range of values by which the policies at the ends may be suboptimal
EVALUATED = 1e-10  # error of their values


def garnet(
    states: int = 100,
    actions: int = 4,
    branching: int = 5,
    constraints: int = 1,
    discount: float = 0.9,
    seed: int = 0,
    tightness: float = 0.5,
    feasible: bool = True,
) -> CMDP:
    """A random model, feasible or infeasible by construction.

    Every pair leads to `branching` random states with random probabilities; all rewards are uniform
    in [0, 1]. A reference policy is greedy for the mean of all constraint rewards in every state. A
    threshold lies at `typical + tightness (V - typical)`, where V is the reference's value and
    `typical` that of the mean reward 1/2; where V is smaller than `typical`, it lies below V by a
    hundredth of the range. With `feasible=False` the first threshold lies above the largest
    conceivable value.
    """
    if min(states, actions, branching) < 1 or min(constraints, seed) < 0:
        raise InputError(
            "garnet: states, actions and branching must be at least 1, constraints and seed at"
            " least 0."
        )
    if not feasible and not constraints:
        raise InputError("garnet: an infeasible model needs at least one constraint.")
    check_tightness(tightness)
    refuse_huge((states, actions, branching))
    rng = np.random.default_rng(seed)
    successors = rng.integers(0, states, (states, actions, branching), dtype=np.int32)
    cuts = rng.random((states, actions, branching - 1))
    cuts.sort(axis=-1)
    probabilities = np.empty((states, actions, branching))
    probabilities[..., :-1], probabilities[..., -1] = cuts, 1.0
    probabilities[..., 1:] -= cuts
    del cuts  # at 1e6 states every array of this size counts
    reward = rng.random((states, actions))
    rows = rng.random((constraints, states, actions))
    thresholds, initial = np.zeros(constraints), np.full(states, 1 / states)
    model = CMDP((successors, probabilities), reward, rows, thresholds, initial, discount)
    del successors, probabilities
    if not constraints:
        return model
    form = StandardForm.of(model)
    reference, _ = greedy(form.transitions.first_choice, form.constraints.mean(0))
    best = policy_values(form, form.constraints, reference)
    typical = np.full(constraints, 0.5 / (1 - discount))
    between = typical + tightness * (best - typical)
    thresholds = np.where(best > typical, between, best - 0.01 / (1 - discount))
    if not feasible:
        thresholds[0] = rows[0].max() / (1 - discount) + 0.01 / (1 - discount)
    return model.replace(thresholds=thresholds)


def queue(
    capacity: int = 50,
    arrival: float = 0.4,
    rates: Sequence[float] = (0.0, 0.3, 0.6, 0.9),
    discount: float = 0.99,
    tightness: float = 0.5,
    feasible: bool = True,
) -> CMDP:
    """A single-server queue with service levels, `energy <= budget`.

    State: 0..capacity customers. In each slot one arrives with probability `arrival` (lost when the
    queue is full), and service level a finishes one with probability `rates[a]`, using `rates[a]^2`
    units of energy. The reward is `-customers / capacity`. The budget lies between the energy of
    the cheapest policy and that of the optimal one without a budget (`tightness` 1 and 0); with
    `feasible=False` it is below what any policy needs.
    """
    if capacity < 1:
        raise InputError(f"capacity is {capacity}; the queue needs room for at least one customer.")
    if not 0 < arrival < 1 or not len(rates) or not all(0 <= rate <= 1 for rate in rates):
        raise InputError(
            "queue: arrival must lie strictly between 0 and 1, and every service rate between 0"
            " and 1."
        )
    check_tightness(tightness)
    S, A = capacity + 1, len(rates)
    refuse_huge((S, A, 3))
    length, levels = np.arange(S), np.asarray(rates, dtype=np.float64)
    service = np.where(length[:, None] > 0, levels, 0.0)
    arrive = np.where(length < capacity, arrival, 0.0)[:, None]
    up, down = arrive * (1 - service), (1 - arrive) * service
    lengths = [np.minimum(length + 1, capacity), np.maximum(length - 1, 0), length]
    successors = np.broadcast_to(np.stack(lengths, axis=1)[:, None, :].astype(np.int32), (S, A, 3))
    rows = successors, np.stack([up, down, 1 - up - down], axis=-1)
    reward = np.broadcast_to(-length[:, None] / capacity, (S, A))
    energy, initial = np.broadcast_to(levels**2, (S, A)), np.eye(1, S)[0]
    names = _names(S, "waiting", [f"serve {rate:g}" for rate in rates], "energy")
    model = CMDP(rows, reward, energy, 0.0, initial, discount, senses="<=", **names)
    return with_threshold(model, tightness, feasible)


def inventory(
    capacity: int = 100,
    orders: Sequence[int] = (0, 5, 10, 20),
    demand: float = 5.0,
    margin: float = 1.0,
    holding: float = 0.1,
    order_cost: float = 3.0,
    discount: float = 0.99,
    tightness: float = 0.5,
    feasible: bool = True,
) -> CMDP:
    """Stock against Poisson demand with mean `demand`, `lost sales <= limit`.

    State: 0..capacity units in stock. Action a orders `orders[a]` units, which arrive at once; what
    does not fit is neither delivered nor charged. Sales are the smaller of demand and stock. The
    reward is `margin sales - holding stock left - order_cost [something was ordered]`, so that
    profit alone lets customers wait. The limit lies between the lost sales of the most reliable
    policy and those of the most profitable one (`tightness` 1 and 0); with `feasible=False` it lies
    below the former.
    """
    if capacity < 1:
        raise InputError(f"capacity is {capacity}; the store needs room for at least one unit.")
    if not len(orders) or any(quantity < 0 for quantity in orders):
        raise InputError(
            f"orders: {list(orders)}; give at least one quantity, none of them negative."
        )
    if not (np.isfinite(demand) and 0 < demand <= 1000):
        raise InputError(f"demand is {demand:g}; its mean must be positive and at most 1000.")
    check_tightness(tightness)
    orders = [min(quantity, capacity) for quantity in orders]
    chances = poisson(demand)
    refuse_huge((capacity + 1, len(orders), len(chances)))
    demanded, stock = np.arange(len(chances)), np.arange(capacity + 1)
    filled = np.minimum(stock[:, None] + np.asarray(orders), capacity)  # [S, A], after delivery
    left = np.maximum(filled[:, :, None] - demanded, 0).astype(np.int32)  # [S, A, B], after sales
    sales = np.minimum(demanded, stock[:, None]) @ chances  # [S], by stock after delivery
    lost, unsold = chances @ demanded - sales, stock - sales
    ordered = filled > stock[:, None]
    rows = left, np.broadcast_to(chances, left.shape)
    reward = margin * sales[filled] - holding * unsold[filled] - order_cost * ordered
    S, actions = capacity + 1, [f"order {quantity}" for quantity in orders]
    names, initial = _names(S, "in stock", actions, "lost sales"), np.eye(1, S)[0]
    model = CMDP(rows, reward, lost[filled], 0.0, initial, discount, senses="<=", **names)
    return with_threshold(model, tightness, feasible)


def poisson(mean: float) -> np.ndarray:
    """Poisson chances `[n + 1]` of 0, 1, ..., n = mean + 4 deviations; n has all beyond it."""
    last = int(np.ceil(mean + 4 * np.sqrt(mean)))
    counts = np.arange(1, last + 1)
    logarithms = np.append(0.0, np.cumsum(np.log(mean / counts))) - mean
    chances = np.exp(logarithms)
    chances[-1] = max(1.0 - chances[:-1].sum(), 0.0)
    return chances


def _names(states: int, unit: str, actions: Sequence[str], cost: str) -> dict[str, Any]:
    """Names of actions, of a cost, and of states that count units, unless there are too many."""
    counts = [f"{n} {unit}" for n in range(states)] if states <= MAX_NAMED_STATES else None
    return {"state_names": counts, "action_names": actions, "constraint_names": [cost]}


def check_tightness(tightness: float) -> None:
    """Refuse what is not at least 0 and below 1."""
    if not 0 <= tightness < 1:
        raise InputError(f"tightness is {tightness:g}; it must be at least 0 and below 1.")


def with_threshold(model: CMDP, tightness: float, feasible: bool) -> CMDP:
    """A model with one constraint, its threshold at `low + tightness (high - low)`.

    `low` is the constraint's value under the policy that is best for the reward, `high` under the
    one that is best for the constraint. Both are values of policies, so every threshold between
    them can be met, although on large models the two policies are only roughly optimal. With
    `feasible=False` the threshold lies above everything that can be achieved.
    """
    form, sign = planned_form(model), model.limits.signs[0]
    row, scale, plan = form.constraints[0], form.constraint_scales[0], form.criterion.plan
    safest = plan(form, row, tolerance=PLANNED * float(scale))
    if not feasible:
        return model.replace(thresholds=[sign * (safest.value + 0.01 * scale)])
    richest = plan(form, form.reward, tolerance=PLANNED * form.reward_scale)
    low, high = (
        float(policy_values(form, row, end.choices, EVALUATED)) for end in (richest, safest)
    )
    return model.replace(thresholds=[sign * (low + tightness * (high - low))])


def planned_form(model: CMDP) -> StandardForm:
    """The form whose plans thresholds are computed from, always by the loops for wide models.

    Loops for narrow models may choose another of equally good policies. Then a threshold would
    depend on how a model is solved.
    """
    form = StandardForm.of(model)
    form.__dict__["is_narrow"] = False
    return form


def policy_values(
    form: StandardForm, rewards: np.ndarray, choices: np.ndarray, tolerance: float = 0.0
) -> np.ndarray:
    """Values of `rewards [..., K]` under the deterministic policy `choices [S]`, `[...]`."""
    visits = form.criterion.visits(form, choices, tolerance=tolerance)
    return rewards[..., choices] @ visits
