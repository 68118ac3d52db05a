"""Sweeps by name: the paper's grids and ablations, its main comparison, the exact grids, and a tiny
one to watch.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from cmdpax.errors import InputError, did_you_mean
from cmdpax.experiments.sweep import Sweep, read_sweep
from cmdpax.learning.config import PAPER, PAPER_GRIDS
from cmdpax.solvers.table import methods

TASKS = ("SafetyAntVelocity-v1", "SafetyHalfCheetahVelocity-v1", "SafetyHopperVelocity-v1")
RIVALS = ("spma-alm", "ppo-alm", "ppo-lag", "cpo")
SAMPLES = 10_000_000  # of a run in the paper
# of the limit: the paper's table has means of ten episodes, of which half would exceed a limit that
# is just met
RESERVE = 0.2
INNER = [1, 5, 10, 20]
SEEDS = tuple(range(5))


def deep(**settings: object) -> Sweep:
    """The main comparison: three tasks, four methods, one setting for all."""
    return Sweep(
        "deep",
        seeds=SEEDS,
        settings={"environment": list(TASKS), "samples": SAMPLES, "reserve": RESERVE, **settings},
        methods={m: {} for m in RIVALS},
    )


def penalties(**settings: object) -> Sweep:
    """The paper's first ablation: penalty against the number of batches between dual updates."""
    return _ablation("penalties", {"penalty": [1e-4, 1e-3, 1e-1, 1.0], **settings})


def dual_steps(**settings: object) -> Sweep:
    """The paper's second ablation: dual step size against the same."""
    return _ablation("dual-steps", {"dual_step": [0.05, 0.075, 0.1, 0.15, 0.2], **settings})


def paper_grids() -> Sweep:
    """The paper's grid search with the paper's settings: 793 configurations on each task."""
    grids = {
        name: {field: list(values) for field, values in grid.items()}
        for name, grid in PAPER_GRIDS.items()
    }
    return Sweep("paper-grids", settings={**PAPER, "environment": list(TASKS)}, methods=grids)


def exact_grids() -> Sweep:
    """The tabular grids of the methods table, as runs of their own."""
    grids = {
        row.name: {k: list(v) for k, v in row.grid.items()}
        for row in methods.values()
        if row.grid and not row.features
    }
    return Sweep(
        "exact-grids",
        "exact",
        allowed_excess=1e-2,
        settings={"model": ["cliff-world", "deep-sea"]},
        methods=grids,
    )


def tiny() -> Sweep:
    """Forty runs of about a second, to watch a sweep at work."""
    steps = {"step": [0.1, 0.3, 1.0, 3.0, 10.0], "dual_step": [0.1, 0.3, 1.0, 3.0]}
    return Sweep(
        "tiny",
        "exact",
        allowed_excess=1e-2,
        settings={"model": "deep-sea", "steps": 1000, **steps},
        methods={"npg-pd": {}, "reload": {}},
    )


def _ablation(name: str, settings: Mapping[str, object]) -> Sweep:
    common = {"environment": list(TASKS), "samples": SAMPLES, "inner": INNER}
    return Sweep(
        name,
        seeds=tuple(range(10)),
        settings={**common, **settings},
        methods={"spma-alm": {}, "ppo-alm": {}},
    )


PRESETS: Mapping[str, Callable[[], Sweep]] = MappingProxyType(
    {
        "tiny": tiny,
        "deep": deep,
        "penalties": penalties,
        "dual-steps": dual_steps,
        "paper-grids": paper_grids,
        "exact-grids": exact_grids,
    }
)


def find_spec(source: str) -> Sweep:
    """A sweep by the name of a preset, or from a TOML file."""
    if source in PRESETS:
        return PRESETS[source]()
    if source.endswith(".toml"):
        return read_sweep(Path(source))
    raise InputError(
        f"'{source}' is neither a .toml file nor a preset; {did_you_mean(source, PRESETS)}"
    )
