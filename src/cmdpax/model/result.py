"""What a solver hands back: one policy, its values, shadow prices, proof, and how it got there.
Prints as a table.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from cmdpax.exact.certificate import Certificate, value_bounds
from cmdpax.model.cmdp import CMDP

HUGE = 10  # a threshold this many times the largest possible value takes digits from a margin
Status = Literal["certified", "infeasible", "marginal", "limit"]


@dataclass(frozen=True)
class Result:
    """One deployable policy and what is known about it."""

    status: Status
    method: str
    eps: float  # certified means: scaled gap and violation are at most this
    policy: np.ndarray  # [S, A]
    reward: float  # V_r
    # [m], V_c in the normalised (>=) orientation; more exact than margins + thresholds where those
    # are huge
    values: np.ndarray
    margins: np.ndarray  # [m], V_c - b in the normalised (>=) orientation
    multipliers: np.ndarray  # [m], shadow prices: what one unit of slack in each threshold is worth
    certificate: Certificate
    scaled_gap: float  # gap / (span(r) / (1 - gamma))
    scaled_violation: float
    digest: str  # of the model this belongs to
    constraint_names: tuple[str, ...]
    senses: tuple[str, ...]
    thresholds: np.ndarray  # [m], normalised
    trace: list[dict[str, Any]] = field(
        default_factory=list
    )  # one row per outer iteration or recorded step
    seconds: float = 0.0
    mixture: dict[str, Any] | None = (
        None  # primal-dual methods: values of the averaged occupancy, and its memory
    )

    def summary(self) -> dict[str, Any]:
        """The headline as plain numbers, for machines."""
        return {
            "status": self.status,
            "method": self.method,
            "eps": self.eps,
            "reward": self.reward,
            "constraints": list(self.constraint_names),
            "senses": list(self.senses),
            "values": [float(v) for v in self._turned(self.values)],
            "thresholds": [float(b) for b in self._turned(self.thresholds)],
            "margins": [float(u) for u in self.margins],
            "multipliers": [float(x) for x in self.multipliers],
            "gap": self.certificate.gap,
            "violation": self.certificate.violation,
            "scaled_gap": self.scaled_gap,
            "scaled_violation": self.scaled_violation,
            "dual_bound": self.certificate.dual_bound,
            "ray": (
                None if self.certificate.ray is None else [float(y) for y in self.certificate.ray]
            ),
            "ray_bound": self.certificate.ray_bound,
            "seconds": self.seconds,
        }

    def _turned(self, numbers: np.ndarray) -> np.ndarray:
        """Values or thresholds `[m]` in the caller's orientation."""
        return (
            np.where(np.array(self.senses) == "<=", -numbers, numbers) + 0.0
        )  # adding 0.0: no "-0"

    def __repr__(self) -> str:
        return (
            f"Result({self.status}, method={self.method!r}, reward={self.reward:.9g},"
            f" gap<={self.certificate.gap:.3g})"
        )

    def __str__(self) -> str:
        meaning = {
            "certified": (
                f"certified: within {self.eps:g} of optimal and feasible, on the scale of possible"
                " values"
            ),
            "infeasible": "infeasible: no policy meets all constraints",
            "marginal": (
                "marginal: whether any policy meets all constraints is undecided within 1e-7 of the"
                " scale"
                + (
                    "; this one does, and is optimal, within eps"
                    if max(self.scaled_gap, self.scaled_violation) <= self.eps
                    else ""
                )
            ),
            "limit": f"limit: stopped before eps = {self.eps:g} was certified",
        }
        c = self.certificate
        lines = [
            f"status      {meaning[self.status]}",
            f"method      {self.method}, {self.seconds:.2f} s",
            f"reward      {self.reward:.9g}   (best possible: at most {c.dual_bound:.9g})",
            f"gap         {c.gap:.3g}   (scaled {self.scaled_gap:.3g}, relative"
            f" {c.gap / max(abs(self.reward), 1e-300):.2g})"
            + ("   negative: the policy makes use of its violation" if c.gap < 0 else ""),
            f"violation   {c.violation:.3g}   (scaled {self.scaled_violation:.3g})",
        ]
        if self.status in ("infeasible", "marginal") and c.ray is not None:
            lines.append(
                f"ray         {np.array2string(c.ray, precision=6)} proves ray.(V_c - b) <="
                f" {c.ray_bound:.6g} for every policy"
            )
        if len(self.margins):
            width = max(10, *(len(name) for name in self.constraint_names))
            lines.append(
                f"{'constraint':<{width}}  {'value':>14}     {'threshold':>12} {'margin':>12}"
                f" {'price':>12}"
            )
            columns = (
                self._turned(self.values),
                self._turned(self.thresholds),
                self.margins,
                self.multipliers,
            )
            for name, sense, value, limit, margin, price in zip(
                self.constraint_names, self.senses, *columns, strict=True
            ):
                lines.append(
                    f"{name:<{width}}  {value:>14.8g}  {sense} {limit:>12.8g} {margin:>12.3g}"
                    f" {price:>12.6g}"
                )
        return "\n".join(lines)


def assemble(
    model: CMDP,
    policy: np.ndarray,
    multipliers: np.ndarray,
    certificate: Certificate,
    *,
    status: Status | None = None,
    method: str,
    eps: float,
    trace: list[dict[str, Any]] | None = None,
    seconds: float = 0.0,
    mixture: dict[str, Any] | None = None,
) -> Result:
    """A `Result` for a policy `[S, A]`; without `status` it is `certified` or `limit`, as the
    certificate says.
    """
    gap, violation = certificate.scaled(model)
    reached: Status = "certified" if gap <= eps and violation <= eps else "limit"
    low, high = certificate.reward_bounds
    if violation == 0:  # a feasible policy: the dual bound holds for it too
        high = max(low, min(high, certificate.dual_bound))
    margins = certificate.margin_bounds.mean(1)
    values = margins + model.thresholds
    largest = np.abs(model.constraints).max((1, 2), initial=0.0) / (1 - model.discount)
    if (abs(model.thresholds) > HUGE * largest).any():
        values = value_bounds(model, policy, certificate.value_potentials)[1:].mean(1)
    return Result(
        status=status or reached,
        method=method,
        eps=eps,
        policy=model.fold_unavailable(policy),
        reward=(low + high) / 2,
        values=values,
        margins=margins,
        multipliers=multipliers,
        certificate=certificate,
        scaled_gap=gap,
        scaled_violation=violation,
        digest=model.digest,
        constraint_names=model.constraint_names
        or tuple(f"c{i}" for i in range(model.constraint_count)),
        senses=model.senses,
        thresholds=model.thresholds,
        trace=trace or [],
        seconds=seconds,
        mixture=mixture,
    )
