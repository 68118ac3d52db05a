"""Every executor makes the same bytes, also when workers are killed; the paused who wake late do no
harm.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cmdpax import InputError
from cmdpax.experiments import executors
from cmdpax.experiments.executors import ONE_THREAD, answer, find_executor
from cmdpax.experiments.store import Store, versions
from cmdpax.experiments.sweep import read_sweep
from cmdpax.learning.run_folder import RunFolder
from cmdpax.processes import framed
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

    names = ("LocalRayletDiedError", "RayError")
    fake = SimpleNamespace(
        init=lambda **_: folders.append(os.getcwd()),
        remote=lambda **_: Task,
        wait=lambda waiting, **_: (waiting, []),
        get=lambda reference: '{"won": true}',
        shutdown=lambda: None,
        nodes=list,
        get_runtime_context=lambda: SimpleNamespace(get_node_id=str, gcs_address="nowhere:0"),
        exceptions=SimpleNamespace(**dict.fromkeys(names, Error)),
    )
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.chdir(tmp_path)
    find_executor("ray")(RUNS[:2], Store("store"), 1, lambda: None)
    expected = (executors.carry_out_alone, str(store.folder), str(tmp_path))
    assert sent == [(*expected, run.text) for run in RUNS[:2]]
    assert folders == [os.sep] and os.getcwd() == str(tmp_path)


def test_a_worker_that_ray_ends_does_not_fail_its_run(tmp_path):
    """By the signal with which Ray ends workers of a node that leaves."""
    store, (run,), ended = Store(tmp_path / "store", create=True), tiny_runs(1, steps=30_000), []

    def end_one():
        if not ended and any(store.work.iterdir()):
            others = [int(name) for name in os.listdir("/proc") if name.isdigit()]
            ended.extend(one for one in others if is_at_work_for_us(one))
            for worker in ended:
                os.kill(worker, signal.SIGTERM)

    find_executor("ray")([run], store, 1, end_one)
    assert ended and store.spent(run)["attempt"] == 2
    assert store.result(run)["outcome"]["status"] == "limit"


def is_at_work_for_us(process):
    """Whether it is a worker of Ray's, of this process's, that carries out a run."""
    try:
        if b"carry_out" not in Path(f"/proc/{process}/cmdline").read_bytes():
            return False
        parent = int(Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()[1])
        return parent in children(os.getpid())
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_paused_worker_that_wakes_late_does_no_harm(serial, tmp_path):
    """A worker stands still in the middle of a run; another finishes it; the first wakes and is
    told that it is late.
    """
    store, (run,) = Store(tmp_path / "store", create=True), tiny_runs(1, steps=3000)
    command = [sys.executable, "-m", "cmdpax.experiments.executors", str(store.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        worker.stdin.write(framed(run.text.encode()))
        worker.stdin.flush()
        while not any(store.work.iterdir()):
            time.sleep(0.001)
        worker.send_signal(signal.SIGSTOP)
        assert not store.finished()
        assert store.carry_out(run)
        seen = {
            path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in store.done.rglob("*")
        }
        worker.send_signal(signal.SIGCONT)
        reply = framed(b'{"won": false}')
        assert worker.stdout.read(len(reply)) == reply
        worker.stdin.close()
        assert worker.wait() == 0
    assert {
        path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in store.done.rglob("*")
    } == seen
    assert not list(store.work.iterdir())


def test_a_worker_ends_with_its_driver(tmp_path):
    store, run = Store(tmp_path / "store", create=True), tiny_runs(1, steps=100_000)[0]
    command = [sys.executable, "-m", "cmdpax.experiments.executors", str(store.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as worker:
        worker.stdin.write(framed(run.text.encode()))
        worker.stdin.flush()
        while not any(store.work.iterdir()):
            time.sleep(0.001)
        worker.stdin.close()
        assert worker.wait() == 0
    assert not store.finished()


def test_workers_that_cannot_start_stop_the_sweep_and_no_run_is_to_blame(tmp_path, monkeypatch):
    store = Store(tmp_path / "store", create=True)
    monkeypatch.setattr(executors.sys, "executable", "/bin/false")
    with pytest.raises(InputError, match=r"3 workers died before any work \(exit code 1\); see"):
        find_executor("local")(RUNS, store, 2, lambda: None)
    assert len(store.pending(RUNS)) == len(RUNS)


SPEC = """
kind = "train"
[settings]
environment = ["experiments.faulty:{}"]
method = "ppo-lag"
samples = 40
batch = 20
rollout_steps = 10
minibatch = 10
passes = 1
hidden = [4]
"""
TESTS = Path(__file__).parents[1]
OUTCOMES = {
    "exiting": "SystemExit: 3",
    "leaving": "3 workers died over it, the last with: exit code 3.",
    "crashing": "3 workers died over it, the last with: Segmentation fault.",
    "helping": "3 workers died over it, the last with: exit code 7.",
}


@pytest.mark.parametrize(
    "faults",
    [
        ["odd", "exiting", "helping", "wandering"],
        pytest.param(["leaving", "crashing", "closing"], marks=pytest.mark.slow),
    ],
)
def test_a_faulty_environment_is_its_own_runs_outcome(tmp_path, faults):
    """The other runs are finished, the best is selected, the same command again does nothing."""
    spec, helpers = tmp_path / "spec.toml", tmp_path / "helpers"
    spec.write_text(SPEC.format('", "experiments.faulty:'.join([*faults, "sound"])))
    helpers.mkdir()
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "HELPERS": str(helpers)}
    command = [sys.executable, "-m", "cmdpax", "sweep", str(spec), "--store", "store"]
    command += ["--workers", "1"]
    for _ in range(2):
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "store" / "selected.md").exists()
    store, outcomes = Store(tmp_path / "store"), {}
    for run in read_sweep(spec).runs():
        outcomes[run.problem.partition(":")[2]] = store.result(run)["outcome"]
    assert outcomes["sound"]["return"] == 5
    for fault in faults:
        if fault in OUTCOMES:
            assert OUTCOMES[fault] in outcomes[fault]["failed"]
        elif fault == "wandering":
            assert outcomes[fault]["return"] == 5
        else:
            assert "failed" in outcomes[fault]
    assert not list(store.work.iterdir())
    for helper in helpers.iterdir():  # they were ended with their worker
        state = Path("/proc", helper.name, "stat")
        assert not state.exists() or state.read_text().rpartition(") ")[2][0] in "ZX"
    assert len(list(helpers.iterdir())) == 3 * faults.count("helping")


def test_a_run_that_gets_further_is_not_given_up(tmp_path):
    """Nine deaths, but three in a row without a new checkpoint only at the end."""
    store, (run,) = Store(tmp_path / "store", create=True), tiny_runs(1)
    deaths = executors._Deaths(store, [run], "the log")
    tries = []
    for number in range(9):
        attempt = store.work / f"{run.id}.{number:08x}"
        attempt.mkdir()
        made = {"run": {}, "versions": versions()}
        (attempt / "run.json").write_text(json.dumps(made))
        if number in (1, 3, 5, 6):
            RunFolder(attempt).save(number, {"x": np.ones(1)}, {})
        tries.append(deaths.leave_a_try(run, "exit code 1"))
    assert tries == [True] * 8 + [False]
    assert store.result(run)["outcome"]["failed"].startswith("3 workers died over it")


HEADLESS = """
import os, signal, sys, threading, time
from pathlib import Path
import ray
from cmdpax.cli.main import main

def kill(store):
    while not any(Path(store, "work").glob("*")):
        time.sleep(0.01)
    processes = ray._private.worker._global_node.all_processes
    os.kill(processes[sys.argv[1]][0].process.pid, signal.SIGKILL)

threading.Thread(target=kill, args=sys.argv[3:4], daemon=True).start()
main(["sweep", sys.argv[2], "--store", sys.argv[3], "--executor", "ray", "--workers", "1"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["gcs_server", "raylet"])
def test_the_death_of_rays_head_is_one_sentence(tmp_path, victim):
    spec = tmp_path / "spec.toml"
    spec.write_text(
        'kind = "exact"\n[settings]\nmodel = "deep-sea"\nmethod = "npg-pd"\nsteps = 30000\n'
        "step = [0.1, 0.2, 0.3, 0.4]\n"
    )
    command = [sys.executable, "-c", HEADLESS, victim, str(spec), str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("cmdpax: ")]
    assert said == [f"cmdpax: {executors.HEAD_GONE}"]


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
