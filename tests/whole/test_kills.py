"""Two hundred runs under fire: a kill every five seconds, and in the end every result, once, in the
bytes of the serial run.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from cmdpax.experiments.store import Store
from cmdpax.experiments.sweep import read_sweep
from experiments.sweeps import children, contents

pytestmark = pytest.mark.slow
EVERY = 5.0  # seconds
SPEC = """
kind = "exact"
allowed_excess = 0.01
[settings]
model = "deep-sea"
method = ["npg-pd", "reload"]
steps = 700
step = [0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 7, 10]
dual_step = [0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 7, 10]
"""


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    path = tmp_path_factory.mktemp("kills") / "grid.toml"
    path.write_text(SPEC)
    assert len(read_sweep(path).runs()) == 200
    return path


@pytest.fixture(scope="module")
def serial(spec):
    folder = spec.parent / "serial"
    subprocess.run(command(spec, folder, "serial"), check=True, capture_output=True)
    return folder


def command(spec, folder, executor, *more):
    return [
        sys.executable,
        "-m",
        "cmdpax",
        "sweep",
        str(spec),
        "--store",
        str(folder),
        "--executor",
        executor,
        *more,
    ]


def check(folder, serial, spec):
    """None lost, none double, none different, nothing left behind."""
    store, runs = Store(folder), read_sweep(spec).runs()
    assert store.finished() == {run.id for run in runs} and len(runs) == 200
    assert contents(folder / "done") == contents(serial / "done")
    store.tidy()
    assert not list((folder / "work").iterdir())


class Driver:
    """The sweep command, started again whenever it was killed."""

    def __init__(self, line):
        self.line = line
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            self.line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.start()

    def finished(self):
        code = self.process.poll()
        assert code in (None, 0), self.process.stderr.read()
        return code == 0


def stamps(folder):
    """What would change if anybody touched a finished run."""
    return {
        path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in (folder / "done").rglob("*")
    }


def wait(driver, folder, before):
    """Five seconds, and until a run was finished since the last kill: on a busy machine a worker
    may not even start in five.
    """
    time.sleep(EVERY)
    while not driver.finished() and len(os.listdir(folder / "done")) <= before:
        time.sleep(0.1)
    return len(os.listdir(folder / "done"))


def send(process, what):
    """Signal a process that may have ended by itself."""
    with suppress(ProcessLookupError):
        os.kill(process, what)


def test_local_workers_and_drivers_are_killed(spec, serial):
    """Workers and drivers in turn; now and then a worker is paused, its driver killed, and the
    sleeper woken when all is done.
    """
    folder, random, tally, sleepers, done = (
        spec.parent / "local",
        np.random.default_rng(0),
        [],
        [],
        0,
    )
    Store(folder, create=True)
    driver = Driver(command(spec, folder, "local", "--workers", "2"))
    while not driver.finished():
        done = wait(driver, folder, done)
        workers = children(driver.process.pid)
        if not workers or driver.finished():
            continue
        victim, what = (
            int(random.choice(workers)),
            ("worker", "driver", "worker", "sleeper")[len(tally) % 4],
        )
        if what == "worker":
            send(victim, signal.SIGKILL)
        elif what == "driver":
            driver.kill()
        else:
            send(victim, signal.SIGSTOP)
            sleepers.append(victim)
            driver.kill()
        tally.append(what)
        print(f"{what} killed at {done} runs", flush=True)
    before = stamps(folder)
    for sleeper in sleepers:
        send(sleeper, signal.SIGCONT)
    time.sleep(EVERY)
    assert stamps(folder) == before
    assert len(tally) >= 4 and sleepers
    check(folder, serial, spec)


def test_ray_workers_drivers_and_nodes_are_killed(spec, serial):
    """Two nodes on this machine: a worker, the second node, a driver in turn; then a whole node
    sleeps, and wakes late.
    """
    from ray.cluster_utils import Cluster

    folder, random, tally, sleepers, done = spec.parent / "ray", np.random.default_rng(1), [], [], 0
    Store(folder, create=True)
    # Ray takes minutes to notice a frozen machine whose connections stay open, and makes its
    # workers nice: not here
    noticed = {
        "health_check_period_ms": 1000,
        "health_check_timeout_ms": 2000,
        "health_check_failure_threshold": 3,
    }
    noticed |= {
        "grpc_client_keepalive_time_ms": 5000,
        "grpc_client_keepalive_timeout_ms": 5000,
        "worker_niceness": 0,
    }
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "_system_config": noticed}
    )
    try:
        node = cluster.add_node(num_cpus=1)
        driver = Driver(command(spec, folder, "ray", "--address", cluster.address))
        while not driver.finished():
            done = wait(driver, folder, done)
            workers = [worker for one in (cluster.head_node, node) for worker in at_work(one)]
            if not workers or driver.finished():
                continue
            what = ("worker", "node", "driver", "sleeper")[len(tally) % 4]
            if what == "worker":
                send(int(random.choice(workers)), signal.SIGKILL)
            elif what == "driver":
                driver.kill()
            elif what == "node":
                cluster.remove_node(node, allow_graceful=False)
                node = cluster.add_node(num_cpus=1)
            else:
                for one in (*at_work(node), raylet(node)):
                    send(one, signal.SIGSTOP)
                    sleepers.append(one)
                node = cluster.add_node(num_cpus=1)
            tally.append(what)
            print(f"{what} killed at {done} runs", flush=True)
        before = stamps(folder)
        for sleeper in sleepers:
            send(sleeper, signal.SIGCONT)
        time.sleep(2 * EVERY)
        assert stamps(folder) == before
    finally:
        cluster.shutdown()
    assert len(tally) >= 4 and sleepers
    check(folder, serial, spec)


def raylet(node):
    return node.all_processes["raylet"][0].process.pid


def at_work(node):
    """Workers of a node that carry out a run."""
    return [
        one
        for one in children(raylet(node))
        if b"carry_out" in Path(f"/proc/{one}/cmdline").read_bytes()
    ]
