"""Plans, values, visits and bounds of a model whose rows are a function (`forms.py`).

All go through the rows block after block (`loops/blocks.py`), in sweeps to and fro:

- plans: Gauss-Seidel sweeps of Bellman's operator, each followed by a backup, whose change d bounds
  the error as in `planning.py`; what all states still lack is added at once;
- values of a policy, of all functions at once: the same without a choice;
- visits: what a state has left over is pushed on to its successors, which is Gauss-Seidel for the
  transposed system; then all visits are scaled so that what is left sums to 0.

Sweeps follow each other for as long as it takes: few where the chain mixes fast or most moves go
one way through the numbering, up to `log(1 / eps) / (1 - gamma)` where neither is the case.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cmdpax.errors import NumericalError
from cmdpax.exact.forms import BlockForm
from cmdpax.exact.planning import ROUNDING, Plan
from cmdpax.loops import bellman, blocks
from cmdpax.loops.compiled import readable
from cmdpax.model.row_function import BLOCK
from cmdpax.stopping import Stop

if TYPE_CHECKING:
    from cmdpax.exact.bounds import Claim

SWEEPS = 100_000
STALL = 10  # sweeps without halving the error, at rounding; then it is accepted
Array = np.ndarray


def plan(
    form: BlockForm, reward: Array, values: Array | None, tolerance: float, stop: Stop
) -> Plan:
    """Maximise the value of a function `[2 + m]`; as `planning.plan`, with actions for choices."""
    discount, reach = form.criterion.discount, form.criterion.reach
    current = np.zeros(form.states) if values is None else np.array(values, dtype=np.float64)
    actions = np.empty(form.states, dtype=np.min_scalar_type(form.model.actions - 1))
    backed_up, scratch = np.empty(form.states), np.empty(0, dtype=np.int32)
    smallest, stalled = np.inf, 0
    for done in range(SWEEPS):
        if done or values is None:  # a guess may be good enough
            for part, own in form.parts((reward,), done % 2 == 0):
                bellman.sweep_block(
                    part.first, part.block, readable(own[0]), current, discount, done % 2 == 0
                )
        low, high = np.inf, -np.inf
        for part, own in form.parts((reward,)):
            here = part.here
            if len(scratch) != len(current[here]):
                scratch = np.empty(len(current[here]), dtype=np.int32)
            numbers = readable(own[0]), readable(current), discount
            bellman.fill_backup(part.block, *numbers, scratch, backed_up[here])
            actions[here] = scratch - part.block.first_choice[:-1].astype(np.int32)
            change = backed_up[here] - current[here]
            low, high = min(low, float(change.min())), max(high, float(change.max()))
        width, size = high - low, max(-float(backed_up.min()), float(backed_up.max()))
        smallest, stalled = (width, 0) if width <= smallest / 2 else (smallest, stalled + 1)
        rounding = ROUNDING * size * (1 + reach if stalled >= STALL else 1.0)
        if reach * width <= max(tolerance, reach * rounding) or stop():
            backed_up += reach * high
            own, chances, _ = form.start
            return Plan(actions, backed_up, float((chances @ backed_up[own, None])[0]))
        backed_up += reach * _sure(low, high)
        current, backed_up = backed_up, current
    raise _unsettled("planning")


def potentials(
    form: BlockForm, policy: Array, claims: "Sequence[Claim]", tolerance: Array | float
) -> Array:
    """Values of F claims under a policy, `[F, S]`, each less the middle of its range."""
    discount, reach, F = form.criterion.discount, form.criterion.reach, len(claims)
    allowed = np.broadcast_to(tolerance, F)
    functions = [one.reward for one in claims]
    current, other = np.zeros((form.states, F)), np.empty((form.states, F))
    smallest, stalled = np.inf, 0
    for done in range(SWEEPS):
        nothing = np.empty(F), np.empty(F)
        for part, own in form.parts(functions, done % 2 == 0):
            shares, rewards = form.shares(policy, part), readable(own)
            kind = discount, int(done % 2 == 0)
            blocks.step_block(
                part.first, part.block, rewards, shares, current, *kind, current, *nothing
            )
        low, high = np.full(F, np.inf), np.full(F, -np.inf)
        for part, own in form.parts(functions):
            shares, rewards = form.shares(policy, part), readable(own)
            blocks.step_block(
                part.first, part.block, rewards, shares, current, discount, -1, other, low, high
            )
        width, size = high - low, np.maximum(-other.min(0), other.max(0))
        worst = float((width / np.maximum(size, np.finfo(float).tiny)).max())
        smallest, stalled = (worst, 0) if worst <= smallest / 2 else (smallest, stalled + 1)
        rounding = ROUNDING * size * (1 + reach if stalled >= STALL else 1.0)
        if (reach * width <= np.maximum(allowed, reach * rounding)).all():
            del current
            other -= other.min(0) / 2 + other.max(0) / 2
            return np.ascontiguousarray(other.T)
        other += reach * _sure(low, high)
        current, other = other, current
    raise _unsettled("evaluation")


def visits(form: BlockForm, policy: Array, tolerance: float, guess: Array | None) -> Array:
    """Occupancy `nu [S]`; values of the form's functions are off by at most `tolerance`."""
    discount, mass = form.criterion.discount, form.criterion.mass
    target = max(tolerance / (form.largest_reward * mass), 1e-15)
    (own, chances, _), nu, left = form.start, np.zeros(form.states), np.array(form.initial)
    if guess is not None and guess.any():
        nu = np.maximum(guess, 0.0, dtype=np.float64)
        nu *= mass / nu.sum()
        for part in form.model.pieces():
            blocks.send_block(part.first, part.block, form.shares(policy, part), nu, left, discount)
        left -= nu
    smallest, stalled = np.inf, 0
    for done in range(SWEEPS):
        backwards = done % 2 == 1
        for part in form.model.pieces(backwards):
            shares = form.shares(policy, part)
            blocks.push_block(part.first, part.block, shares, nu, left, discount, backwards)
        rest = float(left.sum())
        if rest < 1:  # what is left sums to 0 if all visits have their exact mass
            nu /= 1 - rest
            left[own] -= rest * chances
            left /= 1 - rest
        firsts = range(0, form.states, BLOCK)
        size = sum(float(np.abs(left[i : i + BLOCK]).sum()) for i in firsts)
        smallest, stalled = (size, 0) if size <= smallest / 2 else (smallest, stalled + 1)
        if size <= target or (stalled >= STALL and size <= 1e-12):
            return np.maximum(nu, 0.0, out=nu)
    raise _unsettled("visits")


def extremes(
    form: BlockForm, what: "Claim", potential: Array, policy: Array | None
) -> tuple[float, float]:
    """`min d/g` and `max d/g` over all states, rounded outwards; as `bellman.ratios`."""
    values = readable(potential.astype(np.float64, copy=False))
    unit, none = bellman.ratio_rounding(form.model.branching), readable(np.empty(0))
    low, high, scratch = np.inf, -np.inf, np.empty((2, 0))
    for part, (own,) in form.parts((what.reward,)):
        n = len(part.block.first_choice) - 1
        if scratch.shape[1] != n:
            scratch = np.empty((2, n))
        sizes = np.abs(part.rewards).T @ what.sizes[:-1] + what.sizes[-1]
        shares = none if policy is None else form.shares(policy, part)
        numbers = readable(own), readable(sizes), values, none, shares, none
        kind = form.criterion.discount, unit, *scratch
        bellman.fill_ratios(part.first, part.block, *numbers, *kind)
        low, high = min(low, float(scratch[0].min())), max(high, float(scratch[1].max()))
    return low, high


def _sure(low: Any, high: Any) -> Array:
    """What all states still have to change by, where changes are between `low` and `high`.

    All errors are then at least, or at most, `gamma / (1 - gamma)` times this, and adding it brings
    every state nearer. (The middle of both would not: sweeps in place do not keep constants.)
    """
    return np.maximum(low, 0.0) + np.minimum(high, 0.0)


def _unsettled(what: str) -> NumericalError:
    """Sweeps that do not end."""
    return NumericalError(
        f"{what}: {SWEEPS:,} sweeps did not settle it; the model is too ill-conditioned."
    )
