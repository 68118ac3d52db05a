"""What is handed back, as data in the user's orientation and units, and how it prints."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from cmdpax.model.cmdp import CMDP
from cmdpax.model.limits import Limits
from cmdpax.model.prints import Rows, as_html, as_text

Status = Literal["certified", "infeasible", "marginal", "limit"]
Row = dict[str, Any]  # of a trace
Callback = Callable[[Row], None]


@dataclass(frozen=True, eq=False)
class Certificate:
    """Claims about a policy, and the vectors that prove them to anyone with the model.

    "Best" means largest, or smallest where the model minimises. Weights and ray have one price for
    each constraint: >= 0, or signed for `==` and ranges (positive: the lower bound is priced). For
    an infeasible (or marginal) model `ray` and `ray_potential` prove that `ray . margins` is at
    most `ray_bound` for every policy.
    """

    reward_bounds: tuple[float, float]  # V_r(pi) lies between
    margin_bounds: np.ndarray  # [m, 2]: the room left in each constraint lies between
    dual_bound: float  # no feasible policy has a better reward than this
    weights: np.ndarray  # [m], the w of the dual bound
    value_potentials: np.ndarray  # [1 + m, S]: values of the policy, each up to a constant
    dual_potential: np.ndarray  # [S]: optimal values of the pseudo-reward, up to a constant
    ray: np.ndarray | None = None  # [m]
    ray_bound: float | None = None
    ray_potential: np.ndarray | None = None  # [S]
    minimise: bool = False

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

    def __str__(self) -> str:
        return as_text(self._rows())

    def _repr_html_(self) -> str:
        return as_html("certificate", self._rows())


def ray_sentence(ray: np.ndarray, bound: float | None) -> str:
    """What a ray `[m]` proves."""
    text = np.array2string(ray, precision=6)
    return f"{text} proves ray . margins <= {bound:.6g} for every policy"


@dataclass(frozen=True, eq=False)
class Result:
    """One deployable policy and what is known about it."""

    status: Status
    method: str  # that ran
    eps: float  # certified means: scaled gap and violation are at most this
    policy: np.ndarray  # [S, A]
    reward: float  # V_r
    values: np.ndarray  # [m], V_c; more exact than what margins say where thresholds are huge
    margins: np.ndarray  # [m], room left; negative where a constraint is violated
    multipliers: np.ndarray  # [m], shadow prices: what one unit of room in each limit is worth
    certificate: Certificate
    scaled_gap: float  # gap / (span(r) / (1 - gamma))
    scaled_violation: float
    digest: str  # of the model this belongs to
    limits: Limits
    minimise: bool = False
    trace: list[Row] = field(default_factory=list)  # one row for each recorded step
    seconds: float = 0.0
    averaged: Row | None = None  # primal-dual methods: the averaged occupancy, and its memory

    @property
    def constraint_names(self) -> tuple[str, ...]:
        """One for each constraint."""
        return self.limits.names

    @property
    def senses(self) -> tuple[str, ...]:
        """`">="`, `"<="`, `"=="` or `"in"` for each constraint."""
        return self.limits.senses

    @property
    def thresholds(self) -> np.ndarray:
        """As the model has them: `[m]`, or `[m, 2]` where one is a range."""
        return self.limits.thresholds

    @staticmethod
    def of(model: CMDP, policy: np.ndarray, certificate: Certificate, **fields: Any) -> "Result":
        """The result of a policy by choice, `[K]`, and its certificate; `fields` are the others."""
        low, high = certificate.reward_bounds
        if certificate.violation == 0:  # a feasible policy: the dual bound holds for it too
            if model.minimise:
                low = min(high, max(low, certificate.dual_bound))
            else:
                high = max(low, min(high, certificate.dual_bound))
        return Result(
            policy=model.as_table(policy),
            reward=(low + high) / 2,
            margins=certificate.margin_bounds.mean(1),
            multipliers=certificate.weights,
            certificate=certificate,
            digest=model.digest,
            limits=model.limits,
            minimise=model.minimise,
            **fields,
        )

    def summary(self) -> dict[str, Any]:
        """The headline as plain numbers, for machines."""
        proof, names = self.certificate, ("status", "method", "eps", "reward", "minimise")
        return {
            **{name: getattr(self, name) for name in names},
            "constraints": list(self.constraint_names),
            "senses": list(self.senses),
            "values": self.values.tolist(),
            "thresholds": self.limits.entries,
            "margins": self.margins.tolist(),
            "multipliers": self.multipliers.tolist(),
            "gap": proof.gap,
            "violation": proof.violation,
            "scaled_gap": self.scaled_gap,
            "scaled_violation": self.scaled_violation,
            "dual_bound": proof.dual_bound,
            "ray": None if proof.ray is None else proof.ray.tolist(),
            "ray_bound": proof.ray_bound,
            "seconds": self.seconds,
        }

    def __repr__(self) -> str:
        numbers = f"reward={self.reward:.9g}, gap<={self.certificate.gap:.3g}"
        return f"Result({self.status}, method={self.method!r}, {numbers})"

    def _rows(self) -> Rows:
        c, gap = self.certificate, self.certificate.gap
        met = max(self.scaled_gap, self.scaled_violation) <= self.eps
        meaning = {
            "certified": f"within {self.eps:g} of optimal and feasible, on the scale of possible"
            " values",
            "infeasible": "no policy meets all constraints",
            "marginal": "whether any policy meets all constraints is undecided within 1e-7 of the"
            " scale" + ("; this one does, and is optimal, within eps" if met else ""),
            "limit": f"stopped before eps = {self.eps:g} was certified",
        }
        side = "least" if self.minimise else "most"
        relative = gap / max(abs(self.reward), 1e-300)
        note = "   negative: the policy makes use of its violation" if gap < 0 else ""
        rows: list[tuple[str, ...]] = [
            ("status", f"{self.status}: {meaning[self.status]}"),
            ("method", f"{self.method}, {self.seconds:.2f} s"),
            ("reward", f"{self.reward:.9g}   (best possible: at {side} {c.dual_bound:.9g})"),
            ("gap", f"{gap:.3g}   (scaled {self.scaled_gap:.3g}, relative {relative:.2g}){note}"),
            ("violation", f"{c.violation:.3g}   (scaled {self.scaled_violation:.3g})"),
        ]
        if self.status in ("infeasible", "marginal") and c.ray is not None:
            rows.append(("ray", ray_sentence(c.ray, c.ray_bound)))
        if len(self.limits):
            rows.append(("constraint", "value", "threshold", "margin", "price"))
        columns = self.constraint_names, self.senses, self.limits.entries
        numbers = self.values, self.margins, self.multipliers
        for name, sense, entry, value, margin, price in zip(*columns, *numbers):
            bound = f"{entry[0]:.8g} to {entry[1]:.8g}" if sense == "in" else f"{entry:.8g}"
            cells = f"{value:.8g}", f"{sense} {bound}", f"{margin:.3g}", f"{price:.6g}"
            rows.append((name, *cells))
        return rows

    def __str__(self) -> str:
        return as_text(self._rows())

    def _repr_html_(self) -> str:
        return as_html(f"result: {self.status}", self._rows())


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
    multiplier: float
    gap: float  # certified
    violation: float  # certified
    status: str
