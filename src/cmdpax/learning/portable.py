"""Policies that act outside of a training, and their files: `.npz` for NumPy, `.onnx` for others.

    action = act(observation, noise)                        a network
    action = argmax(log p[component, time, state] + noise)  a table, of an exact solution

Limits are kept by random actions, so a policy acts at random unless it is asked not to. What is
random comes from outside: noise, and the component of a mixture. `docs/deploy.md` has the schema
of the files. Reading needs NumPy alone.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cmdpax.errors import InputError, check_count
from cmdpax.files.arrays import arrays_in, pop_label, write_archive
from cmdpax.files.reading import Row, identified, named, opened
from cmdpax.files.written import replacing, writable_path, write_bytes
from cmdpax.learning.checkpoints import read_checkpoint
from cmdpax.learning.encoders import Encoder, refuse_untrusted
from cmdpax.learning.policy import NetworkPolicy, spaces_of
from cmdpax.learning.run_folder import RunFolder
from cmdpax.learning.simulator import ActionSpace

if TYPE_CHECKING:  # a policy is loaded without what models need
    from cmdpax.model.result import Result

Array = np.ndarray
KIND, VERSION = "cmdpax-policy", 1
RESULT = "cmdpax-result"
SUM_ERROR = 1e-6  # by which probabilities may miss 1
WHOLE = "it holds no whole policy"


@dataclass(frozen=True)
class TablePolicy:
    """Probabilities of the actions of a finite model, for every component, time and state."""

    probabilities: Array  # [M, H, S, A]; H is 1 where they do not depend on time
    mixture: Array  # [M], chances of the components: one is drawn for a whole episode

    @staticmethod
    def of(policy: Array, mixture: Array | None = None) -> "TablePolicy":
        """Of `[S, A]` or `[H, S, A]`; with `mixture [M]`, of `[M, S, A]` or `[M, H, S, A]`."""
        table = np.asarray(policy, np.float64)
        table = table[None] if mixture is None else table
        table = table[:, None] if table.ndim == 3 else table
        made = TablePolicy(table, np.ones(1) if mixture is None else np.asarray(mixture, float))
        made._check()
        return made

    def _check(self) -> None:
        """Refuse what is no table of probabilities."""
        shape = self.probabilities.shape
        if len(shape) != 4 or 0 in shape or self.mixture.shape != shape[:1]:
            raise ValueError(f"a table {list(shape)} for a mixture {list(self.mixture.shape)}")
        for chances in (self.probabilities, self.mixture):
            if not ((chances >= 0).all() and (abs(chances.sum(-1) - 1) <= SUM_ERROR).all()):
                raise ValueError("its probabilities are negative or do not sum to 1")

    @property
    def horizon(self) -> int | None:
        """Steps of an episode, where actions depend on time."""
        return self.probabilities.shape[1] if self.probabilities.shape[1] > 1 else None

    @cached_property
    def logits(self) -> Array:
        """Logarithms of the probabilities, `[M, H, S, A]`; of 0 they are minus infinity."""
        with np.errstate(divide="ignore"):
            return np.log(self.probabilities)

    def read(self, observation: Any, mask: Any = None) -> tuple[Array, tuple[int, ...]]:
        """Indices of states, `[...]`, checked, and their shape; there is no mask."""
        if mask is not None:
            raise InputError("a mask is given, but a table has none; leave it out.")
        states, count = np.asarray(observation), self.probabilities.shape[2]
        if states.dtype.kind not in "iu" or not ((states >= 0) & (states < count)).all():
            hint = f"this policy takes indices of states, 0 to {count - 1}, one or many"
            raise InputError(f"the observation is not a state; {hint}.")
        return states, states.shape

    def noise(self, random: np.random.Generator | None, shape: tuple[int, ...]) -> Array:
        """What makes the most probable action a random one, `[*shape, A]`: Gumbel noise, or 0."""
        size = (*shape, self.probabilities.shape[3])
        return np.zeros(size) if random is None else random.gumbel(size=size)

    def component(self, random: np.random.Generator | None, shape: tuple[int, ...]) -> Array:
        """Components for episodes, `shape`; without a generator the most probable."""
        size = (*shape, len(self.mixture))
        noise = np.zeros(size) if random is None else random.gumbel(size=size)
        with np.errstate(divide="ignore"):
            return (np.log(self.mixture) + noise).argmax(-1)

    def action(self, states: Array, noise: Array, component: Array, time: int) -> Array:
        """Indices of actions, `[...]`, of `states [...]`, `noise [..., A]`, `component [...]`."""
        when = time if self.horizon else 0
        return (self.logits[component, when, states] + noise).argmax(-1)


class Policy:
    """A policy that acts: `policy(observation)` is an action as the environment takes it.

    It takes observations `[..., *shape]` of a trained policy, states `[...]` of an exact one: one,
    or those of many episodes that run in step. `core` has its arrays.
    """

    def __init__(self, core: NetworkPolicy | TablePolicy) -> None:
        self.core = core
        self._random = np.random.default_rng()
        self.reset()

    def reset(self, seed: int | None = None) -> None:
        """Start an episode: a mixture draws anew, the clock of a finite horizon is set to 0.

        seed: of all random actions from here on; None: the generator goes on.
        """
        if seed is not None:
            self._random = np.random.default_rng(check_count("seed", seed, least=0))
        self._time, self._component = 0, np.zeros((), np.int64)

    def __call__(
        self,
        observation: Any,
        *,
        mask: Any = None,
        deterministic: bool = False,
        random: np.random.Generator | None = None,
    ) -> Array:
        """A random action, as in training.

        mask: where actions are masked, what may be done, `[..., choices]` of 0 and 1, or a tuple of
        those of the parts; without it, the flat observation must end with it. deterministic: the
        mean or most probable action instead (and component of a mixture); costs are then others
        than those that the limits were kept for. random: a generator to take instead of the
        policy's own.
        """
        source = None if deterministic else self._random if random is None else random
        seen, shape = self.core.read(observation, mask)
        noise = self.core.noise(source, shape)
        if isinstance(self.core, NetworkPolicy):
            return self.core.action(seen, noise)
        self._begin(self.core, source, shape)
        self._time += 1
        return self.core.action(seen, noise, self._component, self._time - 1)

    def _begin(
        self, table: TablePolicy, random: np.random.Generator | None, shape: tuple[int, ...]
    ) -> None:
        """Draw components at the first step of an episode; refuse steps after its last."""
        remedy = "start another episode with policy.reset()."
        if table.horizon and self._time == table.horizon:
            raise InputError(f"the horizon of {table.horizon} steps is over; {remedy}")
        if len(table.mixture) > 1 and self._time == 0:
            self._component = table.component(random, shape)
        elif len(table.mixture) > 1 and self._component.shape != shape:
            began = f"the episode began with observations {list(self._component.shape)}"
            raise InputError(f"{began}, and here are {list(shape)}; {remedy}")


def load_policy(path: str | Path, *, trust: bool = False) -> Policy:
    """The policy of a run folder, of one checkpoint, of a `policy.npz`, or of a result's `.npz`.

    Of a run folder it is the policy that was kept, or the last before training ended. It needs
    neither JAX nor a simulator, and of trained policies no package but NumPy; a custom network
    needs JAX and its module. trust: whether that module may be imported because the folder names
    it.
    """
    return Policy(read_policy(Path(path), trust))


def save_policy(policy: "Policy | Result", path: str | Path) -> None:
    """Write a policy to a `.npz` file, for NumPy, or to an `.onnx` file, for all that reads ONNX.

    policy: what `load_policy` or `solve` returned. The noise of random actions is an input of the
    file's policy: `docs/deploy.md` says which.
    """
    path = writable_path(Path(path), ".npz", ".onnx", option="policy file")
    core = policy.core if isinstance(policy, Policy) else _table(policy)
    arrays, meta = _parts(core)
    label = json.dumps({"format": KIND, "version": VERSION, **meta}, allow_nan=False)
    if path.suffix.lower() == ".npz":
        with replacing(path) as file:
            return write_archive(file, arrays, label)
    try:
        from cmdpax.learning.graph import model_bytes
    except ModuleNotFoundError as error:
        sentence = f"writing .onnx needs the package '{error.name}'; install cmdpax[onnx]."
        raise InputError(sentence) from None
    write_bytes(path, model_bytes(core, label))


def read_policy(path: Path, trust: bool = False) -> NetworkPolicy | TablePolicy:
    """What `load_policy` acts with."""
    if path.suffix.lower() == ".onnx":
        remedy = "run it with onnxruntime, or give the policy.npz of the same run"
        raise InputError(f"{path}: an .onnx file is not read here; {remedy}.")
    if path.suffix.lower() == ".npz":
        return _from_archive(path)
    arrays, notes = RunFolder(path).policy() if path.is_dir() else read_checkpoint(path)
    try:
        encoder = Encoder.from_json(notes.get("encoder"))
        refuse_untrusted(encoder, trust, path)
        space = ActionSpace.from_json(notes["action_space"])
        shape = notes.get("observation_shape", arrays["seen/mean"].shape)
        return NetworkPolicy.of(arrays, space, tuple(shape), notes["checkpoint"], encoder)
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"the checkpoint in {path} holds no whole policy ({error}).") from None


def holds_policy(path: Path) -> bool:
    """Whether a path is that of a folder, a checkpoint, or an archive with a policy in it."""
    if path.suffix.lower() != ".npz" or not path.is_file():
        return path.is_dir() or path.suffix.lower() in (".safetensors", ".onnx")
    with named(path), opened(path) as file:
        meta = pop_label(arrays_in(file), finite=False)
    return isinstance(meta, dict) and meta.get("format") in (KIND, RESULT)


def read_network(path: Path, trust: bool = False) -> NetworkPolicy:
    """The policy of a run."""
    policy = read_policy(path, trust)
    if isinstance(policy, TablePolicy):
        raise InputError(f"{path} holds the policy of a finite model; give a run folder.")
    return policy


def _parts(core: NetworkPolicy | TablePolicy) -> tuple[dict[str, Array], Row]:
    """Arrays and notes of a policy's file."""
    if isinstance(core, TablePolicy):
        return {"probabilities": core.probabilities, "mixture": core.mixture}, {"kind": "table"}
    if core.encoder is not None and core.encoder.is_custom:
        raise InputError(
            f"the network '{core.encoder.name}' is code of your own, which no policy file holds;"
            " take the run folder along, and load_policy(folder, trust=True)."
        )
    arrays, space = core.arrays(), core.action_space
    if core.log_std is not None:
        arrays |= dict(zip(("middle", "half"), space.box))
        arrays |= {"low": np.asarray(space.low), "high": np.asarray(space.high)}
    return arrays, {"kind": "network", **spaces_of(core), "updates": core.updates}


def _from_archive(path: Path) -> NetworkPolicy | TablePolicy:
    """The policy in a `policy.npz`, or in the `.npz` of a result."""
    with named(path), opened(path) as file:
        readers = arrays_in(file)
        meta = pop_label(readers, finite=False)  # the trace of a result may hold what is not
        is_result = isinstance(meta, dict) and meta.get("format") == RESULT
        if not is_result:
            identified(meta, KIND, VERSION)
            arrays = {name: read() for name, read in readers.items()}
            try:
                return _from_parts(arrays, meta)
            except (LookupError, TypeError, ValueError, OverflowError) as error:
                raise InputError(f"{WHOLE} ({error}).") from None
    from cmdpax.model.archive import load_result

    return _table(load_result(path))


def _table(result: "Result") -> TablePolicy:
    """The policy of a result, or those of its mixture."""
    if not hasattr(result, "policies"):
        raise InputError(f"{type(result).__name__}: no policy; give a result or a loaded policy.")
    shares, tables = result.policies
    return TablePolicy.of(tables, shares)


def _from_parts(arrays: Mapping[str, Array], meta: Row) -> NetworkPolicy | TablePolicy:
    """The inverse of `_parts`."""
    if not all(np.isfinite(arrays[name]).all() for name in arrays.keys() - {"low", "high"}):
        raise ValueError("its numbers are not finite")
    if meta["kind"] == "table":
        policy = TablePolicy(arrays["probabilities"], arrays["mixture"])
        policy._check()
        return policy
    if not isinstance(meta["action_space"], dict) or type(meta["updates"]) is not int:
        raise ValueError("its notes are of another kind")
    network = NetworkPolicy.of_arrays(arrays, meta, meta["updates"])
    if network.encoder is not None and network.encoder.is_custom:
        raise ValueError("its encoder is unknown")
    network.check_shapes()
    network.to_environment(
        np.zeros((1, network.action_space.size))
    )  # refuses a type or shape that is none
    return network
