"""Processes that answer messages: started, asked, heard, and replaced when they die or hang.

A message is bytes, and so is its answer. A `Crew` hands messages to workers: `LocalCrew` to
processes of this machine, each of one thread, `RayCrew` to actors of a Ray cluster. Between two
processes, bytes are framed by their length; `serve` is the worker's end. A worker is gone when its
driver is. `ask` has every message answered, however many workers die over them.
"""

import os
import queue
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager, suppress
from typing import IO, Any, BinaryIO, Generic, Protocol, TypeVar

from cmdpax.errors import InputError

Worker = subprocess.Popen[bytes]
Task = TypeVar("Task")
# So many workers may die over one message before it is given up. One death is often chance, two
# seldom, three hardly ever: if one attempt in ten dies by chance, one in a thousand is given up.
DEATHS = 3
TICK_SECONDS = 1.0  # for which answers are waited for
PATIENCE = 5  # ticks for which Ray's head may be silent
LENGTH = 8  # bytes that say how long a frame is
HEAD_GONE = "the head of the Ray cluster is gone"
RESUME = f"{HEAD_GONE}; once there is one, the same command with --resume goes on."
ONE_THREAD = {
    **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")},
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}


class Crew(Protocol[Task]):
    """Workers, idle or busy with a task each."""

    @property
    def tasks(self) -> int:
        """How many are being worked on."""

    def tell(self, task: Task, message: bytes) -> None:
        """Give a task to an idle worker, or to a new one."""

    def listen(self) -> Iterator[tuple[Task, bytes | str]]:
        """Tasks that have ended within a tick, with their answer; how the worker died, as text."""


def ask(crew: Crew[int], messages: Sequence[bytes], workers: int) -> list[bytes]:
    """Their answers, by so many workers; a message whose worker died goes to another one."""
    waiting, deaths = deque(range(len(messages))), Counter[int]()
    answers: list[bytes] = [b""] * len(messages)
    while waiting or crew.tasks:
        while waiting and crew.tasks < workers:
            number = waiting.popleft()
            crew.tell(number, messages[number])
        for number, reply in crew.listen():
            if isinstance(reply, bytes):
                answers[number] = reply
                continue
            deaths[number] += 1
            warnings.warn(f"a worker was lost ({reply}); its work is repeated.", stacklevel=2)
            if deaths[number] == DEATHS:
                raise InputError(
                    f"{DEATHS} workers died in a row over the same work, the last with: {reply};"
                    " see what the environment does there, or give fewer workers or more seconds."
                )
            waiting.appendleft(number)
    return answers


class LocalCrew(Generic[Task]):
    """Processes of this machine, started by `python -P -m` and the words of `command`.

    The system says for certain when a worker is dead; nothing is guessed from silence, nor from its
    output, which helpers that it forked may keep open. Only one that has not answered for `limit`
    seconds is taken to hang, and ended. log: where workers write what they print.
    """

    def __init__(
        self, command: Sequence[str], log: IO[Any] | None = None, limit: float | None = None
    ) -> None:
        self.command, self.log, self.limit = command, log, limit
        self.selector = selectors.DefaultSelector()
        self.idle: list[Worker] = []
        self.busy: dict[Worker, tuple[Task, float]] = {}  # with when it was told
        self.heard: dict[Worker, bytearray] = {}  # the beginning of an answer
        self.unsaid: dict[Worker, memoryview] = {}  # the end of a message

    def __enter__(self) -> "LocalCrew[Task]":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in (*self.idle, *self.busy):
            end(worker)

    @property
    def tasks(self) -> int:
        """How many are being worked on."""
        return len(self.busy)

    def tell(self, task: Task, message: bytes) -> None:
        """Give a task to an idle worker, or to a new one."""
        worker = self.idle.pop() if self.idle else self._hire()
        self.busy[worker] = task, time.monotonic()
        self.unsaid[worker] = memoryview(framed(message))
        self._speak(worker)

    def listen(self) -> Iterator[tuple[Task, bytes | str]]:
        """Tasks that have ended within a tick, with their answer; how the worker died, as text."""
        self.selector.select(TICK_SECONDS)
        for worker in (*self.busy, *self.idle):
            self._speak(worker)
            death = death_of(worker)  # asked first: what is heard after it was the last word
            reply = self._hear(worker)
            if reply is None and not death:
                death = self._silence(worker)
            is_over = worker in self.busy and (reply is not None or bool(death))
            task, _ = self.busy.pop(worker) if is_over else (None, 0.0)
            if death:
                self.idle = [one for one in self.idle if one is not worker]
                self._hang_up(worker)
                end(worker)  # its helpers
            elif is_over:
                self.idle.append(worker)
            if task is not None:
                yield task, death if reply is None else reply

    def _speak(self, worker: Worker) -> None:
        """Write as much of a message as a worker takes now: one that stands still takes none."""
        assert worker.stdin is not None
        rest = self.unsaid.pop(worker, memoryview(b""))
        with suppress(BrokenPipeError):  # it is dead, which is noticed soon
            try:
                while rest:
                    rest = rest[os.write(worker.stdin.fileno(), rest) :]
            except BlockingIOError:
                self.unsaid[worker] = rest
        with suppress(KeyError):
            self.selector.unregister(worker.stdin)
        if worker in self.unsaid:
            self.selector.register(worker.stdin, selectors.EVENT_WRITE)

    def _hear(self, worker: Worker) -> bytes | None:
        """The answer of a worker, if it has said it all."""
        assert worker.stdout is not None
        heard = self.heard.setdefault(worker, bytearray())
        with suppress(BlockingIOError):
            while part := os.read(worker.stdout.fileno(), 1 << 20):
                heard += part
            self._hang_up(worker)
        if len(heard) < LENGTH or len(heard) < LENGTH + int.from_bytes(heard[:LENGTH], "little"):
            return None
        return bytes(self.heard.pop(worker)[LENGTH:])

    def _silence(self, worker: Worker) -> str:
        """That a worker has not answered for too long; empty if it need not have."""
        since = self.busy.get(worker, (None, time.monotonic()))[1]
        if self.limit is None or time.monotonic() - since < self.limit:
            return ""
        return f"no answer within {self.limit:g} seconds"

    def _hang_up(self, worker: Worker) -> None:
        """Wait no more for a worker that has closed its output: it may live on."""
        for pipe in (worker.stdin, worker.stdout):
            with suppress(KeyError):
                self.selector.unregister(pipe)  # type: ignore[arg-type]

    def _hire(self) -> Worker:
        worker = subprocess.Popen(
            [sys.executable, "-P", "-m", *self.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            bufsize=0,
            env={**os.environ, **ONE_THREAD},
            start_new_session=True,  # Ctrl-C is for the driver, which then ends its workers
        )
        assert worker.stdin is not None and worker.stdout is not None
        for pipe in (worker.stdin, worker.stdout):
            os.set_blocking(pipe.fileno(), False)
        self.selector.register(worker.stdout, selectors.EVENT_READ, worker)
        return worker


def framed(message: bytes) -> bytes:
    """A message after its length."""
    return len(message).to_bytes(LENGTH, "little") + message


def death_of(worker: Worker) -> str:
    """What a worker died of, as the system says; empty while it lives. It is not reaped yet."""
    ended = os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if ended is None:
        return ""
    if ended.si_code == os.CLD_EXITED:
        return f"exit code {ended.si_status}"
    return signal.strsignal(ended.si_status) or f"signal {ended.si_status}"


def end(worker: Worker) -> None:
    """Kill a worker and all that it started, which is of its group, and reap it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        assert pipe is not None
        pipe.close()


def serve(answer: Callable[[bytes], bytes]) -> None:
    """Be a worker: answer messages of the standard input on the standard output until it ends."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # what somebody's code prints must not be taken for an answer, nor may it read what we are told
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    messages: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_listen, args=(questions, messages), daemon=True).start()
    while True:
        answers.write(framed(answer(messages.get())))
        answers.flush()


def _listen(questions: BinaryIO, messages: queue.Queue[bytes]) -> None:
    try:
        while length := questions.read(LENGTH):
            messages.put(questions.read(int.from_bytes(length, "little")))
    finally:  # at once, whatever is being done: work can be left at any moment
        os._exit(0)


class RayCrew(Generic[Task]):
    """Actors of one core each on a Ray cluster, made by `actor()`; only bytes travel to them.

    Ray notices dead actors and nodes; it may be wrong about a death, which does no harm. One that
    has not answered for `limit` seconds is taken to hang.
    """

    def __init__(self, ray: Any, actor: Callable[[], Any], limit: float | None = None) -> None:
        self.ray, self.actor, self.limit = ray, actor, limit
        self.is_gone = watch_head(ray)
        self.idle: list[Any] = []
        self.busy: dict[Any, tuple[Task, Any, float]] = {}  # by reference: task, actor, when told

    @property
    def tasks(self) -> int:
        """How many are being worked on."""
        return len(self.busy)

    def tell(self, task: Task, message: bytes) -> None:
        """Give a task to an idle actor, or to a new one."""
        actor = self.idle.pop() if self.idle else self.actor()
        self.busy[actor.answer.remote(message)] = task, actor, time.monotonic()

    def listen(self) -> Iterator[tuple[Task, bytes | str]]:
        """Tasks that have ended within a tick, with their answer; how the actor died, as text."""
        ended, _ = self.ray.wait([*self.busy], timeout=TICK_SECONDS)
        errors, reply = self.ray.exceptions, b""
        for reference in ended:
            task, actor, _ = self.busy.pop(reference)
            try:
                reply = self.ray.get(reference)
            except errors.LocalRayletDiedError:
                raise InputError(RESUME) from None
            except errors.RayError as error:
                yield task, type(error).__name__
            else:
                self.idle.append(actor)
                yield task, reply
        if not ended and self.is_gone():
            raise InputError(RESUME)
        late = time.monotonic() - (self.limit or float("inf"))
        for reference, (task, actor, since) in [*self.busy.items()]:
            if since < late:
                del self.busy[reference]
                self.ray.kill(actor)
                yield task, f"no answer within {self.limit:g} seconds"


@contextmanager
def ray_cluster(address: str | None, cores: int, option: str) -> Iterator[Any]:
    """The package `ray`, connected to the cluster at `address`, or to one of `cores` cores of ours.

    option: what on the command line asked for it.
    """
    try:
        import ray
    except ModuleNotFoundError:
        raise InputError(f"{option} needs the package 'ray'; install cmdpax[ray].") from None
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    # Ray's workers look for modules first where their driver was then; and JAX's advice on forks is
    # not for processes that become others at once
    with chdir(os.sep), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        if address is None:
            with _one_thread():  # an embedded Ray hands it on
                # "local": not a cluster that happens to run here
                ray.init(address="local", num_cpus=cores, include_dashboard=False, **quiet)
        else:
            ray.init(address=address, **quiet)
    try:
        yield ray
    finally:
        ray.shutdown()


def alone(here: str) -> None:
    """Be a worker of a Ray cluster: with one thread, in the folder `here` if this machine has it.

    Ray ends a worker by a signal that it turns into a SystemExit amid the work. That must not pass
    for one of somebody's code: the signal ends the process, and the work is done elsewhere.
    """
    with suppress(ValueError):  # not in a thread
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.update(ONE_THREAD)  # in time for JAX, which starts with the first training
    with suppress(OSError):
        os.chdir(here)


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


def watch_head(ray: Any) -> Callable[[], bool]:
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


def refuse_silent(option: str, address: str, others: str = "") -> None:
    """Refuse an address where nobody listens: Ray itself would try for minutes.

    others: what else may be written instead.
    """
    _, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        what = f"{others}HOST:PORT, as `ray start --head` prints it"
        raise InputError(f"{option} {address}: write {what}.")
    if not _answers(address):
        remedy = "start one with `ray start --head`"
        raise InputError(f"{option} {address}: no Ray cluster answers there; {remedy}.")


def _answers(address: str) -> bool:
    """Whether somebody listens at HOST:PORT."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError):
        return False
    return True
