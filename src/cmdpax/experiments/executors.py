"""Who carries runs out: this process, processes of this machine, or a Ray cluster?

`execute(runs, store, workers, watch)` returns when every run is finished: with a result, or as
failed, because it raised an exception or because `DEATHS` workers died over it without getting
further. `watch()` is called about once a second and may look into the store. `InputError` is raised
where going on is useless: a full disk, workers that cannot start, Ray's head gone.

`python -P -m cmdpax.experiments.executors STORE` is a worker: a message is a run (canonical JSON),
which it carries out, and answers. Imports and compilers are paid for once in a worker's life.

Every run begins in the folder where the sweep was started. Workers look for modules there no more
than the driver does: without `-P`, Python would look there first.
"""

import json
import os
import sys
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, chdir
from functools import partial
from typing import Any

from cmdpax import processes
from cmdpax.errors import InputError, check_known
from cmdpax.experiments.runs import Run
from cmdpax.experiments.store import Store
from cmdpax.processes import DEATHS, ONE_THREAD, TICK_SECONDS, LocalCrew

Watch = Callable[[], None]
Execute = Callable[[Sequence[Run], Store, int, Watch], None]
LOG = "workers.log"
HEAD_GONE = (
    f"{processes.HEAD_GONE}; give the same command again once there is one: finished runs are kept."
)


def find_executor(name: str, address: str | None = None) -> Execute:
    """An executor by name; `address` is that of a running Ray cluster."""
    check_known("executor", name, EXECUTORS)
    if address is None:
        return EXECUTORS[name]
    if name != "ray":
        raise InputError(f"--address is for --executor ray, not for {name}.")
    processes.refuse_silent("--address", address)
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
    command = ["cmdpax.experiments.executors", str(store.folder.absolute())]
    with ExitStack() as stack:
        with store.writing():
            log = stack.enter_context(open(store.folder / LOG, "a"))
        crew = stack.enter_context(LocalCrew[Run](command, log))
        while waiting or crew.tasks:
            while waiting and crew.tasks < workers:
                run = waiting.popleft()
                crew.tell(run, run.text.encode())
            for run, reply in crew.listen():
                if isinstance(reply, str):
                    if deaths.leave_a_try(run, reply):
                        waiting.append(run)
                else:
                    _refuse_error(json.loads(reply))
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
        if not self.store.pending([run]):  # it died after it had committed the run
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


def in_ray(
    runs: Sequence[Run], store: Store, workers: int, watch: Watch, address: str | None = None
) -> None:
    """One Ray task of one core for each run.

    On the cluster at `address` by as many workers as it has cores, or on an embedded Ray with
    `workers`. Only strings travel: the store's path (which every node must see), that of the
    current folder, a run and its answer as JSON. Ray notices dead workers and nodes, and their runs
    are started again elsewhere; it may be wrong about a death, which does no harm.
    """
    here, pending = os.getcwd(), store.pending(runs)
    folder = str(store.folder.absolute())
    with processes.ray_cluster(address, workers, "--executor ray") as ray:
        task = ray.remote(num_cpus=1, max_retries=0)(carry_out_alone)
        is_gone = processes.watch_head(ray)
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


EXECUTORS: dict[str, Execute] = {"serial": in_this_process, "local": in_processes, "ray": in_ray}


def carry_out_alone(store: str, here: str, text: str) -> str:
    """`answer` as a worker of its own.

    A worker of a Ray cluster has threads and a folder of its own, and an environment may have left
    the folder in which the run before it began.
    """
    processes.alone(here)
    return answer(store, text)


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
    processes.serve(lambda text: carry_out_alone(store, here, text.decode()).encode())


if __name__ == "__main__":
    main(sys.argv[1])
