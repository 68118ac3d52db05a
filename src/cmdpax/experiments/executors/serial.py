"""In this process, one after the other: to debug, and to compare with."""

import json
from collections.abc import Callable, Sequence

from cmdpax.errors import InputError
from cmdpax.experiments.runs import Run
from cmdpax.experiments.store import Store
from cmdpax.experiments.worker import carry_out


def execute(runs: Sequence[Run], store: Store, workers: int, report: Callable[[], None]) -> None:
    """Carry out `runs`; there is one worker, whatever `workers` says."""
    for run in store.pending(runs):
        report()
        answer = json.loads(carry_out(str(store.folder), run.text))
        if "error" in answer:
            raise InputError(answer["error"])
    report()
