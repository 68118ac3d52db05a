"""Inventory control with a service constraint: order stock against random demand, and do not lose
too many sales.

State: units in stock 0..capacity at the start of a period. The action orders `orders[a]` units,
which arrive at once (what does not fit is not delivered, nor charged). Demand is Poisson, its tail
folded into the last value; sales are the smaller of demand and stock. The reward is the margin on
sales minus the cost of holding what is left and a fixed cost for ordering at all, so that profit
alone lets customers wait; the expected discounted lost sales must stay below a limit.
"""

from collections.abc import Sequence

import numpy as np

from cmdpax.environments.thresholds import with_threshold
from cmdpax.errors import InputError
from cmdpax.model.cmdp import CMDP
from cmdpax.model.transitions import refuse_huge


def inventory(
    capacity: int = 100,
    orders: Sequence[int] = (0, 5, 10, 20),
    demand: float = 5.0,
    margin: float = 1.0,
    holding: float = 0.1,
    order_cost: float = 3.0,
    discount: float = 0.99,
    tightness: float = 0.5,
    feasible: bool = True,
) -> CMDP:
    """`capacity + 1` states, one action per order quantity, one constraint `lost sales <= limit`.

    `demand` is its mean per period. The limit lies between the lost sales of the most reliable
    policy and those of the most profitable one (`tightness` 1 and 0); with `feasible=False` it lies
    below the former.
    """
    if capacity < 1:
        raise InputError(f"capacity is {capacity}; the store needs room for at least one unit.")
    if not len(orders) or any(quantity < 0 for quantity in orders):
        raise InputError(
            f"orders: {list(orders)}; give at least one quantity, none of them negative."
        )
    if not (np.isfinite(demand) and 0 < demand <= 1000):
        raise InputError(f"demand is {demand:g}; its mean must be positive and at most 1000.")
    if not 0 <= tightness < 1:
        raise InputError(f"tightness is {tightness:g}; it must be at least 0 and below 1.")
    if any(quantity > capacity for quantity in orders):
        orders = [
            min(quantity, capacity) for quantity in orders
        ]  # what does not fit is not delivered
    chances = poisson(demand)
    refuse_huge((capacity + 1, len(orders), len(chances)))
    wanted = np.arange(len(chances))
    stock = np.arange(capacity + 1)
    filled = np.minimum(
        stock[:, None] + np.asarray(orders)[None, :], capacity
    )  # [S, A], after delivery
    left = np.maximum(filled[:, :, None] - wanted, 0).astype(
        np.int32
    )  # [S, A, B], after the period's demand
    sales = (
        np.minimum(wanted, np.arange(capacity + 1)[:, None]) @ chances
    )  # [S], by stock after delivery
    lost = chances @ wanted - sales
    kept = np.arange(capacity + 1) - sales
    ordered = filled > stock[:, None]
    reward = margin * sales[filled] - holding * kept[filled] - order_cost * ordered
    initial = np.zeros(capacity + 1)
    initial[0] = 1.0
    model = CMDP(
        (left, np.broadcast_to(chances, left.shape)),
        reward,
        lost[filled][None],
        [0.0],
        initial,
        discount,
        senses="<=",
        state_names=[f"{n} in stock" for n in stock] if len(stock) <= 10_000 else None,
        action_names=[f"order {quantity}" for quantity in orders],
        constraint_names=("lost sales",),
    )
    return with_threshold(model, tightness, feasible)


def poisson(mean: float) -> np.ndarray:
    """Poisson probabilities `[n + 1]` of 0, 1, ..., n, n four deviations above the mean, all beyond
    it in the last.
    """
    last = int(np.ceil(mean + 4 * np.sqrt(mean)))
    counts = np.arange(1, last + 1)
    logarithms = np.append(0.0, np.cumsum(np.log(mean / counts))) - mean
    chances = np.exp(logarithms)
    chances[-1] = max(1.0 - chances[:-1].sum(), 0.0)
    return chances
