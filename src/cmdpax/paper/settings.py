"""Everything typed off the paper: problems, budgets, grids, tiles, tasks, results, sweeps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from cmdpax.errors import InputError, did_you_mean
from cmdpax.experiments.sweep import Sweep, read_sweep
from cmdpax.solvers.table import find_method

Grid = Mapping[str, tuple[float, ...]]

# ---- exact experiments: two problems, policies in tables or log-linear in tile features
PROBLEMS = {"cliff-world": "Cliff World", "deep-sea": "Deep Sea Treasure"}
# ours: three constraints, all of which bind (the first three seeds of which that is true)
RANDOM_MODEL = "garnet:states=20,actions=3,branching=4,constraints=3,tightness=0.3,seed="
RANDOM_PROBLEMS = {f"random-{seed}": f"Random model {seed}" for seed in (4, 6, 7)}
TOLERANCES = (0.001, 0.01)  # largest violation of a final policy that may be selected
TILES = ((40, 4, 1), (60, 4, 3), (80, 6, 5))  # dimension d, tilings, size
RANDOM_TILES = (80, 6, 5)  # which tell all of its states apart
OUTER, INNER, PENALTY = 10, 100, 10.0  # T, K and beta of Algorithm 1

_STEPS = (0.01, 0.1, 1.0, 10.0, 100.0)
_LINEAR_STEPS = (1e-4, 1e-3, 0.1, 1.0, 10.0)
_BOTH = {"step": _STEPS, "dual_step": _STEPS}
_LINEAR_BOTH = {"step": _LINEAR_STEPS, "dual_step": _LINEAR_STEPS}
_CLIPS = (0.1, 0.2, 0.3)
_ALM = ("pqa-alm", "ppg-alm", "npg-alm", "spma-alm")
_PROJECTED_ALM = ("ppqa-alm", "pnpg-alm", "pspma-alm")
# search spaces of policies in tables; those that the paper lacks are named in docs/reproduction-*
TABLE_GRIDS: Mapping[str, Grid] = {
    **{name: {"step": (0.1, 1.0, 10.0)} for name in _ALM},
    "npg-pd": _BOTH,
    "rpg-pd": {**_BOTH, "temperature": (1e-4, 1e-2, 1e-1)},
    "opg-pd": _BOTH,
    "npg-dd": {"temperature": (0.001, 0.01, 0.1, 1.0), "dual_step": (0.001, 0.01, 0.1, 1.0)},
    "reload": _BOTH,
    "npg-nrl": {"step": (0.01, 0.1, 1.0), "temperature": (1e-4, 1e-2, 1e-1)},
    "ppo-lag": {**_BOTH, "clip": _CLIPS},
}
FEATURE_GRIDS: Mapping[str, Grid] = {  # of log-linear policies
    **{name: {"step": _LINEAR_STEPS, "projection_step": _LINEAR_STEPS} for name in _PROJECTED_ALM},
    "lin-npg-pd": _LINEAR_BOTH,
    "lin-rpg-pd": {**_LINEAR_BOTH, "temperature": (0.001, 0.01, 0.1, 1.0)},
    "lin-reload": {"step": (1e-4, 0.01, 0.1, 1.0), "dual_step": _STEPS},
    "lin-ppo-lag": {"step": _LINEAR_STEPS, "dual_step": _STEPS, "clip": _CLIPS},
}
GRIDS: Mapping[str, Grid] = {**TABLE_GRIDS, **FEATURE_GRIDS}

# not searched: every configuration has 1,000 policy-gradient evaluations
_BUDGET = {"outer": OUTER, "inner": INNER, "penalty": PENALTY}
BUDGETS: Mapping[str, Mapping[str, float]] = {
    **{name: {"steps": 1000} for name in GRIDS},
    **dict.fromkeys(_ALM, _BUDGET),
    **{name: {**_BUDGET, "projection_steps": 250} for name in _PROJECTED_ALM},
    **{name: {"steps": 1000, "inner": 100} for name in ("ppo-lag", "lin-ppo-lag")},
    "npg-dd": {"steps": 1000, "inner": 10},
}


@dataclass(frozen=True)
class Entry:
    """A method in a comparison: its name in tables, and settings that differ from its budget."""

    method: str
    title: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The title, by default the method's own."""
        return self.title or find_method(self.method).title


_EVERY_STEP = Entry("ppo-lag", "PPO-Lag, dual every step", {"inner": 1})
_LINEAR_EVERY_STEP = Entry("lin-ppo-lag", "Lin-PPO-Lag, dual every step", {"inner": 1})
TABLE_ENTRIES = (*map(Entry, TABLE_GRIDS), _EVERY_STEP)
FEATURE_ENTRIES = (*map(Entry, FEATURE_GRIDS), _LINEAR_EVERY_STEP)

# ---- deep experiments: three velocity tasks, four methods
Task = Literal["Ant", "HalfCheetah", "Hopper", "Walker2d", "Swimmer", "Humanoid"]
ALL_TASKS = {task: f"Safety{task}Velocity-v1" for task in get_args(Task)}
TASKS = {task: ALL_TASKS[task] for task in ("Ant", "HalfCheetah", "Hopper")}
HELD_OUT = {task: name for task, name in ALL_TASKS.items() if task not in TASKS}  # ours
BY_COST: tuple[Task, ...] = ("HalfCheetah", "Swimmer", "Hopper", "Walker2d", "Ant", "Humanoid")
TITLES = {"spma-alm": "SPMA-ALM", "ppo-alm": "PPO-ALM", "ppo-lag": "PPO-Lag", "cpo": "CPO"}
LIMIT = 25.0  # on the cost of an episode
SAMPLES = 10_000_000  # of a run
SEEDS, BOX_SEEDS, ABLATION_SEEDS = 5, 10, 10  # of the table and curves; of the captions

# `cmdpax train --preset paper`
TRAINING: Mapping[str, Any] = {
    "samples": SAMPLES,
    "minibatch": 64,
    "learning_rate": 3e-3,
    "batch": 2_000,
    "rollout_steps": 1_000,
    "inner": 10,
    "reserve": 0.0,
    "critics": "plain",
    "cost_gae": 0.95,
    "surrogate": "printed",
    "decay": False,
    "cpo_step": "full",
    "initial_std": 0.6,
    "units": "reward",
    "spma_step": 0.3,
    "kl_stop": 0.0,
    "discount": 0.99,
    "standardise": "separate",
    "dual_optimiser": "adam",
    "dual_step": 1e-3,
    "penalty": 1e-2,
    "margin": "latest",
}
_ADAM: Grid = {"minibatch": (64, 256), "learning_rate": (3e-3, 3e-2, 3e-1)}
_LAGRANGIAN: Grid = {**_ADAM, "dual_step": (1e-4, 1e-3, 1e-2, 1e-1)}
_AUGMENTED: Grid = {**_LAGRANGIAN, "penalty": (1e-3, 1e-2, 1e-1)}
_SPMA_STEPS = (0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9)
_CPO: Grid = {
    **{"minibatch": (128,), "learning_rate": (1e-3,)},
    **{"trust_region": (0.01,), "gradient_clip": (40.0,)},
}
TRAINING_GRIDS: Mapping[str, Grid] = {
    "spma-alm": {**_AUGMENTED, "spma_step": _SPMA_STEPS},
    "ppo-alm": {**_AUGMENTED, "clip": _CLIPS},
    "ppo-lag": {"batch": (20_000,), **_LAGRANGIAN, "clip": _CLIPS},
    "cpo": {"batch": (20_000,), **_CPO},
}


def problem_source(problem: str) -> str:
    """What `open_model` opens: the problem's own name, or a random model's parameters."""
    return problem.replace("random-", RANDOM_MODEL)


def training_settings(method: str) -> dict[str, Any]:
    """The paper's settings of a method: the common ones, and those with one value in its grid."""
    grid = TRAINING_GRIDS.get(method, {})
    own = {name: values[0] for name, values in grid.items() if len(values) == 1}
    return {**TRAINING, "method": method, **own}


class Printed(NamedTuple):
    """What the paper prints of a cell: return, cost - 25, their intervals, the cost's tails."""

    reward: float
    reward_interval: float
    excess: float
    excess_interval: float
    worst: float
    p90: float
    p95: float


RESULTS: Mapping[str, Mapping[str, Printed]] = {
    "spma-alm": {
        "Ant": Printed(3202.29, 79.14, -2.68, 5.69, 7.2, 4.44, 5.82),
        "HalfCheetah": Printed(2933.2, 69.9, -0.74, 3.34, 1.9, 1.62, 1.76),
        "Hopper": Printed(1687.37, 7.64, -6.06, 2.27, -2.7, -3.22, -2.96),
    },
    "ppo-alm": {
        "Ant": Printed(3042.76, 161.36, 2.4, 5.45, 12.7, 11.62, 12.16),
        "HalfCheetah": Printed(2933.91, 21.05, -7.06, 1.87, -3.8, -4.16, -3.98),
        "Hopper": Printed(1644.06, 45.45, -9.92, 2.85, -2.9, -4.9, -3.9),
    },
    "ppo-lag": {
        "Ant": Printed(3223.58, 52.21, -4.96, 2.5, -2.3, -2.46, -2.38),
        "HalfCheetah": Printed(3010.19, 37.12, -7.74, 3.3, -3.2, -3.64, -3.42),
        "Hopper": Printed(1675.45, 42.51, -6.56, 9.12, 7.7, 3.62, 5.66),
    },
    "cpo": {
        "Ant": Printed(3011.19, 123.74, -11.26, 5.13, -4.0, -5.96, -4.98),
        "HalfCheetah": Printed(2685.9, 419.2, 6.18, 31.42, 68.6, 41.64, 55.12),
        "Hopper": Printed(1682.68, 40.78, 3.94, 23.1, 50.1, 29.1, 39.6),
    },
}

# OmniSafe's on-policy benchmark, after 1e7 samples: its PPOLag, and its best within the limit
INCUMBENTS: Mapping[str, Mapping[str, str]] = {
    "Walker2d": {
        "spma-alm": "TRPOLag 3,207 at 15.0 (1e7 samples)",
        "ppo-lag": "PPOLag 2,982 at 13.5 (1e7 samples)",
    },
    "Swimmer": {
        "spma-alm": "CPPOPID 91 at 19.1 (1e7 samples)",
        "ppo-lag": "PPOLag 65 at 28.0 (1e7 samples)",
    },
    "Humanoid": {
        "spma-alm": "PPOLag 6,624 at 5.9 (1e7 samples)",
        "ppo-lag": "PPOLag 6,624 at 5.9 (1e7 samples)",
    },
}


# ---- sweeps by name; those of trainings have our defaults, one setting for all tasks
def _cheapest_first(tasks: Mapping[str, str]) -> list[str]:
    """Names of simulators in the order in which a sweep takes them."""
    return [tasks[task] for task in BY_COST if task in tasks]


DEEP_SWEEP = Sweep(
    "deep",
    seeds=tuple(range(SEEDS)),
    settings={"environment": _cheapest_first(TASKS), "samples": SAMPLES},
    methods={method: {} for method in TITLES},
)
# ours: tasks on which nothing was tuned
HELD_OUT_SWEEP = Sweep(
    "held-out",
    seeds=(0, 1),
    settings={"environment": _cheapest_first(HELD_OUT), "samples": 3_000_000},
    methods={method: {} for method in ("spma-alm", "ppo-alm", "ppo-lag")},
)
# ours: a second limit, on the mean square of actions; below what policies with one limit spend
# (262 and 309), and not so far below that Hopper stands still for good (as with 100)
_TWO_TASKS = [TASKS["HalfCheetah"], TASKS["Hopper"]]
TWO_LIMITS = (f"cost<={LIMIT:g}", "energy<=150")
TWO_LIMITS_SWEEP = Sweep(
    "two-limits",
    seeds=(0, 1),
    settings={"environment": _TWO_TASKS, "samples": 2_000_000, "limits": [[*TWO_LIMITS]]},
    methods={method: {} for method in TITLES},
)
# the paper's own settings: twelve draws of each grid on two tasks choose a configuration for each
# method, which is then run on all tasks; CPO's grid is one point
SEARCHED = ("minibatch", "learning_rate", "dual_step", "penalty", "spma_step", "clip")
SEARCH_SAMPLES, SEARCH_EXCESS = 1_000_000, 5.0  # the paper's eps, which it does not say
SEARCH_SWEEP = Sweep(
    "paper-search",
    draws=12,
    allowed_excess=SEARCH_EXCESS,
    settings={**TRAINING, "environment": _TWO_TASKS, "samples": SEARCH_SAMPLES},
    methods={
        method: {
            name: {"among": list(values)} if len(values) > 1 else values[0]
            for name, values in grid.items()
        }
        for method, grid in TRAINING_GRIDS.items()
    },
)


def paper_settings_sweep(chosen: Mapping[str, Mapping[str, Any]]) -> Sweep:
    """One seed of every cell of the table with the paper's settings, `chosen` for each method."""
    return Sweep(
        "paper-settings",
        settings={"environment": _cheapest_first(TASKS), "samples": SAMPLES},
        methods={
            method: {
                name: one
                for name, one in {**training_settings(method), **own}.items()
                if name not in ("method", "samples")
            }
            for method, own in chosen.items()
        },
    )


ABLATIONS = {"penalties": "penalty", "dual-steps": "dual_step"}  # sweep, and what it varies


def _ablation(name: str, values: list[float], **others: float) -> Sweep:
    """Penalty or dual step against the number of batches between dual updates.

    In the paper's units, the reward's; what the other is then is chosen by hand. Two of three
    tasks, three of ten seeds and 5% of the samples.
    """
    budget: dict[str, Any] = {"environment": _TWO_TASKS, "samples": SAMPLES // 20}
    varied = {"units": "reward", "inner": [1, 5, 10, 20], ABLATIONS[name]: values}
    return Sweep(
        name,
        seeds=(0, 1, 2),
        settings={**budget, **varied, **others},
        methods={"spma-alm": {}, "ppo-alm": {}},
    )


_TINY = {"step": [0.1, 0.3, 1.0, 3.0, 10.0], "dual_step": [0.1, 0.3, 1.0, 3.0]}
SWEEPS: Mapping[str, Sweep] = {
    sweep.name: sweep
    for sweep in (
        Sweep(  # forty runs of about a second, to watch a sweep at work
            "tiny",
            "exact",
            allowed_excess=1e-2,
            settings={"model": "deep-sea", "steps": 1000, **_TINY},
            methods={"npg-pd": {}, "reload": {}},
        ),
        *(DEEP_SWEEP, HELD_OUT_SWEEP, TWO_LIMITS_SWEEP, SEARCH_SWEEP),
        _ablation("penalties", [1e-4, 1e-3, 1e-1, 1.0], dual_step=0.01),
        _ablation("dual-steps", [0.05, 0.075, 0.1, 0.15, 0.2], penalty=0.02),
        Sweep(  # 793 configurations on each task
            "paper-grids",
            settings={**TRAINING, "environment": list(TASKS.values())},
            methods=TRAINING_GRIDS,
        ),
        Sweep(  # the tabular grids, as runs of their own
            "exact-grids",
            "exact",
            allowed_excess=1e-2,
            settings={"model": list(PROBLEMS)},
            methods=TABLE_GRIDS,
        ),
    )
}


def find_sweep(source: str) -> Sweep:
    """A sweep by its name, or from a TOML file."""
    if source in SWEEPS:
        return SWEEPS[source]
    if source.endswith(".toml"):
        return read_sweep(Path(source))
    raise InputError(
        f"'{source}' is neither a .toml file nor a preset; {did_you_mean(source, SWEEPS)}"
    )
