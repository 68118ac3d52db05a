"""Who carries runs out: this process, processes of this machine, or a Ray cluster?

`execute(runs, store, workers, watch)` returns when every run is finished: with a result, or as
failed, because it raised an exception or because `DEATHS` workers died over it without getting
further. `watch()` is called about once a second and may look into the store. `InputError` is raised
where going on is useless: a full disk, workers that cannot start, Ray's head gone.

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
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager, suppress
from functools import partial
from typing import Any, TextIO

from cmdpax.errors import InputError, check_known
from cmdpax.experiments.runs import Run
from cmdpax.experiments.store import Store

Watch = Callable[[], None]
Execute = Callable[[Sequence[Run], Store, int, Watch], None]
Worker = subprocess.Popen[bytes]
# So many workers may die over one run, without a checkpoint in between, before it is given up. One
# death is often chance, two seldom, three hardly ever: if one attempt in ten dies by chance, one
# run in a thousand is given up for nothing, and its outcome says how to try it again.
DEATHS = 3
TICK_SECONDS = 1.0  # between two calls of `watch`
PATIENCE = 5  # ticks for which Ray's head may be silent
LOG = "workers.log"
HEAD_GONE = (
    "the head of the Ray cluster is gone; give the same command again once there is one: finished"
    " runs are kept."
)
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
        with chdir("."):  # which an environment may leave
            reply = answer(str(store.folder.absolute()), run.text)
        _refuse_error(json.loads(reply))
    watch()


def in_processes(runs: Sequence[Run], store: Store, workers: int, watch: Watch) -> None:
    """So many single-threaded workers on this machine, each with one run at a time.

    The system says for certain when a worker is dead; nothing is guessed from silence, nor from its
    output, which helpers that it forked may keep open. The run then goes to the next free worker,
    which goes on from the checkpoint that the dead one left.
    """
    waiting = deque(store.pending(runs))
    deaths = _Deaths(store, waiting, store.folder / LOG)
    with _Crew(store) as crew:
        while waiting or crew.busy:
            while waiting and len(crew.busy) < workers:
                crew.tell(waiting.popleft())
            for run, reply in crew.listen():
                if isinstance(reply, str):
                    if deaths.leave_a_try(run, reply):
                        waiting.append(run)
                else:
                    _refuse_error(reply)
                    deaths.before_work = 0
            watch()


class _Deaths:
    """Deaths of workers: a run that kills its workers is given up; if none can start, all stops."""

    def __init__(self, store: Store, runs: Sequence[Run], log: object) -> None:
        self.store, self.log, self.before_work = store, log, 0
        self.counts, self.furthest = Counter[str](), Counter[str]()
        self.attempts = Counter({run.id: len(store.attempts(run)) for run in runs})

    def leave_a_try(self, run: Run, how: str) -> bool:
        """Note a worker's death over a run, and whether to try it again; else it is given up."""
        if not self.store.pending([run]):  # it died after the last stroke
            return False
        attempts, furthest = len(self.store.attempts(run)), self.store.furthest(run)
        if attempts == self.attempts[run.id]:  # it never came to the run
            self.before_work += 1
            if self.before_work < DEATHS:
                return True
            raise InputError(f"{DEATHS} workers died before any work ({how}); see {self.log}.")
        self.before_work, self.attempts[run.id] = 0, attempts
        if furthest > self.furthest[run.id]:
            self.counts[run.id], self.furthest[run.id] = 0, furthest
        self.counts[run.id] += 1
        if self.counts[run.id] < DEATHS:
            return True
        self.store.give_up(run, f"{DEATHS} workers died over it, the last with: {how}.")
        return False


class _Crew:
    """Workers, idle or busy."""

    def __init__(self, store: Store) -> None:
        self.store, self.selector = store, selectors.DefaultSelector()
        self.idle: list[Worker] = []
        self.busy: dict[Worker, Run] = {}
        self.heard: dict[Worker, bytes] = {}  # the beginning of an answer

    def __enter__(self) -> "_Crew":
        with self.store.writing():
            self.log = open(self.store.folder / LOG, "a")
        return self

    def __exit__(self, *_: object) -> None:
        for worker in (*self.idle, *self.busy):
            _end(worker)
        self.log.close()

    def tell(self, run: Run) -> None:
        """Give a run to an idle worker, or to a new one."""
        worker = self.idle.pop() if self.idle else self._hire()
        self.busy[worker] = run
        assert worker.stdin is not None
        with suppress(BrokenPipeError):  # it is dead, which is noticed soon
            worker.stdin.write(f"{run.text}\n".encode())

    def listen(self) -> Iterator[tuple[Run, dict | str]]:
        """Runs that have ended within a tick, with their answer; how the worker died, as text."""
        self.selector.select(TICK_SECONDS)
        for worker in (*self.busy, *self.idle):
            death = _death(worker)  # asked first: what is heard after it was the last word
            reply = self._hear(worker)
            run = self.busy.pop(worker, None) if reply or death else None
            if death:
                self.idle = [one for one in self.idle if one is not worker]
                self._hang_up(worker)
                _end(worker)  # its helpers
            elif run is not None:
                self.idle.append(worker)
            if run is not None:
                yield run, reply or death

    def _hear(self, worker: Worker) -> dict | None:
        """The answer of a worker, if it has said it all."""
        assert worker.stdout is not None
        with suppress(BlockingIOError):
            while part := os.read(worker.stdout.fileno(), 1 << 16):
                self.heard[worker] = self.heard.get(worker, b"") + part
            self._hang_up(worker)
        if not self.heard.get(worker, b"").endswith(b"\n"):
            return None
        return json.loads(self.heard.pop(worker))

    def _hang_up(self, worker: Worker) -> None:
        """Wait no more for words of a worker that has closed its output: it may live on."""
        assert worker.stdout is not None
        with suppress(KeyError):
            self.selector.unregister(worker.stdout)

    def _hire(self) -> Worker:
        folder = str(self.store.folder.absolute())
        worker = subprocess.Popen(
            [sys.executable, "-P", "-m", "cmdpax.experiments.executors", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            bufsize=0,
            env={**os.environ, **ONE_THREAD},
            start_new_session=True,  # Ctrl-C is for the driver, which then ends its workers
        )
        assert worker.stdout is not None
        os.set_blocking(worker.stdout.fileno(), False)
        self.selector.register(worker.stdout, selectors.EVENT_READ, worker)
        return worker


def _death(worker: Worker) -> str:
    """What a worker died of, as the system says; empty while it lives. It is not reaped yet."""
    ended = os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if ended is None:
        return ""
    if ended.si_code == os.CLD_EXITED:
        return f"exit code {ended.si_status}"
    return signal.strsignal(ended.si_status) or f"signal {ended.si_status}"


def _end(worker: Worker) -> None:
    """Kill a worker and all that it started, which is of its group, and reap it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        assert pipe is not None
        pipe.close()


def in_ray(
    runs: Sequence[Run], store: Store, workers: int, watch: Watch, address: str | None = None
) -> None:
    """One Ray task of one core for each run.

    On the cluster at `address` by as many workers as it has cores, or on an embedded Ray with
    `workers`. Only strings travel: the store's path (which every node must see), that of the
    current folder, a run and its answer as JSON. Ray notices dead workers and nodes, and their runs
    are started again elsewhere; it may be wrong about a death, which does no harm.
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
    try:
        task = ray.remote(num_cpus=1, max_retries=0)(_carry_out_alone)
        folder, pending, is_gone = (
            str(store.folder.absolute()),
            store.pending(runs),
            _watch_head(ray),
        )
        deaths = _Deaths(store, pending, "Ray's logs")
        waiting = {task.remote(folder, here, run.text): run for run in pending}
        while waiting:
            ended, _ = ray.wait([*waiting], num_returns=len(waiting), timeout=TICK_SECONDS)
            for reference in ended:
                run = waiting.pop(reference)
                try:
                    _refuse_error(json.loads(ray.get(reference)))
                    deaths.before_work = 0
                except ray.exceptions.LocalRayletDiedError:
                    raise InputError(HEAD_GONE) from None
                except ray.exceptions.RayError as error:
                    if deaths.leave_a_try(run, type(error).__name__):
                        waiting[task.remote(folder, here, run.text)] = run
            if is_gone():
                raise InputError(HEAD_GONE)
            watch()
    finally:
        ray.shutdown()


EXECUTORS: dict[str, Execute] = {"serial": in_this_process, "local": in_processes, "ray": in_ray}


def _carry_out_alone(store: str, here: str, text: str) -> str:
    """`answer` with one thread, in the folder `here` if this machine has it.

    A worker of a Ray cluster has threads and a folder of its own, and an environment may have left
    the folder in which the run before it began.

    Ray ends a worker by a signal that it turns into a SystemExit amid the run. That must not pass
    for one of the environment's: the signal ends the process, and the run is tried again.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
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


def _watch_head(ray: Any) -> Callable[[], bool]:
    """A question: has Ray's head, or this machine's node, been gone for some calls in a row?

    Ray itself waits for a minute and then ends this process, or waits for ever.
    """
    context, lost = ray.get_runtime_context(), 0
    own = context.get_node_id()

    def is_gone() -> bool:
        nonlocal lost
        lost += 1
        with suppress(ray.exceptions.RayError):
            if _answers(context.gcs_address) and own in (
                node["NodeID"] for node in ray.nodes() if node["Alive"]
            ):
                lost = 0
        return lost >= PATIENCE

    return is_gone


def _refuse_silent(address: str) -> None:
    """Refuse an address where nobody listens: Ray itself would try for minutes."""
    _, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise InputError(f"--address {address}: write HOST:PORT, as `ray start --head` prints it.")
    if not _answers(address):
        remedy = "start one with `ray start --head`"
        raise InputError(f"--address {address}: no Ray cluster answers there; {remedy}.")


def _answers(address: str) -> bool:
    """Whether somebody listens at HOST:PORT."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError):
        return False
    return True


def _refuse_error(reply: dict[str, Any]) -> None:
    if "error" in reply:
        raise InputError(reply["error"])


def answer(store: str, text: str) -> str:
    """Do one run, given and answered as JSON: `{"won": ...}`, or `{"error": one sentence}`.

    An error is about the store or this machine. The current folder is afterwards as it was.
    """
    try:
        with chdir("."):
            return json.dumps({"won": Store(store).carry_out(Run.from_text(text))})
    except InputError as error:
        sentence = str(error)
    except ModuleNotFoundError as error:
        sentence = f"this sweep needs the package '{error.name}'; install cmdpax[deep]."
    return json.dumps({"error": sentence})


def main(store: str) -> None:
    """Serve as a worker until the input ends."""
    here = os.getcwd()
    lines, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w", buffering=1)
    # what an environment prints must not be taken for an answer, nor may it read what we are told
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    orders: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(lines, orders), daemon=True).start()
    while True:
        answers.write(_carry_out_alone(store, here, orders.get()) + "\n")


def _listen(lines: TextIO, orders: queue.Queue[str]) -> None:
    try:
        for line in lines:
            orders.put(line)
    finally:  # at once, whatever the run is doing: an attempt can be left at any moment
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
