"""A single-server queue with service levels and an energy budget: the classical use of constrained
MDPs in operations research.

State: number of customers 0..capacity. Each slot a customer arrives with probability `arrival`
(lost when the queue is full), and the chosen service level finishes one with probability
`rates[a]`, using `rates[a]^2` units of energy. The reward is minus the queue length (scaled by the
capacity); the discounted energy must stay below a budget.
"""

from collections.abc import Sequence

import numpy as np

from cmdpax.environments.thresholds import with_threshold
from cmdpax.errors import InputError
from cmdpax.model.cmdp import CMDP
from cmdpax.model.transitions import refuse_huge


def queue(
    capacity: int = 50,
    arrival: float = 0.4,
    rates: Sequence[float] = (0.0, 0.3, 0.6, 0.9),
    discount: float = 0.99,
    tightness: float = 0.5,
    feasible: bool = True,
) -> CMDP:
    """`capacity + 1` states, one action per service rate, one constraint `energy <= budget`.

    The budget lies between the energy of the cheapest and that of the unconstrained optimal policy
    (`tightness` 1 and 0); with `feasible=False` it is below what any policy needs.
    """
    if capacity < 1:
        raise InputError(f"capacity is {capacity}; the queue needs room for at least one customer.")
    if not 0 < arrival < 1 or not len(rates) or not all(0 <= rate <= 1 for rate in rates):
        raise InputError(
            "queue: arrival must lie strictly between 0 and 1, and every service rate between 0"
            " and 1."
        )
    if not 0 <= tightness < 1:
        raise InputError(f"tightness is {tightness:g}; it must be at least 0 and below 1.")
    refuse_huge((capacity + 1, len(rates), 3))
    S, A = capacity + 1, len(rates)
    length = np.arange(S)
    service = np.where(length[:, None] > 0, np.asarray(rates, dtype=np.float64)[None, :], 0.0)
    arrive = np.where(length < capacity, arrival, 0.0)[:, None]
    up, down = arrive * (1 - service), (1 - arrive) * service
    successors = np.stack(
        [np.minimum(length + 1, capacity), np.maximum(length - 1, 0), length], axis=1
    ).astype(np.int32)
    successors = np.broadcast_to(successors[:, None, :], (S, A, 3))
    probabilities = np.stack([up, down, 1 - up - down], axis=-1)
    reward = np.broadcast_to(-length[:, None] / capacity, (S, A))
    energy = np.broadcast_to(np.asarray(rates, dtype=np.float64) ** 2, (S, A))[None]
    initial = np.zeros(S)
    initial[0] = 1.0
    model = CMDP(
        (successors, probabilities),
        reward,
        energy,
        [0.0],
        initial,
        discount,
        senses="<=",
        state_names=[f"{n} waiting" for n in length] if S <= 10_000 else None,
        action_names=[f"serve {rate:g}" for rate in rates],
        constraint_names=("energy",),
    )
    return with_threshold(model, tightness, feasible)
