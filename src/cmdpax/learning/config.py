"""Which settings does a training have, and which does a method choose itself?

The fields of `TrainConfig` are the options of `cmdpax train` and the settings of `cmdpax.train`;
the text below a field is its help.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType
from typing import Any, Literal, get_args

from cmdpax.errors import (
    InputError,
    check_count,
    check_known,
    check_number,
    check_positive,
    check_share,
)
from cmdpax.learning.encoders import CONVOLUTIONAL, DENSE

MOST_UNITS = 10_000  # of a hidden layer
# more would exceed any memory or time, and is refused before any work
MOST = {"samples": 10**12, "batch": 10**7, "rollout_steps": 10**7, "minibatch": 10**7}
MOST |= {"passes": 10**4, "inner": 10**6, "checkpoint_every": 10**9}
OPEN = {"evaluate_every": 10**9, "evaluate_episodes": 10**6}  # the same, of what may be None
FULL_BATCHES = 100_000  # samples from which on batches have a method's own size
ROLLOUT_STEPS = 1_000
EPISODES = 10  # of an evaluation
WORKER_LIMIT = 600.0  # seconds within which a worker steps through its part of a batch
SHAPE = ("batch", "rollout_steps", "minibatch")  # their defaults depend on the environment
POSITIVE = ("learning_rate", "clip", "trust_region", "penalty", "dual_step")
SHARES = ("discount", "gae")
DualOptimiser = Literal["plain", "adam"]
Margin = Literal["smooth", "latest"]
Standardise = Literal["combined", "separate"]
Units = Literal["own", "reward"]
Critics = Literal["normalised", "plain"]
Surrogate = Literal["own", "printed"]
CPOStep = Literal["recover", "full"]
CHOICES = {"dual_optimiser": DualOptimiser, "margin": Margin, "standardise": Standardise}
CHOICES |= {"units": Units, "critics": Critics, "surrogate": Surrogate, "cpo_step": CPOStep}


@dataclass(frozen=True)
class DeepMethod:
    """How a method improves its policy, where its weights come from, and what it sets itself."""

    surrogate: Literal["spma", "ppo", "trpo", "cpo"]
    dual: Literal["augmented", "lagrangian", "none"]
    batch: int = 2_000
    gradient_clip: float = 0.0
    kl_stop: float = 0.0
    penalty: float = 1.0
    dual_step: float = 0.1
    trust_region: float = 0.01

    @property
    def is_descent(self) -> bool:
        """Whether Adam moves the policy; else one trust-region step does."""
        return self.surrogate in ("spma", "ppo")

    @property
    def unused(self) -> frozenset[str]:
        """Settings that change nothing."""
        names = {"spma": "spma_step", "ppo": "clip"}
        unused = {name for surrogate, name in names.items() if surrogate != self.surrogate}
        unused.add("trust_region" if self.is_descent else "kl_stop")
        if self.dual != "augmented":
            unused |= {"penalty", "inner"}
        if self.dual == "none":
            unused |= {"dual_step", "dual_optimiser", "units"}
        return frozenset(unused)


METHODS: Mapping[str, DeepMethod] = MappingProxyType(
    {
        "spma-alm": DeepMethod("spma", "augmented", kl_stop=0.02),
        "ppo-alm": DeepMethod("ppo", "augmented", kl_stop=0.03),
        "trpo-alm": DeepMethod("trpo", "augmented"),
        "ppo-lag": DeepMethod("ppo", "lagrangian", gradient_clip=40.0, kl_stop=0.03),
        "cpo": DeepMethod("cpo", "none", batch=5_000, trust_region=0.02),
        "ppo": DeepMethod("ppo", "none", kl_stop=0.03),
        "spma": DeepMethod("spma", "none", kl_stop=0.02),
    }
)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything that determines a run in an environment; None: the method's own."""

    method: str = "spma-alm"
    """spma-alm, ppo-alm, trpo-alm, ppo-lag, cpo, or without limits: ppo, spma."""
    limits: tuple[str, ...] = ("cost<=25",)
    """Limits on named costs, as in "cost<=25" "2<=heat<=3"; ppo and spma only report them."""
    discounted: bool = False
    """Whether limits are on discounted episode totals."""
    reserve: float | None = None
    """Share of every limit kept in reserve: with 0.2 a mean of 20 is aimed at for cost<=25. None:
    so much that the mean of a hundred episodes keeps the limit with a probability of 95%."""
    seed: int = 0
    """Fixes everything random."""
    samples: int = 2_000_000
    """Environment steps in all, of which whole batches are taken."""
    batch: int | None = None
    """Environment steps per update. None: whole episodes of about the method's own (2,000; cpo
    5,000), and of fewer below 100,000 samples."""
    rollout_steps: int | None = None
    """Steps of one simulator in a batch; batch / rollout_steps simulators run side by side. None:
    whole episodes of some 1,000 steps, where the environment says how long they are."""
    passes: int = 10
    """Passes over a batch."""
    minibatch: int | None = None
    """Samples in a gradient step. None: 256, or a whole smaller batch."""
    learning_rate: float = 1e-3
    """Adam's step for the policy and the critics."""
    decay: bool = True
    """Whether learning rate, trust region and SPMA's target decay linearly to 0."""
    critics: Critics = "normalised"
    """normalised: networks learn targets less their level, over their deviation; plain."""
    clip: float = 0.2
    """PPO's ratio clipping."""
    spma_step: float | None = None
    """SPMA's step size eta. None: 0.3, and longer where updates have a KL below
    0.005."""
    surrogate: Surrogate = "own"
    """Of SPMA. printed: the paper's (A + 1/eta) log ratio, which is noisier."""
    trust_region: float | None = None
    """Largest mean KL of a TRPO or CPO step. None: its own (0.01; cpo 0.02)."""
    cpo_step: CPOStep = "recover"
    """What CPO does beyond a limit. recover: only climb back; full: the best step within the trust
    region that comes back, as published."""
    kl_stop: float | None = None
    """KL of a minibatch beyond which the policy is left alone; 0: no such stop. None: the method's
    own (SPMA 0.02; PPO 0.03)."""
    gradient_clip: float | None = None
    """Largest norm of the policy's gradient in Adam's steps; 0: none. None: the method's own
    (ppo-lag 40; else none). Of cpo, whose policy has a trust region, that of the critics."""
    penalty: float | None = None
    """Penalty beta of the augmented Lagrangian, in `units`. None: 1."""
    units: Units = "own"
    """own: penalty and dual step are numbers without units, times what the run measures; reward:
    they are in units of the reward, as in the paper."""
    inner: int = 1
    """Batches between two updates of the augmented Lagrangian's multipliers (ppo-lag: 1)."""
    dual_step: float | None = None
    """Step size of the multipliers, in `units`. None: 0.1."""
    dual_optimiser: DualOptimiser = "plain"
    """How the multipliers move: Adam lags after a long feasible phase."""
    margin: Margin = "smooth"
    """What weights and multipliers see: margins filtered over batches, or those of the latest."""
    standardise: Standardise = "combined"
    """Whether advantages are standardised after they are added, or before, as incumbents do."""
    rescale: bool = False
    """Divide separately standardised advantages by 1 + sum of weights, as incumbents do."""
    discount: float = 0.995
    """Discount factor of the critics."""
    gae: float = 0.95
    """Decay of generalised advantage estimation, of the reward."""
    cost_gae: float | None = None
    """The same of costs. None: they look a thirtieth of an episode ahead, 2 to 20 steps."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers."""
    network: str | None = None
    """What stands ahead of the hidden layers: dense (nothing), convolutional, or module:function,
    your own. None: convolutional where observations are images, else dense."""
    initial_std: float = 0.5
    """Standard deviation of a Gaussian policy before training, in units of half the action box."""
    checkpoint_every: int = 10
    """Updates between two checkpoints."""
    evaluate_every: int | None = None
    """Updates between two evaluations, whose means are in the rows of metrics. None: none."""
    evaluate_episodes: int | None = None
    """Episodes of such an evaluation, and of that which a sweep selects by. None: 10."""

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "TrainConfig":
        """The config of settings by name; an unknown name is refused.

        Lists, as JSON has them, become tuples; one limit or one width may stand by itself.
        """
        names = [field.name for field in fields(cls)]
        for name in settings:
            check_known("setting", name, names)
        several = {
            name: tuple(value) if isinstance(value, list | tuple) else (value,)
            for name in ("limits", "hidden")
            if (value := settings.get(name)) is not None
        }
        return cls(**{**settings, **several})

    def resolved(
        self, episode_limit: int | None = None, copies: int | None = None
    ) -> "ResolvedConfig":
        """The same with nothing left open, and every setting checked.

        episode_limit: steps after which the environment cuts an episode, if it says so.
        copies: how many of it there are, if not as many as wanted.
        """
        method, settings = METHODS[check_known("method", self.method, METHODS)], asdict(self)
        settings |= self._shape(method.batch, episode_limit, copies)
        for name in ("trust_region", "kl_stop", "gradient_clip", "penalty", "dual_step"):
            if settings[name] is None:
                settings[name] = getattr(method, name)
        if settings["minibatch"] is None:
            settings["minibatch"] = min(256, check_count("batch", settings["batch"]))
        for name, most in (MOST | OPEN).items():
            if settings[name] is not None or name not in OPEN:
                settings[name] = check_count(name, settings[name], most=most)
        settings["seed"] = check_count("seed", self.seed, least=0, most=2**32 - 1)  # a JAX key
        settings["hidden"] = tuple(check_count("hidden", w, most=MOST_UNITS) for w in self.hidden)
        for name in (*POSITIVE, "initial_std"):
            settings[name] = check_positive(name, settings[name])
        for name in ("kl_stop", "gradient_clip"):
            settings[name] = check_number(name, settings[name], least=0)
        if self.spma_step is not None:
            check_positive("spma_step", self.spma_step)
        for name in ("reserve", "cost_gae"):
            if settings[name] is not None:
                settings[name] = check_share(name, settings[name])
        for name in SHARES:
            settings[name] = check_share(name, settings[name])
        if self.network is not None and ":" not in str(self.network):
            check_known("network", self.network, (DENSE, CONVOLUTIONAL, "module:function"))
        for name, words in CHOICES.items():
            check_known(name, settings[name], get_args(words))
        for limit in self.limits:
            if not isinstance(limit, str):
                raise InputError(f"limits: {limit!r} is no text; write 'cost<=25', for example.")
        config = ResolvedConfig(**settings)
        config.refuse_contradictions()
        return config

    def _shape(self, own: int, episode_limit: int | None, copies: int | None) -> dict[str, int]:
        """Steps of a batch and of each simulator: whole episodes, where they are limited.

        own: a method's batch for 100,000 samples or more; for fewer it is smaller in proportion.
        """
        samples = check_count("samples", self.samples, most=MOST["samples"])
        batch, steps = self.batch, self.rollout_steps
        steps = None if steps is None else check_count("rollout_steps", steps)
        wanted = batch or max(1, min(own, samples * own // FULL_BATCHES))
        if steps is None:
            episode = min(episode_limit or ROLLOUT_STEPS, max(wanted, 1))
            if episode_limit and episode_limit > wanted and batch is None:
                episode = min(episode_limit, samples)
            steps = episode * max(1, min(ROLLOUT_STEPS, wanted) // episode)
            if copies == 1 or (batch is not None and batch % steps):
                steps = max(steps, wanted // steps * steps) if batch is None else batch
        if batch is None:
            batch = steps * max(1, wanted // steps)
        return {"batch": batch, "rollout_steps": steps}


@dataclass(frozen=True, kw_only=True)
class ResolvedConfig(TrainConfig):
    """A config in which nothing is left open; made by `TrainConfig.resolved`."""

    batch: int
    rollout_steps: int
    minibatch: int
    trust_region: float
    kl_stop: float
    gradient_clip: float
    penalty: float
    dual_step: float

    @property
    def updates(self) -> int:
        """How many batches the run has."""
        return self.samples // self.batch

    def refuse_contradictions(self) -> None:
        """Refuse settings that make no sense together."""
        method, batch, steps = METHODS[self.method], self.batch, self.rollout_steps
        is_limited = method.dual != "none" or method.surrogate == "cpo"
        sentences = {
            f"batch {batch} is not a multiple of rollout_steps {steps}; every simulator takes as"
            " many steps.": batch % steps,
            f"minibatch {self.minibatch} is larger than batch {batch}.": self.minibatch > batch,
            f"samples {self.samples} are fewer than one batch of {batch}.": self.samples < batch,
            "rescale changes nothing where combined advantages are standardised; set standardise to"
            " separate.": self.rescale and self.standardise == "combined",
            f"gradient_clip is {self.gradient_clip}, but {self.method} has a trust region instead;"
            " leave it out.": self.gradient_clip and method.surrogate == "trpo",
            f'{self.method} needs at least one limit, for example "cost<=25".': is_limited
            and not self.limits,
        }
        for sentence, is_wrong in sentences.items():
            if is_wrong:
                raise InputError(sentence)
