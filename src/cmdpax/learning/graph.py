"""A policy as an ONNX graph, from the environment's observation and noise to its action.

| input       | of a network                        | of a table          |
|-------------|-------------------------------------|---------------------|
| observation | double `[N, *shape]`                | int64 `[N]`, states |
| noise       | float `[N, a]`: normal, or Gumbel's | double `[N, A]`     |
| component   |                                     | int64 `[N]`         |
| time        |                                     | int64 `[N]`         |

Output `action`: `[N, *shape]` in the type of the action space, or int64 `[N]`. The mask of an
action space that has one is the end of the observation. With noise 0 the action is deterministic.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper

from cmdpax.errors import InputError
from cmdpax.learning.encoders import STRIDE, Encoder, has_colours_first
from cmdpax.learning.forward import OBSERVATION_CLIP
from cmdpax.learning.policy import FORBIDDEN, NetworkPolicy
from cmdpax.learning.portable import TablePolicy
from cmdpax.learning.simulator import ActionSpace

OPSET, IR_VERSION = 17, 8  # of 2022: all that is in use reads them
MOST = 2_000_000_000  # bytes of an ONNX file
Value = str | np.ndarray  # the name of a value, or a constant


class Graph:
    """Nodes and constants; `graph("Add", x, y)` adds a node and returns its output's name."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, operator: str, *inputs: Value, **attributes: Any) -> str:
        """Add a node; `inputs` are names of values, or constants."""
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        output = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [output], **attributes))
        return output

    def constant(self, array: np.ndarray) -> str:
        """The name of an array."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name


def model_bytes(policy: NetworkPolicy | TablePolicy, label: str) -> bytes:
    """The file of a policy; `label` is kept in its metadata as `cmdpax`."""
    graph = Graph()
    if isinstance(policy, TablePolicy):
        if policy.logits.nbytes > MOST:
            size = f"{policy.logits.nbytes:,} bytes"
            raise InputError(f"the policy has {size}, too many for .onnx; write .npz.")
        inputs, action, output = _table(graph, policy)
    else:
        inputs, action, output = _network(graph, policy)
    graph.nodes.append(helper.make_node("Identity", [action], ["action"]))
    whole = helper.make_graph(graph.nodes, "policy", inputs, [output], graph.constants)
    model = helper.make_model(
        whole, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    helper.set_model_props(model, {"cmdpax": label})
    checker.check_model(model, full_check=True)
    return model.SerializeToString()


def _value(name: str, kind: int, *shape: int) -> Any:
    return helper.make_tensor_value_info(name, kind, ["N", *shape])


def _network(graph: Graph, policy: NetworkPolicy) -> tuple[list[Any], str, Any]:
    """Inputs, the action's name, and the output, of a network."""
    inputs = [
        _value("observation", TensorProto.DOUBLE, *policy.observation_shape),
        _value("noise", TensorProto.FLOAT, policy.action_space.size),
    ]
    flat = graph("Flatten", "observation")
    centred = graph("Sub", flat, policy.mean)
    clip = np.array(OBSERVATION_CLIP)
    seen = graph("Min", graph("Max", graph("Mul", centred, policy.scale), -clip), clip)
    hidden = graph("Cast", seen, to=TensorProto.FLOAT)
    if policy.encoder is not None:
        hidden = _convolutions(graph, hidden, policy.encoder, policy.encoded)
    for layer, (weight, bias) in enumerate(zip(policy.weights, policy.biases)):
        below = graph("Tanh", hidden) if layer else hidden
        hidden = graph("Gemm", below, *(part.astype(np.float32) for part in (weight, bias)))
    space = policy.action_space
    if policy.log_std is None:
        scores = graph("Add", hidden, "noise")
        if space.masked:
            mask = _slice(graph, flat, -space.choices, policy.mean.size)
            barred = graph(
                "Sub", graph("Cast", mask, to=TensorProto.FLOAT), np.array(1, np.float32)
            )
            scores = graph("Add", scores, graph("Mul", barred, np.array(FORBIDDEN)))
        return inputs, *_choices(graph, scores, space)
    deviation = np.exp(policy.log_std.astype(np.float32))
    action = _box(graph, graph("Add", hidden, graph("Mul", "noise", deviation)), space)
    dtype = np.dtype(np.float32 if space.is_unit else space.dtype)
    shape = (space.size,) if space.shape is None or space.is_unit else space.shape
    output = _value("action", helper.np_dtype_to_tensor_dtype(dtype), *shape)
    return inputs, action, output


def _convolutions(
    graph: Graph, flat: str, encoder: Encoder, parameters: Sequence[np.ndarray]
) -> str:
    """`encoders.convolutions`; ONNX has colours first."""
    shape = encoder.shape
    images = graph("Reshape", flat, np.array([-1, *((1,) if len(shape) == 2 else ()), *shape]))
    if len(shape) == 3 and not has_colours_first(shape):
        images = graph("Transpose", images, perm=[0, 3, 1, 2])
    for kernel, bias in zip(parameters[::2], parameters[1::2]):
        weight = np.moveaxis(kernel, (3, 2), (0, 1)).astype(np.float32)
        said = graph("Conv", images, weight, bias.astype(np.float32), strides=[STRIDE, STRIDE])
        images = graph("Relu", said)
    return graph("Flatten", graph("Transpose", images, perm=[0, 2, 3, 1]))


def _table(graph: Graph, policy: TablePolicy) -> tuple[list[Any], str, Any]:
    """The same of a table."""
    names = ("component", "time", "observation")
    inputs = [_value(name, TensorProto.INT64) for name in names]
    inputs.append(_value("noise", TensorProto.DOUBLE, policy.probabilities.shape[3]))
    last = np.array(policy.probabilities.shape[1] - 1)
    column = np.array([1])
    parts = ["component", graph("Min", "time", last), "observation"]
    index = graph("Concat", *(graph("Unsqueeze", part, column) for part in parts), axis=1)
    scores = graph("Add", graph("GatherND", policy.logits, index), "noise")
    return inputs, *_choices(graph, scores, ActionSpace(choices=policy.probabilities.shape[3]))


def _choices(graph: Graph, scores: str, space: ActionSpace) -> tuple[str, Any]:
    """`ActionSpace.choose` and `to_environment` of choices: the action's name, and the output."""
    start = np.array(space.start)
    if space.parts is None or space.shape is None:
        action = graph("Add", graph("ArgMax", scores, axis=1, keepdims=0), start)
        return action, _value("action", TensorProto.INT64)
    ends = np.cumsum(space.parts)
    pieces = [_slice(graph, scores, *bounds) for bounds in zip(ends - space.parts, ends)]
    columns = [graph("ArgMax", piece, axis=1, keepdims=1) for piece in pieces]
    chosen = graph("Add", graph("Concat", *columns, axis=1), start)
    shaped = graph("Reshape", chosen, np.array([-1, *space.shape]))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(space.dtype))
    return graph("Cast", shaped, to=kind), _value("action", kind, *space.shape)


def _slice(graph: Graph, rows: str, first: int, last: int) -> str:
    """Columns `first` to `last` of `[N, ...]`."""
    return graph("Slice", rows, np.array([first]), np.array([last]), np.array([1]))


def _box(graph: Graph, output: str, space: ActionSpace) -> str:
    """`ActionSpace.to_environment` of a box."""
    if space.is_unit:
        return output
    middle, half = space.box
    wide = graph("Cast", output, to=TensorProto.DOUBLE)
    scaled = graph("Add", graph("Mul", wide, half), middle)
    if space.clip:
        low, high = np.asarray(space.low), np.asarray(space.high)
        scaled = graph("Min", graph("Max", scaled, low), high)
    if np.issubdtype(space.dtype, np.integer):
        scaled = graph("Round", scaled)
    if space.shape is not None:
        scaled = graph("Reshape", scaled, np.array([-1, *space.shape]))
    return graph("Cast", scaled, to=helper.np_dtype_to_tensor_dtype(np.dtype(space.dtype)))
