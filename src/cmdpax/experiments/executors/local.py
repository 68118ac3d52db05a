"""Processes of this machine, one single-threaded worker per core.

A run is told to one worker at a time. The system says for certain when a worker is dead, by the end
of its output; nothing is guessed from silence. The run then goes to the next free worker, which
goes on from the checkpoint that the dead one left.
"""

import json
import os
import selectors
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from cmdpax.errors import InputError
from cmdpax.experiments.runs import Run
from cmdpax.experiments.store import Store
from cmdpax.experiments.worker import ONE_THREAD

DEATHS = 10  # so many workers may die over one run before it is given up
TICK = 1.0  # seconds between two reports


def execute(runs: Sequence[Run], store: Store, workers: int, report: Callable[[], None]) -> None:
    """Carry out `runs` with so many workers."""
    waiting, deaths = deque(store.pending(runs)), Counter[str]()
    with _Crew(store) as crew:
        while waiting or crew.busy:
            while waiting and len(crew.busy) < workers:
                crew.tell(waiting.popleft())
            for run, answer in crew.listen():
                if answer is None:
                    deaths[run.id] += 1
                    if deaths[run.id] < DEATHS:
                        waiting.append(run)
                elif "error" in answer:
                    raise InputError(answer["error"])
            report()


class _Crew:
    """Workers, idle or busy."""

    def __init__(self, store: Store) -> None:
        self.store, self.idle, self.busy = (
            store,
            list[subprocess.Popen[str]](),
            dict[subprocess.Popen[str], Run](),
        )
        self.selector = selectors.DefaultSelector()

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
        with suppress(
            BrokenPipeError
        ):  # it is dead: its output has ended too, which is noticed there
            print(run.text, file=worker.stdin, flush=True)

    def listen(self) -> Iterator[tuple[Run, dict | None]]:
        """Runs that have ended within a tick, with their answer; None for a death."""
        for key, _ in self.selector.select(TICK):
            worker = key.data
            line = worker.stdout.readline()
            run = self.busy.pop(worker, None)
            if line.endswith("\n"):
                self.idle.append(worker)
            else:
                self.selector.unregister(worker.stdout)
                if worker in self.idle:
                    self.idle.remove(worker)
                worker.wait()
            if run is not None:
                yield run, json.loads(line) if line.endswith("\n") else None

    def _hire(self) -> subprocess.Popen[str]:
        worker = subprocess.Popen(
            [sys.executable, "-m", "cmdpax.experiments.worker", str(self.store.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env={**os.environ, **ONE_THREAD},
            start_new_session=True,  # Ctrl-C is for the driver, which then ends its workers
        )
        self.selector.register(worker.stdout, selectors.EVENT_READ, worker)  # type: ignore[arg-type]
        return worker
