"""What does any vector prove about values? One identity, whatever made the vector.

For a policy with occupancy nu, `K` the kernel that counts (`gamma P`) and any potential V,

    V_x(pi) = rho.V + nu.d,   d = x + K V - V.

A gauge is any u >= 0 with `g = u - K u > 0` at every choice where d may differ from 0. Then
`nu.g = rho.u` for every policy, and

    rho.V + rho.u min d/g  <=  V_x(pi)  <=  rho.V + rho.u max d/g,

the minimum and the maximum over reachable states, d and g under pi; over all choices the right-hand
side bounds the best policy, and the left-hand side, with the better choice of every state, is
attained by some policy. With u = 1 and `K = gamma P` it is the classical bound, `g = 1 - gamma`.

Every bound is widened by what rounding in its own computation can amount to, so it holds for the
real numbers, and for the model whose rows are divided by their exact sums.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cmdpax.exact import by_blocks
from cmdpax.exact.forms import BlockForm
from cmdpax.loops import bellman, small
from cmdpax.loops.compiled import readable
from cmdpax.model.transitions import is_deterministic

if TYPE_CHECKING:
    from cmdpax.exact.standard import StandardForm

UNIT_ROUNDING, OUTWARDS = float(np.finfo(float).eps), np.array([-1.0, 1.0])


class Claim(NamedTuple):
    """A function whose value is bounded: x less a constant, and the value of the constant.

    reward: `[K]`. sizes: `[K]`, what the terms of each reward amount to before they cancel. rest:
    added to the value at the end; exact, because large numbers may cancel there.
    """

    reward: np.ndarray
    sizes: np.ndarray
    rest: Fraction = Fraction(0)


def claim(form: "StandardForm", reward: np.ndarray) -> Claim:
    """One reward `[K]`, without the constant that only costs digits."""
    return _claim(form, reward, *form.criterion.constant_of(*form.span(reward)))


def _claim(form: "StandardForm", reward: np.ndarray, constant: float, value: Fraction) -> Claim:
    centred = form.less(reward, constant) if constant else reward
    return Claim(centred, np.abs(centred), value)


def claims(form: "StandardForm") -> list[Claim]:
    """Those of the form's own functions, `[1 + m]`; a small form keeps them."""
    own: list[Claim] | None = form.__dict__.get("claims")
    if own is None:
        rows = form.reward, *form.constraints
        own = [_claim(form, row, *one) for row, one in zip(rows, form.constants, strict=True)]
        if form.is_small:
            form.__dict__["claims"] = own
    return own


def gauge_of_sizes(form: "StandardForm") -> np.ndarray:
    """`u = max_pi V_e [S]`, e the size of every function as a share of the most it adds up to.

    What rounding leaves of a large number then counts by how often the number is met.
    """
    plan, e = form.criterion.plan, form.criterion.unit * form.alive_choices
    for one in claims(form):
        most = plan(form, one.sizes).value
        e = e + one.sizes / most if most > 0 else e
    return plan(form, e).values


def mixed(form: "StandardForm", reward: np.ndarray, weights: np.ndarray) -> Claim:
    """`V + w.(V_c - b)` for V the value of `reward [K]`, and weights `[m]`."""
    is_own = reward is form.reward
    constant = form.constants[0] if is_own else form.criterion.constant_of(*form.span(reward))
    total, sizes, rest = _claim(form, reward, *constant)
    kept: list[Claim] | None = form.__dict__.get("claims")
    for i in np.flatnonzero(weights):
        weight, threshold = float(weights[i]), Fraction(float(form.thresholds[i]))
        row = form.constraints[i]
        own = _claim(form, row, *form.constants[1 + i]) if kept is None else kept[1 + i]
        total, sizes = total + weight * own.reward, sizes + abs(weight) * own.sizes
        rest += Fraction(weight) * (own.rest - threshold)
    return Claim(total, (len(weights) + 2) * sizes, rest)


def policy_bounds(
    form: "StandardForm",
    policy: np.ndarray,
    what: Claim,
    potential: np.ndarray,
    gauge: np.ndarray | None = None,
) -> tuple[float, float]:
    """Bounds on the value of a policy `[K]`, or of one choice of each state, `[S]`."""
    ends = extremes(form, [what], potential[None], gauge, policy)
    low, high = widened(form, ends, potential[None], np.array([float(what.rest)]))[0]
    return float(low), float(high)


def best_bounds(
    form: "StandardForm", what: Claim, potential: np.ndarray, gauge: np.ndarray | None = None
) -> tuple[float, float]:
    """Bounds on the value of the best policy; some policy attains the lower one."""
    ends = extremes(form, [what], potential[None], gauge)
    low, high = widened(form, ends, potential[None], np.array([float(what.rest)]))[0]
    return float(low), float(high)


def mean_bounds(shares: list[float], bounds: list[np.ndarray]) -> np.ndarray:
    """Bounds `[n, 2]` on n values of a mixture, of those of its policies; shares add up to 1."""
    count = len(bounds[0])
    if len(shares) == 1 or not count:
        return np.array(bounds[0]).reshape(-1, 2)
    if not np.isfinite(np.array(bounds)).all():
        return np.tile([-np.inf, np.inf], (count, 1))
    parts, means = [Fraction(float(share)) for share in shares], np.empty((count, 2))
    for i in range(count):
        for side, end in enumerate((-np.inf, np.inf)):
            own = (part * Fraction(float(b[i][side])) for part, b in zip(parts, bounds))
            mean = sum(own) / sum(parts)
            is_exact = Fraction(float(mean)) == mean
            means[i, side] = float(mean) if is_exact else np.nextafter(float(mean), end)
    return means


def extremes(
    form: "StandardForm",
    what: Sequence[Claim],
    potentials: np.ndarray,
    gauge: np.ndarray | None,
    policy: np.ndarray | None = None,
) -> np.ndarray:
    """`rho.u min d/g` and `rho.u max d/g` over reachable states, for n claims: `[n, 2]`.

    Ratios are rounded outwards. potentials: `[n, S]`, or `[n, 2 S]` and `[n, 4 S]`, with a gauge of
    their own. policy: `[K]` or `[S]`; None: the better choice of every state.
    """
    if isinstance(form, BlockForm):
        pairs = zip(what, potentials, strict=True)
        each = [by_blocks.extremes(form, *pair, policy) for pair in pairs]
        return np.array(each).reshape(-1, 2)
    rows, discount = form.transitions, form.criterion.discount
    if policy is not None and is_deterministic(policy):
        policy = rows.deterministic(policy)
    ends = np.empty((len(what), 2))
    if form.criterion.parts > 1:
        for pair, one, potential in zip(ends, what, potentials, strict=True):
            pair[:] = _extremes_of_parts(form, one, potential, policy)
        return ends
    if form.is_small:
        rewards = np.stack([one.reward for one in what])
        sizes = np.stack([one.sizes for one in what])
        return small_extremes(form, rewards, sizes, potentials, gauge, policy)
    for pair, (reward, own, _), potential in zip(ends, what, potentials, strict=True):
        numbers = reward, own, potential, gauge, discount, rows.longest, policy, rows.lost
        low, high = (side[form.reachable_states] for side in bellman.ratios(rows, *numbers))
        pair[:] = low.min(), high.max()
    return ends if gauge is None else _weighed(form, gauge, ends)


def small_extremes(
    form: "StandardForm",
    rewards: np.ndarray,
    sizes: np.ndarray,
    potentials: np.ndarray,
    gauge: np.ndarray | None,
    policy: np.ndarray | None = None,
) -> np.ndarray:
    """The same of a small form, for rewards and sizes `[n, K]`."""
    rows, ends = form.transitions, np.empty((len(rewards), 2))
    nothing = np.empty(0)
    others = (nothing if array is None else array for array in (gauge, policy, rows.lost))
    arrays = [readable(array) for array in (rewards, sizes, potentials, *others)]
    rounding = bellman.ratio_rounding(rows.longest)
    kind = form.criterion.discount, rounding, readable(form.reachable)
    small.extremes(rows.rows(0, form.states), *arrays, *kind, ends)
    return ends if gauge is None else _weighed(form, gauge, ends)


def widened(
    form: "StandardForm", ends: np.ndarray, potentials: np.ndarray, rests: np.ndarray
) -> np.ndarray:
    """`rho.V + rho.u d/g + rest` with rounding, `[..., n, 2]`.

    Of n potentials, their extremes `[n, 2]` and rests `[..., n]`.
    """
    own, chances, count = form.start
    values, rest = potentials[:, own], rests[..., None]
    at_start = (values * chances).sum(-1, keepdims=True)
    rounding = count * (np.abs(values) * chances).sum(-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        total = at_start + ends + rest
        size = rounding + count * np.abs(ends) + np.abs(rest) + 2 * np.abs(total)
        return np.where(
            np.isfinite(size), total + OUTWARDS * (UNIT_ROUNDING * size), OUTWARDS * np.inf
        )


def _weighed(
    form: "StandardForm",
    gauge: np.ndarray,
    ratios: np.ndarray,
    shifts: Sequence[float] = (0.0, 0.0),
) -> np.ndarray:
    """`rho.u d/g` of ratios `[..., 2]` and a gauge `[S]`, shifted; NaN where nothing is proven."""
    own, chances, _ = form.start
    with np.errstate(invalid="ignore"):
        return float(chances @ gauge[own]) * ratios + np.array(shifts)


def _extremes_of_parts(
    form: "StandardForm", what: Claim, potential: np.ndarray, policy: np.ndarray | None
) -> np.ndarray:
    """The same, `[2]`, of a potential `[n S]` with a gauge of its own, its last part."""
    if form.criterion.parts == 4:
        values, *bias, gauge = potential.reshape(4, -1)
        sides, shifts = _ratios_on_average(form, what, values, bias, gauge, policy)
    else:
        values, gauge = potential.reshape(2, -1)
        sides, shifts = _ratios_to_the_end(form, what, values, gauge, policy), (0.0, 0.0)
    low, high = (side[form.reachable_states] for side in sides)
    return _weighed(form, gauge, np.array([low.min(), high.max()]), shifts)


def _ratios_to_the_end(
    form: "StandardForm",
    what: Claim,
    potential: np.ndarray,
    gauge: np.ndarray,
    policy: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds `[S]` on d/g at discount 1 for policies that surely end, as `bellman.ratios`.

    Where u is 0 and stays so, d <= 0 is enough for an upper bound: nothing is left of V at the end.
    """
    rows, nothing = form.transitions, np.zeros(form.choices)
    d, size = bellman.differences(rows, what.reward, what.sizes, potential)
    loss, loss_size = bellman.differences(rows, nothing, nothing, gauge)
    terms, g = UNIT_ROUNDING * (2.5 * rows.longest + 10), -loss
    error, doubt = terms * size, terms * loss_size
    if policy is not None:
        counts = 2 * UNIT_ROUNDING * np.diff(rows.first_choice)
        error, doubt = (
            rows.sums(policy * own) + counts * rows.sums(policy * whole)
            for own, whole in ((error, size), (doubt, loss_size))
        )
        d, g = rows.sums(policy * d), rows.sums(policy * g)
    is_over = ~form.alive if policy is not None else rows.by_state(~form.alive)
    least, most, is_proof = d - error, d + error, g > 2 * doubt
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(least < 0, least / (g - doubt), least / (g + doubt))
        high = np.where(most > 0, most / (g - doubt), most / (g + doubt))
    is_zero = (least == 0) & (most == 0) & (g >= doubt)
    low = np.where(is_proof, low, np.where(is_zero & is_over, 0.0, -np.inf))
    falls = (most <= 0) & (g == 0) & (doubt == 0)
    high = np.where(is_proof, high, np.where(falls, 0.0, np.inf))
    if policy is None:
        low, high = (np.maximum.reduceat(side, rows.first_choice[:-1]) for side in (low, high))
    return low, high


def _ratios_on_average(
    form: "StandardForm",
    what: Claim,
    gains: np.ndarray,
    bias: list[np.ndarray],
    gauge: np.ndarray,
    policy: np.ndarray | None,
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[float, float]]:
    """Bounds `[S]` on d/g, d = P V - V, where V or u change; and those on `x + P h - h - V` else.

    Where u changes a run passes, at most `rho.u` in all, and V may grow; elsewhere it stays. bias:
    h and its further digits.
    """
    rows, nothing = form.transitions, np.zeros(form.choices)
    d, size = bellman.differences(rows, nothing, nothing, gains)
    loss, loss_size = bellman.differences(rows, nothing, nothing, gauge)
    h, tails = bias
    paid, paid_size = bellman.differences(rows, what.reward, what.sizes, h, tails=tails)
    here, g = rows.by_state(gains), -loss
    paid, paid_size = paid - here, paid_size + np.abs(here)
    terms = np.full(form.choices, UNIT_ROUNDING * (2.5 * rows.longest + 10))
    if policy is not None:
        numbers = (d, size, g, loss_size, paid, paid_size)
        d, size, g, loss_size, paid, paid_size = (rows.sums(policy * own) for own in numbers)
        terms = terms[0] + 2 * UNIT_ROUNDING * np.diff(rows.first_choice)
    stays = (size == 0) & (loss_size == 0)
    least, most, doubt = d - terms * size, d + terms * size, terms * loss_size
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(least < 0, least / (g - doubt), 0.0)
        high = np.where(most > 0, most / (g - doubt), 0.0)
    passes = g > 2 * doubt
    low, high = np.where(passes, low, -np.inf), np.where(passes, high, np.inf)
    below, above = paid - terms * paid_size, paid + terms * paid_size
    above = np.where(stays, above, -np.inf)
    high = np.where(stays, 0.0, high)
    if policy is None:
        firsts = rows.first_choice[:-1]
        below = np.maximum.reduceat(np.where(stays, below, -np.inf), firsts)
        low = np.maximum.reduceat(np.where(stays, -np.inf, low), firsts)
        above, high = (np.maximum.reduceat(side, firsts) for side in (above, high))
        stays = gauge == 0
    below, low = np.where(stays, below, np.inf), np.where(stays, 0.0, low)
    seen = form.reachable
    return (low, high), (float(below[seen].min()), float(above[seen].max()))


def excess(form: "StandardForm", what: Claim, potential: np.ndarray) -> float:
    """By how much `d = x + P V - V` may exceed 0 at some reachable choice, at discount 1."""
    rows = form.transitions
    d, size = bellman.differences(rows, what.reward, what.sizes, potential[: form.states])
    over = d + UNIT_ROUNDING * (2.5 * rows.longest + 10) * size
    return float(over[form.reachable_choices].max(initial=-np.inf))
