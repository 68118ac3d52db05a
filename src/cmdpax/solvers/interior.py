"""An interior-point method for utilities of visits: a few dozen Newton steps, limits or not.

    max F(mu)   subject to   E mu = rho,   C mu - b = u,   mu >= 0,   u >= 0,

over visits by choice `mu [K]`, with `E mu` what leaves a state less what arrives. With a potential
V, prices w and reduced costs z, the central path has

    grad F(mu) + C'w + z = E'V,      mu z = tau,   u w = tau,

and leads to the optimum as tau falls to 0. A Newton step is predicted for tau = 0, then corrected
(Mehrotra). Minus the second derivative of F is one number for each choice, one for each state, and
a few rows of values, so that a step is one symmetric system with as many rows as states:

    E D^-1 E' dV = ...,      D = -F'' + z / mu.

It is factorised, which pays as long as states are few, or have few neighbours.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from scipy.sparse.csgraph import reverse_cuthill_mckee

from cmdpax import lagrangian
from cmdpax.errors import NumericalError
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers.algorithm import Answer
from cmdpax.solvers.certified import SAFETY, SMALLEST_WIDTH, Task
from cmdpax.solvers.policy_classes import Array, from_visits

STEPS = 200
INSIDE = 0.99  # share of the way to the boundary that a step may go
SPREAD = 0.5  # of the first visits, from all states evenly
ROOM = 0.1  # first slack of a limit that is violated, in units of its range
LEAST_AIM = 1e-9  # share of tau that is aimed at, at the least
HALVINGS, WORSE = 30, 10.0  # of a step that makes the defect so much worse than ever
BEHIND = 0.3  # tau waits for the gradient, which is not linear, by this share of its defect
REFINEMENTS = 3
RIDGE = 1e-14  # of a matrix with ones on its diagonal
DENSE, FULL = 400, 0.1  # states, and share of entries, from which on a matrix is sparse
FEW_STATES, NEIGHBOURS, OPERATIONS = 2000, 100, 5e10  # entries in a row, where states are many


class Central(NamedTuple):
    """A point near the central path, or a step."""

    visits: Array  # mu [K]
    slacks: Array  # u [m]
    potential: Array  # V [S]
    costs: Array  # z [K], reduced
    prices: Array  # w [m]

    def moved(self, length: float, step: "Central") -> "Central":
        """The point so far along a step."""
        return Central(*(value + length * change for value, change in zip(self, step)))

    @property
    def products(self) -> float:
        """`mu.z + u.w`."""
        return float(self.visits @ self.costs + self.slacks @ self.prices)

    def longest(self, step: "Central") -> float:
        """How far a step may go so that all that is positive stays so; at most 1."""
        length = 1.0
        for name in ("visits", "slacks", "costs", "prices"):
            value, change = getattr(self, name), getattr(step, name)
            if (falls := change < 0).any():
                length = min(length, INSIDE * float((-value[falls] / change[falls]).min()))
        return length


def is_worth_while(form: StandardForm) -> bool:
    """Whether the systems of a form can be factorised in little time and memory.

    Where states are many, by the squares of what lies between a row's first entry and its diagonal,
    in an order that keeps neighbours together: so many operations would do.
    """
    if form.states <= FEW_STATES:
        return True
    flow = sp.csr_array(abs(form.criterion.flow(form)))
    each = np.diff(sp.csc_array(flow).indptr)  # states that a choice knows
    if float((each**2).sum()) > NEIGHBOURS * form.states:
        return False
    pattern = sp.csr_matrix(flow @ flow.T)
    place = np.argsort(reverse_cuthill_mckee(pattern, symmetric_mode=True))
    first = np.minimum.reduceat(place[pattern.indices], pattern.indptr[:-1])
    return float(((place - first) ** 2.0).sum()) <= OPERATIONS


def interior_point(form: StandardForm, task: Task) -> Answer:
    """Follow the central path of a scaled form until the door accepts an answer.

    A NumericalError says that rounding ended the path before.
    """
    path = _Path(form)
    point, best, least = path.start(), None, np.inf
    for number in range(1, STEPS + 1):
        value, off = path.gradient(point)
        gap = path.gap(point, off)
        width = path.objective.tolerance(value + gap, task.eps) / task.eps
        margins = path.limits @ point.visits - form.thresholds
        task.record({"outer": 1, "evaluations": number, "gap": gap, "margins": margins})
        share = max(gap / max(width, SMALLEST_WIDTH), float(lagrangian.violation(margins)))
        if share < least:
            best, least = point, share
        if share <= SAFETY * task.eps or task.stop():
            answer = path.answer(point)
            if task.stop() or task.accept(answer):
                return answer
        try:
            with np.errstate(all="ignore"):
                point = path.step(point, off)
        except NumericalError:
            break
    assert best is not None
    answer = path.answer(best)
    if not task.accept(answer):  # what rounding leaves may still be enough
        raise NumericalError("interior point: rounding ended the path.")
    return answer


class _Path:
    """The problem of a form, without states that are never reached."""

    def __init__(self, form: StandardForm) -> None:
        assert form.objective is not None
        rows, states = form.transitions, np.nonzero(form.reachable)[0]
        self.form, self.objective = form, form.objective
        self.choices = rows.by_state(form.reachable)  # [K]
        self.flow = sp.csr_array(form.criterion.flow(form)[states][:, self.choices])
        place = np.cumsum(form.reachable) - 1
        owner = place[rows.state_of[self.choices]]
        parts = np.ones(len(owner)), (np.arange(len(owner)), owner)
        self.owned = sp.csr_array(parts, shape=(len(owner), len(states)))
        self.initial, self.limits = form.initial[states], form.constraints[:, self.choices]
        self.least = np.inf  # defect so far

    def start(self) -> Central:
        """The uniform policy from initial states all over, and the plan against its gradient.

        The path begins where every visit is large: small ones would grow by a factor in each step.
        What they lack of visits from the form's own initial states, the first steps take away.
        """
        form, policy = self.form, self.form.uniform_policy()
        even = form.reachable / form.reachable.sum()
        for share in (SPREAD, 0.0):
            spread = form.replace(initial=(1 - share) * form.initial + share * even)
            mass = form.transitions.by_state(form.criterion.visits(spread, policy)) * policy
            value, slope = self.objective.at(form, self.objective.point_of(form, mass))
            if np.isfinite(value):
                break
        best = form.criterion.plan(form, slope)
        visits, potential = mass[self.choices], best.values[form.reachable]
        reduced = self.flow.T @ potential - slope[self.choices]
        margins = self.limits @ visits - form.thresholds
        slacks = np.maximum(margins, ROOM)
        # limits that are violated have a price, also where the uniform policy is best without
        gap = float(reduced @ visits) + float((slacks - margins).sum())
        each = max(gap, SMALLEST_WIDTH) / len(visits)
        costs = np.maximum(reduced, each / visits)
        return Central(visits, slacks, potential, costs, each / slacks)

    def mass(self, visits: Array) -> Array:
        """Visits of all choices, `[K]`."""
        mass = np.zeros(self.form.choices)
        mass[self.choices] = visits
        return mass

    def gradient(self, point: Central) -> tuple[float, Array]:
        """F, and `grad F + C'w + z - E'V` by choice."""
        form, objective = self.form, self.objective
        value, slope = objective.at(form, objective.point_of(form, self.mass(point.visits)))
        reward = slope[self.choices] + point.prices @ self.limits
        return value, reward + point.costs - self.flow.T @ point.potential

    def defect(self, point: Central) -> float:
        """How far a point is from an optimum; NaN outside the domain of F."""
        off = np.abs(self.limits @ point.visits - self.form.thresholds - point.slacks)
        value, dual = self.gradient(point)
        return self.gap(point, dual) + float(off.sum()) if np.isfinite(value) else np.nan

    def gap(self, point: Central, dual: Array) -> float:
        """What F can lack of the optimum, but for limits that are violated. dual: of `gradient`."""
        off = np.abs(self.lost(point.visits)) @ np.abs(point.potential)
        return point.products + float(np.abs(dual) @ point.visits) + float(off)

    def lost(self, visits: Array) -> Array:
        """`rho - E mu`, by state: 0 for visits of a policy."""
        return self.initial - self.flow @ visits

    def step(self, point: Central, dual: Array) -> Central:
        """Predict, correct, and go as far as the gradient agrees. dual: `[K]`, of `gradient`."""
        mu, u, z, w = point.visits, point.slacks, point.costs, point.prices
        at = self.objective.point_of(self.form, self.mass(mu))
        of_choices, of_states, rows = self.objective.curvature(self.form, at)
        system = _System(
            self.flow,
            self.owned,
            of_choices[self.choices] + z / mu,
            of_states[self.form.reachable],
            np.vstack([rows[:, self.choices], np.sqrt(w / u)[:, None] * self.limits]),
        )
        lost = self.lost(mu)
        off = self.limits @ mu - self.form.thresholds - u

        def direction(products: Array, limits: Array) -> Central:
            """The step that changes `mu z` and `u w` by so much, to first order."""
            right = dual + products / mu + ((limits - w * off) / u) @ self.limits
            visits, potential = system.solve(right, lost)
            slacks = self.limits @ visits + off
            costs, prices = (products - z * visits) / mu, (limits - w * slacks) / u
            return Central(visits, slacks, potential, costs, prices)

        count = len(mu) + len(u)
        tau = point.products / count
        first = direction(-mu * z, -u * w)
        left = point.moved(point.longest(first), first).products / point.products
        behind = BEHIND * float(np.abs(dual) @ mu) / point.products
        aim = tau * max(min(left, 1.0) ** 3, min(behind, 1.0), LEAST_AIM)
        step = direction(
            aim - mu * z - first.visits * first.costs, aim - u * w - first.slacks * first.prices
        )
        self.least = min(self.least, self.defect(point))
        length, most = point.longest(step), WORSE * self.least
        for _ in range(HALVINGS):
            ahead = point.moved(length, step)
            if self.defect(ahead) <= most:
                return ahead
            length /= 2
        raise NumericalError("interior point: no step leads on.")

    def answer(self, point: Central) -> Answer:
        """The policy of the visits, with the prices and the point of the tangent."""
        form = self.form
        policy = from_visits(form, self.mass(point.visits), form.uniform_policy())
        return Answer(policy, point.prices, at=self.objective.point(form, policy))


class _System:
    """`(D + R'R) dmu + E' dV = right` and `E dmu = lost`, factorised.

    D has `pairs [K]` on its diagonal, and adds `states [S]` times the sum of a state's. With i the
    inverses of pairs, I their sum in a state, and means weighted by i,

        D^-1 x = i (x - mean x) + i mean x / (1 + states I),

    and the same with rows of E: no digits cancel, however small pairs are.
    """

    def __init__(self, flow: Any, owned: Any, pairs: Array, states: Array, rows: Array) -> None:
        self.flow, self.owned, self.pairs, self.states = flow, owned, pairs, states
        self.rows, self.inverse = rows, 1 / pairs
        total = owned.T @ self.inverse
        self.share, self.damped = self.inverse / (owned @ total), 1 / (1 + states * total)
        mean = flow @ (owned * self.share[:, None])
        apart = flow - mean @ owned.T
        matrix = (apart * self.inverse[None, :]) @ apart.T
        self.inner = _factorised(matrix + (mean * (total * self.damped)[None, :]) @ mean.T)
        moved = [self._plain(row, np.zeros(len(states)))[0] for row in rows]
        self.small = np.eye(len(rows)) + rows @ np.array(moved).reshape(len(rows), len(pairs)).T

    def solve(self, right: Array, lost: Array) -> tuple[Array, Array]:
        """`dmu [K]` and `dV [S]`, refined."""
        dmu, dV = self._whole(right, lost)
        for _ in range(REFINEMENTS):
            off = right - self._forward(dmu) - self.flow.T @ dV, lost - self.flow @ dmu
            more = self._whole(*off)
            dmu, dV = dmu + more[0], dV + more[1]
        return dmu, dV

    def _whole(self, right: Array, lost: Array) -> tuple[Array, Array]:
        """Woodbury's formula for R."""
        if len(self.rows):
            dmu, _ = self._plain(right, lost)
            right = right - np.linalg.solve(self.small, self.rows @ dmu) @ self.rows
        return self._plain(right, lost)

    def _plain(self, right: Array, lost: Array) -> tuple[Array, Array]:
        """Without R."""
        dV = self.inner(self.flow @ self._backward(right) - lost)
        return self._backward(right - self.flow.T @ dV), dV

    def _backward(self, x: Array) -> Array:
        """`D^-1 x`."""
        mean = self.owned.T @ (self.share * x)
        return self.inverse * (x - self.owned @ ((1 - self.damped) * mean))

    def _forward(self, x: Array) -> Array:
        """`(D + R'R) x`."""
        own = self.pairs * x + self.owned @ (self.states * (self.owned.T @ x))
        return own + (self.rows @ x) @ self.rows


def _factorised(matrix: Any) -> Any:
    """A function that solves a sparse, symmetric, positive definite system."""
    size, diagonal = matrix.shape[0], matrix.diagonal()
    if not (np.isfinite(matrix.data).all() and (diagonal > 0).all()):
        raise NumericalError("interior point: rounding spoils a system.")
    scale = 1 / np.sqrt(diagonal)
    even = matrix * scale[:, None] * scale
    try:
        if size <= DENSE or matrix.nnz > FULL * size**2:
            dense = even.toarray()
            dense[np.diag_indices(size)] += RIDGE
            lower = la.cho_factor(dense, lower=True, overwrite_a=True)
            return lambda right: scale * la.cho_solve(lower, scale * right)
        kind: dict[str, Any] = {"options": {"SymmetricMode": True}, "diag_pivot_thresh": 0.0}
        even = sp.csc_array(even + RIDGE * sp.eye_array(size))
        factors = spla.splu(even, permc_spec="MMD_AT_PLUS_A", **kind)
    except (la.LinAlgError, RuntimeError):  # not positive definite, singular
        raise NumericalError("interior point: rounding spoils a system.") from None
    return lambda right: scale * factors.solve(scale * right)
