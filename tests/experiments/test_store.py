"""Commits happen once, whatever comes late; disks that say no are answered with one sentence."""

import errno
import json
import os
import shutil
import subprocess
import sys
import textwrap
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import cmdpax
from calls import call
from cmdpax import InputError
from cmdpax.experiments import store as store_module
from cmdpax.experiments.executors import answer
from cmdpax.experiments.results import made_by_others
from cmdpax.experiments.runs import Run, carry_out, exact_run, train_run
from cmdpax.experiments.store import Store, difference, installed, versions
from cmdpax.learning.config import TrainConfig
from cmdpax.learning.run_folder import RunFolder
from experiments.sweeps import contents, tiny_runs


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store", create=True)


(RUN,) = tiny_runs(1)


def test_an_id_is_a_hash_of_config_and_seed():
    again = Run.from_text(RUN.text)
    assert again == RUN and again.id == RUN.id and len(RUN.id) == 16
    shuffled = Run(RUN.kind, dict(reversed(RUN.config.items())), RUN.seed)
    assert shuffled.id == RUN.id
    assert Run(RUN.kind, RUN.config, 1).id != RUN.id
    one, two = (
        train_run("SafetyHopperVelocity-v1", TrainConfig(penalty=penalty)) for penalty in (0.1, 0.2)
    )
    assert one.id != two.id and "seed" not in one.config


def test_a_run_is_finished_once(store):
    assert store.pending([RUN, RUN]) == [RUN]
    assert store.carry_out(RUN)
    before = contents(store.done)
    assert not store.carry_out(RUN)
    assert contents(store.done) == before
    assert store.pending([RUN]) == [] and store.finished() == {RUN.id}
    result = store.result(RUN)
    assert result["run"] == json.loads(RUN.text) and result["versions"] == versions()
    assert result["outcome"]["status"] == "limit" and "seconds" not in result["outcome"]
    assert store.spent(RUN)["cpu_seconds"] > 0
    assert not list(store.work.iterdir())
    assert store.finished_runs() == [RUN]


def test_the_first_of_two_commits_wins(store, monkeypatch):
    """While one attempt is at work, another commits: the late one leaves everything as it is."""
    inner = []

    def slow(run, folder, earlier, watch):
        if not inner:
            inner.append(1)
            inner.append(Store(store.folder).carry_out(run))
            inner.append({path: path.stat().st_ino for path in store.done.rglob("*")})
        return carry_out(run, folder, earlier, watch)

    monkeypatch.setattr(store_module, "carry_out", slow)
    assert not store.carry_out(RUN)
    assert inner[1] is True
    assert {path: path.stat().st_ino for path in store.done.rglob("*")} == inner[2]
    assert not list(store.work.iterdir())


def test_a_late_worker_never_commits_half_a_folder(store, monkeypatch):
    """Its attempt was cleared away while it slept; it makes the folder anew by writing on, and
    still must not commit it.
    """

    def slow(run, folder, earlier, watch):
        store._discard(folder)
        folder.mkdir()
        return {}

    monkeypatch.setattr(store_module, "carry_out", slow)
    assert not store.carry_out(RUN)
    assert not store.finished() and not list(store.work.iterdir())


def test_two_stores_on_one_folder_agree_on_who_won(store):
    """Both attempts are complete; only one rename goes through."""
    folders = []
    for name in ("a", "b"):
        folder = store.work / f"{RUN.id}.0000000{name}"
        folder.mkdir()
        (folder / "run.json").write_text("{}")
        (folder / "result.json").write_text(name)
        folders.append(folder)
    assert [store._commit(RUN, folder) for folder in folders] == [True, False]
    assert (store.done / RUN.id / "result.json").read_text() == "a"


def test_a_failed_run_is_an_outcome(store):
    run = exact_run({"model": "no-such-file.npz"})
    assert store.carry_out(run)
    assert "no such file" in store.result(run)["outcome"]["failed"]
    shutil.rmtree(store.done / run.id)
    assert store.pending([run]) == [run]


@pytest.mark.parametrize("noted", ['"a"', "[]", "null", "-1"])
def test_a_cost_that_is_no_number_counts_nothing(store, noted):
    store.carry_out(RUN)
    (store.done / RUN.id / "spent.json").write_text(f'{{"cpu_seconds": {noted}, "host": "h"}}')
    assert store.spent(RUN) == {"cpu_seconds": 0.0, "host": "h"}


@pytest.mark.parametrize(
    "text",
    [
        *(
            '{"x',
            "[]",
            None,
            '{"versions": {}, "outcome": null}',
            '{"versions": [], "outcome": {}}',
        ),
        *(f'{{"versions": {{}}, "outcome": {{"reward": {one}}}}}' for one in ('"a"', "1" * 400)),
        '{"versions": {}, "outcome": {"failed": 3}}',
    ],
)
def test_a_damaged_result_is_named_with_its_remedy(store, text):
    store.carry_out(RUN)
    path = store.done / RUN.id / "result.json"
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(InputError, match=f"{RUN.id}/result.json is damaged; remove "):
        store.result(RUN)
    shutil.rmtree(path.parent)
    assert store.pending([RUN]) == [RUN] and store.carry_out(RUN) and store.result(RUN)["outcome"]


def test_a_store_where_nothing_can_be_made():
    with pytest.raises(InputError, match="cannot be made there"):
        Store("/proc/no-such-store", create=True)


def test_other_versions_are_shown_and_nothing_is_redone(store):
    assert store.carry_out(RUN)
    assert made_by_others([RUN], store) == ""
    path = store.done / RUN.id / "result.json"
    path.write_text(path.read_text().replace(versions()["numpy"], "1.0.0"))
    said = made_by_others([RUN], store)
    assert (
        f"1 finished runs were made by other versions (numpy 1.0.0 -> {versions()['numpy']})"
        in said
    )
    assert store.pending([RUN]) == []
    (store.done / RUN.id).rename(store.work / f"{RUN.id}.0000000a")  # as if only begun
    assert made_by_others([RUN], store) == ""
    begun = store.work / f"{RUN.id}.0000000a" / "run.json"
    begun.write_text(begun.read_text().replace(versions()["numpy"], "1.0.0"))
    assert made_by_others([RUN], store).startswith(
        "1 runs were begun by other versions; they start anew"
    )


def test_the_dead_leave_attempts_that_are_tidied_up(store):
    assert store.carry_out(RUN)
    names = (f"{RUN.id}.0123abcd", f"{RUN.id}.00000000", f"{RUN.id}.11111111.gone")
    late, empty, half, other = (store.work / name for name in (*names, f"{'0' * 16}.0123abcd"))
    for folder in (late, empty, half, other):
        folder.mkdir()
    for folder in (late, half, other):
        (folder / "run.json").write_text("{}")
        (folder / "checkpoints").mkdir()
    (empty / ".run.json.0123abcd.part").write_text('{"run"')  # killed in its first moment
    store.tidy()
    assert list(store.work.iterdir()) == [other]


STRAYS = ("thesis", f"{RUN.id}.mine", f"{RUN.id}.0123abcd", f"{RUN.id}.0123abcd.gone", "0123.part")


@pytest.mark.parametrize("name", STRAYS)
@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_what_a_store_did_not_make_is_left_alone(store, tmp_path, name, kind):
    """Whatever its name: a folder without the mark, a file, a link to somebody's folder."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work")
    for place in (store.work, store.done):
        stray = place / name
        if kind == "folder":
            shutil.copytree(mine, stray)
        elif kind == "file":
            stray.write_text("years of work")
        else:
            (mine / "run.json").write_text("{}")
            stray.symlink_to(mine)
    before = {path: path.stat().st_ino for path in tmp_path.rglob("*")}
    assert store.pending([RUN]) == [RUN] and made_by_others([RUN], store) == ""
    store.tidy()
    assert store.carry_out(RUN)
    store.tidy()
    assert store.finished() == {RUN.id} and store.finished_runs() == [RUN]
    after = {path: path.stat().st_ino for path in tmp_path.rglob("*")}
    assert before.items() - {(store.folder / "done", before[store.done])} <= after.items()
    assert (mine / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("text", ['{"cpu_seconds": "much", "seconds": NaN}', "[]", "{", "-1", ""])
def test_a_bad_note_of_a_dead_attempt_does_no_harm(store, text):
    dead = store.work / f"{RUN.id}.0123abcd"
    dead.mkdir()
    (dead / "run.json").write_text("{}")
    (dead / "spent.json").write_text(text)
    assert store.carry_out(RUN)
    assert 0 < store.spent(RUN)["cpu_seconds"] < 1e3 and store.spent(RUN)["attempt"] == 2
    assert not list(store.work.iterdir())


@pytest.mark.parametrize(
    "error", [TypeError("ambiguous"), SystemExit(3), RecursionError(), OSError("socket")]
)
def test_whatever_a_run_raises_is_its_outcome(store, monkeypatch, error):
    def break_off(*_):
        raise error

    monkeypatch.setattr(store_module, "carry_out", break_off)
    assert store.carry_out(RUN) and store.pending([RUN]) == []
    said = store.result(RUN)["outcome"]["failed"]
    assert said.startswith("the run broke off: ") and type(error).__name__ in said


def test_a_run_that_is_given_up_keeps_its_furthest_checkpoint(store):
    attempt = store.work / f"{RUN.id}.0123abcd"
    run_folder = RunFolder(attempt)
    attempt.mkdir()
    made = {"run": json.loads(RUN.text), "versions": versions()}
    (attempt / "run.json").write_text(json.dumps(made))
    (attempt / "config.json").write_text("{}")
    assert store.furthest(RUN) == 0
    for update in (1, 2):
        run_folder.add({"update": update})
        run_folder.save(update, {"x": np.ones(1)}, {})
    assert store.furthest(RUN) == 2
    assert store.give_up(RUN, "it kills its workers.")
    assert store.result(RUN)["outcome"] == {"failed": "it kills its workers."}
    assert RunFolder(store.done / RUN.id).newest()[1]["checkpoint"] == 2
    assert not list(store.work.iterdir())


def test_a_folder_that_holds_something_else_is_refused(tmp_path, capsys):
    mine = tmp_path / "mine"
    for part in ("work/thesis", "done/thesis"):
        (mine / part).mkdir(parents=True)
    code, _, err = call(capsys, "sweep", "tiny", "--store", str(mine))
    assert code == 2 and err.count("\n") == 1
    assert f"{mine} is not empty and no run store; give another, a new or an empty one." in err
    left = {str(path.relative_to(mine)) for path in mine.rglob("*")}
    assert left == {"work", "work/thesis", "done", "done/thesis"}
    (mine / "store.json").write_text('{"holds": "shoes"}')
    with pytest.raises(InputError, match="is not empty and no run store"):
        Store(mine, create=True)
    with pytest.raises(InputError, match="is no run store"):
        Store(mine)


def test_a_store_whose_maker_was_killed_can_be_made_again(tmp_path):
    (tmp_path / ".store.json.0123abcd.part").write_text('{"holds"')
    (tmp_path / "store").mkdir()
    with pytest.raises(InputError, match="not empty"):
        Store(tmp_path, create=True)
    (tmp_path / "store").rmdir()
    store = Store(tmp_path, create=True)
    with store.alone():
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {"store.json", "work", "done", "driver.lock"}


def test_a_store_is_where_it_was_when_somebody_changes_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    store = Store("store", create=True)
    real = store_module.carry_out

    def wander(*arguments):
        os.chdir(tmp_path / "elsewhere")
        return real(*arguments)

    monkeypatch.setattr(store_module, "carry_out", wander)
    assert json.loads(answer("store", RUN.text)) == {"won": True}
    assert Path.cwd() == tmp_path and store.finished() == {RUN.id}


def test_one_driver_at_a_time(store):
    with store.alone():
        code = (
            "from cmdpax.experiments.store import Store\nwith"
            f" Store({str(store.folder)!r}).alone(): pass"
        )
        second = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "another sweep is at work" in second.stderr
    with store.alone():
        pass


def test_a_folder_that_is_no_store(tmp_path):
    with pytest.raises(InputError, match="no run store"):
        Store(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be made there"):
        Store(tmp_path / "file", create=True)


def complaint(done):
    """The one sentence; progress lines may stand before it on a slow machine."""
    assert done.returncode == 2 and "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if " runs are done, " not in line]
    return line


def in_small_room(size: str, body: str) -> subprocess.CompletedProcess:
    """Run Python in a mount namespace of its own, where /mnt is a file system of that size."""
    mount = f'mount -t tmpfs -o size={size} none /mnt && exec {sys.executable} -c "$BODY"'
    room = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    probe = subprocess.run([*room, "mount -t tmpfs none /mnt"], capture_output=True, text=True)
    if probe.returncode:  # the machine's fault; whatever fails after this is ours
        pytest.skip(f"no mount namespaces here: {probe.stderr.strip()}")
    environment = {**os.environ, "BODY": textwrap.dedent(body)}
    return subprocess.run([*room, mount], capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_disk_that_says_no_gives_one_sentence(store, monkeypatch, reason):
    """Without the file systems of the tests below, which not every machine lets us mount."""

    def refuse(*_):
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(store_module, "write_json", refuse)
    with pytest.raises(InputError, match=f"cannot be written .{os.strerror(reason)}.; mend that"):
        store.carry_out(RUN)
    assert store.pending([RUN]) == [RUN]


FILL = """
    import pathlib, subprocess, sys
    from cmdpax.cli.main import main
    sys.argv = ["cmdpax"]
    pathlib.Path("/mnt/ballast").write_bytes(bytes(%d))
    main(["sweep", "tiny", "--store", "/mnt/store", "--executor", "%s", "--workers", "1"])
"""


@pytest.mark.parametrize("executor", ["serial", "local"])
def test_a_full_disk_gives_one_sentence(executor):
    done = in_small_room("200k", FILL % (120_000, executor))
    assert complaint(done).startswith(
        "cmdpax: the store /mnt/store cannot be written (No space left on device); mend that"
    )


def test_a_read_only_store_gives_one_sentence():
    body = """
        import subprocess
        from cmdpax.cli.main import main
        from cmdpax.experiments.store import Store
        Store("/mnt/store", create=True)
        subprocess.run(["mount", "-o", "remount,ro", "/mnt"], check=True)
        main(["sweep", "tiny", "--store", "/mnt/store"])
    """
    done = in_small_room("1m", body)
    assert complaint(done).startswith(
        "cmdpax: the store /mnt/store cannot be written (Read-only file system); mend that"
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A short training, undisturbed."""
    config = TrainConfig(
        samples=600,
        batch=100,
        rollout_steps=50,
        passes=1,
        hidden=(8,),
        checkpoint_every=2,
    )
    store = Store(tmp_path_factory.mktemp("trained") / "store", create=True)
    run = train_run("SafetyHopperVelocity-v1", config)
    assert store.carry_out(run)
    return store, run


def test_a_finished_training_is_a_run_folder_without_clocks(trained):
    store, run = trained
    folder = store.done / run.id
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "run.json",
        "result.json",
        "spent.json",
        "config.json",
        "metrics.jsonl",
        "evaluation.json",
        "checkpoints",
    }
    assert len(list((folder / "checkpoints").iterdir())) == 2
    outcome, seen = (
        store.result(run)["outcome"],
        json.loads((folder / "evaluation.json").read_text()),
    )
    assert outcome["return"] == seen["stochastic"]["reward"]["mean"] and outcome["samples"] == 600
    assert outcome["excess"] == seen["stochastic"]["costs"]["cost"]["mean"] - 25


def test_a_retry_goes_on_from_the_checkpoint_and_ends_in_the_same_bytes(
    trained, tmp_path, monkeypatch
):
    """The first attempt dies after its second checkpoint; the next one makes the remaining updates
    only.
    """
    from cmdpax.learning import training

    whole, run = trained
    store = Store(tmp_path / "store", create=True)

    class Killed(BaseException):
        pass

    real, collected = training.collect, []

    def collect(*arguments):
        collected.append(1)
        if len(collected) == 6:
            raise Killed
        return real(*arguments)

    monkeypatch.setattr(training, "collect", collect)
    monkeypatch.setattr(store_module, "NOTE_SECONDS", 0.0)
    with pytest.raises(Killed):
        store.carry_out(run)
    assert len(list(store.work.iterdir())) == 1 and not store.finished()
    (attempt,) = store.attempts(run)
    noted = json.loads((attempt / "spent.json").read_text())
    (attempt / "spent.json").write_text(
        json.dumps({name: seconds + 1000 for name, seconds in noted.items()})
    )
    damaged = sorted(store.work.rglob("*.safetensors"))[-1]
    assert damaged.stem == "00000004"
    assert store.carry_out(run)
    assert len(collected) == 6 + 2  # updates 5 and 6
    assert contents(store.done) == contents(whole.done)
    spent = store.spent(run)
    assert spent["attempt"] == 2 and not list(store.work.iterdir())
    for name in ("cpu_seconds", "seconds"):  # of both attempts
        assert spent[name] > 1000 + noted[name]


def test_a_retry_takes_the_checkpoint_before_a_damaged_one_and_none_of_other_versions(
    trained, tmp_path
):
    whole, run = trained
    attempt, folder = tmp_path / "attempt", tmp_path / "next"
    shutil.copytree(whole.done / run.id, attempt)
    folder.mkdir()
    (newest,) = attempt.rglob("*.safetensors")
    newest.write_bytes(newest.read_bytes()[:-3])
    RunFolder(folder).adopt([attempt])
    assert not (folder / "config.json").exists()  # the only one is damaged: from the start
    store = Store(tmp_path / "store", create=True)
    made = json.loads((attempt / "run.json").read_text())
    assert store_module._is_usable(attempt)
    made["versions"]["code"] = "another"
    (attempt / "run.json").write_text(json.dumps(made))
    assert not store_module._is_usable(attempt)
    assert store.attempts(run) == []


def test_only_packages_that_are_there_have_versions():
    assert installed(["numpy", "no-such-package"]) == {"numpy": version("numpy")}


def test_the_code_is_known_by_its_source(tmp_path, monkeypatch):
    """A digest that sees every file, its name and its content, and nothing else."""
    seen = []
    for name, text in (
        ("a.py", "1"),
        ("a.py", "2"),
        ("b.py", "2"),
        ("c/d.py", "2"),
        ("note.txt", "3"),
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        monkeypatch.setattr(cmdpax, "__file__", str(tmp_path / "__init__.py"))
        seen.append(store_module._digest())
    assert len(set(seen)) == 4 and seen[-1] == seen[-2]
    monkeypatch.undo()
    assert (
        versions()["code"] == store_module._digest() not in seen and Path(cmdpax.__file__).exists()
    )


def test_differences_in_words():
    assert difference({"a": "1", "b": "1"}, {"a": "1", "b": "2"}) == "b 1 -> 2"
    assert difference({"a": "1"}, {"b": "2"}) == "a 1 -> none, b none -> 2"
    assert difference(versions(), versions()) == ""
