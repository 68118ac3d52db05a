"""Is this claim about this model true? An independent checker that shares no code with solvers.

It turns the model's own words (`<=`, `>=`, `==`, ranges, minimise) into rows `V >= b` by itself and
recomputes everything from the rows, block by block, with plain NumPy. The potentials in the
certificate are not believed; their Bellman residuals are what counts, so that wrong ones only make
the provable bounds wider than the claimed ones, which is then an error.

For any vectors V and u >= 0, with `d = x + K V - V` and `g = u - K u > 0` (K counts what follows),
a policy's value is `rho.V + nu.d`, and `nu.g = rho.u`: so it lies between `rho.V + rho.u min d/g`
and `rho.V + rho.u max d/g`. At discount 1 a result may be about policies that surely end (reach the
goal, or stay where nothing is paid, if the model says so), while others need not: then each
potential brings its own gauge, and where u is 0, `d <= 0` is enough for an upper bound: nothing is
left of V at the end. On average a potential has a third part, h (`_quotients_on_average`). Every
bound is widened by the rounding of its own computation, and holds for the model whose rows are
divided by their exact sums.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from cmdpax.errors import CertificateError, InputError

UNIT = float(np.finfo(float).eps)
FLOOR = 1e-10  # of a tolerance, as a share of the size of the numbers
DIGITS = 4e-15  # the same of a constant in the numbers: its last digits
SUM_TOLERANCE = 1e-9
TINIEST = 1e-12  # the same of the largest reward of one step
LARGEST_STEP = 1e-3  # share of it that counts as a range where values have no least
BLOCK = 1 << 16  # states that are looked at together


@dataclass(frozen=True)
class Verified:
    """What the checker could prove by itself."""

    status: str
    eps: float
    reward_bounds: tuple[float, float]
    dual_bound: float
    gap: float
    violation: float
    minimise: bool = False
    note: str = ""  # of a utility: what is taken for granted

    def __str__(self) -> str:
        low, high = self.reward_bounds
        side = ">=" if self.minimise else "<="
        optimum = f" optimum {side} {self.dual_bound:.12g}, gap <= {self.gap:.3g},"
        return (
            f"verified: {self.status} at eps {self.eps:g}; reward in [{low:.12g}, {high:.12g}],"
            f"{'' if self.status == 'infeasible' else optimum} violation <= {self.violation:.3g}"
            f"{self.note}"
        )


class _Row(NamedTuple):
    """`sign V_c[i] >= bound`: one side of constraint i."""

    constraint: int
    sign: float
    bound: float


def check(model: Any, result: Any, utility: Any = None) -> Verified:
    """Verify every claim of `result` about `model`; raises `CertificateError` if one is false.

    utility: that of a result from a file, where it is one's own: no file holds functions.

    The error is one sentence. What comes back says what was proven: status, eps, bounds on the
    reward, the dual bound, gap and violation.
    """
    proof = getattr(result, "certificate", None)
    is_model = hasattr(model, "first_choice") or hasattr(model, "pieces")
    if not is_model or not hasattr(proof, "weights"):
        raise InputError("check: give it a CMDP and a Result, in this order.")
    if hasattr(model, "pieces"):
        model = _ByBlocks(model)
    try:
        return _verify(model, result, utility)
    except (
        AttributeError,
        TypeError,
        ValueError,
        IndexError,
    ) as error:  # what cannot be read is not proven
        raise CertificateError(
            f"check failed: a field of the result has the wrong type or shape ({error})."
        ) from None


def _verify(model: Any, result: Any, utility: Any) -> Verified:
    proof, m = result.certificate, len(model.senses)
    is_own = model.matches(result.digest)
    _demand(is_own, "the result belongs to another model: the fingerprints differ")
    mixture = _checked_mixture(model, result)
    for name in ("senses", "thresholds", "constraint_names"):
        is_own = np.array_equal(getattr(result, name), getattr(model, name))
        _demand(is_own, f"the {name.replace('_', ' ')} are not the model's")
    utility = getattr(result, "utility", None) if utility is None else utility
    has_proof = getattr(proof, "utility", None) is not None
    _demand(
        has_proof == (utility is not None),
        "the result is of a utility of one's own, which no file holds; give check(..., utility=...)"
        if has_proof
        else "the result is not of a utility",
    )
    minimise = model.minimise if utility is None else utility.minimise
    is_own = result.minimise == minimise == proof.minimise
    _demand(is_own, "whether the reward is minimised is not as in the model")
    _demand(0 < result.eps < 1, f"eps is {result.eps}, which is no share")
    rows, seen, sign = _rows(model), _visited(model), -1.0 if model.minimise else 1.0
    weights = _row_weights("the dual weights", proof.weights, rows, m)
    is_price = np.array_equal(result.multipliers, proof.weights)
    _demand(is_price, "the multipliers are not the dual weights of the certificate")

    shape, ranges = (1 + m, 2), np.asarray(proof.ranges, dtype=np.float64)
    _demand(
        ranges.shape == shape and bool(np.isfinite(ranges).all()),
        "the result has no attained ranges, of which eps is a share; solve the model again",
    )
    gauge = _gauge(model, proof.gauge)
    facts = _Facts(model, seen, gauge)
    if utility is not None:
        return _verify_utility(facts, result, utility, mixture, rows, weights)
    if model.criterion != "average" and np.shape(proof.dual_potential) == (2 * model.states,):
        _demand(model.discount == 1, "gauges of single policies are for discount 1")
        facts = _ending(model, seen)
        assert facts.allowed is not None
        for _, policy in mixture:
            used = (policy > 0) & _choices(model, facts.seen)
            _demand(bool(facts.allowed[used].all()), "a policy may never reach the end")
    potentials = np.reshape(proof.value_potentials, (len(mixture), 1 + m, -1))
    low, high = _mixed_bounds(facts, mixture, model.reward, potentials[:, 0])
    least, most = proof.reward_bounds
    _demand(
        least <= low and high <= most,
        f"the reward is claimed in {proof.reward_bounds}, provable is [{low}, {high}]",
    )
    is_between = least <= result.reward <= most
    _demand(is_between, f"the reward {result.reward} lies outside its own bounds")
    tolerances = _check_ranges(facts, result, mixture[0][1])
    violation, share = _check_margins(facts, result, mixture, potentials, rows, tolerances[1:])
    bound = _lagrangian_bound(facts, sign, rows, weights, proof.dual_potential)
    _demand(
        bound <= sign * proof.dual_bound,
        f"the dual bound is claimed as {proof.dual_bound}, provable is {sign * bound}",
    )
    gap = most - proof.dual_bound if model.minimise else proof.dual_bound - least
    _close("gap", proof.gap, gap)
    _close("violation", proof.violation, violation)
    shares = _share(gap, tolerances[0]) * result.eps, share * result.eps
    _close("scaled gap", result.scaled_gap, shares[0])
    _close("scaled violation", result.scaled_violation, shares[1])
    _check_status(facts, result, *shares, rows)
    proven = (proof.reward_bounds, proof.dual_bound, gap, violation, model.minimise)
    return Verified(result.status, result.eps, *proven)


class _ByBlocks:
    """A model whose rows are a function: a function of choices is by its coefficients, `[2 + m]`.

    They are those of the model's own functions and of 1, and numbers are made block by block.
    """

    def __init__(self, model: Any) -> None:
        self.own, own = model, np.eye(2 + len(model.senses))
        self.reward, self.constraints = own[0], own[1:-1]
        low, high = np.inf, -np.inf
        for part in model.pieces():
            low, high = np.minimum(low, part.rewards.min(1)), np.maximum(high, part.rewards.max(1))
        self.spans = np.append(np.column_stack([low, high]), np.ones((1, 2)), axis=0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def span(self, x: np.ndarray) -> tuple[float, float]:
        """The least and the largest number of a function."""
        ends = np.sort(x[:, None] * self.spans, axis=1)
        return float(ends[:, 0].sum()), float(ends[:, 1].sum())


class _Facts(NamedTuple):
    """A model, its reachable states and the gauge of a certificate."""

    model: Any
    seen: np.ndarray  # [S] booleans
    gauge: np.ndarray | None  # [S]; None: 1 everywhere
    allowed: np.ndarray | None = None  # [K] booleans: choices of policies that surely end
    ends: np.ndarray | None = None  # [K] booleans: of those, which stay where nothing is paid


_Mixture = list[tuple[Fraction, np.ndarray]]  # probabilities and policies [K]


def _checked_mixture(model: Any, result: Any) -> _Mixture:
    """The policy, or those that one is drawn of, each by choice, `[K]`."""
    if result.mixture is None:
        return [(Fraction(1), _checked_policy(model, result.policy))]
    _demand(result.policy is None, "a mixture has no policy beside it")
    pairs = []
    for share, actions in result.mixture:
        actions = np.asarray(actions)
        is_choice = actions.shape == (model.states,) and np.issubdtype(actions.dtype, np.integer)
        _demand(is_choice, "a policy of the mixture has no action for each state")
        fits = bool(((actions >= 0) & (actions < model.actions)).all())
        _demand(fits, "a policy of the mixture has an action that there is not")
        _demand(bool(0 < share <= 1), "a probability of the mixture is none")
        table = np.zeros((model.states, model.actions))
        table[np.arange(model.states), actions] = 1.0
        pairs.append((Fraction(float(share)), _checked_policy(model, table)))
    total = sum(share for share, _ in pairs)
    _demand(abs(float(total) - 1) <= SUM_TOLERANCE, "the mixture's probabilities miss a sum of 1")
    return [(share / total, policy) for share, policy in pairs]


def _mean(shares: list[Fraction], bounds: list[tuple[float, float]]) -> tuple[float, float]:
    """Bounds on the value of a mixture, of those of its policies; exact but for the last digit."""
    if len(bounds) == 1 or not np.isfinite(bounds).all():
        return bounds[0] if len(bounds) == 1 else (-np.inf, np.inf)
    low, high = (
        float(sum(share * Fraction(end) for share, end in zip(shares, ends, strict=True)))
        for ends in zip(*bounds, strict=True)
    )
    return low - UNIT * abs(low) / 2, high + UNIT * abs(high) / 2


def _mixed_bounds(
    facts: _Facts, mixture: _Mixture, x: np.ndarray, potentials: np.ndarray
) -> tuple[float, float]:
    """Interval that holds a mixture's value of `x [K]`, from potentials, one for each policy."""
    pairs = zip(mixture, potentials, strict=True)
    bounds = [_policy_bounds(facts, policy, x, own) for (_, policy), own in pairs]
    return _mean([share for share, _ in mixture], bounds)


def _ending(model: Any, seen: np.ndarray) -> _Facts:
    """Which choices policies that surely end can use, and which states they then reach.

    The end is where every choice stays and nothing is paid; or, if a run may stay, any choices that
    pay nothing and lead only to states that have such a choice too.
    """
    rows, S = model.rows(0, model.states), model.states
    owner = np.repeat(np.arange(S), np.diff(rows.first_choice.astype(np.int64)))
    lengths = np.diff(rows.first_entry.astype(np.int64))
    entry, to = np.repeat(np.arange(len(owner)), lengths), rows.successors.astype(np.int64)
    free = (model.reward == 0) & (model.constraints == 0).all(0)
    if model.may_stay:
        stays, count = free & seen[owner], -1
        while count != (count := int(stays.sum())):
            has = np.zeros(S, dtype=bool)
            has[owner[stays]] = True
            stays[entry[~has[to]]] = False
    else:
        stays = free.copy()
        stays[entry[to != owner[entry]]] = False
        stays &= np.logical_and.reduceat(stays, rows.first_choice[:-1].astype(np.int64))[owner]
    target = np.zeros(S, dtype=bool)
    target[owner[stays]] = True
    order = np.argsort(to, kind="stable")
    starts = np.searchsorted(to[order], np.arange(S + 1))
    live = seen.copy()
    while True:
        allowed = live[owner]
        allowed[entry[~live[to]]] = False
        reached = target & live
        fresh = np.flatnonzero(reached)
        while fresh.size:
            counts = starts[fresh + 1] - starts[fresh]
            shifts = np.repeat(starts[fresh] - np.append(0, np.cumsum(counts[:-1])), counts)
            back = entry[order[np.arange(counts.sum()) + shifts]]
            before = owner[back[allowed[back]]]
            fresh = np.unique(before[~reached[before]])
            reached[fresh] = True
        if (reached == live).all():
            break
        live = reached
    own = np.asarray(model.initial) > 0
    _demand(bool(live[own].all()), "no policy surely ends, from some initial state")
    return _Facts(model, _visited(model, allowed), None, allowed, stays)


def _verify_utility(
    facts: _Facts,
    result: Any,
    utility: Any,
    mixture: _Mixture,
    rows: list[_Row],
    weights: np.ndarray,
) -> Verified:
    """The same of a utility F, with its own value and gradient.

    `F <= offset + g.V + G.d` for every policy, by the tangent at any point; so the best value of
    `sum_j g_j r_j + (1 - gamma) G`, with constraints by their prices, bounds the optimum.
    """
    model, proof = facts.model, result.certificate
    _demand(len(mixture) == 1, "a utility is that of one policy, not of a mixture")
    ((_, policy),) = mixture
    potentials = np.asarray(proof.value_potentials)[None]
    own, sign = proof.utility, -1.0 if utility.minimise else 1.0
    functions = [_function(model, reward) for reward in utility.rewards]
    low, high, _ = _utility_bounds(facts, utility, functions, policy, own.policy)
    least, most = sorted(sign * end for end in proof.reward_bounds)
    _demand(
        least <= low and high <= most,
        f"the utility is claimed in {proof.reward_bounds}, provable is [{sign * low},"
        f" {sign * high}]",
    )
    is_between = least <= sign * result.reward <= most
    _demand(is_between, f"the utility {result.reward} lies outside its own bounds")
    uniform = np.repeat(1 / np.diff(model.first_choice), np.diff(model.first_choice))
    _, at_uniform, size = _utility_bounds(facts, utility, functions, uniform, own.uniform)
    claimed = sign * own.at_uniform
    _demand(
        at_uniform <= claimed,
        f"the uniform policy is claimed to have at most {claimed}, provable is {at_uniform}",
    )
    ends = sorted((own.at_uniform, proof.dual_bound))
    is_said = ends == sorted(np.asarray(proof.ranges)[0].tolist())
    _demand(is_said, "the range of the utility is not from the uniform policy to the bound")
    values, visits = np.asarray(own.values, dtype=np.float64), own.visits
    offset, slopes, table = utility.tangent(values, visits)
    reward = sum((g * x for g, x in zip(slopes, functions)), np.zeros(len(policy)))
    if table is not None:
        exists = model.available if model.available is not None else np.ones(table.shape, bool)
        reward = reward + (1 - model.discount) * np.asarray(table)[exists]
    _demand(
        bool(np.isfinite(reward).all() and np.isfinite(offset)),
        "the gradient of the utility is not finite where its tangent touches",
    )
    bound = offset + _lagrangian_bound(facts, 1.0, rows, weights, proof.dual_potential, reward)
    bound += utility.doubt(values, visits)
    _demand(
        bound <= sign * proof.dual_bound,
        f"the bound is claimed as {proof.dual_bound}, provable is {sign * bound}",
    )
    tolerances = _check_ranges(facts, result, policy, 1)
    violation, share = _check_margins(facts, result, mixture, potentials, rows, tolerances[1:])
    gap, best = sign * proof.dual_bound - least, sign * proof.dual_bound
    floor = FLOOR * max(abs(best), abs(claimed), size)
    tolerance = max(result.eps * abs(best - claimed), floor)
    shares = _share(gap, tolerance) * result.eps, share * result.eps
    _close("gap", proof.gap, gap)
    _close("violation", proof.violation, violation)
    _close("scaled gap", result.scaled_gap, shares[0])
    _close("scaled violation", result.scaled_violation, shares[1])
    _check_status(facts, result, *shares, rows)
    note = "" if utility.is_proven else "; numerical: the utility has no modulus of continuity"
    note += "" if utility.is_ready else ", and provided that it is concave"
    return Verified(
        result.status,
        result.eps,
        proof.reward_bounds,
        proof.dual_bound,
        gap,
        violation,
        utility.minimise,
        note,
    )


def _function(model: Any, reward: Any) -> np.ndarray:
    """A function of the model by choice, `[K]`: by its name, or an array."""
    if not isinstance(reward, str):
        table = np.asarray(reward, dtype=np.float64)
        if table.ndim == 2:
            return table[model.available] if model.available is not None else table.reshape(-1)
        return table
    if reward == "reward":
        return np.asarray(model.reward)
    _demand(reward in model.constraint_names, f"the model has no function '{reward}'")
    return np.asarray(model.constraints[model.constraint_names.index(reward)])


def _utility_bounds(
    facts: _Facts, utility: Any, functions: list[np.ndarray], policy: np.ndarray, proof: Any
) -> tuple[float, float, float]:
    """Interval of a utility of a policy `[K]`, from potentials `[k, S]` or visits `[1, S]`.

    And the size of its terms.
    """
    model, visits, doubt = facts.model, None, 0.0
    if utility.is_of_values:
        ends = [_policy_bounds(facts, policy, x, v) for x, v in zip(functions, proof, strict=True)]
        low, high = np.array(ends).T
    else:
        nu = _vector(np.asarray(proof)[0], model.states)
        mass = np.repeat(nu, np.diff(model.first_choice)) * policy
        off = _visits_off(model, nu, mass)
        middles = np.array([float((x * mass).sum()) for x in functions])
        sizes = np.array([float(np.abs(x).max()) for x in functions])
        around = sizes / (1 - model.discount) * off
        low, high = middles - around, middles + around
        exists = model.available if model.available is not None else slice(None)
        visits = np.zeros((model.states, model.actions))
        visits[exists] = ((1 - model.discount) * mass).reshape(visits[exists].shape)
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
    rounding = UNIT * (int(lengths.max()) + model.actions + model.states**0.5 + 8)
    return float(np.abs(inflow - nu).sum()) + 2 * rounding * float(mass.sum())


def _gauge(model: Any, gauge: Any) -> np.ndarray | None:
    """What states count in bounds, `[S]`: 1 unless the certificate says otherwise."""
    if gauge is None:
        return None
    u = _vector(gauge, model.states)
    _demand(bool((u >= 0).all()), "the gauge has negative entries")
    return u


def _share(error: float, tolerance: float) -> float:
    """An error as a multiple of its tolerance."""
    if error == 0:
        return 0.0
    return error / tolerance if tolerance > 0 else float(np.copysign(np.inf, error))


def _check_ranges(facts: _Facts, result: Any, policy: np.ndarray, first: int = 0) -> np.ndarray:
    """What gap and violations may be, `[1 + m]`: a share of ranges that policies attain.

    first: 1 leaves the reward out, which a utility takes the place of.
    """
    model, proof, eps = facts.model, result.certificate, result.eps
    functions = (model.reward, *model.constraints)
    ranges, potentials = np.asarray(proof.ranges), np.asarray(proof.range_potentials)
    for i, x in enumerate(functions):
        if i < first:
            continue
        for side, sign in enumerate((-1.0, 1.0)):
            attained = (
                sign * _best_bounds(facts, *_centred(facts, sign * x), potentials[i, side])[0]
            )
            claimed = float(ranges[i, side])
            is_size = facts.allowed is not None and _is_size(facts, ranges[i], i, side)
            own = float(proof.reward_bounds[1 - side])
            is_size |= i == 0 and sign * claimed <= sign * own  # the answer's own value
            _demand(
                is_size or sign * claimed <= sign * attained,
                f"value {i} is claimed to attain {claimed}, provable is {attained}",
            )
    tolerances = np.zeros(len(functions))
    for i, x in enumerate(functions):
        if i < first:
            continue
        centred, rest = _centred(facts, x)[0], float(_centred(facts, x)[2])
        numbers = list(ranges[i])
        if i:
            numbers += [b for b in np.ravel(model.thresholds[i - 1]) if np.isfinite(b)]
        size = max(abs(number - rest) for number in numbers)
        if proof.sizes is not None:
            own, claimed = np.abs(centred), float(proof.sizes[i])
            terms = (own, own, Fraction(0), proof.size_potentials[i])
            attained = max(_best_bounds(facts, *terms, policy)[0], 0.0)
            _demand(
                claimed <= attained, f"size {i} is claimed as {claimed}, provable is {attained}"
            )
            size = max(size, claimed)
        floor = max(FLOOR * size, DIGITS * max(map(abs, numbers)))
        floor = max(floor, TINIEST * _largest(facts, x))
        tolerances[i] = max(eps * (ranges[i, 1] - ranges[i, 0]), floor)
    return tolerances


def _is_size(facts: _Facts, ends: np.ndarray, i: int, side: int) -> bool:
    """Whether an end of a range lies no farther from the other than numbers are large.

    Policies that go round a cycle that costs attain any value, so that no range would do.
    """
    model = facts.model
    x = model.constraints[i - 1] if i else model.reward
    seen = x[_choices(model, facts.seen) & facts.allowed]
    numbers = [abs(float(ends[1 - side])), LARGEST_STEP * float(np.abs(seen).max(initial=0.0))]
    if i:
        numbers += [abs(b) for b in np.ravel(model.thresholds[i - 1]) if np.isfinite(b)]
    return bool(ends[1] - ends[0] <= max(numbers) * (1 + 4 * UNIT))


def _largest(facts: _Facts, x: np.ndarray) -> float:
    """The largest |x| of states that can be reached."""
    if isinstance(facts.model, _ByBlocks):
        return max(map(abs, facts.model.span(x)))
    return float(np.abs(x[_choices(facts.model, facts.seen)]).max())


def _checked_policy(model: Any, policy: Any) -> np.ndarray:
    """The policy `[S, A]` or `[H, S, A]`, whose rows sum to 1, by choice, `[K]`.

    Where rows are a function it stays `[S, A]`.
    """
    if isinstance(model, _ByBlocks):
        policy, shape = np.asarray(policy), tuple(model.policy_shape)
        fits = policy.shape == shape and policy.dtype.kind == "f"
        _demand(fits, f"the policy has shape {policy.shape}, the model needs {shape}")
        for first in range(0, model.states, BLOCK):
            part = policy[first : first + BLOCK].astype(np.float64)
            off = np.abs(part.sum(-1) - 1).max() if (part >= 0).all() else np.inf
            _demand(bool(off <= SUM_TOLERANCE), "the policy has rows that are no probabilities")
        return policy
    policy, shape = np.asarray(policy, dtype=np.float64), tuple(model.policy_shape)
    _demand(
        policy.shape == shape,
        f"the policy has shape {policy.shape}, the model needs {shape}",
    )
    _demand(
        bool(np.isfinite(policy).all() and (policy >= 0).all()),
        "the policy has entries that are not probabilities",
    )
    off = float(np.abs(policy.sum(-1) - 1).max())
    _demand(off <= SUM_TOLERANCE, f"the policy's probabilities miss a sum of 1 by {off:.3g}")
    exists = model.available if model.available is not None else np.ones(shape, dtype=bool)
    _demand(
        not policy[~exists].any(),
        "the policy chooses an action that is not available in its state",
    )
    # a missing 1e-9 would count for 1e-9 / (1 - gamma)
    chosen = (policy / policy.sum(-1, keepdims=True))[exists]
    return np.append(chosen, np.ones(model.choices - len(chosen)))  # at the end of a horizon


def _rows(model: Any) -> list[_Row]:
    """The model's constraints as rows `sign V >= bound`: one, or two for `==` and a range."""
    rows = []
    for i, (sense, threshold) in enumerate(zip(model.senses, model.thresholds, strict=True)):
        bounds = np.broadcast_to(threshold, 2)
        if sense != "<=":
            rows.append(_Row(i, 1.0, float(bounds[0])))
        if sense != ">=":
            rows.append(_Row(i, -1.0, -float(bounds[1])))
    return rows


def _row_weights(what: str, prices: Any, rows: list[_Row], m: int) -> np.ndarray:
    """Prices of m constraints as weights >= 0 of rows; a signed one is that of one of two rows."""
    prices = np.asarray(prices, dtype=np.float64)
    _demand(prices.shape == (m,) and bool(np.isfinite(prices).all()), f"{what} must be {m} numbers")
    sides = [sum(row.constraint == i for row in rows) for i in range(m)]
    _demand(
        all(price >= 0 for price, count in zip(prices, sides, strict=True) if count == 1),
        f"{what} must be >= 0, except those of == and ranges",
    )
    own = (
        (row.sign if sides[row.constraint] == 2 else 1.0, prices[row.constraint]) for row in rows
    )
    return np.array([max(sign * price, 0.0) for sign, price in own])


def _check_margins(
    facts: _Facts,
    result: Any,
    mixture: _Mixture,
    potentials: np.ndarray,
    rows: list[_Row],
    tolerances: np.ndarray,
) -> tuple[float, float]:
    """Values and margins; the largest violation, and as the largest multiple of its tolerance."""
    proof, m = result.certificate, len(facts.model.senses)
    _demand(np.shape(proof.margin_bounds) == (m, 2), "the margin bounds must be an [m, 2] array")
    violation, share = 0.0, 0.0
    for i, constraint in enumerate(facts.model.constraints):
        low, high = _mixed_bounds(facts, mixture, constraint, potentials[:, 1 + i])
        least, most = proof.margin_bounds[i]
        claimed = float(result.values[i])
        # the middle of wider bounds is good enough
        around = min(float(most - least), float(tolerances[i])) + 1e-12 * (1 + abs(low))
        _demand(
            low - around <= claimed <= high + around,
            f"value {i} is claimed as {claimed}, provable is [{low}, {high}]",
        )
        sides = []
        for row in (row for row in rows if row.constraint == i):
            x, sizes, rest = _centred(facts, row.sign * constraint)
            less, ends = rest - Fraction(row.bound), []
            for (_, policy), own in zip(mixture, potentials[:, 1 + i], strict=True):
                turned = _turned(own, row.sign, facts.model.states)
                ends.append(_best_bounds(facts, x, sizes, less, turned, policy))
            sides.append(_mean([share for share, _ in mixture], ends))
        low, high = (min(ends) for ends in zip(*sides, strict=True))
        _demand(
            least <= low and high <= most,
            f"margin {i} is claimed in [{least}, {most}], provable is [{low}, {high}]",
        )
        _demand(
            least <= result.margins[i] <= most,
            f"margin {i}, {result.margins[i]}, lies outside its own bounds",
        )
        violation = max(violation, -least)
        share = max(share, _share(max(-least, 0.0), tolerances[i]))
    return violation, share


def _check_status(
    facts: _Facts, result: Any, gap: float, violation: float, rows: list[_Row]
) -> None:
    eps, proof = result.eps, result.certificate
    if result.status == "certified":
        for name, error in (("gap", gap), ("violation", violation)):
            _demand(
                error <= eps,
                f"status certified, but the scaled {name} {error:.3g} exceeds eps {eps:g}",
            )
        return
    if result.status == "limit":
        return
    _demand(result.status == "infeasible", f"the status {result.status!r} is unknown")
    _demand(proof.ray is not None, "status infeasible, but there is no ray to prove it")
    ray = _row_weights("the ray", proof.ray, rows, len(facts.model.senses))
    _demand(bool(ray.sum() > 0), "the ray must not be all zero")
    bound = _lagrangian_bound(facts, 0.0, rows, ray, proof.ray_potential)
    _demand(
        bound <= proof.ray_bound,
        f"the ray's bound is claimed as {proof.ray_bound}, provable is {bound}",
    )
    _demand(
        proof.ray_bound < 0,
        f"status infeasible, but the ray only proves {proof.ray_bound:.3g} < 0",
    )


def _centred(facts: _Facts, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, Fraction]:
    """x less the middle of its range, its size, and the middle's value.

    Values of a constant are known, and its digits would drown the others. A range around 0 stays.
    A horizon has so many steps, and what has ended pays nothing.
    """
    horizon, gamma = facts.model.horizon, Fraction(facts.model.discount)
    if isinstance(facts.model, _ByBlocks):
        low, high = facts.model.span(x)
        middle = low / 2 + high / 2
        middle = middle if abs(middle) > high - low else 0.0
        moved = np.append(x[:-1], x[-1] - middle)
        return moved, np.abs(moved), Fraction(middle) / (1 - gamma)
    alive = np.ones(facts.model.states, dtype=bool)
    if horizon is not None:
        alive[-(facts.model.states // (horizon + 1)) :] = False  # the run has ended
    own = _choices(facts.model, alive)
    seen = x[own & _choices(facts.model, facts.seen)]
    low, high = float(seen.min(initial=np.inf)), float(seen.max(initial=-np.inf))
    middle = low / 2 + high / 2
    if facts.model.criterion == "total" or not abs(middle) > high - low:
        return x, np.abs(x), Fraction(0)
    if facts.model.criterion == "average":
        total = Fraction(1)
    elif horizon is None:
        total = 1 / (1 - gamma)
    else:
        total = Fraction(horizon) if gamma == 1 else (1 - gamma**horizon) / (1 - gamma)
    centred = np.where(own, x - middle, 0.0)
    return centred, np.abs(centred), Fraction(middle) * total


def _policy_bounds(
    facts: _Facts, policy: np.ndarray, x: np.ndarray, potential: Any
) -> tuple[float, float]:
    """Interval that holds the policy's value of `x [K]`, from any potential."""
    return _best_bounds(facts, *_centred(facts, x), potential, policy)


def _best_bounds(
    facts: _Facts,
    x: np.ndarray,
    sizes: np.ndarray,
    rest: Fraction,
    potential: Any,
    policy: np.ndarray | None = None,
) -> tuple[float, float]:
    """A value that some policy attains at least, and one that none exceeds; or a policy's own two.

    Of `x [K]`, whose terms add up to `sizes [K]`, plus `rest`.
    """
    model, u, shifts = facts.model, facts.gauge, (0.0, 0.0)
    if model.criterion == "average":
        v, *h, u = _vector(potential, 4 * model.states).reshape(4, -1)
        low, high, shifts = _quotients_on_average(facts, x, sizes, v, h, u, policy)
    elif facts.allowed is None:
        v = _vector(potential, model.states)
        least, most = _quotients(facts, x, sizes, v, policy)
    else:
        v, u = _vector(potential, 2 * model.states).reshape(2, -1)
        low, high = _quotients_to_the_end(facts, x, sizes, v, u, policy)
    own = np.flatnonzero(model.initial)
    chances = np.asarray(model.initial)[own]
    at_start = float(chances @ v[own])
    weight = 1.0 if u is None else float(chances @ u[own])
    terms = UNIT * (len(own) + 4) + abs(math.fsum(chances) - 1)
    ends, constant = [], float(rest)
    if u is not facts.gauge:  # each potential has its own, and bounds of every state
        least, most = float(low[facts.seen].min()), float(high[facts.seen].max())
    sides = (-1.0, least, shifts[0]), (1.0, most, shifts[1])
    for sign, ratio, shift in sides:
        further = (weight * float(ratio) if np.isfinite(ratio) else float(ratio)) + shift
        total = at_start + further + constant
        size = terms * (float(chances @ np.abs(v[own])) + abs(further))
        ends.append(total + sign * (size + UNIT * (abs(constant) / 2 + 1.5 * abs(total))))
    return ends[0], ends[1]


def _block(
    model: Any, first: int, last: int, numbers: tuple[np.ndarray, ...], policy: np.ndarray | None
) -> tuple[Any, list[np.ndarray], np.ndarray | None]:
    """Rows of states, functions x and sizes of their choices, and what the policy chooses there."""
    if isinstance(model, _ByBlocks):
        part = model.piece(first, last)
        x, sizes = numbers
        own = [x[:-1] @ part.rewards + x[-1], sizes[:-1] @ np.abs(part.rewards) + sizes[-1]]
        if policy is None:
            return part.block, own, None
        chosen = policy[first:last].astype(np.float64)
        return part.block, own, (chosen / chosen.sum(-1, keepdims=True)).reshape(-1)
    rows = model.rows(first, last)
    choices = slice(int(rows.first_choice[0]), int(rows.first_choice[-1]))
    shares = None if policy is None else policy[choices]
    return rows, [array[choices] for array in numbers], shares


def _quotients(
    facts: _Facts, x: np.ndarray, sizes: np.ndarray, v: np.ndarray, policy: np.ndarray | None
) -> tuple[float, float]:
    """The least and the largest d / g of reachable states, under a policy or of best choices."""
    model, gauge = facts.model, facts.gauge
    gamma, least, most = model.discount, np.inf, -np.inf
    if isinstance(model, _ByBlocks):
        longest = model.branching
    else:
        longest = int(np.diff(model.rows(0, model.states).first_entry.astype(np.int64)).max())
    for first in range(0, model.states, BLOCK):
        last = min(first + BLOCK, model.states)
        rows, (paid, terms_of_x), shares = _block(model, first, last, (x, sizes), policy)
        starts = (rows.first_entry - rows.first_entry[0]).astype(np.int64)[:-1]
        heads = (rows.first_choice[:-1] - rows.first_choice[0]).astype(np.int64)
        counts = np.diff(rows.first_choice.astype(np.int64))
        here, lengths = np.repeat(v[first:last], counts), np.diff(rows.first_entry.astype(np.int64))
        scale = np.ones(len(here)) if gauge is None else np.repeat(gauge[first:last], counts)
        change = rows.probabilities * (v[rows.successors] - np.repeat(here, lengths))
        loss = np.zeros(len(change))
        if gauge is not None:
            loss = rows.probabilities * (gauge[rows.successors] - np.repeat(scale, lengths))
        moved, absolute, fallen, risen = (
            gamma * np.add.reduceat(steps, starts)
            for steps in (change, np.abs(change), -loss, np.abs(loss))
        )
        rest = 1 - gamma
        d, g = paid - rest * here + moved, rest * scale + fallen
        terms = np.full(len(d), UNIT * (2 * longest + 4))
        if shares is not None:
            terms += UNIT * np.repeat(counts, counts)
        error = terms * (terms_of_x + rest * np.abs(here) + absolute)
        doubt = terms * (rest * scale + risen)
        if gauge is None:  # rows sum to 1
            g[:], doubt[:] = 1 - gamma, UNIT * (1 - gamma)
        if shares is not None:
            weighted = (shares * array for array in (d, error, g, doubt))
            d, error, g, doubt = (np.add.reduceat(array, heads) for array in weighted)
        where = v[first:last] if policy is not None else here
        is_over = np.full(len(where), True) if gamma < 1 else where == 0
        low, high = _divided(d - error, d + error, g - doubt, g + doubt, is_over)
        if policy is None:
            low, high = np.maximum.reduceat(low, heads), np.maximum.reduceat(high, heads)
        seen = facts.seen[first:last]
        least = min(least, float(low[seen].min(initial=np.inf)))
        most = max(most, float(high[seen].max(initial=-np.inf)))
    return least, most


def _divided(
    least: np.ndarray, most: np.ndarray, less: np.ndarray, more: np.ndarray, is_over: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds on d / g for d in [least, most], g in [less, more]; infinite where g may be 0.

    Where d is 0 the ratio is 0 even if g is too: a run may stay there, if nothing is left of V by
    then (`is_over`: V is 0, or the future is discounted).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(least < 0, least / less, least / more)
        high = np.where(most > 0, most / less, most / more)
    is_proof = less > 0
    is_zero = (least == 0) & (most == 0) & ((is_over & (less >= 0)) | is_proof)
    low = np.where(is_zero, 0.0, np.where(is_proof, low, -np.inf))
    return low, np.where(is_zero, 0.0, np.where(is_proof, high, np.inf))


def _quotients_to_the_end(
    facts: _Facts,
    x: np.ndarray,
    sizes: np.ndarray,
    v: np.ndarray,
    u: np.ndarray,
    policy: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """The same for policies that surely end, by choices that are allowed; differences of V count.

    Where nothing of V changes they are 0 exactly, whatever V is.
    """
    model, ends, allowed = facts.model, facts.ends, facts.allowed
    assert ends is not None and allowed is not None
    _demand(bool((u >= 0).all()), "a gauge has negative entries")
    heads = model.first_choice[:-1].astype(np.int64)
    owner = np.repeat(np.arange(model.states), np.diff(model.first_choice.astype(np.int64)))
    (change, size), (loss, scale) = _moved(model, v), _moved(model, u)
    d, size, g = x + change, sizes + size, -loss
    terms, may_end = _terms(model), ends & allowed
    if policy is not None:
        more = 2 * UNIT * np.diff(model.first_choice.astype(np.int64))
        size, scale = (np.add.reduceat(policy * own, heads) for own in (size, scale))
        d, g = (np.add.reduceat(policy * own, heads) for own in (d, g))
        error, doubt = (terms + more) * size, (terms + more) * scale
        ends = np.logical_and.reduceat(ends | (policy == 0), heads) & (v == 0)
    else:
        error, doubt = terms * size, terms * scale
        ends = ends & (v[owner] == 0)
    least, most, is_proof = d - error, d + error, g > doubt
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(least < 0, least / (g - doubt), least / (g + doubt))
        high = np.where(most > 0, most / (g - doubt), most / (g + doubt))
    is_zero = ends & (least == 0) & (most == 0) & (g >= doubt)
    low = np.where(is_proof, low, np.where(is_zero, 0.0, -np.inf))
    falls = (most <= 0) & (g == 0) & (doubt == 0)
    high = np.where(is_proof, high, np.where(falls, 0.0, np.inf))
    if policy is None:
        left = v < 0  # whoever stays keeps V for ever
        stuck = np.logical_or.reduceat(may_end, heads) & left
        low[~allowed] = high[~allowed] = -np.inf
        low, high = np.maximum.reduceat(low, heads), np.maximum.reduceat(high, heads)
        with np.errstate(divide="ignore", invalid="ignore"):
            high = np.where(stuck, np.maximum(high, np.where(u > 0, -v / u, np.inf)), high)
    return low, high


def _moved(model: Any, *vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`E (v(s') - v(s))` of every choice, `[K]`, and what its terms amount to; 0 means 0.

    v is the sum of the vectors.
    """
    rows = model.rows(0, model.states)
    lengths = np.diff(rows.first_entry.astype(np.int64))
    counts = np.diff(rows.first_choice.astype(np.int64))
    steps, sizes = np.zeros(len(rows.successors)), np.zeros(len(rows.successors))
    for vector in vectors:
        step = vector[rows.successors] - np.repeat(np.repeat(vector, counts), lengths)
        steps, sizes = steps + step, sizes + np.abs(step)
    starts = rows.first_entry[:-1].astype(np.int64)
    moved, absolute = rows.probabilities * steps, rows.probabilities * sizes
    return np.add.reduceat(moved, starts), np.add.reduceat(absolute, starts)


def _terms(model: Any) -> float:
    """Relative rounding of what `_moved` gives, for rows divided by their exact sums."""
    lengths = np.diff(model.rows(0, model.states).first_entry.astype(np.int64))
    return UNIT * (2 * int(lengths.max()) + 6)


def _quotients_on_average(
    facts: _Facts,
    x: np.ndarray,
    sizes: np.ndarray,
    v: np.ndarray,
    h: list[np.ndarray],
    u: np.ndarray,
    policy: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    """Bounds `[S]` on `(P V - V) / (u - P u)`, where one changes, and on `x + P h - h - V` else.

    Choices where V or u changes are used `rho.u` times in all, weighted by `u - P u > 0`, so that V
    changes by that many quotients; afterwards a run only uses others, where V stays the same, and
    the average of x is V, but for what `x + P h - h - V` is: h is bounded, and averages to nothing.
    h: two vectors, of which it is the sum: one number has too few digits where some steps are rare.
    """
    model = facts.model
    _demand(bool((u >= 0).all()), "a gauge has negative entries")
    heads, here = (
        model.first_choice[:-1].astype(np.int64),
        np.repeat(v, np.diff(model.first_choice)),
    )
    (change, size), (loss, scale) = _moved(model, v), _moved(model, u)
    paid, paid_size = _moved(model, *h)
    paid, paid_size, g = x + paid - here, sizes + paid_size + np.abs(here), -loss
    terms = np.full(len(x), _terms(model))
    if policy is not None:
        numbers = (change, size, g, scale, paid, paid_size)
        sums = (np.add.reduceat(policy * own, heads) for own in numbers)
        change, size, g, scale, paid, paid_size = sums
        terms = terms[0] + 2 * UNIT * np.diff(model.first_choice.astype(np.int64))
    stays, doubt = (size == 0) & (scale == 0), terms * scale
    passes = g > doubt
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(passes, np.minimum(change - terms * size, 0) / (g - doubt), -np.inf)
        high = np.where(passes, np.maximum(change + terms * size, 0) / (g - doubt), np.inf)
    below, above = paid - terms * paid_size, paid + terms * paid_size
    high, above = np.where(stays, 0.0, high), np.where(stays, above, -np.inf)
    if policy is None:
        low, below = np.where(stays, -np.inf, low), np.where(stays, below, -np.inf)
        low, below, high, above = (
            np.maximum.reduceat(side, heads) for side in (low, below, high, above)
        )
        stays = u == 0
    low, below = np.where(stays, 0.0, low), np.where(stays, below, np.inf)
    return low, high, (float(below[facts.seen].min()), float(above[facts.seen].max()))


def _turned(potential: Any, sign: float, states: int) -> np.ndarray:
    """A potential times a sign; its gauge, the last of several parts, has none."""
    turned = sign * np.asarray(potential, dtype=np.float64)
    if turned.size > states:
        turned[-states:] *= sign
    return turned


def _lagrangian_bound(
    facts: _Facts,
    sign: float,
    rows: list[_Row],
    weights: np.ndarray,
    potential: Any,
    reward: np.ndarray | None = None,
) -> float:
    """Upper bound on any policy's `sign V_r + w.(rows - bounds)`; rounding counts by the terms.

    reward: `[K]`, instead of the model's.
    """
    x, sizes, rest = _centred(facts, sign * (facts.model.reward if reward is None else reward))
    for row, weight in zip(rows, weights, strict=True):
        if weight:
            own = _centred(facts, row.sign * facts.model.constraints[row.constraint])
            x, sizes = x + weight * own[0], sizes + weight * own[1]
            rest += Fraction(float(weight)) * (own[2] - Fraction(row.bound))
    return _best_bounds(facts, x, (len(weights) / 2 + 1) * sizes, rest, potential)[1]


def _visited(model: Any, allowed: np.ndarray | None = None) -> np.ndarray:
    """States that can be reached, by choices `[K]` that are allowed: the only ones that matter."""
    if isinstance(model, _ByBlocks):  # bounds over more states are bounds too
        return np.ones(model.states, dtype=bool)
    seen = np.asarray(model.initial) > 0
    rows = model.rows(0, model.states)
    pointers = rows.first_entry[rows.first_choice].astype(np.int64)  # of all entries of a state
    fresh = np.flatnonzero(seen) if model.discount > 0 else np.zeros(0, dtype=np.int64)
    while fresh.size:
        counts = pointers[fresh + 1] - pointers[fresh]
        shifts = np.repeat(pointers[fresh] - np.append(0, np.cumsum(counts[:-1])), counts)
        places = np.arange(counts.sum()) + shifts
        if allowed is not None:
            places = places[allowed[np.searchsorted(rows.first_entry, places, side="right") - 1]]
        to = rows.successors[places]
        fresh = np.unique(to[~seen[to]])
        seen[fresh] = True
    return seen


def _choices(model: Any, seen: np.ndarray) -> np.ndarray:
    """Which choices, `[K]`, are those of marked states `[S]`."""
    return np.repeat(seen, np.diff(model.first_choice))


def _vector(potential: Any, size: int) -> np.ndarray:
    v = np.asarray(potential, dtype=np.float64)
    _demand(
        v.shape == (size,) and bool(np.isfinite(v).all()),
        "a potential of the certificate is missing or not finite",
    )
    return v


def _close(name: str, claimed: float, true: float) -> None:
    is_close = claimed == true or abs(claimed - true) <= 1e-12 * (1 + abs(true))
    _demand(is_close, f"the {name} is claimed as {claimed}, it is {true}")


def _demand(holds: bool, sentence: str) -> None:
    if not holds:
        raise CertificateError(f"check failed: {sentence}.")
