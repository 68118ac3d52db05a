"""A network that acts: normalise an observation, compute the output, add noise, choose.

The output of `forward` is the mean of a Gaussian, or the logits of a categorical distribution.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from reprlib import repr as brief
from typing import Any, NamedTuple

import numpy as np

from cmdpax.errors import InputError
from cmdpax.files.reading import Row
from cmdpax.learning.encoders import Encoder
from cmdpax.learning.forward import Network, fastest_forward, normalise
from cmdpax.learning.simulator import ActionSpace, Copies

FORBIDDEN = np.float32(1e9)  # subtracted from the logit of what may not be chosen
ENCODED = ("kernel_", "filter_bias_")  # names of an encoder's arrays in turn
Array = np.ndarray


class Statistics(NamedTuple):
    """Count, mean and spread of observations; they change only between two batches."""

    total: Array  # how many, scalar
    mean: Array  # [d]
    squares: Array  # [d], sum of squared deviations from the mean

    @staticmethod
    def empty(size: int) -> "Statistics":
        """Of no observations: they pass unchanged."""
        return Statistics(np.zeros(()), np.zeros(size), np.zeros(size))

    @property
    def scale(self) -> Array:
        """One over the standard deviation, `[d]`; one before there were two observations."""
        if self.total < 2:
            return np.ones_like(self.mean)
        return 1 / np.sqrt(self.squares / self.total + 1e-8)

    def unscaled(self, count: int) -> "Statistics":
        """The same, but the last `count` entries pass unchanged."""
        mean, squares = self.mean.copy(), self.squares.copy()
        mean[len(mean) - count :], squares[len(mean) - count :] = 0, self.total
        return Statistics(self.total, mean, squares)

    def shared(self) -> "Statistics":
        """One mean and one spread for all entries, as of the points of an image."""
        mean, total = self.mean.mean(), self.total
        squares = self.squares.mean() + total * np.square(self.mean - mean).mean()
        return Statistics(total, np.full_like(self.mean, mean), np.full_like(self.mean, squares))

    def add(self, observations: Array) -> "Statistics":
        """Statistics of these and of `observations [K, d]` together (Chan's formula)."""
        count, mean = len(observations), observations.mean(0)
        squares = np.square(observations - mean).sum(0)
        together, apart = self.total + count, mean - self.mean
        return Statistics(
            np.asarray(together),
            self.mean + apart * count / together,
            self.squares + squares + np.square(apart) * self.total * count / together,
        )


@dataclass(frozen=True)
class NetworkPolicy:
    """A network that acts, as arrays."""

    weights: Sequence[Array]  # [in, out] of each layer, float32
    biases: Sequence[Array]
    log_std: Array | None  # [a] of a Gaussian policy; None: categorical
    mean: Array  # [d] of observations
    scale: Array  # [d], one over the standard deviation
    action_space: ActionSpace
    observation_shape: tuple[int, ...]  # of the environment's observations
    updates: int  # how many made this policy
    encoder: Encoder | None = None  # ahead of the layers; None: they see the whole observation
    encoded: Sequence[Array] = ()  # its parameters

    @staticmethod
    def of(
        arrays: Mapping[str, Array],
        action_space: ActionSpace,
        observation_shape: tuple[int, ...],
        updates: int,
        encoder: Encoder | None = None,
    ) -> "NetworkPolicy":
        """The policy among the arrays of a checkpoint."""
        ahead, first = "policy/layers/0/parameters/", int(encoder is not None)
        paths = [name for name in arrays if name.startswith("policy/layers/")]
        encoded = [name for name in paths if name.startswith(ahead)]
        count = (len(paths) - len(encoded)) // 2
        layers = [f"policy/layers/{first + layer}" for layer in range(count)]
        observed = Statistics(*(arrays[f"seen/{part}"] for part in Statistics._fields))
        weights, biases = (
            [arrays[f"{layer}/{part}"] for layer in layers] for part in ("weight", "bias")
        )
        policy = NetworkPolicy(
            weights,
            biases,
            arrays.get("policy/log_std"),
            observed.mean,
            observed.scale,
            action_space,
            observation_shape,
            updates,
            encoder,
            [arrays[f"{ahead}{k}"] for k in range(len(encoded))],
        )
        policy.check_shapes()
        return policy

    def arrays(self) -> dict[str, Array]:
        """All its arrays by name, as policy files and messages to workers have them."""
        arrays = {"mean": self.mean, "scale": self.scale}
        arrays |= {_encoded_name(k): part for k, part in enumerate(self.encoded)}
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            arrays |= {f"weight_{layer}": weight, f"bias_{layer}": bias}
        return arrays if self.log_std is None else {**arrays, "log_std": self.log_std}

    @staticmethod
    def of_arrays(arrays: Mapping[str, Array], spaces: Row, updates: int) -> "NetworkPolicy":
        """The policy of its `arrays` and its `spaces_of`."""
        layers, encoded = (
            range(sum(name.startswith(parts) for name in arrays)) for parts in ("weight_", ENCODED)
        )
        return NetworkPolicy(
            [arrays[f"weight_{layer}"] for layer in layers],
            [arrays[f"bias_{layer}"] for layer in layers],
            arrays.get("log_std"),
            arrays["mean"],
            arrays["scale"],
            ActionSpace.from_json(spaces["action_space"]),
            tuple(spaces["observation_shape"]),
            updates,
            Encoder.from_json(spaces.get("encoder")),
            [arrays[_encoded_name(k)] for k in encoded],
        )

    def check_shapes(self) -> None:
        """Refuse layers that do not fit each other or the spaces: compiled loops trust them."""
        size = features = math.prod(self.observation_shape)
        if self.encoder is not None:
            if math.prod(self.encoder.shape) != size:
                raise ValueError("its encoder does not fit its spaces")
            self.encoder.check(self.encoded)
            features = self.encoder.size
        sizes = [features, *map(len, self.biases)]
        shapes = [[*pair] for pair in pairwise(sizes)] + [[size] for size in sizes[1:]]
        shapes += [[size], [size], [sizes[-1]]]
        spread = self.biases[-1] if self.log_std is None else self.log_std
        arrays = [*self.weights, *self.biases, self.mean, self.scale, spread]
        if [list(one.shape) for one in arrays] != shapes or sizes[-1] != self.action_space.size:
            raise ValueError("its layers do not fit each other or its spaces")

    def best(self, flat: Array) -> Array:
        """The deterministic action for observations that are flat already, `[..., d]`."""
        return self.action(flat, self.noise(None, flat.shape[:-1]))

    def action(self, flat: Array, noise: Array) -> Array:
        """That of an observation and noise, `[..., d]`, `[..., a]` -> `[..., *shape]`."""
        return self.to_environment(self.outputs(flat, noise))

    def noise(self, random: np.random.Generator | None, shape: tuple[int, ...]) -> Array:
        """What makes an output a random action, `[*shape, a]` float32: normal, or Gumbel noise.

        Without a generator it is 0: the deterministic action's.
        """
        size = (*shape, self.action_space.size)
        if random is None:
            return np.zeros(size, np.float32)
        if self.log_std is None:
            return random.gumbel(size=size).astype(np.float32)
        return random.standard_normal(size, dtype=np.float32) * np.exp(self.log_std)

    def outputs(self, flat: Array, noise: Array) -> Array:
        """The network's outputs, noise added: `[..., d]`, `[..., a]` -> `[..., a]`."""
        rows = np.ascontiguousarray(flat.reshape(-1, len(self.mean)), np.float64)
        normalised, output = np.empty_like(rows, np.float32), np.empty_like(noise)
        shape = (len(rows), self.action_space.size)
        self.act(rows, noise.reshape(shape), normalised, output.reshape(shape))
        return output

    def act(self, *arrays: Array) -> None:
        """`forward` of this network; `arrays` are its last four arguments.

        1e9 is subtracted from the outputs of forbidden choices.
        """
        if self.encoder is None:
            fastest_forward()(self.network, *arrays)
        else:
            self._forward(self.encoder, *arrays)
        if self.action_space.masked:
            observation, output = arrays[0], arrays[3]
            output += (observation[:, -self.action_space.size :] - 1) * FORBIDDEN

    def _forward(
        self, encoder: Encoder, observation: Array, noise: Array, normalised: Array, output: Array
    ) -> None:
        """`forward` where an encoder stands ahead of the layers."""
        for n in range(len(observation)):
            normalised[n] = normalise(observation[n], self.mean, self.scale)
            hidden = encoder.features(self.encoded, normalised[n : n + 1])
            for layer, (weight, bias) in enumerate(zip(self.weights, self.biases)):
                hidden = (np.tanh(hidden) if layer else hidden) @ weight + bias
            output[n] = hidden[0] + noise[n]

    def choose(self, output: Array) -> Array:
        """The action that an output with its noise stands for, in the policy's own units."""
        return output if self.log_std is not None else self.action_space.choose(output)

    def to_environment(self, output: Array) -> Array:
        """The same in the environment's units."""
        return self.action_space.to_environment(self.choose(output))

    def normalise(self, flat: Array) -> Array:
        """What the network sees of flat observations, `[..., d]` float32."""
        return normalise(flat, self.mean, self.scale)

    @cached_property
    def network(self) -> Network:
        """The first argument of `forward`, of dense layers alone."""
        layers = [part.reshape(-1) for pair in zip(self.weights, self.biases) for part in pair]
        sizes = np.array([len(self.weights[0]), *map(len, self.biases)])
        parameters = np.concatenate(layers, dtype=np.float32)
        return parameters, sizes, np.array(self.mean), np.array(self.scale)

    def read(self, observation: Any, mask: Any = None) -> tuple[Array, tuple[int, ...]]:
        """Observations `[..., *observation_shape]`, checked, as `[..., d]`, and the shape `...`.

        With a mask `[..., choices]`, or a tuple of those of the parts, observations are as the
        environment gives them.
        """
        if mask is not None:
            observation = self._with_mask(observation, mask)
        shape, space = self.observation_shape, self.action_space
        hint = (
            f"this policy takes [..., {', '.join(map(str, shape))}], of other spaces what"
            " gymnasium.spaces.flatten(space, observation) makes of them."
        )
        if space.masked:
            hint = f"{hint[:-1]}, and then {space.choices} zeros and ones, or those as mask=."
        try:
            values = np.asarray(observation, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"the observation is no array of numbers; {hint}") from None
        ahead = values.ndim - len(shape)
        if ahead < 0 or values.shape[ahead:] != shape:
            raise InputError(f"the observation has shape {list(values.shape)}; {hint}")
        if not np.isfinite(values).all():
            raise InputError("the observation is not finite; there is no action for it.")
        return values.reshape(*values.shape[:ahead], len(self.mean)), values.shape[:ahead]

    def _with_mask(self, observation: Any, mask: Any) -> Array:
        """Observations that end with what may be done, `[..., *observation_shape]`."""
        space = self.action_space
        if not space.masked:
            raise InputError("a mask is given, but this policy was trained without; leave it out.")
        try:
            pieces = mask if isinstance(mask, tuple) else (mask,)
            allowed = np.concatenate([np.asarray(one, np.float64) for one in pieces], -1)
            seen = np.asarray(observation, np.float64)
            flat = seen.reshape(*allowed.shape[:-1], len(self.mean) - space.choices)
        except (TypeError, ValueError):
            raise InputError(
                f"observation and mask do not fit; this policy takes {space.choices} zeros and"
                f" ones as a mask, and {len(self.mean) - space.choices} numbers as an observation,"
                " both for as many episodes."
            ) from None
        is_whole = allowed.shape[-1] == space.choices and bool(np.isin(allowed, (0, 1)).all())
        if not is_whole or not all(part.any(-1).all() for part in space.split(allowed)):
            what = f"the mask must hold 1 or 0 for each of the {space.choices} choices"
            raise InputError(f"{what}, and allow one of every part.")
        together = np.concatenate((flat, allowed), -1)
        return together.reshape(*flat.shape[:-1], *self.observation_shape)


def _encoded_name(part: int) -> str:
    """Of an encoder's array number `part`: kernels and biases take turns."""
    return f"{ENCODED[part % 2]}{part // 2}"


def spaces_of(one: "NetworkPolicy | Copies") -> Row:
    """Action space and shape of observations, as a checkpoint notes them; a policy's encoder."""
    space, shape = one.action_space.as_json(), list(one.observation_shape)
    spaces: Row = {"action_space": space, "observation_shape": shape}
    encoder = getattr(one, "encoder", None)
    return spaces if encoder is None else {**spaces, "encoder": encoder.as_json()}


def refuse_other_spaces(spaces: Row, simulator: Copies) -> None:
    """Refuse a simulator in which a policy of such `spaces_of` would do something else."""
    was, now = (
        {**one.get("action_space", {}), "observations": one["observation_shape"]}
        for one in ({**spaces_of(simulator), **spaces}, spaces_of(simulator))
    )
    changed = [name for name in was if was[name] != now.get(name)]
    pairs = [f"{name} {brief(was[name])}, now {brief(now.get(name))}" for name in changed]
    if pairs:
        what = f"the environment is not what the policy was trained in ({'; '.join(pairs)})"
        raise InputError(f"{what}; take the environment of that run, or train anew.")
