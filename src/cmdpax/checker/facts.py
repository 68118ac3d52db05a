"""What proofs start from: a model's rows, the states that can be reached, the gauge."""

from typing import Any, NamedTuple

import numpy as np

UNIT = float(np.finfo(float).eps)
BLOCK = 1 << 16  # states that are looked at together


class ByBlocks:
    """A model whose rows are a function, read block by block.

    Whatever choices pay is given by coefficients `[2 + m]`: of the reward, the constraints and 1.
    """

    def __init__(self, model: Any) -> None:
        self.own, own = model, np.eye(2 + len(model.senses))
        self.reward, self.constraints = own[0], own[1:-1]
        low, high = np.inf, -np.inf
        for part in model.pieces():
            low, high = np.minimum(low, part.rewards.min(1)), np.maximum(high, part.rewards.max(1))
        self.spans = np.append(np.column_stack([low, high]), np.ones((1, 2)), axis=0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def span(self, x: np.ndarray) -> tuple[float, float]:
        """Ends between which a function of coefficients x `[2 + m]` lies."""
        ends = np.sort(x[:, None] * self.spans, axis=1)
        return float(ends[:, 0].sum()), float(ends[:, 1].sum())


class Facts(NamedTuple):
    """A model, its reachable states and the gauge of a certificate."""

    model: Any
    seen: np.ndarray  # [S] booleans
    gauge: np.ndarray | None  # [S]; None: 1 everywhere
    allowed: np.ndarray | None = None  # [K] booleans: choices of policies that surely end
    ends: np.ndarray | None = None  # [K] booleans: of those, which stay where nothing is paid


def visited(model: Any, allowed: np.ndarray | None = None) -> np.ndarray:
    """States that can be reached, by choices `[K]` that are allowed: the only ones that matter."""
    if isinstance(model, ByBlocks):  # bounds over more states are bounds too
        return np.ones(model.states, dtype=bool)
    seen = np.asarray(model.initial) > 0
    rows = model.rows(0, model.states)
    pointers = rows.first_entry[rows.first_choice].astype(np.int64)  # of all entries of a state
    fresh = np.flatnonzero(seen) if model.discount > 0 else np.zeros(0, dtype=np.int64)
    while fresh.size:
        places = stretches(pointers, fresh)
        if allowed is not None:
            places = places[allowed[np.searchsorted(rows.first_entry, places, side="right") - 1]]
        to = rows.successors[places]
        fresh = np.unique(to[~seen[to]])
        seen[fresh] = True
    return seen


def stretches(starts: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The numbers `starts[i], ..., starts[i + 1] - 1` of every chosen i, one after the other."""
    counts = starts[chosen + 1] - starts[chosen]
    shifts = np.repeat(starts[chosen] - np.append(0, np.cumsum(counts[:-1])), counts)
    return np.arange(counts.sum()) + shifts


def choices(model: Any, seen: np.ndarray) -> np.ndarray:
    """Which choices, `[K]`, are those of marked states `[S]`."""
    return np.repeat(seen, np.diff(model.first_choice))


def available(model: Any) -> np.ndarray:
    """Which actions there are, booleans in the shape of a policy."""
    if model.available is None:
        return np.ones(model.policy_shape, dtype=bool)
    return np.asarray(model.available)


def longest_row(model: Any) -> int:
    """The largest number of successors of a choice."""
    if isinstance(model, ByBlocks):
        return int(model.branching)
    return int(np.diff(model.rows(0, model.states).first_entry.astype(np.int64)).max())


def moved(rows: Any, first: int, *vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`E (v(s') - v(s))` of every choice, `[K]`, and what its terms amount to; 0 means 0.

    v: the sum of the vectors. rows: of the states from the first one on.
    """
    counts = np.diff(rows.first_choice.astype(np.int64))
    lengths = np.diff(rows.first_entry.astype(np.int64))
    owner = np.repeat(np.repeat(first + np.arange(len(counts)), counts), lengths)
    steps = [vector[rows.successors] - vector[owner] for vector in vectors]
    starts = rows.first_entry[:-1].astype(np.int64) - int(rows.first_entry[0])
    change, size = sum(steps), sum(map(np.abs, steps))
    return (
        np.add.reduceat(rows.probabilities * change, starts),
        np.add.reduceat(rows.probabilities * size, starts),
    )
