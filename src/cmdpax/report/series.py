"""Exact runs as films: the policy and its occupancy at a choice of iterations, gap, violation and
prices at all of them.

Records hold curves, not policies, so that a run is done again from its method and settings: exact
runs take a second and are deterministic. Those that take longer (log-linear policies) are kept in
`.films/` beside the results, under a hash of what they depend on. Probabilities and occupancies are
rounded to 1/255, which no eye sees in an arrow; curves are 32-bit floats.

Frames: every iterate at first, then ever fewer, but never more than `STRIDE` apart, an odd number:
an oscillation of period two would vanish at an even one. A page of many films has fewer frames of
each: `pace` times fewer.
"""

import base64
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.environments.by_name import open_features, open_model
from cmdpax.errors import InputError, NumericalError
from cmdpax.exact.discounted import occupancy
from cmdpax.experiments.records import provenance
from cmdpax.files import write_text
from cmdpax.model.cmdp import CMDP
from cmdpax.solvers.certified import solve
from cmdpax.solvers.table import trajectory

DENSE, GROWTH, STRIDE = 40, 0.025, 9
LARGEST, LONGEST = 2_500, 20_000  # states that can be drawn, evaluations that can be shown
PATIENCE = 2.0  # seconds; what took longer is worth keeping
ENOUGH = 24  # films of which every frame is kept
CACHE = ".films"


@dataclass(frozen=True)
class Shot:
    """An exact run to be shown: what to run, and the names it goes by on the page."""

    scene: str  # title of the problem; runs of one scene can be compared
    model: str  # as `open_model` reads it
    label: str
    method: str
    settings: dict[str, Any] = field(default_factory=dict)
    features: str | None = None  # as `open_features` reads it


def frames(last: int, pace: int = 1) -> list[int]:
    """Iterates to keep out of 0..last, both included; see the module docstring."""
    kept, k, stride = [0], 0, (STRIDE * pace) | 1
    while k < last:
        k += 1 if k < DENSE // pace else min(stride, max(1, round(GROWTH * pace * k)))
        kept.append(min(k, last))
    return kept


def scenes(
    shots: Sequence[Shot], folder: Path, say: Callable[[str], None] = lambda text: None
) -> list[dict[str, Any]]:
    """The problems of `shots` with the films of their runs, ready for JSON; a problem that cannot
    be drawn is left out.
    """
    shown, pace = [], max(1, round(len(shots) / ENOUGH))
    for title in dict.fromkeys(shot.scene for shot in shots):
        own = [shot for shot in shots if shot.scene == title]
        try:
            model = open_model(own[0].model)
        except InputError:  # a model file that has moved away
            continue
        if model.grid is None or model.states > LARGEST:
            continue
        films = []
        for number, shot in enumerate(own, 1):
            say(f"{title}: {shot.label} ({number} of {len(own)})")
            with suppress(
                InputError, NumericalError
            ):  # of another version, diverged, or too long: there is nothing to show
                films.append(_film(model, shot, folder, pace))
        if films:
            shown.append({**_stage(title, model), "films": films})
    return shown


def _stage(title: str, model: CMDP) -> dict[str, Any]:
    """What the runs of one problem have in common."""
    assert model.grid is not None
    names = model.constraint_names or [f"c{i}" for i in range(model.constraint_count)]
    return {
        "title": title,
        "optimum": solve(model, eps=1e-12).reward,
        "states": list(model.state_names or map(str, range(model.states))),
        "actions": list(model.action_names or map(str, range(model.actions))),
        "constraints": list(names),
        **asdict(model.grid),
    }


def _film(model: CMDP, shot: Shot, folder: Path, pace: int) -> dict[str, Any]:
    """Run a shot, or take it from where an earlier report left it."""
    made_by = {
        "shot": asdict(shot),
        "model": model.digest,
        "by": provenance(),
        "frames": [DENSE, GROWTH, STRIDE, pace],
    }
    path = (
        folder
        / CACHE
        / f"{hashlib.sha256(json.dumps(made_by, sort_keys=True).encode()).hexdigest()[:24]}.json"
    )
    with suppress(OSError, ValueError):
        return json.loads(path.read_text())
    started = time.perf_counter()
    film = _run(model, shot, pace)
    if time.perf_counter() - started > PATIENCE:
        with suppress(OSError):  # a folder that cannot be written only costs time
            path.parent.mkdir(exist_ok=True)
            write_text(path, json.dumps(film))
    return film


def _run(model: CMDP, shot: Shot, pace: int) -> dict[str, Any]:
    features = None if shot.features is None else open_features(shot.features, model)
    wanted = frames(
        LONGEST, pace
    )  # how long the run is shows when it is done; what lies beyond its end is never reached
    done = trajectory(model, shot.method, features, wanted, **shot.settings)
    last = len(done.rewards) - 1
    if done.diverged or done.policies is None:
        raise NumericalError(
            f"{shot.method}: step {done.diverged} produced numbers that are not finite."
        )
    if last > LONGEST:
        raise InputError(f"{shot.method}: {last} evaluations are more than a page can show.")
    kept, policies = wanted[: len(done.policies)], done.policies
    if kept[-1] < last:
        kept, policies = [*kept, last], np.concatenate([policies, done.policy[None]])
    visits = (1 - model.discount) * np.stack([occupancy(model, policy) for policy in policies])
    short = -done.margins.min(-1) if model.constraint_count else np.zeros_like(done.rewards)
    return {
        "label": shot.label,
        "method": shot.method,
        "settings": {
            key: str(value) if isinstance(value, str) else float(value)
            for key, value in shot.settings.items()
        },
        "features": shot.features,
        "frames": kept,
        "policies": _bytes(policies),  # [frames, S, A]
        "visits": _bytes(visits / visits.max()),  # [frames, S]
        "most": float(visits.max()),
        "rewards": _floats(done.rewards),  # [N + 1]
        "violations": _floats(short),  # [N + 1], signed: negative means slack
        "prices": _floats(done.weights[kept]),  # [frames, m]
    }


def _bytes(shares: np.ndarray) -> str:
    """Numbers in 0..1 as bytes."""
    return base64.b64encode(
        np.rint(255 * np.clip(shares, 0, 1)).astype(np.uint8).tobytes()
    ).decode()


def _floats(numbers: np.ndarray) -> str:
    """Numbers as 32-bit floats, little-endian."""
    return base64.b64encode(numbers.astype("<f4").tobytes()).decode()
