"""Compiled code of one process serves the next, and only if it is whole and nobody else's."""

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import collections, json, sys
import jax
from cmdpax.learning import compilation
events = collections.Counter()
jax.monitoring.register_event_listener(lambda name, **_: events.update([name.split("/")[-1]]))
compilation.recall()
{}
compilation.keep()
print(json.dumps([events["cache_hits"], events["cache_misses"], str(value)]))
"""
SMALL = "value = jax.jit(lambda x: (x @ x.T).sum() + 1)(jax.numpy.arange(6.0).reshape(2, 3))"
TRAIN = """
from cmdpax.learning.training import train
run = train("SafetyHopperVelocity-v1", folder=sys.argv[1], samples=400, batch=200)
value = run.policy.core.updates
"""
pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="nothing is kept on Windows")


def start(home, body=SMALL, *arguments):
    """A new process with its cache in `home`."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(home)}
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE"):
        environment.pop(name, None)
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(body), *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process):
    """Hits, misses and the value that a process printed."""
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert "cache" not in errors, errors
    return json.loads(output.splitlines()[-1])


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home").mkdir(mode=0o700)
    return tmp_path / "home"


def entries(home):
    return sorted(home.glob("cmdpax/jax-*/*"))


def test_a_second_training_compiles_nothing(home, tmp_path):
    hits, misses, value = end(start(home, TRAIN, tmp_path / "first"))
    assert (hits, value) == (0, "2") and misses > 3
    assert end(start(home, TRAIN, tmp_path / "second")) == [misses, 0, "2"]


def test_entries_are_readable_by_their_owner_alone(home):
    end(start(home))
    assert entries(home)
    for path in entries(home):
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert path.parent.parent.stat().st_mode & 0o022 == 0


@pytest.mark.parametrize("damage", ["bit", "half", "empty", "name", "pipe"])
def test_a_damaged_entry_is_compiled_again(home, damage):
    _, misses, value = end(start(home))
    for path in entries(home):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        parts = {"bit": content, "half": content[: len(content) // 2], "empty": b""}
        if damage in parts:
            path.write_bytes(parts[damage])
        elif damage == "name":
            path.rename(path.with_name(path.name[:-1] + "x"))
        else:
            path.unlink()
            os.mkfifo(path)
    assert end(start(home)) == [0, misses, value]
    assert end(start(home))[0] == misses


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o755])
def test_a_folder_that_is_not_ours_alone_is_not_used(home, mode):
    _, misses, value = end(start(home))
    (folder,) = home.glob("cmdpax/jax-*")
    folder.chmod(mode)
    before = entries(home)
    assert end(start(home)) == [0, 0, value]  # neither read nor written
    assert entries(home) == before and misses


def test_a_folder_above_that_others_can_write_is_not_used(home):
    home.chmod(0o777)
    hits, misses, _ = end(start(home))
    assert (hits, misses) == (0, 0) and not entries(home)


def test_a_cache_that_cannot_be_made_stops_nothing(home):
    (home / "cmdpax").write_text("a file where a folder should be")
    assert end(start(home))[:2] == [0, 0]


def test_runs_that_start_together_do_not_disturb_each_other(home):
    processes = [start(home) for _ in range(4)]
    values = {end(process)[2] for process in processes}
    hits, misses, value = end(start(home))
    assert values == {value} and hits and not misses


def test_another_processor_compiles_for_itself(home):
    _, misses, value = end(start(home))
    other = "compilation.processor = lambda: ('other', '')\n"
    body = other + "compilation.recall.cache_clear()\n"
    script = SCRIPT.replace("compilation.recall()\n", body + "compilation.recall()\n", 1)
    environment = {**os.environ, "XDG_CACHE_HOME": str(home)}
    ran = subprocess.run(
        [sys.executable, "-c", script.format(SMALL)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert json.loads(ran.stdout) == [0, misses, value]


def test_only_the_newest_entries_stay(home):
    end(start(home))
    (folder,) = home.glob("cmdpax/jax-*")
    for number in range(400):
        path = folder / f"old-{number}-cache.0"
        path.write_bytes(b"")
        os.utime(path, (number, number))
    hits = end(start(home))[0]
    assert hits and not list(folder.glob("old-*"))
