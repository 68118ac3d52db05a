"""Who deploys a policy needs NumPy alone, and `import cmdpax` loads nothing heavy."""

import hashlib
import json
import sys

import numpy as np
import pytest
from safetensors.numpy import save

from whole.installing import PACKAGES, install, run

HEAVY = {"scipy", "numba", "rich", "tyro", "matplotlib", "PIL", "highspy", "jax", "gymnasium"}
LOADED = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"
OBSERVATION = [0.5, -1.0]
ACT = f"from cmdpax import load_policy; print(*load_policy('run')({OBSERVATION}))"


@pytest.fixture(scope="module")
def python(distributions, tmp_path_factory):
    """The Python of an environment that has the wheel and NumPy, and nothing else."""
    programs, packages = install(distributions[".whl"], tmp_path_factory.mktemp("installed"))
    for path in PACKAGES.glob("numpy*"):  # with numpy.libs
        (packages / path.name).symlink_to(path)
    return programs / "python"


@pytest.fixture
def run_folder(tmp_path):
    """A run with a checkpoint that the safetensors package wrote; the action it takes.

    Its deviation is so small that a sampled action is the mean.
    """
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=shape).astype(np.float32) / 4 for shape in ((2, 3), (3, 2))]
    biases = [rng.normal(size=size).astype(np.float32) / 4 for size in (3, 2)]
    arrays = {"policy/log_std": np.full(2, -30, np.float32), "seen/total": np.array(4.0)}
    arrays |= {"seen/mean": np.array([1.0, 0.0]), "seen/squares": np.array([4.0, 16.0])}
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        arrays[f"policy/layers/{layer}/weight"] = weight
        arrays[f"policy/layers/{layer}/bias"] = bias
    data, folder = save(arrays), tmp_path / "run" / "checkpoints"
    space = {"low": [-2, -2], "high": [2, 2], "choices": 0, "start": 0, "clip": True}
    notes = {"action_space": {**space, "shape": None, "dtype": "float64"}}
    notes |= {"observation_shape": [2]}
    folder.mkdir(parents=True)
    (folder / "00000001.safetensors").write_bytes(data)
    first = {"checkpoint": 1, "sha256": hashlib.sha256(data).hexdigest()}
    text = json.dumps({**first, **notes}, indent=1)  # as 0.1 wrote it
    (folder / "00000001.json").write_text(text)
    hidden = np.tanh((np.array(OBSERVATION) - [1, 0]) / [1, 2] @ weights[0] + biases[0])
    return tmp_path, 2 * (hidden @ weights[1] + biases[1])


def test_a_policy_acts_with_numpy_alone(python, run_folder):
    folder, expected = run_folder
    action = run(python, "-c", ACT, folder=folder).split()
    assert (abs(expected) > 0.01).all() and (abs(expected) < 2).all()
    np.testing.assert_allclose(np.array(action, float), expected, rtol=1e-5)


def test_the_environment_of_this_test_has_numpy_alone(python, tmp_path):
    code = f"import importlib.util as u; print(*(n for n in {HEAVY | {'numpy'}} if u.find_spec(n)))"
    assert run(python, "-c", code, folder=tmp_path).split() == ["numpy"]


def test_import_loads_nothing_heavy(tmp_path):
    """In this environment, which has everything."""
    loaded = run(sys.executable, "-c", f"import cmdpax; {LOADED}", folder=tmp_path).split()
    assert "cmdpax" in loaded and not HEAVY & set(loaded)
