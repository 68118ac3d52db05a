"""Values, visits and bounds when the long-run average counts.

    V_x(pi) = lim (1/T) E sum_{t < T} x(s_t, a_t)

A run ends up in one end component (`endings.py`) and stays there. Inside of it the best average,
its gain G, is the same for every state, and any h proves it: `x + P h - h <= G`. So a model is as
good as one in which each component is one state with one more choice, to settle there for G once;
there every run ends (`transient.py`). A potential has four parts, `[4 S]`: V, what a state can
earn, one number in a component; h, and its further digits; and u, the largest expected number of
moves until the run settles, a gauge for everything before (`bounds.py`).

One policy is evaluated in `settled.py`; `gains.py` plans inside of components and between them.

A policy that leaves a component with some probability and stays with the rest is not stationary.
Then the answer is a mixture of deterministic policies, drawn once at the start.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from cmdpax.errors import InputError, NumericalError
from cmdpax.exact.bounds import claims, policy_bounds
from cmdpax.exact.endings import Array, end_components, towards
from cmdpax.exact.gains import Inside, Outside
from cmdpax.exact.planning import Plan
from cmdpax.exact.settled import Settled
from cmdpax.exact.systems import finite
from cmdpax.model.result import Mixture
from cmdpax.stopping import Stop, never

if TYPE_CHECKING:
    from cmdpax.exact.bounds import Claim
    from cmdpax.exact.standard import StandardForm

UNVISITED = 1e-12  # share of time that counts as none
SAME = 1e-12  # share of its terms by which a value may be off


@dataclass(frozen=True, eq=False)
class Average:
    """The criterion of one form, with the functions of `Discounted`."""

    label: Array  # [S]: the end component of each state; -1: none
    inner: Array  # [K] booleans: choices inside of one
    inside: "Inside"
    outside: "Outside | None"  # None: all reachable states are in one component
    discount: float = field(default=1.0, init=False)
    steps: float | None = field(default=None, init=False)
    cycles: None = field(default=None, init=False)
    mass: float = field(default=1.0, init=False)
    unit: float = field(default=1.0, init=False)
    is_closed: bool = field(default=True, init=False)
    common: float = field(default=1.0, init=False)  # the value of a constant 1
    parts: int = field(default=4, init=False)

    @staticmethod
    def of(form: "StandardForm") -> "Average":
        """The criterion of a form with whole rows."""
        rows, seen = form.transitions, form.reachable
        label, inner = end_components(rows, rows.by_state(seen))
        inside = Inside.of(rows, label, inner)
        is_one = len(np.unique(label[seen])) == 1 and inner[rows.by_state(seen)].all()
        return Average(label, inner, inside, None if is_one else Outside.of(form, label, inner))

    def scale_of(self, low: float, high: float) -> tuple[float, float]:
        """`low` and `high - low`, of rewards between them (1 for a width of 0)."""
        return low, high - low or 1.0

    def constant_of(self, low: float, high: float) -> tuple[float, Fraction]:
        """A number that all rewards between two have in common, and its value, the same."""
        middle = low / 2 + high / 2
        return (0.0, Fraction(0)) if abs(middle) <= high - low else (middle, Fraction(middle))

    def gauge(self, form: "StandardForm") -> None:
        """None: every potential has its own."""

    def centred(self, form: "StandardForm", values: Array) -> Array:
        """The values as they are: every potential has its own constant."""
        return values

    def smoothness(self, form: "StandardForm") -> tuple[float, float]:
        """Refused: no bound is known."""
        raise InputError("step: 'theory' is for a discount well below 1; give a number.")

    def flow(self, form: "StandardForm") -> sp.csr_array:
        """Net outflow of choices `[S, K]`, 0 for shares of time; the first row is their sum.

        States that are never reached have no inflow.
        """
        seen = form.reachable
        if len(np.unique(self.label[seen & (self.label >= 0)])) > 1:
            raise InputError(
                "this method takes averages of models with one end component, and this one has"
                " several; the default method takes it."
            )
        rows = form.transitions
        each, shape = np.arange(rows.choices + 1), (rows.choices, rows.states)
        outflow = sp.csr_array((np.ones(rows.choices), rows.state_of, each), shape=shape)
        flow = sp.csr_array(
            (outflow - sp.diags_array(rows.by_state(seen).astype(float)) @ rows.matrix).T
        ).tolil()
        flow[int(np.flatnonzero(seen)[0])] = 1.0
        return flow.tocsr()

    def inflow(self, form: "StandardForm") -> Array:
        """What the rows of the flow sum to, `[S]`."""
        return (np.arange(form.states) == np.flatnonzero(form.reachable)[0]).astype(float)

    def fallback(self, form: "StandardForm", mass: Array) -> Array:
        """Choices `[S]` that lead to where visits `mass [K]` are."""
        rows = form.transitions
        return self._lead(form, rows.sums(np.maximum(mass, 0.0)) > UNVISITED)

    def _lead(self, form: "StandardForm", visited: Array) -> Array:
        rows = form.transitions
        usable = np.where(rows.by_state(self.label >= 0), self.inner, True)
        return towards(rows, usable, visited)

    def action_values(self, form: "StandardForm", reward: Array, values: Array) -> Array:
        """Refused: there are none."""
        raise InputError("an average has no action values; the default method takes it.")

    def plan(
        self,
        form: "StandardForm",
        reward: Array,
        start: Array | None = None,
        *,
        values: Array | None = None,
        tolerance: float = 0.0,
        stop: Stop = never,
    ) -> Plan:
        """The best policy for one reward `[K]`; its values are h, and `values` a guess of them."""
        return self._planned(form, reward, values, tolerance, stop)[0]

    def upper(
        self, form: "StandardForm", what: "Claim", choices: Array, tolerance: float = 0.0
    ) -> Array:
        """A potential `[4 S]` that bounds a claim's value from above."""
        return self._planned(form, what.reward, None, tolerance, never)[1]

    def _planned(
        self, form: "StandardForm", reward: Array, guess: Array | None, tolerance: float, stop: Stop
    ) -> tuple[Plan, Array]:
        """The plan, and the potential that bounds it."""
        own = self.inside
        choices = form.transitions.first_choice[:-1].copy()
        bias, gains = np.zeros((2, form.states)), np.zeros(form.states)
        values = None if guess is None else guess[own.states]
        h, gain, chosen, worst = own.plan(reward[own.choices], values, tolerance, stop)
        bias[:, own.states], gains[own.states] = h, gain
        choices[own.states] = own.choices[chosen]
        steps = np.zeros(form.states)
        if self.outside is not None:
            gains, steps, choices = self.outside.plan(form, gains, choices, self.inner, tolerance)
        value = float(form.initial @ gains) + worst
        return Plan(choices, bias[0], value), np.concatenate([gains, *bias, steps])

    def visits(
        self,
        form: "StandardForm",
        policy: Array,
        *,
        tolerance: float = 0.0,
        guess: Array | None = None,
    ) -> Array:
        """Long-run shares of time `[S]`, which sum to 1."""
        settled = Settled.of(form.transitions, policy)
        return finite(settled.long_run(settled.visits(form.initial)))

    share = visits

    def potentials(
        self,
        form: "StandardForm",
        policy: Array,
        claims: "Sequence[Claim]",
        tolerance: Array | float = 0.0,
    ) -> Array:
        """What proves k values of a policy, `[k, 4 S]`: its gains, h in two, and its moves."""
        settled, rows = Settled.of(form.transitions, policy), form.transitions
        paid = np.stack([rows.under(policy, one.reward) for one in claims])
        gains, *bias = settled.evaluated(paid)
        steps = np.broadcast_to(settled.steps(), gains.shape)
        own = (np.where(settled.is_settled, part, 0.0) for part in bias)
        return finite(np.hstack([gains, *own, steps]))

    def values(self, form: "StandardForm", policy: Array, rewards: Any, **kind: Any) -> Array:
        """Gains of k rewards `[k, K]` (or one, `[K]`) -> `[k, S]` (or `[S]`)."""
        paid = np.stack([form.transitions.under(policy, row) for row in np.atleast_2d(rewards)])
        gains = finite(Settled.of(form.transitions, policy).evaluated(paid)[0])
        return gains[0] if np.ndim(rewards) == 1 else gains

    def answer(
        self, form: "StandardForm", policy: Array, mixture: Mixture | None = None
    ) -> Mixture:
        """One stationary policy where it has the values of the mixture, or the mixture.

        It has if a run ends up in one class in any case, or if no state where some policy stays is
        one that another passes.
        """
        if mixture is None or len(mixture) == 1:
            return ((1.0, policy if mixture is None else mixture[0][1]),)
        rows, settled = form.transitions, [Settled.of(form.transitions, one) for _, one in mixture]
        stays = np.any([one.chances(form.initial) > 0 for one in settled], axis=0)
        lead = rows.deterministic(self._lead(form, stays))
        one_class = np.where(rows.by_state(stays), policy, lead)
        chain = Settled.of(rows, one_class)
        reached = chain.chances(form.initial) > 0
        is_one = (reached == stays).all() and len(np.unique(chain.label[stays])) == 1
        shares, mass, passes = np.zeros(form.choices), np.zeros(form.choices), np.zeros(form.states)
        for (share, choices), one in zip(mixture, settled, strict=True):
            visits = one.visits(form.initial)
            passing = np.where(one.is_settled, 0.0, visits)
            passes += passing
            shares[choices] += share * one.long_run(visits)
            mass[choices] += share * passing
        if not is_one and (stays & (passes > UNVISITED)).any():
            return mixture
        mass += shares
        total = rows.by_state(rows.sums(mass))
        own = np.where(total > UNVISITED, mass / np.where(total > 0, total, 1.0), lead)
        own = one_class if is_one else own
        if form.is_small:
            is_same = self._has_values(form, own, shares)
        else:
            is_same = not is_one or chain.is_sound(rows.under(own, form.reward))
        return ((1.0, own),) if is_same else mixture

    def _has_values(self, form: "StandardForm", policy: Array, shares: Array) -> bool:
        """Whether a policy `[K]` provably has the values of shares of time `[K]`."""
        functions = claims(form)
        try:
            potentials = self.potentials(form, policy, functions)
        except NumericalError:
            return False
        for what, potential in zip(functions, potentials, strict=True):
            low, high = policy_bounds(form, policy, what._replace(rest=Fraction(0)), potential)
            value, slack = float(shares @ what.reward), SAME * float(shares @ what.sizes)
            if not (np.isfinite([low, high]).all() and low - slack <= value <= high + slack):
                return False
        return True
