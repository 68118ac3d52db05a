"""Trainings and sweeps that are killed at any moment end as if nobody had killed them.

A training dies before a write (the n-th file that it opens, renames or removes), within a write (at
the n-th byte of a file) or some time after an update, four times, and is resumed: in the end its
folder holds the bytes of a run that nobody disturbed.

Of a sweep the driver or a worker is killed, or a worker sleeps while its driver dies and wakes when
all is done; with Ray also whole nodes. In the end every run is there once, in the bytes of the
serial sweep, and nothing is left behind.
"""

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.experiments.store import Store
from cmdpax.experiments.sweep import read_sweep
from experiments.sweeps import children, contents

KILLS = 4  # of one training
UPDATES = 30  # of one training
# a training is killed at most at this write, byte or update after it begins or goes on
WAYS = {"before a write": 40, "within a write": 4000, "after an update": 6}
METHODS = ("spma-alm", "ppo-lag", "cpo")
TESTS = Path(__file__).parents[1] / "tests"
ENVIRONMENT = "probes:Corridor"  # in that folder
TRAINING = "--batch 10 --rollout-steps 10 --passes 1 --hidden 2 --inner 2 --checkpoint-every 3"
SWEEP_KILLS = 13
PATIENCE = 300.0  # seconds until a training or a sweep that makes no progress counts as hanging
EXACT = """
kind = "exact"
[settings]
model = "deep-sea"
method = ["npg-pd", "reload"]
steps = 1500
step = [0.1, 0.2, 0.5, 1, 2, 5]
dual_step = [0.1, 0.5, 1, 2]
"""
TRAIN = """
kind = "train"
seeds = 2
[settings]
environment = "probes:Corridor"
method = ["spma-alm", "ppo-lag"]
samples = 3000
batch = 10
rollout_steps = 10
passes = 1
hidden = [2]
inner = 2
checkpoint_every = 5
learning_rate = [1e-3, 1e-2]
"""
# Ray takes minutes to notice a frozen machine whose connections stay open, and makes its workers
# nice: not here
NOTICED = {
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 3,
    "grpc_client_keepalive_time_ms": 5000,
    "grpc_client_keepalive_timeout_ms": 5000,
    "worker_niceness": 0,
}
Outcome = tuple[int, str | None]


# ---- trainings
def trainings(seeds: Sequence[int], folder: Path) -> Iterator[Outcome]:
    """One training for each seed, killed a few times."""
    # every child is forked from a process that has imported all and started nothing
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["cmdpax.cli.main", "cmdpax.learning.training", "tensorboardX"])
    # a compiled update is the same in every child; nothing else is shared
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder / "compiled")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    for method in METHODS:
        if not (folder / method).exists():
            assert train(context, folder / method, method, ("", 0)) == 0
    for seed in seeds:
        rng, method = np.random.default_rng(seed), METHODS[seed % len(METHODS)]
        run, kills, code = folder / f"run-{seed}", 0, -1
        for _ in range(KILLS):
            code = train(context, run, method, draw_way(rng))
            kills += code < 0
        code = train(context, run, method, ("", 0))
        yield kills, different(run, folder / method, code)


def draw_way(rng: np.random.Generator) -> tuple[str, float]:
    """How a training is killed, and where."""
    way = str(rng.choice(list(WAYS)))
    return way, float(rng.integers(1, WAYS[way])) + float(rng.random())


def train(context: Any, run: Path, method: str, death: tuple[str, float]) -> int:
    """Train, or resume, in a process that may die; its exit code, negative if it was killed."""
    words = ["train", ENVIRONMENT, "--method", method, *TRAINING.split(), "--out", str(run)]
    words += [
        "--samples",
        str(10 * UPDATES),
        *(["--resume"] if (run / "config.json").exists() else []),
    ]
    process = context.Process(target=victim, args=(words, str(run), *death))
    process.start()
    way, place = death
    if way == "after an update":
        rows = run / "metrics.jsonl"
        before = lines(rows)
        ends = time.monotonic() + PATIENCE
        while process.is_alive() and lines(rows) < before + int(place) and time.monotonic() < ends:
            time.sleep(0.0005)
        time.sleep(0.02 * (place % 1))
        process.kill()
    process.join(PATIENCE)
    if process.is_alive():
        process.kill()
        process.join()
        return 1  # it hung
    return process.exitcode


def victim(words: list[str], folder: str, way: str, place: float) -> None:
    """The command, in a process that dies before or within a write if it is to."""
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    writes = 0

    def hook(event: str, arguments: tuple) -> None:
        nonlocal writes
        path = arguments[0] if arguments else None
        changes = event in ("os.rename", "os.remove", "os.mkdir", "shutil.rmtree")
        changes = changes or (event == "open" and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR)))
        if changes and isinstance(path, str | os.PathLike) and str(path).startswith(folder):
            writes += 1
            if writes == int(place):
                os.kill(os.getpid(), signal.SIGKILL)

    if way == "before a write":
        sys.addaudithook(hook)
    elif way == "within a write":
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # deadly, in the middle of a write
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(place), resource.RLIM_INFINITY))
    from cmdpax.cli.main import main

    main(words)


def lines(path: Path) -> int:
    """How many whole lines a file has."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def different(run: Path, whole: Path, code: int) -> str | None:
    """What of a run is not as in the one that nobody disturbed; None if all is."""
    if code != 0:
        return f"the last resume ended with {code}"
    own, other = (
        {
            str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and path.parent.name != "tensorboard"
        }
        for folder in (run, whole)
    )
    names = sorted(name for name in own.keys() | other.keys() if own.get(name) != other.get(name))
    return f"{', '.join(names)}: not as in an undisturbed run" if names else None


# ---- sweeps
class Driver:
    """The sweep command, started again whenever it was killed."""

    def __init__(self, spec: Path, store: Path, *options: str) -> None:
        words = ["sweep", str(spec), "--store", str(store), "--executor", *options]
        self.line, self.log = [sys.executable, "-m", "cmdpax", *words], store.with_suffix(".log")
        paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        self.start()

    def start(self) -> None:
        """Begin, or go on."""
        with self.log.open("w") as log:
            self.process = subprocess.Popen(self.line, stdout=log, stderr=log, env=self.environment)

    def kill(self) -> None:
        """End it at once, and start another."""
        self.process.kill()
        self.process.wait()
        self.start()


def local_sweeps(seeds: Sequence[int], folder: Path) -> Iterator[Outcome]:
    """One sweep with two local workers for each seed; every fourth is one of trainings."""
    for seed in seeds:
        spec = reference(folder, TRAIN if seed % 4 == 3 else EXACT)
        store = folder / f"local-{seed}"
        Store(store, create=True)
        driver = Driver(spec, store, "local", "--workers", "2")

        def victims(driver: Driver = driver) -> list[int]:
            return children(driver.process.pid)

        yield under_fire(seed, driver, store, spec, victims)


def ray_sweeps(seeds: Sequence[int], folder: Path) -> Iterator[Outcome]:
    """One sweep on a cluster of two nodes on this machine for each seed."""
    spec = reference(folder, EXACT)
    with nodes() as cluster:
        for seed in seeds:
            store = folder / f"ray-{seed}"
            Store(store, create=True)
            driver = Driver(spec, store, "ray", "--address", cluster.address)

            def victims() -> list[int]:
                return [one for node in cluster.list_all_nodes() for one in at_work(node)]

            yield under_fire(seed, driver, store, spec, victims, cluster)


def reference(folder: Path, text: str) -> Path:
    """The file of a sweep; beside it the store of the same sweep, which nobody disturbed."""
    spec = folder / ("train.toml" if text == TRAIN else "exact.toml")
    if not spec.exists():
        spec.write_text(text)
        driver = Driver(spec, spec.with_suffix(""), "serial")
        assert driver.process.wait() == 0, driver.log.read_text()
    return spec


def under_fire(
    seed: int, driver: Driver, store: Path, spec: Path, victims: Any, cluster: Any = None
) -> Outcome:
    """Kill what takes part in a sweep, again and again; how often, and what is wrong at its end."""
    rng, kills, sleepers = np.random.default_rng(seed), 0, []
    ways = [*["worker"] * 6, "driver", "driver", "sleeper", *(["node"] if cluster else [])]
    while kills < SWEEP_KILLS and wait(driver, store, rng):
        way, workers = str(rng.choice(ways)), victims()
        if way == "driver":
            driver.kill()
        elif way == "node" or (way == "sleeper" and cluster):
            (node,) = cluster.worker_nodes
            if way == "sleeper":
                asleep = [*at_work(node), raylet(node)]
                send(asleep, signal.SIGSTOP)
                sleepers += asleep
                cluster.worker_nodes.discard(node)
            else:
                cluster.remove_node(node, allow_graceful=False)
            cluster.add_node(num_cpus=1)
        elif not workers:
            continue
        elif way == "worker":
            send([int(rng.choice(workers))], signal.SIGKILL)
        else:
            sleepers.append(int(rng.choice(workers)))
            send(sleepers[-1:], signal.SIGSTOP)
            driver.kill()
        kills += 1
    try:
        code = driver.process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        driver.process.kill()
        return kills, "the sweep hangs"
    finally:
        before = stamps(store)
        send(sleepers, signal.SIGCONT)
    if code:
        return kills, f"the sweep ended with {code}: {driver.log.read_text()[-500:]}"
    ended(sleepers)
    if stamps(store) != before:
        return kills, "a worker that woke late changed a finished run"
    return kills, unlike(store, spec)


def wait(driver: Driver, store: Path, rng: np.random.Generator) -> bool:
    """Until there was progress, mostly, and a random while longer; whether the sweep goes on."""
    before, ends = progress(store), time.monotonic() + PATIENCE
    for_progress = rng.random() < 0.8
    while driver.process.poll() is None and for_progress and progress(store) == before:
        if time.monotonic() > ends:
            return False
        time.sleep(0.01)
    time.sleep(float(rng.uniform(0, 0.6 if for_progress else 3.0)))
    return driver.process.poll() is None


def progress(store: Path) -> tuple[int, int]:
    """Runs that are finished, and rows of those under way."""
    rows = 0
    for path in store.glob("work/*/metrics.jsonl"):
        with suppress(FileNotFoundError):
            rows += path.read_bytes().count(b"\n") // 50
    return len(os.listdir(store / "done")), rows


def unlike(folder: Path, spec: Path) -> str | None:
    """None lost, none double, none different, nothing left behind; or what is wrong."""
    store, runs = Store(folder), read_sweep(spec).runs()
    if store.finished() != {run.id for run in runs}:
        return f"{len(store.finished())} runs are finished, of {len(runs)}"
    own, serial = contents(folder / "done"), contents(spec.with_suffix("") / "done")
    names = sorted(name for name in own.keys() | serial.keys() if own.get(name) != serial.get(name))
    if names:
        return f"{', '.join(names[:5])}: not as in the serial sweep"
    left = [path.name for path in (folder / "work").iterdir()]
    return f"left behind: {', '.join(left)}" if left else None


def stamps(store: Path) -> dict[Path, tuple[int, int]]:
    """What would change if anybody touched a finished run."""
    files = (store / "done").rglob("*")
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


def send(processes: Sequence[int], what: signal.Signals) -> None:
    """Signal processes that may have ended by themselves."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, what)


def ended(processes: Sequence[int]) -> None:
    """Wait until those who woke have seen that their driver is gone, and are gone too."""
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends and any(map(is_alive, processes)):
        time.sleep(0.05)


def is_alive(process: int) -> bool:
    """Whether a process is there, and not only its exit code."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def nodes() -> Iterator[Any]:
    """A Ray cluster of two nodes with one core each, all on this machine."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "_system_config": NOTICED}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.add_node(num_cpus=1)
        yield cluster
    finally:
        cluster.shutdown()


def raylet(node: Any) -> int:
    """The process of a node that starts its workers."""
    return node.all_processes["raylet"][0].process.pid


def at_work(node: Any) -> list[int]:
    """Workers of a node that carry out a run."""
    names = ((one, Path(f"/proc/{one}/cmdline")) for one in children(raylet(node)))
    return [one for one, name in names if name.exists() and b"carry_out" in name.read_bytes()]
