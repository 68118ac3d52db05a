import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import cmdpax
from calls import call
from cmdpax import InputError, Policy, load_policy, save_policy
from cmdpax.learning.encoders import Encoder
from cmdpax.learning.policy import spaces_of
from cmdpax.learning.portable import TablePolicy
from cmdpax.learning.run_folder import RunFolder
from policies import IMAGES, SPACES, TABLES, convolutional, network, observations, table
from whole.installing import PACKAGES, run

PAGE = Path(__file__).parents[2] / "docs" / "deploy.md"


@pytest.fixture(scope="module")
def solved():
    return cmdpax.solve(cmdpax.environments.cliff_world())


@pytest.mark.parametrize("name", SPACES)
def test_a_network_comes_back_as_it_was(name, tmp_path):
    core = network(name)
    save_policy(Policy(core), tmp_path / "policy.npz")
    again, seen = load_policy(tmp_path / "policy.npz"), observations(core, 20)
    policy = Policy(core)
    for one in (policy, again):
        one.reset(seed=3)
    for deterministic in (False, True):
        ours, theirs = (one(seen, deterministic=deterministic) for one in (policy, again))
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype
    assert again.core.updates == 7


@pytest.mark.parametrize("name", IMAGES)
def test_a_convolutional_network_comes_back_as_it_was(name, tmp_path):
    core = convolutional(name)
    save_policy(Policy(core), tmp_path / "policy.npz")
    again, seen = load_policy(tmp_path / "policy.npz"), observations(core, 5)
    assert again.core.encoder == core.encoder
    np.testing.assert_array_equal(
        again(seen, deterministic=True), Policy(core)(seen, deterministic=True)
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"kernel_0": np.ones((3, 3, 3, 8), np.float32)}, "arrays of other shapes"),
        ({"kernel_0": None}, "no whole policy"),
        ({"meta": {"encoder": {"name": "os:system", "shape": [12, 20, 3]}}}, "encoder is unknown"),
        ({"meta": {"encoder": {"name": "convolutional", "shape": [-1]}}}, "something else"),
        ({"meta": {"encoder": {"name": "convolutional", "shape": [9, 9, 9]}}}, "fit its spaces"),
        ({"meta": {"encoder": 7}}, "no whole policy"),
    ],
)
def test_a_damaged_encoder_gets_one_sentence(change, sentence, tmp_path):
    path = tmp_path / "policy.npz"
    save_policy(Policy(convolutional("colours last")), path)
    with np.load(path) as file:
        arrays = {**file, **{name: part for name, part in change.items() if name != "meta"}}
        meta = {**json.loads(str(file["meta"])), **change.get("meta", {})}
    arrays = {name: part for name, part in arrays.items() if part is not None}
    np.savez(path, **{**arrays, "meta": np.array(json.dumps(meta))})
    with pytest.raises(InputError, match=f"policy.npz: .*{sentence}"):
        load_policy(path)


def test_a_network_of_somebodys_own_is_not_exported(tmp_path):
    core = replace(convolutional("grey"), encoder=Encoder("mine:features", (9, 11)))
    for name in ("policy.npz", "policy.onnx"):
        with pytest.raises(InputError, match="'mine:features' is code of your own, which no"):
            save_policy(Policy(core), tmp_path / name)


def test_a_network_of_somebodys_own_in_a_folder_is_not_exported(tmp_path):
    core = replace(convolutional("grey"), encoder=Encoder("mine:features", (9, 11)))
    notes = {**spaces_of(core), "checkpoint": 1}
    RunFolder(tmp_path).save(1, {"seen/mean": np.zeros(99)}, notes)
    with pytest.raises(InputError, match=r"^[^(]*names the network 'mine.* take the run folder"):
        load_policy(tmp_path)


def test_damage_is_said_in_a_few_words(tmp_path):
    """The zip of a file whose first name is overwritten is quoted by Python at any length."""
    save_policy(Policy(network("discrete")), tmp_path / "policy.npz")
    damaged = bytearray((tmp_path / "policy.npz").read_bytes())
    damaged[26:28] = (9000).to_bytes(2, "little")  # bytes of the first member's name
    (tmp_path / "policy.npz").write_bytes(damaged)
    with pytest.raises(InputError, match="damaged one") as error:
        load_policy(tmp_path / "policy.npz")
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("name", TABLES)
def test_a_table_comes_back_as_it_was(name, tmp_path):
    core = table(name)
    save_policy(Policy(core), tmp_path / "policy.npz")
    again = load_policy(tmp_path / "policy.npz").core
    np.testing.assert_array_equal(again.probabilities, core.probabilities)
    np.testing.assert_array_equal(again.mixture, core.mixture)


def test_what_is_no_policy_is_not_saved(tmp_path):
    with pytest.raises(InputError, match="ndarray: no policy; give a result or a loaded policy"):
        save_policy(np.ones((2, 2)) / 2, tmp_path / "policy.npz")
    assert not list(tmp_path.iterdir())


def test_a_policy_acts_at_random_unless_it_is_asked_not_to():
    core, policy = network("discrete"), Policy(network("discrete"))
    seen = np.broadcast_to(observations(core, 1), (30_000, 2, 6))
    logits = core.outputs(core.read(seen[0])[0], core.noise(None, ())).astype(np.float64)
    chances = np.exp(logits - logits.max())
    often = np.bincount(policy(seen) + 1, minlength=5) / len(seen)
    np.testing.assert_allclose(often, chances / chances.sum(), atol=0.015)
    assert set(policy(seen, deterministic=True)) == {logits.argmax() - 1}


def test_the_generator_is_the_policys_own_or_the_callers():
    core = network("box")
    policy, seen = Policy(core), observations(core, 1)[0]
    first = [policy(seen, random=np.random.default_rng(5)) for _ in range(2)]
    np.testing.assert_array_equal(*first)
    runs = []
    for _ in range(2):
        policy.reset(seed=5)
        runs.append([policy(seen) for _ in range(3)])
    np.testing.assert_array_equal(*runs)
    assert (runs[0][0] != runs[0][1]).any()
    np.testing.assert_array_equal(runs[0][0], first[0])
    policy.reset()  # the generator goes on
    assert (policy(seen) != runs[0][0]).any()
    with pytest.raises(InputError, match="seed"):
        policy.reset(seed=-1)


@pytest.mark.parametrize("name", ["masked", "binary"])
def test_observation_and_mask_may_be_given_apart(name):
    core = network(name)
    policy, seen = Policy(core), observations(core, 9).reshape(9, -1)
    count = core.action_space.choices
    own, mask = seen[:, :-count], seen[:, -count:]
    together = policy(seen.reshape(9, 2, 6), random=np.random.default_rng(1))
    shapes = [(9, -1), (9, 1, 12 - count)]
    parts = core.action_space.parts or (count,)
    pieces = tuple(np.split(mask, np.cumsum(parts)[:-1], -1))
    for shape in shapes:
        for given in (mask, mask.astype(np.int8), pieces):
            apart = policy(own.reshape(shape), mask=given, random=np.random.default_rng(1))
            np.testing.assert_array_equal(apart, together)
    assert policy(own[0], mask=mask[0]).shape == together[0].shape
    for wrong, sentence in [
        (mask[:3], "do not fit"),
        (mask[:, 1:], "must hold 1 or 0"),
        (0 * mask, "allow one of every part"),
        (2 * mask, "must hold 1 or 0"),
        ("up", "do not fit"),
    ]:
        with pytest.raises(InputError, match=sentence):
            policy(own, mask=wrong)


def test_a_mask_that_nobody_expects():
    for core in (network("discrete"), table("one")):
        with pytest.raises(InputError, match=r"a mask is given, but .* leave it out"):
            Policy(core)(0, mask=[1, 0, 1])


def test_exact_actions_have_their_probabilities():
    core = table("one")
    policy, chances = Policy(core), core.probabilities[0, 0]
    for state in range(3):
        often = np.bincount(policy(np.full(30_000, state)), minlength=4) / 30_000
        np.testing.assert_allclose(often, chances[state], atol=0.015)
        assert (often[chances[state] == 0] == 0).all()
        assert policy(state, deterministic=True) == chances[state].argmax()


def test_a_finite_horizon_has_a_clock():
    core = table("horizon")
    policy, best = Policy(core), core.probabilities[0].argmax(-1)  # [H, S]
    for _ in range(2):
        policy.reset()
        actions = [policy(np.arange(3), deterministic=True) for _ in range(5)]
        np.testing.assert_array_equal(actions, best)
    with pytest.raises(InputError, match=r"horizon of 5 steps is over; .*policy.reset\(\)"):
        policy(0)


def test_a_mixture_draws_once_an_episode_and_for_each_episode_by_itself():
    pure = np.zeros((2, 3, 4))
    pure[0, :, 1], pure[1, :, 2] = 1, 1  # the component shows in the action
    policy = Policy(TablePolicy.of(pure, np.array([0.3, 0.7])))
    many = np.zeros(20_000, int)
    first = policy(many)
    assert abs((first == 1).mean() - 0.3) < 0.015
    np.testing.assert_array_equal(policy(many), first)
    with pytest.raises(InputError, match=r"began with observations \[20000\], and here are \[\]"):
        policy(0)
    policy.reset()
    assert (policy(many) != first).any()
    policy.reset()
    assert policy(0, deterministic=True) == 2  # the likelier component's


def test_the_policy_of_a_result(solved, tmp_path):
    cmdpax.save_result(solved, tmp_path / "result.npz")
    save_policy(solved, tmp_path / "policy.npz")
    for name in ("result.npz", "policy.npz"):
        core = load_policy(tmp_path / name).core
        np.testing.assert_array_equal(core.probabilities[0, 0], solved.policy)


@pytest.mark.parametrize("observation", [21, -1, 0.5, [0, 21], "start"])
def test_what_is_no_state(solved, observation, tmp_path):
    save_policy(solved, tmp_path / "policy.npz")
    with pytest.raises(InputError, match="takes indices of states, 0 to 20"):
        load_policy(tmp_path / "policy.npz")(observation)


@pytest.mark.parametrize(
    "chances", [np.ones((3, 4)), np.array([[2.0, -1.0]]), np.ones(1), np.ones((0, 1))]
)
def test_what_is_no_table(chances):
    with pytest.raises(ValueError, match=r"probabilities|table"):
        TablePolicy.of(chances)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"weight_1": None}, "no whole policy"),
        ({"weight_0": np.ones((12, 3), np.float32)}, "layers do not fit"),
        ({"mean": np.full(12, np.nan)}, "not finite"),
        ({"scale": np.ones(11)}, "layers do not fit"),
        ({"meta": {"version": 2}}, "reads versions 1 to 1"),
        ({"meta": {"format": "cmdpax-model"}}, "not a cmdpax-policy file"),
        ({"meta": {"action_space": None}}, "notes are of another kind"),
        ({"meta": {"action_space": {"low": None, "choices": 5, "start": "a"}}}, "no whole policy"),
        ({"meta": {"updates": "many"}}, "notes are of another kind"),
        ({"meta": {"observation_shape": [5]}}, "layers do not fit"),
        ({"meta": {"observation_shape": 12}}, "no whole policy"),
    ],
)
def test_a_damaged_file_gets_one_sentence(change, sentence, tmp_path):
    path = tmp_path / "policy.npz"
    save_policy(Policy(network("discrete")), path)
    with np.load(path) as file:
        arrays = {**file, **{name: part for name, part in change.items() if name != "meta"}}
        meta = {**json.loads(str(file["meta"])), **change.get("meta", {})}
    arrays = {name: part for name, part in arrays.items() if part is not None}
    np.savez(path, **{**arrays, "meta": np.array(json.dumps(meta))})
    with pytest.raises(InputError, match=f"policy.npz: .*{sentence}"):
        load_policy(path)


def test_onnx_is_not_read_here_and_other_names_are_not_written(tmp_path):
    with pytest.raises(InputError, match="run it with onnxruntime"):
        load_policy(tmp_path / "policy.onnx")
    with pytest.raises(InputError, match=r"ends in .npz or .onnx"):
        save_policy(Policy(network("box")), tmp_path / "policy.pt")


def test_export_writes_policies_of_runs_checkpoints_and_results(finished, solved, tmp_path, capsys):
    cmdpax.save_result(solved, tmp_path / "result.npz")
    sources = [finished, RunFolder(finished).checkpoints()[0], tmp_path / "result.npz"]
    for source in sources:
        for name in ("policy.npz", "policy.onnx"):
            assert call(capsys, "export", str(source), str(tmp_path / name))[0] == 0
        ours, theirs = load_policy(source), load_policy(tmp_path / "policy.npz")
        seen = observations(ours.core, 3) if source != sources[2] else np.arange(3)
        np.testing.assert_array_equal(
            ours(seen, deterministic=True), theirs(seen, deterministic=True)
        )
    again = tmp_path / "again.npz"
    assert call(capsys, "export", str(tmp_path / "policy.npz"), str(again))[0] == 0
    assert again.read_bytes() == (tmp_path / "policy.npz").read_bytes()
    code, _, err = call(capsys, "export", "cliff-world", str(tmp_path / "policy.onnx"))
    assert code == 2 and "cmdpax solve cliff-world --out result.npz makes one" in err


def test_without_onnx_a_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "cmdpax.learning.graph", raising=False)
    with pytest.raises(InputError, match=r"needs the package 'onnx'; install cmdpax\[onnx\]"):
        save_policy(Policy(network("box")), tmp_path / "policy.onnx")


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The Python of an environment with NumPy alone, and the page's reader; its folder."""
    folder = tmp_path_factory.mktemp("bare")
    run(sys.executable, "-m", "venv", "--without-pip", folder, folder=folder)
    packages = folder / PACKAGES.relative_to(sys.prefix)
    for path in Path(np.__file__).parents[1].glob("numpy*"):  # with numpy.libs
        (packages / path.name).symlink_to(path)
    (code,) = re.findall(r"<!-- file: (\S+\.py) -->\n```python\n(.*?)```", PAGE.read_text(), re.S)
    (folder / code[0]).write_text(code[1])
    return folder / "bin" / "python", folder


def test_the_bare_environment_has_no_cmdpax(bare):
    python, folder = bare
    command = [python, "-c", "import numpy, cmdpax"]
    answer = subprocess.run(command, cwd=folder, capture_output=True, env={}, check=False)
    assert b"No module named 'cmdpax'" in answer.stderr


@pytest.mark.parametrize("name", SPACES)
def test_the_reader_of_the_page_acts_alike_with_numpy_alone(bare, name):
    python, folder = bare
    core = network(name)
    save_policy(Policy(core), folder / "policy.npz")
    seen = observations(core, 50)
    np.save(folder / "seen.npy", seen)
    code = """
import numpy as np
from numpy_policy import Policy
policy, seen = Policy("policy.npz", seed=0), np.load("seen.npy")
np.save("best.npy", [policy(one, deterministic=True) for one in seen])
np.save("random.npy", [policy(seen[0]) for _ in range(3000)])
"""
    run(python, "-c", code, folder=folder)
    best, ours = np.load(folder / "best.npy"), core.best(core.read(seen)[0])
    assert best.dtype == ours.dtype or name == "box as it is"  # ours are then float32
    width = 1.0 if core.log_std is None else 2 * core.action_space.box[1].max()
    np.testing.assert_allclose(best, ours, rtol=0, atol=1e-6 * width)
    repeated = np.broadcast_to(seen[0], (3000, 2, 6))
    theirs, sampled = np.load(folder / "random.npy"), Policy(core)(repeated)
    np.testing.assert_allclose(theirs.mean(0), sampled.mean(0), atol=0.1 * width)
    np.testing.assert_allclose(theirs.std(0), sampled.std(0), atol=0.1 * width)


def test_a_trained_policy_runs_with_numpy_alone_and_in_onnxruntime(bare, finished):
    """With cmdpax beside NumPy: `tests/whole/test_numpy_only.py`."""
    python, folder = bare
    policy = load_policy(finished)
    for name in ("policy.npz", "policy.onnx"):
        save_policy(policy, folder / name)
    seen = observations(policy.core, 50)
    np.save(folder / "seen.npy", seen)
    code = """
import sys
import numpy as np
from numpy_policy import Policy
policy = Policy("policy.npz")
np.save("best.npy", [policy(one, deterministic=True) for one in np.load("seen.npy")])
assert not {"cmdpax", "scipy", "jax", "numba", "gymnasium"} & set(sys.modules)
"""
    ours = policy(seen, deterministic=True)
    run(python, "-c", code, folder=folder)
    np.testing.assert_allclose(np.load(folder / "best.npy"), ours, rtol=0, atol=2e-6)
    session = onnxruntime.InferenceSession(folder / "policy.onnx")
    noise = np.zeros((50, policy.core.action_space.size), np.float32)
    (action,) = session.run(["action"], {"observation": seen, "noise": noise})
    np.testing.assert_allclose(action, ours, rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", IMAGES)
def test_the_reader_of_the_page_reads_convolutions(bare, name):
    python, folder = bare
    core = convolutional(name)
    save_policy(Policy(core), folder / "policy.npz")
    seen = observations(core, 20)
    np.save(folder / "seen.npy", seen)
    code = """
import numpy as np
from numpy_policy import Policy
policy = Policy("policy.npz")
np.save("best.npy", [policy(one, deterministic=True) for one in np.load("seen.npy")])
"""
    run(python, "-c", code, folder=folder)
    ours = core.best(core.read(seen)[0])
    width = 2 * core.action_space.box[1].max()
    np.testing.assert_allclose(np.load(folder / "best.npy"), ours, rtol=0, atol=1e-6 * width)


@pytest.mark.parametrize("name", TABLES)
def test_the_reader_of_the_page_reads_tables(bare, name):
    python, folder = bare
    core = table(name)
    save_policy(Policy(core), folder / "policy.npz")
    code = """
import numpy as np
from numpy_policy import Policy
policy = Policy("policy.npz", seed=0)
episodes = []
for _ in range(4000):
    policy.reset()
    episodes.append([policy(2) for _ in range(5)])
np.save("episodes.npy", episodes)
"""
    run(python, "-c", code, folder=folder)
    actions = np.load(folder / "episodes.npy")  # [episodes, H]
    expected = np.einsum("m,mha->ha", core.mixture, core.probabilities[:, :, 2])
    often = np.stack([(actions == action).mean(0) for action in range(4)], -1)
    np.testing.assert_allclose(often, np.broadcast_to(expected, (5, 4)), atol=0.04)
