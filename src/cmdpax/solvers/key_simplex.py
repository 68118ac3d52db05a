"""The key dual simplex on a scaled form: from the plan of the reward alone to an optimal vertex.

It starts from any prices w, with a plan for `r + w.c`: that is dual feasible, so there is no phase
1. Pivots (`loops/pivots.py`) end at a vertex: a policy that mixes two choices in at most m states,
whose gap is rounding. Rewards of all choices but the first plan's are lowered by random amounts,
too little to matter for `eps`: so no two reduced costs are equal, and no pivot repeats itself.

The answer is certified like any other. Where pivots meet trouble, or a model has no feasible
policy, there is none, and the augmented Lagrangian decides.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cmdpax.exact.standard import StandardForm
from cmdpax.loops import pivots, small
from cmdpax.loops.compiled import readable
from cmdpax.loops.pivots import Basis
from cmdpax.solvers.algorithm import Answer
from cmdpax.stopping import Stop, never

LOWERED = 1e-3  # share of eps by which perturbed rewards may change a value
MISSED = 1e-5  # share of eps by which margins and visits may be negative
SWAPS = 100  # changes of keys between two refreshes
MAX_PIVOTS = 100_000
FLAT, BEYOND = 1e-9, 8.0  # slopes that count as 0; how often what may be missed a step goes beyond
ALONE, LARGEST, MANY, PLANS = 400, 1500, 20, 20  # states, constraints: `plans_before_pivots`
SHORT, FOR_EACH = 32, 4  # states that a move may lead on; plans for each constraint where more
WORK, KEPT = 3e8, 5e7  # multiplications of an LU, and numbers of a basis, at the most


def plans_before_pivots(form: StandardForm) -> int | None:
    """After how many plans of the augmented Lagrangian the key simplex takes over; None: never.

    CPU milliseconds of `solve` (`benchmarks/pivots.py`, a busy machine): 1,000 states, discount
    .99, pivots after 0 / 10 / 20 / 40 plans from prices 0, without phase 1 / never.

    | S = 1,000  | m = 1           | m = 10              | m = 50                |
    |------------|-----------------|---------------------|-----------------------|
    | Garnet     | 436/18/18/17/17 | 590/119/134/148/92  | 1429/348/346/321/1597 |
    | queue      | 10/15/13/13/12  | 58/65/71/75/75      | 97/112/126/179/286    |
    | grid       | 55/31/28/31/46  | 147/117/103/156/249 | 478/329/341/354/2453  |
    | inventory  | 13/17/16/17/22  | 73/86/103/136/221   | 330/341/359/415/4440  |
    | tight grid | 70/50/69/74/65  | 203/224/175/211/553 | 473/349/323/374/2188  |

    On a narrow model twenty plans lose little where pivots alone are faster, and win elsewhere; a
    wide one pays for each LU, so that few constraints are left to the augmented Lagrangian.

    Seconds of larger models with many constraints, after 20 / 100 / 200 plans / never:

    | S = 10,000, m = 50 | queue    | inventory | grid            | tight grid      |
    |--------------------|----------|-----------|-----------------|-----------------|
    |                    | .7/-/-/1 | 3/-/-/12  | 19/7.9/9.2/14   | 45/25/16/24     |

    Where moves are short, twenty plans do. On a grid far more choices change places: pivots are for
    the end of the search.
    """
    if form.criterion.parts > 1:
        return None
    if form.states <= ALONE:
        return 0
    if form.is_narrow or (form.states <= LARGEST and form.constraint_count >= MANY):
        return PLANS
    if form.constraint_count < MANY or form.choices * form.constraint_count > KEPT:
        return None
    reach = reach_of(form)
    if form.states * reach**2 > WORK:
        return None
    return PLANS if reach <= SHORT else FOR_EACH * form.constraint_count


def reach_of(form: StandardForm) -> int:
    """The largest distance of a transition in the numbering."""
    rows = form.transitions
    own = rows.state_of.repeat(np.diff(rows.first_entry))
    return int(np.abs(rows.successors - own).max(initial=0))


@dataclass(frozen=True)
class Outcome:
    """Where pivots ended."""

    answer: Answer | None  # None: no feasible policy, or trouble
    weights: np.ndarray  # [m], >= 0: prices at the end, a good start for others
    pivots: int
    values: np.ndarray  # [1 + m]: reward and margins
    ray: np.ndarray | None = None  # [m]: prices that no policy can pay


def by_pivots(
    form: StandardForm,
    eps: float,
    weights: np.ndarray | None = None,
    most: int = MAX_PIVOTS,
    stop: Stop = never,
) -> Outcome:
    """Solve a small scaled form from prices `[m]` (0), with so many pivots at the most."""
    parts, owner, factors, basis, limits = _begin(form, eps, weights, most, stop)
    why = _to_the_end(parts, owner, factors, basis, limits, stop)
    done = int(basis.counts[pivots.PIVOTS])
    if why != pivots.OPTIMAL:
        ray = basis.ray if why == pivots.INFEASIBLE else None
        return Outcome(None, basis.weights, done, basis.margins, ray)
    p = basis.counts[pivots.TIGHT]
    mixed = basis.margins + basis.advantages[:, basis.extra[:p]] @ basis.shares[:p]
    policy, is_unique = np.empty(form.choices), pivots.has_one_price(basis, mixed, limits)
    pivots.fill_policy(owner, basis, policy)
    if not is_unique:
        pivots.refresh(*parts, factors, basis)
    count = 1 + (p if is_unique else form.choices - form.states)
    points = np.empty((count, 1 + form.constraint_count))
    pivots.neighbours(parts[0], owner, parts[1], factors, basis, points)
    kind: dict[str, Any] = {"tolerance": LOWERED * eps, "stop": stop}
    best = form.criterion.plan(form, form.pseudo_reward(basis.weights), basis.keys, **kind)
    answer = Answer(policy, basis.weights, best, points=points)
    return Outcome(answer, basis.weights, done, mixed)


def breakpoints(
    form: StandardForm, eps: float, i: int, stop: Stop = never
) -> tuple[np.ndarray, np.ndarray] | None:
    """Thresholds of row i, from the form's own upwards, at which its price changes, and prices.

    Thresholds `[n]` rise, prices `[n + 1]` before, between and after do, too; the last threshold is
    the largest that any policy meets, its price infinite. In a basis that is optimal for b_i = t

        x(t) = x + W^-1 e_i t,   y(t) = y - N x'(t),   slack(t) = u - e_i t + R x(t):

    the first that would be negative leaves, by a pivot, and so on. None where pivots meet trouble.
    """
    parts, owner, factors, basis, limits = _begin(form, eps, None, MAX_PIVOTS, stop)
    corners: list[float] = []
    prices: list[float] = []
    thresholds = parts[3].copy()
    parts = *parts[:3], readable(thresholds)
    while not stop():
        why = _to_the_end(parts, owner, factors, basis, limits, stop)
        if why == pivots.INFEASIBLE:
            return np.array(corners), np.array([*prices, np.inf])
        if why != pivots.OPTIMAL:
            return None
        prices.append(float(basis.weights[i]))
        step, beyond = _longest_step(parts[0], owner, basis, limits, i)
        corners.append(float(thresholds[i]) + step)
        thresholds[i] += step + beyond
        basis.margins[1 + i] -= step + beyond
    return None


def _longest_step(
    kernel: Any, owner: np.ndarray, basis: Basis, limits: np.ndarray, i: int
) -> tuple[float, float]:
    """How far b_i may rise while the basis stays optimal, and what makes the next one leave."""
    p, ties = basis.counts[pivots.TIGHT], basis.counts[pivots.TIES]
    tight, extra, x = basis.tight[:p], basis.extra[:p], basis.shares[:p]
    change = np.zeros(p)
    if i in tight:
        change = basis.inverse[:p, list(tight).index(i)]
    flows = np.array(
        [[pivots.outflow(kernel, owner, basis.vectors[t], k) for k in extra] for t in range(ties)]
    ).reshape(ties, p)
    rows = np.setdiff1d(np.arange(len(basis.weights)), tight)
    slack = basis.margins[1 + rows] + basis.advantages[1 + rows][:, extra] @ x
    slope = basis.advantages[1 + rows][:, extra] @ change - (rows == i)
    values = np.concatenate([x, basis.key_shares[:ties], slack])
    slopes = np.concatenate([change, -flows @ change, slope])
    missed = np.concatenate([np.full(p + ties, limits[1]), np.full(len(rows), limits[0])])
    falls = slopes < -FLAT * missed / limits[0]
    steps = np.full(len(values), np.inf)
    steps[falls] = np.maximum(values[falls], 0.0) / -slopes[falls]
    first = int(np.argmin(steps))
    return float(steps[first]), float(BEYOND * missed[first] / -slopes[first])


def _begin(
    form: StandardForm, eps: float, weights: np.ndarray | None, most: int, stop: Stop
) -> tuple[tuple, np.ndarray, small.Factors, Basis, np.ndarray]:
    """Rows, owners, factors, a basis that is dual feasible at prices `[m]`, and limits."""
    m, rows = form.constraint_count, form.transitions
    basis = pivots.empty_basis(form.states, form.choices, m, SWAPS)
    if weights is not None:
        basis.weights[:] = weights
    kernel, initial = form.kernel, readable(form.initial)
    owner = readable(rows.state_of.astype(np.int64))
    factors = small.empty_factors(form.states, None if form.is_small else reach_of(form))
    plan = form.criterion.plan(form, form.pseudo_reward(basis.weights), stop=stop)
    basis.keys[:] = plan.choices
    basis.kinds[basis.keys] = 1
    lowered = LOWERED * eps * form.criterion.unit * np.random.default_rng(0).random(form.choices)
    lowered[basis.keys] = 0.0
    rewards = np.vstack([form.reward[None] - lowered, form.constraints])
    parts = kernel, initial, readable(rewards), readable(form.thresholds)
    allowed = MISSED * eps
    limits = np.array([allowed, allowed * form.criterion.mass, most])
    pivots.refresh(*parts, factors, basis)
    reduced = basis.advantages[0] + basis.weights @ basis.advantages[1:]
    np.minimum(reduced, 0.0, out=basis.reduced)
    return parts, owner, factors, basis, limits


def _to_the_end(
    parts: tuple,
    owner: np.ndarray,
    factors: small.Factors,
    basis: Basis,
    limits: np.ndarray,
    stop: Stop,
) -> int:
    """Pivots, with everything anew from time to time; why they ended."""
    while True:
        why = pivots.pivot(parts[0], owner, parts[1], factors, basis, limits)
        if why != pivots.REFRESH or stop():
            return why
        pivots.refresh(*parts, factors, basis)
