"""Many small models, and a start from a similar large one, each beside its plain `solve`.

    python benchmarks/scenarios.py [STATES]

CPU seconds of one thread, taking turns in one run, medians of three rounds: 500 random models of
20 states and 500 scenarios of one (rewards and budget change), in a loop and by `solve_many`; then
models of STATES (100,000) states of which 1% have new chances or new rewards, or whose budget is 1%
tighter, cold and from the result before the change.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["NUMBA_NUM_THREADS"] = "1"

import numpy as np
import scipy.sparse as sp

import cmdpax
from cmdpax.loops import compiled

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from instances import instance

compiled.PATIENCE = 0.0  # seconds are those of machine code

ROUNDS, MODELS = 3, 500


def ratio(name: str, make: Callable[[], Any], plain: Callable[..., Any], ours: Any) -> None:
    """Median CPU seconds of both on models of their own, and their ratio."""
    seconds = np.empty((ROUNDS, 2))
    for row in seconds:
        for place, call in enumerate((plain, ours)):
            models = make()
            started = time.process_time()
            call(models)
            row[place] = time.process_time() - started
    one, other = np.median(seconds, 0)
    print(
        f"{name:32} plain {one:8.3f} s   ours {other:8.3f} s   ratio {one / other:.2f}", flush=True
    )


def with_new_chances(model: cmdpax.CMDP, seed: int) -> cmdpax.CMDP:
    """The same model, where 1% of the states have other chances of the same successors."""
    rows, rng = model.transitions, np.random.default_rng(seed)
    chances = rows.probabilities.copy()
    for s in rng.choice(model.states, model.states // 100, replace=False):
        for k in range(rows.first_choice[s], rows.first_choice[s + 1]):
            own = slice(rows.first_entry[k], rows.first_entry[k + 1])
            chances[own] = rng.dirichlet(np.ones(own.stop - own.start))
    arrays = chances, rows.successors, rows.first_entry
    matrix = sp.csr_array(arrays, shape=(rows.choices, rows.states))
    return model.replace(transitions=matrix, first_choice=rows.first_choice)


def with_new_rewards(model: cmdpax.CMDP, seed: int) -> cmdpax.CMDP:
    """The same model, where 1% of the states pay up to a tenth more or less."""
    rng, factors = np.random.default_rng(seed), np.ones(model.choices)
    own = np.zeros(model.states, dtype=bool)
    own[rng.choice(model.states, model.states // 100, replace=False)] = True
    changed = model.transitions.by_state(own)
    factors[changed] += 0.1 * (2 * rng.random(changed.sum()) - 1)
    return model.replace(reward=model.reward * factors)


def with_tighter_budget(model: cmdpax.CMDP, seed: int) -> cmdpax.CMDP:
    """The same model, whose only limit is up to 1% tighter."""
    share = 0.01 * np.random.default_rng(seed).random()
    return model.replace(
        thresholds=model.thresholds + model.limits.signs * share * np.abs(model.thresholds)
    )


CHANGES = {
    "1% of rows changed": with_new_chances,
    "1% of rewards changed": with_new_rewards,
    "a tighter budget": with_tighter_budget,
}


def main(states: int) -> None:
    """Print everything."""
    garnet = cmdpax.environments.garnet
    base, rng = garnet(states=20), np.random.default_rng(0)
    noise = 1 + 0.1 * rng.standard_normal((MODELS, base.choices))
    bounds = base.thresholds * (1 - 0.02 * rng.random((MODELS, 1)))
    lists = {
        "500 random models": lambda: [garnet(states=20, seed=k) for k in range(MODELS)],
        "500 scenarios of one": lambda: [
            base.replace(reward=base.reward * own, thresholds=bound)
            for own, bound in zip(noise, bounds, strict=True)
        ],
    }
    cmdpax.solve(base)
    cmdpax.solve_many([base])
    for name, make in lists.items():
        ratio(name, make, lambda models: [cmdpax.solve(one) for one in models], cmdpax.solve_many)
    for family in ("garnet", "queue", "grid"):
        model = instance(family, states, discount=0.9 if family == "garnet" else 0.99)
        before = cmdpax.solve(model)
        for name, change in CHANGES.items():
            seeds = iter(range(2 * ROUNDS))
            ratio(
                f"{family}, {name}",
                lambda model=model, seeds=seeds, change=change: change(model, next(seeds) // 2),
                cmdpax.solve,
                lambda changed, before=before: cmdpax.solve(changed, start=before),
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
