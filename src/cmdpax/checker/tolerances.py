"""What may the gap and the violations be? A share eps of ranges that policies attain.

Of each function: `eps (max V - min V)`, at least the rounding of numbers of that size.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from cmdpax.checker.bounds import best_bounds, centred
from cmdpax.checker.demands import demand
from cmdpax.checker.facts import UNIT, ByBlocks, Facts, choices

FLOOR = 1e-10  # of a tolerance, as a share of the size of the numbers
DIGITS = 4e-15  # the same of a constant in the numbers: its last digits
TINIEST = 1e-12  # the same of the largest reward of one step
LARGEST_STEP = 1e-3  # share of it that counts as a range where values have no least


def as_share(error: float, tolerance: float) -> float:
    """An error as a multiple of its tolerance."""
    if error == 0:
        return 0.0
    return error / tolerance if tolerance > 0 else float(np.copysign(np.inf, error))


def check_ranges(
    facts: Facts, result: Any, policy: np.ndarray, of_utility: float | None
) -> np.ndarray:
    """Tolerances `[1 + m]` of the reward and the constraints, whose ranges policies attain.

    of_utility: the tolerance of a utility, if one takes the place of the reward.
    """
    model, proof, eps = facts.model, result.certificate, result.eps
    functions = (model.reward, *model.constraints)
    ranges, tolerances = np.asarray(proof.ranges), np.zeros(len(functions))
    for i, x in enumerate(functions):
        if i == 0 and of_utility is not None:
            tolerances[i] = of_utility
            continue
        _check_range(facts, proof, i, x)
        shifted, _, rest = centred(facts, x)
        numbers = [*ranges[i], *_thresholds(model, i)]
        size = max(abs(number - float(rest)) for number in numbers)
        if proof.sizes is not None:
            own, claimed = np.abs(shifted), float(proof.sizes[i])
            terms = (own, own, Fraction(0), proof.size_potentials[i])
            attained = max(best_bounds(facts, *terms, policy)[0], 0.0)
            demand(claimed <= attained, f"size {i} is claimed as {claimed}, provable is {attained}")
            size = max(size, claimed)
        floor = max(FLOOR * size, DIGITS * max(map(abs, numbers)))
        floor = max(floor, TINIEST * _largest(facts, x))
        tolerances[i] = max(eps * (ranges[i, 1] - ranges[i, 0]), floor)
    return tolerances


def _check_range(facts: Facts, proof: Any, i: int, x: np.ndarray) -> None:
    """Each end of range i is attained: by some policy, by the answer, or it is `_is_size`."""
    ends, potentials = np.asarray(proof.ranges)[i], np.asarray(proof.range_potentials)[i]
    for side, sign in enumerate((-1.0, 1.0)):
        attained = sign * best_bounds(facts, *centred(facts, sign * x), potentials[side])[0]
        claimed = float(ends[side])
        is_size = facts.allowed is not None and _is_size(facts, ends, i, side)
        is_own = i == 0 and sign * claimed <= sign * float(proof.reward_bounds[1 - side])
        demand(
            is_size or is_own or sign * claimed <= sign * attained,
            f"value {i} is claimed to attain {claimed}, provable is {attained}",
        )


def _is_size(facts: Facts, ends: np.ndarray, i: int, side: int) -> bool:
    """Whether an end of a range lies no farther from the other than numbers are large.

    Policies that go round a cycle that costs attain any value, so that no range would do.
    """
    model = facts.model
    x = model.constraints[i - 1] if i else model.reward
    seen = x[choices(model, facts.seen) & facts.allowed]
    numbers = [abs(float(ends[1 - side])), LARGEST_STEP * float(np.abs(seen).max(initial=0.0))]
    numbers += map(abs, _thresholds(model, i))
    return bool(ends[1] - ends[0] <= max(numbers) * (1 + 4 * UNIT))


def _thresholds(model: Any, i: int) -> list[float]:
    """The finite thresholds of function i; the reward, 0, has none."""
    return [b for b in np.ravel(model.thresholds[i - 1]) if np.isfinite(b)] if i else []


def _largest(facts: Facts, x: np.ndarray) -> float:
    """The largest |x| of states that can be reached."""
    if isinstance(facts.model, ByBlocks):
        return max(map(abs, facts.model.span(x)))
    return float(np.abs(x[choices(facts.model, facts.seen)]).max())
