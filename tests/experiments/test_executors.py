"""Every executor makes the same bytes, also when workers are killed; the paused who wake late do no
harm.
"""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from cmdpax import InputError
from cmdpax.experiments import executors
from cmdpax.experiments.executors import ONE_THREAD, answer, find_executor
from cmdpax.experiments.store import Store
from experiments.sweeps import children, contents, tiny_runs

RUNS = tiny_runs(6)


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("serial") / "store", create=True)
    find_executor("serial")(RUNS, store, 1, lambda: None)
    return store


def test_in_this_process_numba_keeps_its_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(
        os, "environ", {name: value for name, value in os.environ.items() if name not in ONE_THREAD}
    )
    find_executor("serial")([], Store(tmp_path / "store", create=True), 1, lambda: None)
    assert {name for name in ONE_THREAD if name not in os.environ} == {"NUMBA_NUM_THREADS"}


def test_local_workers_and_a_kill(serial, tmp_path):
    """The first worker that has begun a run is killed in it."""
    store, killed = Store(tmp_path / "store", create=True), []

    def kill_one():
        if not killed and any(store.work.iterdir()):
            killed.extend(children(os.getpid())[-1:])
            os.kill(killed[0], signal.SIGKILL)

    find_executor("local")([*RUNS, *RUNS], store, 2, kill_one)
    assert contents(store.done) == contents(serial.done)
    assert len(store.finished()) == len(RUNS) and not store.pending(RUNS)


def test_ray(serial, tmp_path):
    store = Store(tmp_path / "store", create=True)
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    find_executor("ray")(RUNS, store, 1, lambda: None)
    # numba refuses another number of threads once it has started some
    assert {name: os.environ.get(name) for name in ONE_THREAD} == before
    assert contents(store.done) == contents(serial.done)


def test_to_ray_only_strings_travel(tmp_path, monkeypatch):
    """And Ray, which lets workers look for modules where its driver starts, starts elsewhere."""
    store, sent, folders = Store(tmp_path / "store", create=True), [], []

    class Task:
        def __init__(self, function):
            self.function = function

        def remote(self, *arguments):
            sent.append((self.function, *arguments))
            return arguments

    class Error(Exception):
        pass

    names = ("WorkerCrashedError", "NodeDiedError", "OutOfMemoryError")
    fake = SimpleNamespace(
        init=lambda **_: folders.append(os.getcwd()),
        remote=lambda **_: Task,
        wait=lambda waiting, **_: (waiting, []),
        get=lambda reference: '{"won": true}',
        shutdown=lambda: None,
        exceptions=SimpleNamespace(**dict.fromkeys(names, Error)),
    )
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.chdir(tmp_path)
    find_executor("ray")(RUNS[:2], Store("store"), 1, lambda: None)
    expected = (executors._carry_out_alone, str(store.folder), str(tmp_path))
    assert sent == [(*expected, run.text) for run in RUNS[:2]]
    assert folders == [os.sep] and os.getcwd() == str(tmp_path)


def test_a_paused_worker_that_wakes_late_does_no_harm(serial, tmp_path):
    """A worker stands still in the middle of a run; another finishes it; the first wakes and is
    told that it is late.
    """
    store, (run,) = Store(tmp_path / "store", create=True), tiny_runs(1, steps=3000)
    command = [sys.executable, "-m", "cmdpax.experiments.executors", str(store.folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as worker:
        print(run.text, file=worker.stdin, flush=True)
        while not any(store.work.iterdir()):
            time.sleep(0.001)
        worker.send_signal(signal.SIGSTOP)
        assert not store.finished()
        assert store.carry_out(run)
        seen = {
            path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in store.done.rglob("*")
        }
        worker.send_signal(signal.SIGCONT)
        assert worker.stdout.readline() == '{"won": false}\n'
        worker.stdin.close()
        assert worker.wait() == 0
    assert {
        path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in store.done.rglob("*")
    } == seen
    assert not list(store.work.iterdir())


def test_a_worker_ends_with_its_driver(tmp_path):
    store, run = Store(tmp_path / "store", create=True), tiny_runs(1, steps=100_000)[0]
    command = [sys.executable, "-m", "cmdpax.experiments.executors", str(store.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as worker:
        print(run.text, file=worker.stdin, flush=True)
        while not any(store.work.iterdir()):
            time.sleep(0.001)
        worker.stdin.close()
        assert worker.wait() == 0
    assert not store.finished()


def test_a_run_that_kills_its_workers_is_given_up(tmp_path, monkeypatch):
    store = Store(tmp_path / "store", create=True)
    monkeypatch.setattr(executors, "DEATHS", 2)
    monkeypatch.setattr(executors.sys, "executable", "/bin/false")
    find_executor("local")(RUNS[:2], store, 2, lambda: None)
    assert len(store.pending(RUNS)) == len(RUNS)


def test_what_stops_a_sweep_is_said(tmp_path):
    assert "no run store" in answer(str(tmp_path), RUNS[0].text)
    with pytest.raises(InputError, match="did you mean 'ray'"):
        find_executor("rai")
    for address, sentence in (
        ("127.0.0.1:1", "no Ray cluster answers"),
        ("here", "write HOST:PORT"),
    ):
        with pytest.raises(InputError, match=sentence):
            find_executor("ray", address)
    with pytest.raises(InputError, match="--address is for --executor ray"):
        find_executor("local", "somewhere:6379")
