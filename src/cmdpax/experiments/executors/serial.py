"""In this process, one after the other: to debug, and to compare with."""

import json
import os
from collections.abc import Callable, Sequence

from cmdpax.errors import InputError
from cmdpax.experiments.runs import Run
from cmdpax.experiments.store import Store
from cmdpax.experiments.worker import ONE_THREAD, carry_out


def execute(runs: Sequence[Run], store: Store, workers: int, report: Callable[[], None]) -> None:
    """Carry out `runs`; there is one worker, whatever `workers` says."""
    # as a worker does, for the same bytes; but numba may have started its threads, which change no
    # number
    os.environ.update(
        {name: value for name, value in ONE_THREAD.items() if name != "NUMBA_NUM_THREADS"}
    )
    for run in store.pending(runs):
        report()
        answer = json.loads(carry_out(str(store.folder), run.text))
        if "error" in answer:
            raise InputError(answer["error"])
    report()
