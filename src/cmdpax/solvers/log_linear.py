"""Log-linear policies: features, coordinates, and projections onto the class.

`pi(a|s) ~ exp(phi(s,a).theta)`. A target policy is projected by forward KL, a logistic regression
with soft labels; the natural gradient is the compatible regression on the action values.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from cmdpax.errors import InputError, NumericalError
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers.policy_classes import (
    FLOOR,
    TINY,
    Array,
    Batch,
    Pair,
    Tabular,
    check_step,
    log_or_zero,
    log_softmax,
    softmax,
)

FEATURE_DIGITS = 12  # to which features of one group agree, relative to the largest feature
RANK_TOLERANCE = 1e-10  # singular values below this share of the largest are rounding
NEWTON_TOLERANCE = 1e-12  # of the estimate of l - min l
NEWTON_STEPS = 10_000  # hundreds are enough unless the minimum lies thousands of logits away
REVERSE_STEPS = 1000
# no logit moves further in one Newton step: far from the minimum the quadratic model is worthless
MAX_LOGIT_CHANGE = 4.0
# shares of the trace; they keep parameters of states that nobody visits where they are
NEWTON_RIDGE, FISHER_RIDGE = 1e-12, 1e-14


class Features:
    """Features phi `[S, A, d]`, and the policies `pi(a|s) ~ exp(phi(s,a).theta)` in few numbers.

    Only differences between the actions of a state matter, so the class is smaller than it looks:
    - states with the same centred features are one group (tile coding aggregates states): n groups
      instead of S states. Policies do not differ within one, so that sums over groups are exact;
    - the centred features have rank r, the dimension of the class. With V `[d, r]` an orthonormal
      basis of their row space, `theta = V x` reaches every policy. Gradients lie in that space:
      gradient steps and minimum-norm solutions in x and in theta are the same.

    `groups [S]` is each state's group, `group_features [n, A, r]` the centred features of a group
    in coordinates.
    """

    def __init__(self, table: Any) -> None:
        try:
            array = np.asarray(table)
        except ValueError:  # rows of different lengths
            array = np.zeros(0)
        if array.ndim != 3 or array.dtype.kind not in "biuf" or 0 in array.shape:
            raise InputError(
                f"features: the array has shape {array.shape}; give numbers as [states, actions,"
                " dimension]."
            )
        array = array.astype(np.float64)
        if not np.isfinite(array).all():
            s, a, j = np.argwhere(~np.isfinite(array))[0]
            raise InputError(
                f"features[{s}, {a}, {j}] is {array[s, a, j]}; every feature must be a finite"
                " number."
            )
        if not array.any():
            raise InputError(
                "features: all are 0, so that every policy is uniform; give some that tell actions"
                " apart."
            )
        self.table = array
        self.states, self.actions, self.dimension = array.shape
        centred = array - array.mean(1, keepdims=True)
        rounded = np.round(centred.reshape(self.states, -1) / np.abs(array).max(), FEATURE_DIGITS)
        _, first, self.groups = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
        rows = centred[first].reshape(-1, self.dimension)
        _, singular, basis = np.linalg.svd(rows, full_matrices=False)
        if not singular[0] > RANK_TOLERANCE * np.abs(array).max():
            raise InputError(
                "features: those of a state are the same for all its actions; let them depend on"
                " the action."
            )
        self.basis = basis[singular > RANK_TOLERANCE * singular[0]].T  # [d, r]
        self.group_features = (rows @ self.basis).reshape(-1, self.actions, self.rank)
        self._members = np.zeros((len(self.group_features), self.states))  # [n, S]: is s in g?
        self._members[self.groups, np.arange(self.states)] = 1.0

    @property
    def rank(self) -> int:
        """Dimension r of the class of policies."""
        return self.basis.shape[1]

    def check(self, states: int, actions: int) -> None:
        """Refuse features of another form."""
        if (self.states, self.actions) != (states, actions):
            raise InputError(
                f"features: the shape {self.table.shape} does not fit a model of {states} states"
                f" and {actions} actions; give [{states}, {actions}, dimension]."
            )

    def parameters(self, x: Array) -> Array:
        """Coordinates `[..., r]` -> theta `[..., d]`."""
        return x @ self.basis.T

    def coordinates(self, theta: Array) -> Array:
        """Theta `[..., d]` -> coordinates `[..., r]` of the same policy."""
        return theta @ self.basis

    def logits(self, x: Array) -> Array:
        """`phi.theta` of every group, up to a constant: coordinates `[..., r]` -> `[..., n, A]`."""
        n, A, r = self.group_features.shape
        return (x @ self.group_features.reshape(n * A, r).T).reshape(*x.shape[:-1], n, A)

    def probabilities(self, x: Array) -> Array:
        """Policies `[..., S, A]` of coordinates `[..., r]`."""
        return self.to_states(softmax(self.logits(x)))

    def log_probabilities(self, x: Array) -> Array:
        """Their logarithms `[..., S, A]`, finite even where a probability is rounded to 0."""
        return self.to_states(log_softmax(self.logits(x)))

    def to_states(self, grouped: Array) -> Array:
        """What holds for each group, `[..., n, A]`, for each state, `[..., S, A]`."""
        return grouped[..., self.groups, :]

    def sum_pairs(self, mass: Array) -> Array:
        """Sums over the states of each group: `[..., S, A]` -> `[..., n, A]`."""
        return self._members @ mass

    def sum_states(self, weight: Array) -> Array:
        """Sums over the states of each group: `[..., S]` -> `[..., n]`."""
        return weight @ self._members.T

    def gradient(self, mass: Array) -> Array:
        """`sum_{g,a} mass(g,a) phi(g,a)`: mass `[..., n, A]`, rows summing to 0 -> `[..., r]`.

        The transpose of `logits`: it turns a gradient with respect to logits into coordinates.
        """
        n, A, r = self.group_features.shape
        return mass.reshape(*mass.shape[:-2], n * A) @ self.group_features.reshape(n * A, r)

    def covariance(self, weight: Array, policy: Array) -> Array:
        """`sum_g weight(g) Cov_{a ~ policy(g)}[phi(g,a)]` -> `[..., r, r]`; weight `[..., n]`.

        The Fisher information of a policy `[..., n, A]`, and the curvature of `cross_entropy`.
        """
        n, A, r = self.group_features.shape
        means = np.einsum("...ga,gar->...gr", policy, self.group_features)
        centred = self.group_features - means[..., None, :]
        scaled = centred * np.sqrt(weight[..., None] * policy)[..., None]
        scaled = scaled.reshape(*weight.shape[:-1], n * A, r)
        return np.swapaxes(scaled, -1, -2) @ scaled

    def cross_entropy(self, x: Array, weight: Array, mass: Array) -> Array:
        """`sum_g weight(g) log sum_a exp(phi.x) - sum_{g,a} mass(g,a) phi.x`, `[...]`.

        Coordinates `[..., r]`, weight `[..., n]`, mass `[..., n, A]`.
        """
        logits = self.logits(x)
        peak = logits.max(-1)
        normaliser = peak + np.log(np.exp(logits - peak[..., None]).sum(-1))
        return (weight * normaliser).sum(-1) - (mass * logits).sum((-1, -2))


def one_hot(states: int, actions: int) -> Array:
    """Features `[S, A, S*A]` that reach every policy: the log-linear form of the tabular class."""
    return np.eye(states * actions).reshape(states, actions, states * actions)


@dataclass(frozen=True, eq=False)
class LogLinear:
    """Log-linear policies of `features`. Parameters are coordinates x `[..., r]`.

    A target is projected by forward KL, a logistic regression with soft labels:

        minimise  l(x) = sum_s share(s) E_{a ~ target(.|s)} [-log pi_x(a|s)].

    It is convex, and `max |phi(s,a)|^2`-smooth: gradient steps up to the inverse never raise it.
    With group weights `D(g) = sum_{s in g} share(s)` and masses `M(g,a) = sum_{s in g} share(s)
    target(a|s)` its gradient is `sum_{g,a} (D(g) pi_x(a|g) - M(g,a)) phi(g,a)`. `projection_step`
    is `"newton"`, which solves it, one configuration at a time; or the size `[...]` of the paper's
    `projection_steps` gradient steps. Where the target is 0 the infimum may lie at infinity. A few
    gradient steps stay bounded by themselves; Newton's target is raised to `FLOOR` of uniform, at
    most `FLOOR * A` in total variation.

    `"reverse"` takes the nearest in reverse KL instead, `sum_s share(s) KL(pi_x || target)`.
    """

    features: Features
    projection_step: float | Array | Literal["newton", "reverse"] = "newton"
    projection_steps: int = 250
    complete: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_step("projection_step", self.projection_step, ("newton", "reverse"))

    @property
    def batch(self) -> Batch:
        """Batch shape of the projection's step sizes."""
        return () if isinstance(self.projection_step, str) else np.shape(self.projection_step)

    def start(self, form: StandardForm, batch: Batch, policy: Array | None = None) -> Pair:
        """`x = 0`, the uniform policy; or the projection of a given policy `[S, A]`."""
        self.features.check(form.states, form.actions)
        x = np.zeros(self.features.rank)
        if policy is not None:
            share = form.criterion.share(form, form.transitions.by_choice(policy))
            x = self.newton(x, share, policy)
        x = np.broadcast_to(x, (*batch, self.features.rank))
        return x, self.features.probabilities(x)

    def at(self, parameters: Array) -> Pair:
        """The parameters as they are, and their policies `[..., S, A]`."""
        return parameters, np.exp(self.log_policy(parameters))

    def log_policy(self, parameters: Array) -> Array:
        """Log-probabilities `[..., S, A]`."""
        return self.features.log_probabilities(parameters)

    def project(self, parameters: Array, share: Any, target: Array) -> Pair:
        """Forward-KL projection of a target `[..., S, A]`; see the class docstring."""
        if isinstance(self.projection_step, str):
            if parameters.ndim > 1:
                raise InputError(
                    "projection_step: 'newton' runs one configuration at a time; give numbers to"
                    " run a batch."
                )
            solve = self.reversed if self.projection_step == "reverse" else self.newton
            x = solve(parameters, share, target)
            return x, self.features.probabilities(x)
        f = self.features
        share, target = share.reshape(-1, f.states), target.reshape(-1, f.states, f.actions)
        weight = np.ascontiguousarray(f.sum_states(share).T)  # [n, B]
        mass = self._layout(share[..., None] * target)

        def slope(powers: Array) -> Array:
            powers *= weight / powers.sum(0)
            powers -= mass
            return powers

        x = self._descend(parameters, slope, self.projection_step, self.projection_steps)
        return x, f.probabilities(x)

    def newton(self, x: Array, share: Array, target: Array) -> Array:
        """The minimiser `[r]` of l for the floored target `[S, A]`; x `[r]`, share `[S]`."""
        f = self.features
        target = (1 - FLOOR) * target + FLOOR / f.actions
        weight, mass = f.sum_states(share), f.sum_pairs(share[..., None] * target)
        x, is_settled = self._damped_newton(
            x,
            weight,
            lambda point: (float(f.cross_entropy(point, weight, mass)), mass),
            lambda policy, mass: weight[:, None] * policy - mass,
            NEWTON_STEPS,
        )
        if not is_settled:
            raise NumericalError(
                f"projection: Newton's method did not settle in {NEWTON_STEPS} steps; scale the"
                " features to order 1."
            )
        return x

    def reversed(self, x: Array, share: Array, target: Array) -> Array:
        """A stationary point `[r]` of `sum_s share(s) KL(pi_x || target)`, searched from x `[r]`.

        It is not convex. The Fisher information takes the place of the curvature: where the target
        is `pi exp(eta Q)` the first step is that of compatible regression.
        """
        f = self.features
        logs = np.log((1 - FLOOR) * target + FLOOR / f.actions)

        def value(point: Array) -> tuple[float, Array]:
            log_policy = self.log_policy(point)
            surplus = log_policy - logs
            means = (np.exp(log_policy) * surplus).sum(-1, keepdims=True)
            total = float((share * means[..., 0]).sum())
            return total, share[..., None] * np.exp(log_policy) * (surplus - means)

        return self._damped_newton(
            x, f.sum_states(share), value, lambda policy, mass: f.sum_pairs(mass), REVERSE_STEPS
        )[0]

    def _damped_newton(
        self,
        x: Array,
        weight: Array,
        value: Callable[[Array], tuple[float, Array]],
        slope: Callable[[Array, Array], Array],
        steps: int,
    ) -> tuple[Array, bool]:
        """Where damped Newton steps from x `[r]` end, and whether they have settled.

        They have once half the squared Newton decrement, the estimate of `value - min value`, is at
        most `NEWTON_TOLERANCE`, or rounding hides any descent. weight: of groups, `[n]`. value: of
        coordinates, with what `slope(policy, it)`, that of logits `[n, A]`, is computed from.
        """
        f = self.features
        now, known = value(x)
        for _ in range(steps):
            policy = softmax(f.logits(x))
            gradient = f.gradient(slope(policy, known))
            curvature = f.covariance(weight, policy)
            ridge = NEWTON_RIDGE * np.trace(curvature) + TINY
            move = -np.linalg.solve(curvature + ridge * np.eye(f.rank), gradient)
            decrement = -float(gradient @ move)
            if decrement <= 2 * NEWTON_TOLERANCE:
                return x, True
            length = min(1.0, MAX_LOGIT_CHANGE / float(np.abs(f.logits(move)).max()))
            while (trial := value(x + length * move))[0] > now - 0.1 * length * decrement:
                length /= 2
                if length < 1e-10:
                    return x, True
            x, (now, known) = x + length * move, trial
        return x, False

    def divergence(self, x: Array, share: Array, target: Array) -> Array:
        """`sum_s share(s) KL(target || pi_x)` `[...]`: l less its constant, an entropy."""
        difference = log_or_zero(target) - self.log_policy(x)
        return (share[..., None] * target * difference).sum((-1, -2))

    def projection_errors(self, x: Array, share: Array, target: Array) -> tuple[float, float]:
        """The theory's errors in KL of a projection that ended at `x [r]` (no batch).

        `eps_bias = min_x sum_s share(s) KL(target || pi_x)` is the class's, `eps_opt`, what x lies
        above it, the optimiser's. Share `[S]`, target `[S, A]`.
        """
        bias = float(self.divergence(self.newton(x, share, target), share, target))
        return max(bias, 0.0), max(float(self.divergence(x, share, target)) - bias, 0.0)

    def natural_gradient(
        self, parameters: Array, share: Any, policy: Array, action_values: Array
    ) -> Array:
        """The shortest w `[..., r]` that fits Q by score functions (compatible approximation),

            w = argmin_w E_{s ~ share, a ~ pi} [(<phi(s,a) - E_pi phi(s,.), w> - Q(s,a))^2],

        which solves `F w = E[(phi - E_pi phi) A]` with the Fisher information F. A policy that has
        nearly given up an action hardly sees it. Below rounding F cannot tell its direction from
        those that do not matter, w would be 0 there, and the action could never come back. So pi
        is raised to `FLOOR` of uniform. A ridge in the last digits gives the shortest solution
        where nobody goes at all.
        """
        f = self.features
        policy = (1 - FLOOR) * policy + FLOOR / f.actions
        advantage = action_values - (policy * action_values).sum(-1, keepdims=True)
        slope = f.gradient(f.sum_pairs(share[..., None] * policy * advantage))
        grouped = (1 - FLOOR) * softmax(f.logits(parameters)) + FLOOR / f.actions
        fisher = f.covariance(f.sum_states(share), grouped)
        ridge = FISHER_RIDGE * np.trace(fisher, axis1=-2, axis2=-1) + TINY
        system = fisher + ridge[..., None, None] * np.eye(f.rank)
        return np.linalg.solve(system, slope[..., None])[..., 0]

    def ascend_clipped(
        self, parameters: Array, share: Array, advantage: Array, clip: Any, size: Any, steps: int
    ) -> Array:
        """Gradient steps on the coordinates; they end when every pair is clipped.

        States of a group share both policies but not the sign of A: gains and losses are summed
        apart, and the aggregation stays exact.
        """
        weighted = share[..., None] * advantage
        weighted = weighted.reshape(-1, *weighted.shape[-2:])
        gains, losses = (self._layout(limit(weighted, 0)) for limit in (np.maximum, np.minimum))
        old = softmax(self.features.logits(parameters)).reshape(gains.shape[::-1])
        old = np.ascontiguousarray(old.transpose(2, 1, 0))
        clip = np.broadcast_to(clip, parameters.shape[:-1]).ravel()
        low, high = (1 - clip) * old, (1 + clip) * old

        def slope(powers: Array) -> Array | None:
            powers /= powers.sum(0)
            counted = gains * (powers < high) + losses * (powers > low)
            return powers * ((powers * counted).sum(0) - counted) if counted.any() else None

        return self._descend(parameters, slope, size, steps)

    def _layout(self, mass: Array) -> Array:
        """Pairs `[B, S, A]` summed over groups, as `[A, n, B]`."""
        return np.ascontiguousarray(self.features.sum_pairs(mass).transpose(2, 1, 0))

    def _descend(
        self, x: Array, slope: Callable[[Array], Array | None], size: Any, steps: int
    ) -> Array:
        """`steps` steps `x - size sum_{g,a} slope(g,a) phi(g,a)` from `x [..., r]`, sizes `[...]`.

        `slope` maps `exp(logits)` to the slope with respect to logits; None ends the run. The inner
        loop of every grid search: arrays are `[A, n, B]`, so that reductions over the few actions
        run along long contiguous rows.
        """
        n, A, r = self.features.group_features.shape
        by_action = self.features.group_features.transpose(1, 0, 2)
        matrix = np.ascontiguousarray(by_action.reshape(A * n, r))
        transpose = np.ascontiguousarray(matrix.T)
        size = np.broadcast_to(size, x.shape[:-1]).ravel()
        point = np.array(x.reshape(-1, r).T, order="C")  # [r, B], a copy
        for _ in range(steps):
            powers = (matrix @ point).reshape(A, n, -1)
            powers -= powers.max(0)
            np.exp(powers, out=powers)
            direction = slope(powers)
            if direction is None:
                break
            point -= size * (transpose @ direction.reshape(A * n, -1))
        return np.ascontiguousarray(point.T).reshape(x.shape)


PolicyClass = Tabular | LogLinear
