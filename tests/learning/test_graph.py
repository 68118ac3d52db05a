"""ONNX: onnxruntime acts as we do, on every action space and every kind of table."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest

from cmdpax import InputError, Policy, save_policy
from cmdpax.learning import graph
from policies import IMAGES, SPACES, TABLES, convolutional, network, observations, table


def session(core, folder):
    save_policy(Policy(core), folder / "policy.onnx")
    return onnxruntime.InferenceSession(folder / "policy.onnx")


@pytest.mark.parametrize("shape", [(12,), (2, 6)])
@pytest.mark.parametrize("name", SPACES)
def test_onnxruntime_agrees_to_a_millionth_of_the_range(name, shape, tmp_path):
    core, random = network(name, shape), np.random.default_rng(3)
    run, seen = session(core, tmp_path), observations(core, 1000)
    size = (1000, core.action_space.size)
    if core.log_std is None:
        noise = scaled = random.gumbel(size=size).astype(np.float32)
    else:
        noise = random.standard_normal(size, dtype=np.float32)
        scaled = noise * np.exp(core.log_std)
    for given, ours in ((noise, scaled), (0 * noise, 0 * noise)):
        (action,) = run.run(["action"], {"observation": seen, "noise": given})
        expected = core.action(core.read(seen)[0], ours)
        assert (action.dtype, action.shape) == (expected.dtype, expected.shape)
        width = 0.0 if core.log_std is None else 2 * core.action_space.box[1].min()
        if np.issubdtype(action.dtype, np.integer):
            width = 0.0
        np.testing.assert_allclose(action, expected, rtol=0, atol=1e-6 * width)
        assert np.ptp(action) > 0


@pytest.mark.parametrize("name", IMAGES)
def test_convolutions_agree(name, tmp_path):
    core = convolutional(name)
    run, seen = session(core, tmp_path), observations(core, 1000)
    (action,) = run.run(["action"], {"observation": seen, "noise": np.zeros((1000, 2), np.float32)})
    width = 2 * core.action_space.box[1].min()
    np.testing.assert_allclose(action, core.best(core.read(seen)[0]), rtol=0, atol=1e-6 * width)
    kinds = {node.op_type for node in onnx.load(tmp_path / "policy.onnx").graph.node}
    assert np.ptp(action) > 0 and {"Conv", "Relu"} <= kinds


@pytest.mark.parametrize("name", TABLES)
def test_tables_agree(name, tmp_path):
    core, random = table(name), np.random.default_rng(4)
    M, H, S, A = core.probabilities.shape
    component, time, state = (random.integers(0, size, 1000) for size in (M, H, S))
    noise = random.gumbel(size=(1000, A))
    inputs = {"observation": state, "noise": noise, "component": component, "time": time}
    run = session(core, tmp_path)
    for drawn in (noise, 0 * noise):
        (action,) = run.run(["action"], {**inputs, "noise": drawn})
        scores = np.log(np.maximum(core.probabilities[component, time, state], 1e-300)) + drawn
        np.testing.assert_array_equal(action, scores.argmax(-1))
    (late,) = run.run(["action"], {**inputs, "time": time + 100})
    (last,) = run.run(["action"], {**inputs, "time": np.full(1000, H - 1)})
    np.testing.assert_array_equal(late, last)


def test_inputs_are_those_of_the_page(tmp_path):
    names = [one.name for one in session(network("box"), tmp_path).get_inputs()]
    assert names == ["observation", "noise"]
    names = {one.name for one in session(table("one"), tmp_path).get_inputs()}
    assert names == {"observation", "noise", "component", "time"}
    (note,) = onnx.load(tmp_path / "policy.onnx").metadata_props
    assert note.key == "cmdpax" and json.loads(note.value)["kind"] == "table"


def test_a_table_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(graph, "MOST", 10)
    with pytest.raises(InputError, match=r"too many for .onnx; write .npz"):
        save_policy(Policy(table("one")), tmp_path / "policy.onnx")
