"""A trained network policy in plain NumPy: the same forward pass acts while training and on a
robot.

Observations are normalised with frozen statistics and clipped, pass tanh layers, and come out as
the mean of a Gaussian or the logits of a categorical distribution. The deterministic action is the
mean (the most probable choice), in the environment's units.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.learning import run_folder as stored
from cmdpax.learning.normaliser import Statistics
from cmdpax.learning.simulator import ActionSpace, Simulator

OBSERVATION_CLIP = 10.0


@dataclass(frozen=True)
class NetworkPolicy:
    """`policy(observation)` acts; everything it needs is an array."""

    weights: Sequence[np.ndarray]  # [in, out] of each layer, float32
    biases: Sequence[np.ndarray]
    log_std: np.ndarray | None  # [a] of a Gaussian policy; None: categorical
    mean: np.ndarray  # [d] of observations
    scale: np.ndarray  # [d], one over the standard deviation
    action_space: ActionSpace
    observation_shape: tuple[int, ...]  # of the environment's observations
    updates: int  # how many made this policy

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        """The deterministic action, as the environment takes it: `[..., *observation_shape]` to
        `[..., *shape]`, or choices.
        """
        return self.best(self._flat(observation))

    def best(self, flat: np.ndarray) -> np.ndarray:
        """The same for observations that are flat already, `[..., d]`."""
        output = self.outputs(self.normalise(flat))
        return self.action_space.to_environment(
            output if self.log_std is not None else output.argmax(-1)
        )

    def _flat(self, observation: Any) -> np.ndarray:
        wanted = self.observation_shape
        try:
            values = np.asarray(observation, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"the observation is no array of numbers; {self._hint()}") from None
        ahead = values.ndim - len(wanted)
        if ahead < 0 or values.shape[ahead:] != wanted:
            raise InputError(f"the observation has shape {list(values.shape)}; {self._hint()}")
        if not np.isfinite(values).all():
            raise InputError("the observation is not finite; there is no action for it.")
        return values.reshape(*values.shape[:ahead], len(self.mean))

    def _hint(self) -> str:
        shape = ", ".join(map(str, self.observation_shape))
        return (
            f"this policy takes [..., {shape}], of other spaces what"
            " gymnasium.spaces.flatten(space, observation) makes of them."
        )

    def normalise(self, observation: np.ndarray) -> np.ndarray:
        """What the network sees, `[..., d]` float32."""
        seen = (observation - self.mean) * self.scale
        return np.minimum(np.maximum(seen, -OBSERVATION_CLIP), OBSERVATION_CLIP).astype(np.float32)

    def outputs(self, normalised: np.ndarray) -> np.ndarray:
        """Mean or logits, `[..., d] -> [..., a]`, of normalised observations."""
        hidden = normalised
        for weight, bias in zip(self.weights[:-1], self.biases[:-1]):
            hidden = np.tanh(hidden @ weight + bias)
        return hidden @ self.weights[-1] + self.biases[-1]

    def noise(self, random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Randomness for `sample`, `[*shape, a]` float32: normal, or Gumbel for a categorical
        policy.
        """
        size = (*shape, self.action_space.size)
        if self.log_std is None:
            return random.gumbel(size=size).astype(np.float32)
        return random.standard_normal(size, dtype=np.float32) * np.exp(self.log_std)

    def sample(self, normalised: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """A random action in the policy's own units: `[..., a]`, or choices `[...]`."""
        output = self.outputs(normalised) + noise
        return output if self.log_std is not None else output.argmax(-1)


def load_policy(path: str | Path) -> NetworkPolicy:
    """The policy of a run folder (its newest intact checkpoint) or of one checkpoint file; needs
    neither JAX nor a simulator.
    """
    path = Path(path)
    if path.is_dir():
        folder = path / "checkpoints" if (path / "checkpoints").is_dir() else path
        arrays, notes = read_newest(folder)
    else:
        arrays, notes = stored.read(path)
    depth = sum(name.startswith("policy/layers/") and name.endswith("/weight") for name in arrays)
    seen = Statistics(*(arrays[f"seen/{part}"] for part in Statistics._fields))
    return NetworkPolicy(
        [arrays[f"policy/layers/{layer}/weight"] for layer in range(depth)],
        [arrays[f"policy/layers/{layer}/bias"] for layer in range(depth)],
        arrays.get("policy/log_std"),
        seen.mean,
        seen.scale,
        ActionSpace.from_json(notes["action_space"]),
        tuple(notes.get("observation_shape", seen.mean.shape)),
        notes["checkpoint"],
    )


def refuse_other_spaces(
    space: ActionSpace, observation_shape: Sequence[int], simulator: Simulator
) -> None:
    """Refuse a simulator in which a policy with such actions and observations cannot act, or would
    do something else.
    """
    was = {"observations": list(observation_shape), **space.as_json()}
    now = {"observations": list(simulator.observation_shape), **simulator.action_space.as_json()}
    changed = [f"{name} {was[name]}, now {now[name]}" for name in was if was[name] != now[name]]
    if changed:
        raise InputError(
            f"the environment is not what the policy was trained in ({'; '.join(changed)}); train"
            " anew."
        )


def read_newest(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The newest intact checkpoint of a folder; damaged ones are skipped with a warning."""
    for path in stored.newest(folder):
        try:
            return stored.read(path)
        except InputError as error:
            warnings.warn(f"{error} The one before is taken, if there is one.", stacklevel=2)
    raise InputError(
        f"{folder} holds no intact checkpoint; give a run folder of cmdpax train, or train anew."
    )
