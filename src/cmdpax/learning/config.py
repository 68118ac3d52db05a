"""Settings of a training run (the dataclass is the command line), and the methods."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Literal

import tyro

from cmdpax.errors import InputError, did_you_mean

MOST_SEEDS = 2**32  # of a JAX key
# beyond these a machine's memory or a lifetime ends; better refused than found out
MOST = {
    "samples": 10**12,
    "batch": 10**7,
    "passes": 10**4,
    "inner": 10**6,
    "checkpoint_every": 10**9,
}
WIDEST = 10_000


@dataclass(frozen=True)
class DeepMethod:
    """How a method improves its policy, where its constraint weights come from, and what it sets by
    itself.
    """

    surrogate: Literal["spma", "ppo", "trpo", "cpo"]
    dual: Literal["augmented", "lagrangian", "none"]
    batch: int = 2_000
    gradient_clip: float = 0.0
    kl_stop: float = 0.0
    penalty: float = 0.02
    dual_step: float = 0.01
    trust_region: float = 0.01


METHODS: Mapping[str, DeepMethod] = MappingProxyType(
    {
        "spma-alm": DeepMethod("spma", "augmented", kl_stop=0.02),
        "ppo-alm": DeepMethod("ppo", "augmented", kl_stop=0.03, penalty=0.05),
        "trpo-alm": DeepMethod("trpo", "augmented"),
        "ppo-lag": DeepMethod(
            "ppo", "lagrangian", gradient_clip=40.0, kl_stop=0.03, dual_step=0.003
        ),
        "cpo": DeepMethod("cpo", "none", batch=5_000, gradient_clip=40.0, trust_region=0.02),
        "ppo": DeepMethod("ppo", "none", kl_stop=0.03),
        "spma": DeepMethod("spma", "none", kl_stop=0.02),
    }
)


@dataclass(frozen=True)
class TrainConfig:
    """Everything that determines a run."""

    environment: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENVIRONMENT")]
    """A velocity task, a Gymnasium id (also module:id), or module:function that makes one."""
    method: str = "spma-alm"
    """spma-alm, ppo-alm, trpo-alm, ppo-lag, cpo, or without limits: ppo, spma."""
    limit: tuple[str, ...] = ("cost<=25",)
    """Limits on named costs, for example --limit "cost<=25" "heat<=3"; the unconstrained methods
    only report them.
    """
    discounted: bool = False
    """Whether limits are on discounted episode totals."""
    reserve: float = 0.0
    """Share of every limit that training keeps in reserve: with 0.2 it aims at 20 for cost<=25
    (what it holds is a mean).
    """
    seed: int = 0
    """Fixes everything random."""
    samples: int = 2_000_000
    """Environment steps in all, of which whole batches are taken."""
    batch: int = 0
    """Environment steps between two policy updates; 0: 2,000, and 5,000 for cpo."""
    horizon: int = 1_000
    """Steps of one simulator in a batch; batch / horizon simulators run side by side."""
    passes: int = 10
    """Passes over a batch."""
    minibatch: int = 0
    """Samples in a gradient step; 0: 256, or a whole smaller batch."""
    learning_rate: float = 1e-3
    """Adam's step for the policy and the critics, decaying linearly to 0."""
    critic_centre: float = 0.1
    """Share of a batch in the running mean of the critics' targets; the networks learn the rest. 0:
    they learn all of it.
    """
    clip: float = 0.2
    """PPO's ratio clipping."""
    spma_step: float = 0.3
    """SPMA's step size eta."""
    trust_region: float = 0.0
    """Largest mean KL of a TRPO or CPO step, decaying linearly to 0; 0: 0.01, and 0.02 for cpo."""
    kl_stop: float = -1.0
    """KL of a minibatch beyond which the policy is left alone, 0: none; -1: 0.02 for SPMA, 0.03 for
    PPO.
    """
    gradient_clip: float = -1.0
    """Largest gradient norm of the policy in Adam's steps (a trust region has its own bound), 0 for
    none; -1: 40 for ppo-lag and cpo, else none."""
    penalty: float = 0.0
    """Penalty beta of the augmented Lagrangian; 0: 0.02, and 0.05 for ppo-alm."""
    inner: int = 10
    """Batches between two updates of the augmented Lagrangian's multipliers (ppo-lag updates them
    with every batch).
    """
    dual_step: float = 0.0
    """Step size of the multipliers; 0: 0.01, and 0.003 for ppo-lag, which takes a step with every
    batch.
    """
    dual_optimiser: Literal["plain", "adam"] = "plain"
    """How the multipliers move: Adam lags after a long feasible phase."""
    margin: Literal["smooth", "latest"] = "smooth"
    """What weights and multipliers see: an exponential mean of margins over some twenty episodes,
    or the latest batch alone.
    """
    standardise: Literal["combined", "separate"] = "combined"
    """Whether advantages are added in true units and then standardised, or before, as the
    incumbents do.
    """
    rescale: bool = False
    """Divide separately standardised advantages by 1 + the constraint weights, as the incumbents
    do.
    """
    discount: float = 0.995
    """Discount factor of the critics."""
    gae: float = 0.95
    """Trace of generalised advantage estimation."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers."""
    initial_std: float = 0.6
    """Standard deviation of a Gaussian policy before training, in units of half the action box."""
    checkpoint_every: int = 10
    """Updates between two checkpoints."""

    def resolved(self) -> "TrainConfig":
        """The same with the method's own settings filled in, and every setting checked."""
        if self.method not in METHODS:
            raise InputError(
                f"method '{self.method}' is not known; {did_you_mean(self.method, METHODS)}"
            )
        method = METHODS[self.method]
        batch = self.batch or method.batch
        config = replace(
            self,
            batch=batch,
            minibatch=self.minibatch or min(256, batch),
            gradient_clip=method.gradient_clip if self.gradient_clip == -1 else self.gradient_clip,
            kl_stop=method.kl_stop if self.kl_stop == -1 else self.kl_stop,
            penalty=self.penalty or method.penalty,
            dual_step=self.dual_step or method.dual_step,
            trust_region=self.trust_region or method.trust_region,
        )
        config._check()
        return config

    def _check(self) -> None:
        method = METHODS[self.method]
        positive: tuple[str, ...] = (
            "samples",
            "batch",
            "horizon",
            "passes",
            "minibatch",
            "learning_rate",
            "clip",
            "spma_step",
            "trust_region",
        )
        positive += ("penalty", "inner", "dual_step", "initial_std", "checkpoint_every")
        for name in positive:
            if not getattr(self, name) > 0:
                raise InputError(f"{name} is {getattr(self, name)}; it must be positive.")
        for name, most in MOST.items():
            if getattr(self, name) > most:
                raise InputError(f"{name} is {getattr(self, name)}; it must be at most {most}.")
        for name in ("kl_stop", "gradient_clip"):
            if not getattr(self, name) >= 0:
                raise InputError(
                    f"{name} is {getattr(self, name)}; it must not be negative, but for -1, the"
                    " method's own."
                )
        if not 0 <= self.seed < MOST_SEEDS:
            raise InputError(f"seed is {self.seed}; it must lie between 0 and {MOST_SEEDS - 1}.")
        if not all(1 <= width <= WIDEST for width in self.hidden):
            raise InputError(
                f"hidden is {self.hidden}; every layer has between one unit and {WIDEST}."
            )
        for name in ("discount", "gae", "reserve", "critic_centre"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must lie in [0, 1].")
        if self.batch % self.horizon:
            raise InputError(
                f"batch {self.batch} is not a multiple of horizon {self.horizon}; every simulator"
                " runs whole horizons."
            )
        if self.minibatch > self.batch:
            raise InputError(f"minibatch {self.minibatch} is larger than batch {self.batch}.")
        if self.samples < self.batch:
            raise InputError(f"samples {self.samples} are fewer than one batch of {self.batch}.")
        if self.rescale and self.standardise == "combined":
            raise InputError(
                "rescale changes nothing where combined advantages are standardised; add"
                " --standardise separate."
            )
        if not self.limit and (method.dual != "none" or method.surrogate == "cpo"):
            raise InputError(
                f'{self.method} needs at least one limit, for example --limit "cost<=25".'
            )

    @property
    def updates(self) -> int:
        """How many batches the run has."""
        return self.samples // self.batch
