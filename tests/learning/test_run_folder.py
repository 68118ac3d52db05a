"""What is written comes back, by the safetensors package too; damage is one sentence."""

import errno
import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from cmdpax import InputError, load_policy
from cmdpax.learning import run_folder
from cmdpax.learning.checkpoints import read_checkpoint
from cmdpax.learning.config import TrainConfig
from cmdpax.learning.run_folder import RunFolder, from_0_1

ARRAYS = {
    "a/weight": np.arange(6.0).reshape(2, 3).T,
    "count": np.array(3, dtype=np.int64),
    "empty": np.zeros((0, 2), dtype=np.float32),
    "b": np.arange(5, dtype=np.int32),
    "a": np.array([True, False]),
    "half": np.ones(3, dtype=np.float16),
}
CONFIG = {"environment": "x", "method": "cpo", "limits": ["cost<=1"], "seed": 0, "samples": 9}
CONFIG |= {"discount": 1, "discounted": False}
RESULTS = Path(__file__).parents[2] / "results"


def assert_same(arrays, others):
    assert arrays.keys() == others.keys()
    for name, value in arrays.items():
        assert value.dtype == others[name].dtype
        np.testing.assert_array_equal(value, others[name])


def test_arrays_and_notes_come_back_as_they_were(tmp_path):
    path = RunFolder(tmp_path).save(7, ARRAYS, {"samples": 12})
    for name in (path, path.with_suffix(".json")):
        arrays, notes = read_checkpoint(name)
        assert (notes["checkpoint"], notes["samples"]) == (7, 12)
        assert_same(arrays, ARRAYS)


def test_the_last_few_are_kept_newest_first(tmp_path):
    run = RunFolder(tmp_path)
    for number in (1, 2, 10, 20, 100):
        path = run.save(number, ARRAYS, {})
        if number == 2:
            path.with_suffix(".json").unlink()  # killed while it was removed
    assert [int(path.stem) for path in run.checkpoints()] == [100, 20, 10]
    assert len(list(path.parent.iterdir())) == 2 * run_folder.CHECKPOINTS_KEPT


def test_a_checkpoint_exists_once_its_notes_do(tmp_path):
    run = RunFolder(tmp_path)
    run.save(1, ARRAYS, {})
    run.save(2, ARRAYS, {}).with_suffix(".json").unlink()  # killed between the two files
    assert [int(path.stem) for path in run.checkpoints()] == [1]


@pytest.mark.parametrize("part", [".safetensors", ".json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "remove"])
def test_damage_of_a_checkpoint_is_noticed(tmp_path, part, damage):
    run = RunFolder(tmp_path)
    run.save(1, {"x": np.ones(2)}, {})
    path = run.save(2, ARRAYS, {"action_space": {"high": [1.25]}})
    file = path.with_suffix(part)
    data = bytearray(file.read_bytes())
    middle = data.index(b"1.25") if part == ".json" else len(data) // 2
    if damage == "remove":
        file.unlink()
    elif damage == "flip":
        data[middle] ^= 1
        file.write_bytes(data)
    else:
        file.write_bytes(data[:middle] if damage == "cut" else b"")
    with pytest.raises(InputError, match=r"cannot be read|is damaged"):
        read_checkpoint(path)
    if (part, damage) != (".json", "remove"):  # without its notes it is none
        with pytest.warns(UserWarning, match="The one before is taken"):
            assert run.newest()[1]["checkpoint"] == 1


@pytest.mark.parametrize("part", [".safetensors", ".json"])
def test_any_flipped_bit_of_a_checkpoint_means_the_one_before(tmp_path, part):
    """Of either file, names of checksums, white space and all."""
    run, notes = RunFolder(tmp_path), {"action_space": {"high": [1.25]}, "observation_shape": [3]}
    run.save(1, {"x": np.ones(2)}, notes)
    path = run.save(2, {"x": np.zeros(1)}, notes)
    file = path.with_suffix(part)
    whole = file.read_bytes()
    for place in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            file.write_bytes(damaged)
            with pytest.warns(UserWarning, match=f"{path} is damaged.*The one before is taken"):
                assert run.newest()[1]["checkpoint"] == 1, (place, bit)
    file.write_bytes(whole)
    assert run.newest()[1]["checkpoint"] == 2


class Killed(BaseException):
    pass


@pytest.mark.parametrize("what", ["save", "keep_result"])
@pytest.mark.parametrize("at", range(1, 9))
def test_whatever_is_killed_when_no_half_of_a_checkpoint_stays(tmp_path, monkeypatch, what, at):
    """Killed at the `at`-th change of the disk; the next writer leaves whole checkpoints alone."""
    run, changes = RunFolder(tmp_path / "run"), []
    with run.begin(CONFIG):
        for number in range(1, 5):
            run.save(number, ARRAYS, {})

    def dying(change):
        def changed(*arguments, **options):
            changes.append(change)
            if len(changes) == at:
                raise Killed
            return change(*arguments, **options)

        return changed

    with monkeypatch.context() as patch:
        for owner, name in ((os, "replace"), (Path, "unlink"), (shutil, "rmtree")):
            patch.setattr(owner, name, dying(getattr(owner, name)))
        with suppress(Killed):
            run.save(5, ARRAYS, {}) if what == "save" else run.keep_result()
    (tmp_path / "run" / "checkpoints" / ".00000005.json.0123abcd.part").write_text("half")
    before = {int(path.stem) for path in run.checkpoints()}
    assert before and all(read_checkpoint(path) for path in run.checkpoints())
    with run.resume(CONFIG):
        run.save(5, ARRAYS, {})
    files = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    kept = sorted({*before, 5})[-run_folder.CHECKPOINTS_KEPT :]
    ends = ("json", "safetensors")
    assert files == [f"{number:08d}.{end}" for number in kept for end in ends]


def test_a_folder_that_is_gone_is_not_made_again(tmp_path):
    """The attempt of a late worker, cleared away: it must not come back as half a run."""
    run = RunFolder(tmp_path / "run")
    with run.begin(CONFIG):
        shutil.rmtree(run.path)
        with pytest.raises(FileNotFoundError):
            run.save(1, ARRAYS, {})
    assert not run.path.exists()


def test_an_error_of_the_disk_names_the_file(tmp_path, monkeypatch):
    run = RunFolder(tmp_path)

    def refuse(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="Input/output error") as caught:
        run.save(1, ARRAYS, {})
    assert caught.value.filename == str(tmp_path / "metrics.jsonl")


def test_what_a_stopped_run_has_kept(tmp_path):
    run = RunFolder(tmp_path)
    assert run.last_checkpoint_sentence() == "there was no checkpoint yet"
    run.save(30, {"x": np.ones(1)}, {})
    kept = f"the checkpoint of update 30 is kept in {tmp_path}"
    assert run.last_checkpoint_sentence() == kept


DAMAGED_CONFIGS = ({"environment": None}, {"limits": 25}, {"limits": [25]}, {"seed": "0"})


@pytest.mark.parametrize(
    "text",
    ["[]", "{", "{}", "3", "[" * 100_000]
    + [json.dumps({**CONFIG, **wrong}) for wrong in DAMAGED_CONFIGS],
)
def test_a_config_that_is_none(tmp_path, text):
    run = RunFolder(tmp_path)
    with pytest.raises(InputError, match=r"it has no config\.json"):
        _ = run.config
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InputError, match=r"its config\.json is damaged"):
        _ = run.config
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert run.config == CONFIG


@pytest.mark.parametrize("path", sorted(RESULTS.glob("deep*/*/config.json"))[::7])
def test_configs_of_0_1_are_read_in_todays_names(path):
    run = RunFolder(path.parent)
    assert run.config["limits"] == ["cost<=25"] and run.config["rollout_steps"] == 1000
    assert len(run.rows()) > 10 and run.evaluation["stochastic"]["episodes"] == 10
    settings = {name: value for name, value in run.config.items() if name != "environment"}
    assert TrainConfig.of(settings).resolved().method == run.config["method"]


def test_sentinels_of_0_1_are_the_methods_own():
    own = {"batch": 0, "minibatch": 0, "trust_region": 0.0, "penalty": 0, "dual_step": 0.0}
    old = {"limit": ["cost<=3"], "horizon": 50, "kl_stop": -1, "gradient_clip": -1.0, **own}
    new = from_0_1(old)
    names = {"limits", "rollout_steps", "kl_stop", "gradient_clip", *own}
    assert new.keys() == names | {"units", "critics", "cost_gae"}
    assert (new["units"], new["critics"]) == ("reward", "plain")  # there was nothing else
    assert new["cost_gae"] == 0.95 and from_0_1({**old, "gae": 0.9})["cost_gae"] == 0.9
    assert from_0_1({**old, "critic_centre": 0.1}) == new
    assert all(new[name] is None for name in ("kl_stop", "gradient_clip", *own))
    assert from_0_1({**old, "kl_stop": 0.0})["kl_stop"] == 0.0
    assert from_0_1({**old, "method": "cpo", "gradient_clip": 40.0})["gradient_clip"] == 0.0
    today = {"limits": [], "rollout_steps": 50, "gradient_clip": 0.0}
    assert from_0_1(today) == today


def rows_of(run, *lines):
    (run.path / "metrics.jsonl").write_text("".join(lines))


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ('{"a": 1}\n{"a": 2}\n{"a":', {"a": 2}),
        ('{"a": 1}\n', {"a": 1}),
        ('{"a": 1}', None),
        ("", None),
        ("nonsense\n", None),
    ],
)
def test_the_last_row_is_whole(tmp_path, text, row):
    run = RunFolder(tmp_path)
    assert run.last_row() is None
    rows_of(run, " " * 70_000 + "\n", text)  # only the end of a long file is looked at
    assert run.last_row() == row


def test_a_last_row_of_many_costs_is_whole(tmp_path):
    row = {"update": 3, "cost": {f"cost of machine {number}": 1 / 3 for number in range(200)}}
    assert len(json.dumps(row)) > 4096
    run = RunFolder(tmp_path)
    run.add({"update": 2})
    run.add(row)
    assert run.last_row() == row


def test_rows(tmp_path):
    run = RunFolder(tmp_path)
    assert run.rows() == [] and run.last_row() is None
    for update in (1, 2, 3):
        run.add({"update": update, "return": 0.5})
    assert [row["update"] for row in run.rows()] == [1, 2, 3] and run.last_row()["update"] == 3
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"update": 4, "ret')  # being written
    assert len(run.rows()) == 3 and run.last_row()["update"] == 3
    run.rewind(2)
    assert [row["update"] for row in run.rows()] == [1, 2]
    rows_of(run, '{"update": 1}\n', '{"update": 2}')  # killed before the end of the line
    run.rewind(2)
    run.add({"update": 3})
    assert [row["update"] for row in run.rows()] == [1, 2, 3]
    rows_of(run, '{"update": 1}\n', "garbage\n", '{"update": 2}\n')
    with pytest.raises(InputError, match=r"metrics\.jsonl is damaged: line 2 is no row"):
        run.rows()
    with pytest.warns(UserWarning, match="lacks 1 of the 3 rows before the checkpoint"):
        run.rewind(3)
    assert (tmp_path / "metrics.jsonl").read_text() == '{"update": 1}\n{"update": 2}\n'


@pytest.mark.parametrize("text", ["[]", "{", '{"stochastic": {"reward": {}}}', '{"stochastic": 3}'])
def test_an_evaluation_that_is_none(tmp_path, text):
    run = RunFolder(tmp_path)
    assert run.evaluation is None
    (tmp_path / "evaluation.json").write_text(text)
    with pytest.raises(InputError, match=r"evaluation\.json is damaged; evaluate the run again"):
        _ = run.evaluation
    measured = {kind: {"reward": {}, "costs": {}} for kind in ("stochastic", "deterministic")}
    run.save_evaluation(measured)
    assert run.evaluation == measured


def test_beginning_and_resuming(tmp_path):
    run = RunFolder(tmp_path / "run")
    with pytest.raises(InputError, match="holds no run to resume"), run.resume(CONFIG):
        pass
    assert not run.path.exists()
    for hold in (run.begin, run.resume):
        with hold(CONFIG):
            assert run.config == CONFIG
    with pytest.raises(InputError, match="already holds a run"), run.begin(CONFIG):
        pass
    changed = {**CONFIG, "seed": 1}
    with (
        pytest.raises(InputError, match=r"another config \(seed was 0, is 1\); repeat it"),
        run.resume(changed),
    ):
        pass
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(InputError, match="is not a folder"), RunFolder(path).begin(CONFIG):
            pass


def attempt(path, updates, damaged=()):
    """Another attempt at a run, with checkpoints after some updates."""
    run = RunFolder(path)
    with run.begin(CONFIG):
        pass
    for update in range(1, max(updates) + 1):
        run.add({"update": update})
    for update in updates:
        file = run.save(update, {"x": np.full(2, update)}, {})
        if update in damaged:
            file.write_bytes(b"")
    return run


def test_the_furthest_intact_checkpoint_is_adopted(tmp_path):
    one, other = attempt(tmp_path / "a", [1, 3]), attempt(tmp_path / "b", [2, 4, 5], damaged=[5])
    rows = attempt(tmp_path / "c", [9])
    rows_of(rows, '{"update": 1}\n')  # without its rows a checkpoint is of no use
    run = RunFolder(tmp_path / "new")
    run.path.mkdir()
    run.adopt([tmp_path / "nothing"])
    assert not list(run.path.iterdir())
    run.adopt([one.path, other.path, rows.path])
    assert run.newest()[1]["checkpoint"] == 4 and run.config == CONFIG
    assert [row["update"] for row in run.rows()] == [1, 2, 3, 4] and len(run.checkpoints()) == 1
    other.keep_result()
    assert [int(path.stem) for path in other.checkpoints()] == [5]


def test_adopted_with_a_checkpoint_are_policies_set_aside_and_kept(tmp_path):
    other, run = RunFolder(tmp_path / "other"), RunFolder(tmp_path / "run")
    with other.begin(CONFIG):
        for number in range(1, 4):
            other.add({"update": number})
        other.set_aside(2, {"policy/x": np.full(1, 2.0)})
        other.save(3, ARRAYS, {})
    (tmp_path / "run").mkdir()
    run.adopt([other.path])
    np.testing.assert_array_equal(run.candidate(2)["policy/x"], [2.0])
    assert run.candidate(1) is None and run.kept() is None
    other.keep({}, {"checkpoint": 3, "updates": 3})
    other.clear()
    (tmp_path / "third").mkdir()
    third = RunFolder(tmp_path / "third")
    third.adopt([other.path])
    assert third.kept()[1]["checkpoint"] == 3 and not (third.path / "candidates").exists()


@pytest.mark.parametrize("part", ["kept.json", "kept.safetensors"])
def test_what_is_kept_takes_the_place_of_the_last_unless_it_is_damaged(tmp_path, part):
    run = RunFolder(tmp_path)
    run.save(5, {"policy/x": np.full(1, 5.0), "critics/y": np.ones(1)}, {"observation_shape": [3]})
    run.set_aside(4, {"policy/x": np.full(1, 4.0)})
    assert run.policy()[1]["checkpoint"] == 5
    run.keep(run.candidate(4), {"checkpoint": 4, "updates": 5})
    arrays, notes = run.policy()
    assert arrays.keys() == {"policy/x", "critics/y"} and arrays["policy/x"] == 4
    assert (notes["checkpoint"], notes["observation_shape"]) == (4, [3])
    assert run.newest()[0]["policy/x"] == 5
    run.clear()
    assert not (tmp_path / "candidates").exists()
    data = bytearray((tmp_path / part).read_bytes())
    data[-4] ^= 1
    (tmp_path / part).write_bytes(data)
    with pytest.warns(UserWarning, match=r"kept\.safetensors is damaged.*The last policy is taken"):
        assert run.policy()[0]["policy/x"] == 5
    run.keep({}, {"checkpoint": 5, "updates": 5})
    assert run.policy()[0]["policy/x"] == 5
    run.save(6, {"policy/x": np.full(1, 6.0)}, {})
    assert run.kept() is None and run.policy()[0]["policy/x"] == 6  # the run went on


def test_a_run_is_trained_by_one_process(tmp_path):
    run = RunFolder(tmp_path / "run")
    code = (
        "import json, sys; from cmdpax.learning.run_folder import RunFolder\n"
        "with RunFolder(sys.argv[1]).begin(json.loads(sys.argv[2])):\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(run.path), json.dumps(CONFIG)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        for hold in (run.begin, run.resume):
            with pytest.raises(InputError, match="is being trained by another process; wait"):
                hold(CONFIG).__enter__()
        holder.kill()
        holder.wait()
    with run.resume(CONFIG):
        pass


def test_numpy_alone_reads_a_run_and_acts(finished, tmp_path):
    """In a process in which no other package can be imported; the same actions but for rounding."""
    code = """
import sys
ALLOWED = {"numpy", "cmdpax", *sys.stdlib_module_names}
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ALLOWED:
            raise ImportError(f"{name} is not installed")
sys.meta_path.insert(0, Refuse())
import numpy as np
import cmdpax
from cmdpax.learning.run_folder import RunFolder
run, policy = RunFolder(sys.argv[1]), cmdpax.load_policy(sys.argv[1])
assert len(run.rows()) == 12 and run.config["method"] == "spma-alm"
observation = np.random.default_rng(0).normal(size=(20, 11))
sampled = policy(observation, random=np.random.default_rng(1))
np.save(sys.argv[2], [policy(observation, deterministic=True), sampled])
print(sorted(name for name in sys.modules if name in ("numba", "jax", "safetensors", "scipy")))
"""
    command = [sys.executable, "-c", code, str(finished), str(tmp_path / "actions.npy")]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
    policy, observation = load_policy(finished), np.random.default_rng(0).normal(size=(20, 11))
    ours = [
        policy(observation, deterministic=True),
        policy(observation, random=np.random.default_rng(1)),
    ]
    np.testing.assert_allclose(np.load(tmp_path / "actions.npy"), ours, atol=1e-6)


@pytest.mark.parametrize("part", ["policy/layers/0/weight", "seen/mean", "action_space"])
def test_a_checkpoint_without_a_whole_policy(finished, tmp_path, part):
    arrays, notes = RunFolder(finished).newest()
    shutil.copytree(finished, tmp_path / "run")
    own = {name: value for name, value in notes.items() if not name.endswith("sha256")}
    own.pop(part, None)
    RunFolder(tmp_path / "run").save(99, {k: v for k, v in arrays.items() if k != part}, own)
    with pytest.raises(InputError, match="holds no whole policy"):
        load_policy(tmp_path / "run")


@pytest.mark.parametrize("part", ["policy/layers/0/weight", "policy/layers/1/bias", "seen/mean"])
def test_a_policy_whose_layers_do_not_fit(finished, tmp_path, part):
    """Compiled loops would read beyond the end of such arrays."""
    arrays, notes = RunFolder(finished).newest()
    shutil.copytree(finished, tmp_path / "run")
    own = {name: value for name, value in notes.items() if not name.endswith("sha256")}
    RunFolder(tmp_path / "run").save(99, {**arrays, part: arrays[part][:-1]}, own)
    with pytest.raises(InputError, match="holds no whole policy"):
        load_policy(tmp_path / "run")


def test_what_has_no_policy_says_what_it_is(finished, tmp_path):
    """A record of numbers, a file, any folder, a run that was stopped early."""
    shutil.copytree(finished, tmp_path / "record")
    shutil.rmtree(tmp_path / "record" / "checkpoints")
    (tmp_path / "record" / "evaluation.json").unlink(missing_ok=True)  # of another test
    with pytest.raises(InputError, match="holds no intact checkpoint"):
        load_policy(tmp_path / "record")
    (tmp_path / "record" / "evaluation.json").write_text("{}")
    with pytest.raises(InputError, match="is a record of numbers, without its policy; train one"):
        load_policy(tmp_path / "record")
    with pytest.raises(InputError, match=r"is not a run folder: it has no config\.json"):
        load_policy(tmp_path)
    (tmp_path / "policy.npz").write_bytes(b"")
    with pytest.raises(InputError, match="is not a run folder: it is a file; give the folder of"):
        _ = RunFolder(tmp_path / "policy.npz").config


def test_pipes_in_the_place_of_files_keep_nobody_waiting(tmp_path):
    run = RunFolder(tmp_path)
    path = run.save(1, ARRAYS, {})
    names = ("config.json", "metrics.jsonl", "evaluation.json")
    for file in (*(tmp_path / name for name in names), path, path.with_suffix(".json")):
        file.unlink(missing_ok=True)
        os.mkfifo(file)
    assert run.last_row() is None and run.rows() == [] and run.evaluation is None
    with pytest.raises(InputError, match=r"it has no config\.json"):
        _ = run.config
    with pytest.warns(UserWarning, match="not a regular file"), pytest.raises(InputError):
        run.newest()
