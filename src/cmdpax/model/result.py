"""What is handed back, as data in the user's orientation and units, and how it prints."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from cmdpax.model.cmdp import CMDP
from cmdpax.model.limits import Limited, Limits
from cmdpax.model.prints import Printed, Rows
from cmdpax.utilities.utility import Utility

Status = Literal["certified", "infeasible", "limit"]
Row = dict[str, Any]  # of a trace
Mixture = tuple[tuple[float, np.ndarray], ...]  # probabilities and policies
Callback = Callable[[Row], None]
FLOOR = 1e-10  # of a tolerance, as a share of the size of the numbers
DIGITS = 4e-15  # the same of a constant in the numbers: its last digits
TINIEST = 1e-12  # the same of the largest reward of one step
LARGEST_STEP = 1e-3  # share of it that counts as a range where values have no least
WIDE = 0.01  # a price is printed with its interval if that is wider, as a share of the price


@dataclass(frozen=True, eq=False)
class UtilityProof:
    """What proves the value of a utility F, and that no feasible policy has a better one.

    `F <= offset + V_g` for every policy, with the tangent at any point of values and visits.
    """

    values: np.ndarray  # [k], at which the tangent touches; of max-min, the prices of k rewards
    visits: np.ndarray | None  # [S, A], the same; None: no term is of visits
    policy: np.ndarray  # [k, S] potentials of the policy's values; or its visits [1, S]
    uniform: np.ndarray  # the same of the uniform policy
    at_uniform: float  # F of the uniform policy is no better than this


@dataclass(frozen=True, eq=False)
class Certificate(Printed):
    """Claims about a policy, and the vectors that prove them to anyone with the model.

    "Best" means largest, or smallest where the model minimises. Weights and ray have one price for
    each constraint: >= 0, or signed for `==` and ranges (positive: the lower bound is priced). For
    an infeasible model `ray` and `ray_potential` prove that `ray . margins` is at most `ray_bound`
    for every policy.
    """

    reward_bounds: tuple[float, float]  # V_r(pi) lies between
    margin_bounds: np.ndarray  # [m, 2]: the room left in each constraint lies between
    dual_bound: float  # no feasible policy has a better reward than this
    weights: np.ndarray  # [m], the w of the dual bound
    value_potentials: np.ndarray  # [1 + m, S]: values of the policy, each up to a constant
    dual_potential: np.ndarray  # [S]: optimal values of the pseudo-reward, up to a constant
    ranges: np.ndarray  # [1 + m, 2]: some policy has at most the first value, some the second
    # (of the reward both may be the answer's own bounds, where no more is needed)
    range_potentials: np.ndarray  # [1 + m, 2, S]: of minus each function, and of it
    sizes: np.ndarray | None = None  # [1 + m]: values of |x| under the policy; None: not needed
    size_potentials: np.ndarray | None = None  # [1 + m, S]
    gauge: np.ndarray | None = None  # [S]: what states count in bounds; None: all the same
    ray: np.ndarray | None = None  # [m]
    ray_bound: float | None = None
    ray_potential: np.ndarray | None = None  # [S]
    minimise: bool = False
    utility: UtilityProof | None = None  # then "reward" is the value of a utility

    _title = "certificate"

    @property
    def gap(self) -> float:
        """The optimum is better than the policy by at most this.

        Negative only when the policy is infeasible (or the model is).
        """
        low, high = self.reward_bounds
        return high - self.dual_bound if self.minimise else self.dual_bound - low

    @property
    def violation(self) -> float:
        """No constraint is violated by more than this, in the constraints' own units."""
        return max(0.0, float(-self.margin_bounds[:, 0].min(initial=0.0)))

    def __repr__(self) -> str:
        return f"Certificate(gap<={self.gap:.3g}, violation<={self.violation:.3g})"

    def _rows(self) -> Rows:
        low, high = self.reward_bounds
        best = f"at {'least' if self.minimise else 'most'} {self.dual_bound:.9g}"
        rows = [
            ("reward", f"{low:.12g} to {high:.12g}"),
            ("best possible", best),
            ("gap", f"{self.gap:.3g}"),
            ("violation", f"{self.violation:.3g}"),
        ]
        if self.ray is not None:
            rows.append(("ray", ray_sentence(self.ray, self.ray_bound)))
        return rows


def _is_narrow(low: float, high: float) -> bool:
    """Whether an interval is as good as a number."""
    return bool(high - low <= WIDE * max(abs(low), abs(high)) < np.inf)


def _percent(part: float, whole: float) -> str:
    """A share as a text, `1.2e-05%` or `262%`."""
    share = 100 * part / abs(whole) if whole else 0.0
    return f"{share:,.0f}%" if share >= 100 else f"{share:.2g}%" if whole else "no share"


def ray_sentence(ray: np.ndarray, bound: float | None) -> str:
    """What a ray `[m]` proves."""
    text = np.array2string(ray, precision=6)
    return f"{text} proves ray . margins <= {bound:.6g} for every policy"


@dataclass(frozen=True, eq=False)
class Result(Limited, Printed):
    """One deployable policy and what is known about it."""

    status: Status
    method: str  # that ran
    eps: float  # certified means: gap and violations are at most this share of their ranges
    policy: np.ndarray | None  # [S, A], or [H, S, A] with a horizon; None: a mixture
    reward: float  # V_r
    values: np.ndarray  # [m], V_c; more exact than what margins say where thresholds are huge
    margins: np.ndarray  # [m], room left; negative where a constraint is violated
    multipliers: np.ndarray  # [m], shadow prices: what one unit of room in each limit is worth
    certificate: Certificate
    scaled_gap: float  # in units of which eps is the tolerance: the range, or what rounding needs
    scaled_violation: float  # the largest, likewise
    fingerprint: Any  # of the model this belongs to: its digest, or the model that has one
    limits: Limits
    minimise: bool = False
    trace: list[Row] = field(default_factory=list)  # one row for each recorded step
    seconds: float = 0.0
    averaged: Row | None = None  # primal-dual methods: the averaged occupancy, and its memory
    reason: str = ""  # of a limit: "time", "rounding", or "no progress"
    points: np.ndarray | None = None  # [k, 1 + M]: rewards and margins of policies, for prices
    relaxations: np.ndarray | None = None  # [m]: what each limit alone must give way, if infeasible
    mixture: Mixture | None = None  # probabilities and actions [S], one drawn at the start of a run
    notes: tuple[str, ...] = ()  # how the model was read, a sentence each
    utility: Utility | None = None  # whose value `reward` is; None: the model's reward

    @cached_property
    def digest(self) -> str:
        """That of the model; made when it is asked for, which may take as long as a plan."""
        return str(getattr(self.fingerprint, "digest", self.fingerprint))

    def __getstate__(self) -> dict[str, Any]:
        """What is copied to another process: the digest instead of the model."""
        return {**self.__dict__, "fingerprint": self.digest}

    @property
    def policies(self) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities `[k]` and tables `[k, S, A]`, one of which is drawn at the start."""
        if self.mixture is None:
            assert self.policy is not None
            return np.ones(1), self.policy[None]
        shares, actions = zip(*self.mixture, strict=True)
        return np.array(shares), np.eye(int(np.max(actions)) + 1)[np.stack(actions)]

    @cached_property
    def price_bounds(self) -> np.ndarray | None:
        """Intervals `[m, 2]` that hold every optimal price; None where there are none.

        An optimal price w has `V_r + w . margins <= best possible` for every policy; two tiny
        linear programs a constraint over the policies that the method saw.
        """
        if self.points is None or self.status == "infeasible":
            return None
        sign = -1.0 if self.minimise else 1.0
        room = sign * self.certificate.dual_bound - self.points[:, 0]
        return self.limits.price_bounds(self.points[:, 1:], room)

    @staticmethod
    def of(model: CMDP, policies: Mixture, certificate: Certificate, **fields: Any) -> "Result":
        """The result of policies by choice, `[K]`, and their certificate; `fields`: the others."""
        tables = tuple((share, model.as_table(policy)) for share, policy in policies)
        is_one = len(tables) == 1
        low, high = certificate.reward_bounds
        if certificate.violation == 0:  # a feasible policy: the dual bound holds for it too
            if model.minimise:
                low = min(high, max(low, certificate.dual_bound))
            else:
                high = max(low, min(high, certificate.dual_bound))
        return Result(
            policy=tables[0][1] if is_one else None,
            mixture=None if is_one else tuple((share, own.argmax(1)) for share, own in tables),
            reward=(low + high) / 2,
            margins=certificate.margin_bounds.sum(1) / 2,
            multipliers=certificate.weights,
            certificate=certificate,
            fingerprint=model,
            limits=model.limits,
            minimise=model.minimise,
            **fields,
        )

    def summary(self) -> dict[str, Any]:
        """The headline as plain numbers, for machines."""
        proof, names = self.certificate, ("status", "reason", "method", "eps", "reward", "minimise")
        prices, relaxations = self.price_bounds, self.relaxations
        is_feasible = self.status != "infeasible"
        return {
            **{name: getattr(self, name) for name in names},
            "utility": None if self.utility is None else self.utility.name,
            "constraints": list(self.constraint_names),
            "senses": list(self.senses),
            "values": self.values.tolist(),
            "thresholds": self.limits.entries,
            "margins": self.margins.tolist(),
            "multipliers": self.multipliers.tolist(),
            "price_bounds": None if prices is None else prices.tolist(),
            "ranges": proof.ranges.tolist(),
            "gap": proof.gap if is_feasible else None,
            "violation": proof.violation,
            "scaled_gap": self.scaled_gap if is_feasible else None,
            "scaled_violation": self.scaled_violation,
            "dual_bound": proof.dual_bound if is_feasible else None,
            "ray": None if proof.ray is None else proof.ray.tolist(),
            "ray_bound": proof.ray_bound,
            "relaxations": None if relaxations is None else relaxations.tolist(),
            "seconds": self.seconds,
            "mixture": None if self.mixture is None else [share for share, _ in self.mixture],
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        numbers = f"reward={self.reward:.9g}, gap<={self.certificate.gap:.3g}"
        return f"Result({self.status}, method={self.method!r}, {numbers})"

    @property
    def _title(self) -> str:
        return f"result: {self.status}"

    @property
    def _is_narrow_range(self) -> bool:
        """Whether some range is so narrow that the floor of tolerances counts."""
        sizes = np.abs(self.certificate.ranges).max(1)
        return bool((self.eps * np.ptp(self.certificate.ranges, axis=1) < FLOOR * sizes).any())

    def _rows(self) -> Rows:
        proof, gap, what, whole = self.certificate, self.certificate.gap, "reward", "the range"
        if proof.utility is not None:
            what, whole = "utility", "what the uniform policy lacks"
        why = {"time": "time was up", "rounding": "rounding keeps the bounds apart"}
        meaning = {
            "certified": f"optimal and feasible within {self.eps:g} of {whole}"
            + (f" or {FLOOR:g} of the size" if self._is_narrow_range else ""),
            "infeasible": "no policy meets all constraints",
            "limit": f"stopped before eps = {self.eps:g} was certified:"
            f" {why.get(self.reason, 'nothing improved any more')}",
        }
        rows: list[tuple[str, ...]] = [
            ("status", f"{self.status}: {meaning[self.status]}"),
            ("method", f"{self.method}, {self.seconds:.2f} s"),
        ]
        if self.status == "infeasible":
            rows.append(("reward", f"{self.reward:.9g}, of the policy that violates the least"))
            if proof.ray is not None:
                rows.append(("ray", ray_sentence(proof.ray, proof.ray_bound)))
        else:
            side = "least" if self.minimise else "most"
            best = f"{self.reward:.9g}   (best possible: at {side} {proof.dual_bound:.9g})"
            shares = f"{_percent(gap, self.reward)} of the {what}"
            best = best if self.utility is None else f"{self.utility.name} {best}"
            note = "   negative: the policy makes use of its violation" if gap < 0 else ""
            low, high = proof.ranges[0]
            span = "of its range" if proof.utility is None else "from uniform to best,"
            if low < high or self.limits:  # else nobody asked for the range
                shares += f", {_percent(gap, high - low)} {span} {low:.6g} to {high:.6g}"
            rows += [(what, best), ("gap", f"{gap:.3g}   ({shares}){note}")]
            if self.utility is not None and not self.utility.is_proven:
                rows.append(("proof", "numerical: the utility has no modulus of continuity"))
        if self.mixture is not None:
            shares = ", ".join(f"{share:.4g}" for share, _ in self.mixture)
            count = len(self.mixture)
            text = f"a draw of {count} deterministic ones at the start of a run: {shares}"
            rows.append(("policy", text))
        rows += [("note", note) for note in self.notes]
        unit = (self.eps, "what is tolerated") if self._is_narrow_range else (1.0, "the range")
        share = f"   ({_percent(self.scaled_violation, unit[0])} of {unit[1]})"
        share = share if proof.violation else ""
        rows.append(("violation", f"{proof.violation:.3g}{share}"))
        return rows + self._table()

    def _table(self) -> list[tuple[str, ...]]:
        """One row for each constraint: its price, or what would make the model feasible."""
        if not len(self.limits):
            return []
        last = "price" if self.relaxations is None else "least to give way, alone"
        prices = self.price_bounds
        rows: list[tuple[str, ...]] = [("constraint", "value", "threshold", "margin", last)]
        columns = self.constraint_names, self.senses, self.limits.entries
        numbers = zip(*columns, self.values, self.margins, self.multipliers)
        for i, (name, sense, entry, value, margin, price) in enumerate(numbers):
            bound = f"{entry[0]:.8g} to {entry[1]:.8g}" if sense == "in" else f"{entry:.8g}"
            text = f"{price:.6g}"
            if self.relaxations is not None:
                text = f"{self.relaxations[i]:.6g}"
                text = {"inf": "not enough", "nan": "not computed"}.get(text, text)
            elif prices is not None and not _is_narrow(*prices[i]):
                text += f" ({prices[i, 0]:.4g} to {prices[i, 1]:.4g})"
            rows.append((name, f"{value:.8g}", f"{sense} {bound}", f"{margin:.3g}", text))
        return rows


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A fixed-budget run in the batch shape `...` of its settings; index 0 is the initial policy.

    Histories are NaN from the step at which a configuration diverged; its `policy` and
    `multipliers` are the last finite ones.
    """

    rewards: np.ndarray  # [N + 1, ...]
    margins: np.ndarray  # [N + 1, ..., m]
    weights: np.ndarray  # [N + 1, ..., m]: what a constraint is worth; any gives a dual bound
    multipliers: np.ndarray  # [..., m], final
    policy: np.ndarray  # [..., S, A], the last iterate
    averaged: np.ndarray | None = None  # [S, A], the policy of the average occupancy (no batch)
    policies: np.ndarray | None = None  # [len(keep), ..., S, A], the iterates asked for

    @property
    def diverged(self) -> np.ndarray:
        """`[...]`: the step at which each configuration stopped being finite; 0 means never."""
        lost = np.isnan(self.rewards)
        return np.where(lost.any(0), lost.argmax(0), 0)

    def one(self, index: int) -> "Trajectory":
        """Configuration `index` of a batch `[B]`, as an unbatched trajectory."""
        histories = (self.rewards[:, index], self.margins[:, index], self.weights[:, index])
        kept = None if self.policies is None else self.policies[:, index]
        final = (self.multipliers[index], self.policy[index])
        return Trajectory(*histories, *final, policies=kept)


@dataclass(frozen=True)
class FrontierPoint:
    """The solved model at one threshold of one constraint."""

    threshold: float
    reward: float
    multiplier: float  # of a breakpoint: the price on its looser side
    gap: float  # certified
    violation: float  # certified
    status: str
    is_breakpoint: bool = False  # whether the price changes here, and nowhere up to the next


@dataclass(frozen=True, eq=False)
class FrontierRegion:
    """A polygon of thresholds of two constraints in which both prices stay the same."""

    thresholds: np.ndarray  # [k, 2]: its corners, in their order around it
    rewards: np.ndarray  # [k]: best rewards there; between them they are linear
    multipliers: np.ndarray  # [2]: prices
    gap: float  # certified, the largest of the corners
    violation: float  # certified, likewise
    status: str  # "certified" if every corner is


@dataclass(frozen=True)
class TradeOff:
    """The best of `(1 - share) first + share second`, and what both utilities are there."""

    share: float
    first: float
    second: float
    gap: float  # certified, of the sum
    status: str
