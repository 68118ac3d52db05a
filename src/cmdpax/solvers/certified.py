"""`solve`: Algorithm 1 without anything to choose.

Values are normalised to [0, 1], phase 1 decides feasibility and suggests the first penalty, the
inner loop stops on the certified gap, the penalty grows when the defect does not fall, and the
outer loop stops when the certificate says so.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cmdpax import lagrangian
from cmdpax.errors import InputError
from cmdpax.exact.certificate import Certificate, centred_values, certify, lagrangian_bound
from cmdpax.exact.planning import plan
from cmdpax.model.cmdp import CMDP
from cmdpax.model.result import Result, Status, assemble
from cmdpax.solvers.algorithm import CertifiedGap, Oracle, Progress, augmented_lagrangian
from cmdpax.solvers.columns import COLUMNS, Columns, Corrective
from cmdpax.solvers.feasibility import BAND, Feasibility, decide
from cmdpax.stopping import Stop, Stopper

SMALLEST_PENALTY, PENALTY_GROWTH = 1e-3, 3.0  # on the normalised scale
OUTER, INNER = 200, 2000
ACCURACY = 1e-2  # of values, relative to eps
# evaluations without any progress, after which rounding is in the way (the corrective oracle needs
# a few dozen)
STALL = 500
SAFETY = 0.9  # certify in the model's own units once the estimates are this far below eps


def normalise(model: CMDP) -> CMDP:
    """The same problem with every value range mapped to [0, 1]; policies and feasibility are
    unchanged.

    States that are never reached have no say, but large numbers there would blur those of the
    others: they are clipped. Multipliers of the normalised model times `reward_scale /
    constraint_scales` are those of the model.
    """
    horizon = 1 / (1 - model.discount)
    lowest = model.reward[model.reachable].min()
    floor = (
        model.constraints[:, model.reachable].min((1, 2)) if model.constraint_count else np.zeros(0)
    )
    scales = model.constraint_scales
    reward, constraints = model.reward - lowest, model.constraints - floor[:, None, None]
    reward /= model.reward_scale
    constraints /= scales[:, None, None]
    for array in (reward, constraints):
        np.clip(array, 0, 1 - model.discount, out=array)
    return model.replace(
        reward=reward,
        constraints=constraints,
        thresholds=(model.thresholds - floor * horizon) / scales,
    )


def solve(
    model: CMDP,
    eps: float = 1e-6,
    *,
    oracle: Oracle | None = None,
    dual_step: float = 1.0,
    outer: int = OUTER,
    inner: int = INNER,
    time_limit: float | None = None,
    memory_limit: float | None = None,
    report: Callable[[dict[str, Any]], None] | None = None,
    warm: "Warm | None" = None,
) -> Result:
    """Solve a constrained MDP to a certified stationary policy. No step size, no penalty to choose.

    `eps` bounds gap and violation on the scale of possible values, `span / (1 - gamma)`. `oracle`
    defaults to `Corrective()`; first-order oracles work too, and reach less accuracy. Stops with
    status `limit` after `outer` iterations, `time_limit` seconds, Ctrl-C (a second one ends it at
    once, with nothing) or when rounding leaves nothing to gain, with the best certified policy so
    far. The clock is looked at between evaluations of policies, and the certificate of the last
    one, which takes `1 + m` of them, is always finished. `memory_limit` (bytes, of the whole
    process) bounds how many columns are kept. `report` receives every row of the trace as it comes.
    `warm` carries what was found from one solve to the next, for the same model with other
    thresholds.
    """
    if not isinstance(model, CMDP):
        raise InputError(f"model: a CMDP is needed, not {type(model).__name__}.")
    within("eps", eps, 1.0)
    within("dual_step", dual_step, 2.0)
    for name, limit in (("time_limit", time_limit), ("memory_limit", memory_limit)):
        if limit is not None:
            within(name, limit, np.inf, zero=True)
    outer, inner = whole("outer", outer), whole("inner", inner)
    warm = Warm() if warm is None else warm
    most = COLUMNS if memory_limit is None else columns_within(model, memory_limit)
    started, accuracy = time.perf_counter(), ACCURACY * eps
    with Stopper(time_limit) as stop:
        if oracle is None:
            oracle = Corrective(accuracy, most, stop=stop)
        scaled = normalise(model)
        verdict = decide(scaled, warm.columns_for(scaled), accuracy, most, stop)
        if verdict.status in ("infeasible", "open"):
            return phase_one_result(model, verdict, eps, started)
        state = verdict.columns if isinstance(oracle, Corrective) else oracle.start(scaled)
        search = _Search(model, scaled, oracle, eps, started, stop, report)
        augmented_lagrangian(
            scaled,
            oracle,
            state,
            multipliers=(
                np.zeros(model.constraint_count) if warm.multipliers is None else warm.multipliers
            ),
            penalty=first_penalty(verdict.columns),
            outer=outer,
            inner=inner,
            dual_factor=dual_step,
            # summable like the paper's sigma / t^2, but never below what the oracle's own rounding
            # allows: it would stall
            target=lambda t: max(10.0**-t, eps / 10),
            penalty_growth=PENALTY_GROWTH,
            observe=search.observe,
        )
        policy, certificate = search.certified or search.certify_best()
        warm.remember(scaled, search)
        gap, violation = certificate.scaled(model)
        # a limit is called a limit; and what is proven to be feasible is not undecided
        proven, cut_short = violation == 0 and gap <= eps, stop() and max(gap, violation) > eps
        undecided = verdict.status == "marginal" and not proven and not cut_short
        if undecided:
            certificate = _with_ray(model, certificate, verdict)
        return assemble(
            model,
            policy,
            certificate.weights,
            certificate,
            status="marginal" if undecided else None,
            method="corrective-alm" if isinstance(oracle, Corrective) else "first-order-alm",
            eps=eps,
            trace=search.trace,
            seconds=time.perf_counter() - started,
        )


@dataclass
class Warm:
    """Columns and multipliers carried between solves that differ in their thresholds only; filled
    by `solve`.
    """

    columns: Columns | None = None
    thresholds: np.ndarray | None = None  # that the columns' margins refer to, normalised
    multipliers: np.ndarray | None = None  # normalised

    def columns_for(self, scaled: CMDP) -> Columns | None:
        """The columns with margins for this model's thresholds."""
        if self.columns is None or self.thresholds is None:
            return None
        shift = self.thresholds - scaled.thresholds
        return replace(self.columns, margin_rows=self.columns.margin_rows + shift, last=None)

    def remember(self, scaled: CMDP, search: "_Search") -> None:
        """Keep the best state and its dual weights."""
        if isinstance(search.best, Columns) and search.dual is not None:
            self.columns, self.thresholds, self.multipliers = (
                search.best,
                scaled.thresholds,
                search.dual.weights,
            )


def within(name: str, value: Any, bound: float, zero: bool = False) -> None:
    """Demand a number between 0 and `bound` (0 itself only if `zero`)."""
    if not isinstance(value, (int, float, np.number)) or not (
        0 <= value < bound and (zero or value > 0)
    ):
        span = f"{'at least' if zero else 'more than'} 0" + (
            f" and below {bound:g}" if np.isfinite(bound) else ""
        )
        raise InputError(f"{name} is {value!r}; it must be a number, {span}.")


def whole(name: str, value: Any) -> int:
    """A whole number of at least 1."""
    if (
        not isinstance(value, (int, float, np.number))
        or not np.isfinite(value)
        or int(value) != value
        or value < 1
    ):
        raise InputError(f"{name} is {value!r}; it must be a whole number of at least 1.")
    return int(value)


def columns_within(model: CMDP, memory_limit: float) -> int:
    """How many columns fit into `memory_limit` bytes beside what the process holds already and one
    planning call needs.
    """
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:
        raise InputError(
            "memory limit: Windows does not tell how much memory is in use; leave the limit out."
        ) from None
    column = 20.0 * model.states  # actions, occupancy and potential
    working = (
        80.0 * model.states + 24.0 * model.successors.shape[2] * model.states
    )  # vectors and one policy's transitions
    held = getrusage(RUSAGE_SELF).ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)
    room = int((memory_limit - held - working) / column)
    least = 2 * model.constraint_count + 4  # those in use by two mixtures, and a few to choose from
    if room < least:
        needed = held + working + least * column
        raise InputError(
            f"memory limit: {memory_limit / 1e9:.3g} GB are too few; this model needs at least"
            f" {needed / 1e9:.3g} GB."
        )
    return min(room, COLUMNS)


def first_penalty(columns: Columns) -> float:
    """The penalty for which one dual step would do, were the dual function quadratic: its inverse
    curvature.

    From the unconstrained optimum (prices 0) to the column farthest from it (prices without end)
    margins are gained for reward lost; price = lost / gained, and penalty = price / gained.
    """
    gained = ((columns.margin_rows - columns.margin_rows[0]) ** 2).sum(1)
    farthest = int(np.argmax(gained))
    lost = float(columns.rewards[0] - columns.rewards[farthest])
    if gained[farthest] == 0:
        return 1.0
    return float(np.clip(lost / gained[farthest], SMALLEST_PENALTY, 1 / SMALLEST_PENALTY))


class _Search:
    """What `solve` remembers while Algorithm 1 runs: the best dual bound, the best state, and the
    trace.
    """

    def __init__(
        self,
        model: CMDP,
        scaled: CMDP,
        oracle: Oracle,
        eps: float,
        started: float,
        stop: Stop,
        report: Callable[[dict[str, Any]], None] | None,
    ) -> None:
        self.model, self.scaled, self.oracle, self.eps = model, scaled, oracle, eps
        self.started, self.stop, self.report = started, stop, report
        self.bound = np.inf  # best dual bound so far, normalised
        self.dual: CertifiedGap | None = None  # where it came from
        self.best: Any = None  # state with the smallest max(gap, violation)
        self.score = np.inf
        self.improved = 0  # evaluations when it last fell
        self.certified: tuple[np.ndarray, Certificate] | None = None
        self.trace: list[dict[str, Any]] = []

    def observe(self, progress: Progress) -> bool:
        """Record a step; True once a policy is certified, nothing improves any more, or the time is
        up.
        """
        if progress.outer_done or progress.gap is None:
            return False
        known, state = progress.gap, progress.state
        bound = known.plan.value - float(known.weights @ self.scaled.thresholds)
        if bound < self.bound:
            self.bound, self.dual = bound, known
        candidates = [state]
        if isinstance(self.oracle, Corrective):
            candidates.append(replace(state, mixture=state.meeting))
        scores = [
            (self.bound - float(one.reward), float(lagrangian.violation(one.margins)))
            for one in candidates
        ]
        (gap, violation), state = min(
            zip(scores, candidates, strict=True), key=lambda pair: max(pair[0])
        )
        if max(gap, violation) < self.score:
            self.best, self.score, self.improved = state, max(gap, violation), progress.evaluations
        row = {
            "outer": progress.outer,
            "evaluations": progress.evaluations,
            "gap": gap,
            "violation": violation,
            "penalty": progress.penalty,
            "seconds": time.perf_counter() - self.started,
        }
        self.trace.append(row)
        if self.report:
            self.report(row)
        if gap <= SAFETY * self.eps and violation <= SAFETY * self.eps:
            policy, certificate = self.certify(state)
            if max(certificate.scaled(self.model)) <= self.eps:
                self.certified = policy, certificate
                return True
        stalled = (
            isinstance(self.oracle, Corrective) and progress.evaluations - self.improved >= STALL
        )
        return stalled or self.stop()

    def certify_best(self) -> tuple[np.ndarray, Certificate]:
        """The best policy so far with its certificate."""
        return self.certify(self.best)

    def certify(self, state: Any) -> tuple[np.ndarray, Certificate]:
        """Policy of a state and its certificate in the model's own units."""
        assert self.dual is not None
        model, best = self.model, self.dual.plan
        policy = self.oracle.policy(self.scaled, state)
        weights = self.dual.weights * model.reward_scale / model.constraint_scales
        # values of the normalised model are those of the model up to scale and a constant, which no
        # bound depends on
        potential = None if model.is_small else best.values * model.reward_scale
        accuracy = (
            self.eps if self.stop() else ACCURACY * self.eps
        )  # whoever wants it now gets it now
        return policy, certify(
            model, policy, weights, best.actions, potential=potential, accuracy=accuracy
        )


def phase_one_result(model: CMDP, verdict: Feasibility, eps: float, started: float) -> Result:
    """The least violating policy, with the proof that none is feasible; `started` is a
    `time.perf_counter()`.

    Where rounding (values of 1e9 that differ by 1) spoils the proof the status is `marginal`:
    nothing is claimed unproven. Where time ran out there is no verdict, and nothing but the
    policy's own certificate.
    """
    columns, zeros = verdict.columns, np.zeros(model.constraint_count)
    policy, unconstrained, potential, accuracy = (
        Corrective().policy(model, columns),
        columns.actions[0],
        None,
        0.0,
    )
    if verdict.status != "open":  # there is time: the first plan was a loose one
        unconstrained = plan(
            model, model.reward, unconstrained, tolerance=ACCURACY * eps * model.reward_scale
        ).actions
    elif not model.is_small:  # there is none for more than what is known
        accuracy, known = eps, columns.potentials[0]
        potential = None if known is None else known * model.reward_scale
    certificate = certify(
        model, policy, zeros, unconstrained, potential=potential, accuracy=accuracy
    )
    certificate = _with_ray(model, certificate, verdict)
    proven = certificate.ray_bound is not None and certificate.ray_bound < 0
    status: Status | None = (
        None if verdict.status == "open" else "infeasible" if proven else "marginal"
    )
    seconds = time.perf_counter() - started
    return assemble(
        model,
        policy,
        zeros,
        certificate,
        status=status,
        method="corrective-alm",
        eps=eps,
        seconds=seconds,
    )


def _with_ray(model: CMDP, certificate: Certificate, verdict: Feasibility) -> Certificate:
    """Add the ray of phase 1 in the model's own units (it sums to 1 on the normalised scale), if it
    still shows anything.
    """
    if verdict.ray is None or verdict.plan is None:
        return certificate
    ray = verdict.ray / model.constraint_scales
    reward = np.tensordot(ray, model.constraints, 1)
    potential = centred_values(model, verdict.plan.actions, (reward,))[0]
    bound = lagrangian_bound(model, np.zeros_like(reward), ray, potential)
    return (
        replace(certificate, ray=ray, ray_bound=bound, ray_potential=potential)
        if bound <= 1.5 * BAND
        else certificate
    )
