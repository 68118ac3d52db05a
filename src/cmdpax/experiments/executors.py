"""Who carries runs out: this process, processes of this machine, or a Ray cluster?

`execute(runs, store, workers, watch)` returns when every run is finished or was given up, because
`DEATHS` workers died over it. `watch()` is called about once a second and may look into the store.
`InputError` is raised where going on is useless (a full disk).

`python -P -m cmdpax.experiments.executors STORE` is a worker: a process of one thread that reads a
run per line (canonical JSON), carries it out, and answers with a line. Imports and compilers are
paid for once in a worker's life. When its driver is gone, it is gone.

Every run begins in the folder where the sweep was started. Workers look for modules there no more
than the driver does: without `-P`, Python would look there first.
"""

import json
import os
import queue
import selectors
import socket
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager, suppress
from functools import partial
from typing import Any

from cmdpax.errors import InputError, check_known
from cmdpax.experiments.runs import Run
from cmdpax.experiments.store import Store

Watch = Callable[[], None]
Execute = Callable[[Sequence[Run], Store, int, Watch], None]
DEATHS = 10  # so many workers may die over one run before it is given up
TICK_SECONDS = 1.0  # between two calls of `watch`
ONE_THREAD = {
    **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")},
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}


def find_executor(name: str, address: str | None = None) -> Execute:
    """An executor by name; `address` is that of a running Ray cluster."""
    check_known("executor", name, EXECUTORS)
    if address is None:
        return EXECUTORS[name]
    if name != "ray":
        raise InputError(f"--address is for --executor ray, not for {name}.")
    _refuse_silent(address)
    return partial(in_ray, address=address)


def in_this_process(runs: Sequence[Run], store: Store, workers: int, watch: Watch) -> None:
    """One run after the other, whatever `workers` says: to debug, and to compare with."""
    # as a worker does; but numba may have started its threads, which change no number
    os.environ.update({k: v for k, v in ONE_THREAD.items() if k != "NUMBA_NUM_THREADS"})
    for run in store.pending(runs):
        watch()
        _refuse_error(json.loads(answer(str(store.folder), run.text)))
    watch()


def in_processes(runs: Sequence[Run], store: Store, workers: int, watch: Watch) -> None:
    """So many single-threaded workers on this machine, each with one run at a time.

    The system says for certain when a worker is dead, by the end of its output; nothing is guessed
    from silence. The run then goes to the next free worker, which goes on from the checkpoint that
    the dead one left.
    """
    waiting, deaths = deque(store.pending(runs)), Counter[str]()
    with _Crew(store) as crew:
        while waiting or crew.busy:
            while waiting and len(crew.busy) < workers:
                crew.tell(waiting.popleft())
            for run, reply in crew.listen():
                if reply is not None:
                    _refuse_error(reply)
                    continue
                deaths[run.id] += 1
                if deaths[run.id] < DEATHS:
                    waiting.append(run)
            watch()


class _Crew:
    """Workers, idle or busy."""

    def __init__(self, store: Store) -> None:
        self.store, self.selector = store, selectors.DefaultSelector()
        self.idle: list[subprocess.Popen[str]] = []
        self.busy: dict[subprocess.Popen[str], Run] = {}

    def __enter__(self) -> "_Crew":
        with self.store.writing():
            self.log = open(self.store.folder / "workers.log", "a")
        return self

    def __exit__(self, *_: object) -> None:
        for worker in (*self.idle, *self.busy):
            worker.kill()
            worker.wait()
        self.log.close()

    def tell(self, run: Run) -> None:
        """Give a run to an idle worker, or to a new one."""
        worker = self.idle.pop() if self.idle else self._hire()
        self.busy[worker] = run
        with suppress(BrokenPipeError):  # it is dead: the end of its output says so too
            print(run.text, file=worker.stdin, flush=True)

    def listen(self) -> Iterator[tuple[Run, dict | None]]:
        """Runs that have ended within a tick, with their answer; None for a death."""
        for key, _ in self.selector.select(TICK_SECONDS):
            worker = key.data
            line = worker.stdout.readline()
            run, alive = self.busy.pop(worker, None), line.endswith("\n")
            if alive:
                self.idle.append(worker)
            else:
                self.selector.unregister(worker.stdout)
                self.idle = [one for one in self.idle if one is not worker]
                worker.wait()
            if run is not None:
                yield run, json.loads(line) if alive else None

    def _hire(self) -> subprocess.Popen[str]:
        folder = str(self.store.folder.absolute())
        worker = subprocess.Popen(
            [sys.executable, "-P", "-m", "cmdpax.experiments.executors", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env={**os.environ, **ONE_THREAD},
            start_new_session=True,  # Ctrl-C is for the driver, which then ends its workers
        )
        assert worker.stdout is not None
        self.selector.register(worker.stdout, selectors.EVENT_READ, worker)
        return worker


def in_ray(
    runs: Sequence[Run], store: Store, workers: int, watch: Watch, address: str | None = None
) -> None:
    """One Ray task of one core for each run.

    On the cluster at `address` by as many workers as it has cores, or on an embedded Ray with
    `workers`. Only strings travel: the store's path (which every node must see), that of the
    current folder, a run and its answer as JSON. Ray notices dead workers and nodes and starts
    their tasks again elsewhere; it may be wrong about a death, which does no harm.
    """
    try:
        import ray
    except ModuleNotFoundError:
        raise InputError("--executor ray needs the package 'ray'; install cmdpax[ray].") from None
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    here = os.getcwd()
    with chdir(os.sep):  # Ray's workers look for modules first where their driver was then
        if address is None:
            with _one_thread():  # an embedded Ray hands it on
                # "local": not a cluster that happens to run here
                ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
        else:
            ray.init(address=address, **quiet)
    errors = ray.exceptions
    died = (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError)
    try:
        task = ray.remote(num_cpus=1, max_retries=DEATHS)(_carry_out_alone)
        folder = str(store.folder.absolute())
        waiting = [task.remote(folder, here, run.text) for run in store.pending(runs)]
        while waiting:
            ended, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=TICK_SECONDS)
            for reference in ended:
                with suppress(*died):  # given up: it is missing in the store
                    _refuse_error(json.loads(ray.get(reference)))
            watch()
    finally:
        ray.shutdown()


EXECUTORS: dict[str, Execute] = {"serial": in_this_process, "local": in_processes, "ray": in_ray}


def _carry_out_alone(store: str, here: str, text: str) -> str:
    """`answer` with one thread, in the folder `here` if this machine has it.

    A worker of a Ray cluster has threads and a folder of its own, and an environment may have left
    the folder in which the run before it began.
    """
    os.environ.update(ONE_THREAD)  # in time for JAX, which starts with the first training
    with suppress(OSError):
        os.chdir(here)
    return answer(store, text)


@contextmanager
def _one_thread() -> Iterator[None]:
    """What starts within has one thread; this process, whose numba may have more, is as before."""
    before = {name: os.environ[name] for name in ONE_THREAD if name in os.environ}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name in ONE_THREAD:
            del os.environ[name]
        os.environ.update(before)


def _refuse_silent(address: str) -> None:
    """Refuse an address where nobody listens: Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise InputError(f"--address {address}: write HOST:PORT, as `ray start --head` prints it.")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError):
        remedy = "start one with `ray start --head`"
        sentence = f"--address {address}: no Ray cluster answers there; {remedy}."
        raise InputError(sentence) from None


def _refuse_error(reply: dict[str, Any]) -> None:
    if "error" in reply:
        raise InputError(reply["error"])


def answer(store: str, text: str) -> str:
    """Do one run, given and answered as JSON: `{"won": ...}`, or `{"error": one sentence}`."""
    try:
        return json.dumps({"won": Store(store).carry_out(Run.from_text(text))})
    except InputError as error:
        sentence = str(error)
    except ModuleNotFoundError as error:
        sentence = f"this sweep needs the package '{error.name}'; install cmdpax[deep]."
    except Exception as error:  # ours, or an environment's: whoever reads the answer must see it
        sentence = f"a run broke off: {type(error).__name__}: {error}"
    return json.dumps({"error": sentence})


def main(store: str) -> None:
    """Serve as a worker until the input ends."""
    here = os.getcwd()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what an environment prints must not be taken for an answer
    orders: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    while True:
        answers.write(_carry_out_alone(store, here, orders.get()) + "\n")


def _listen(orders: queue.Queue[str]) -> None:
    for line in sys.stdin:
        orders.put(line)
    os._exit(0)  # at once, whatever the run is doing: an attempt can be left at any moment


if __name__ == "__main__":
    main(sys.argv[1])
