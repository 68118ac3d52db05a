"""Who carries runs out: this process, processes of this machine, or a Ray cluster. One signature,
one way of committing.

`execute(runs, store, workers, report)` returns when every run is finished or was given up;
`report()` is called about once a second and may look into the store. It raises `InputError` where
going on is useless (a full disk). What is not finished then was given up because its worker died
`DEATHS` times.
"""

from collections.abc import Callable, Sequence
from functools import partial

from cmdpax.errors import InputError, did_you_mean
from cmdpax.experiments.executors import local, ray_tasks, serial
from cmdpax.experiments.runs import Run
from cmdpax.experiments.store import Store

Execute = Callable[[Sequence[Run], Store, int, Callable[[], None]], None]
EXECUTORS: dict[str, Execute] = {
    "serial": serial.execute,
    "local": local.execute,
    "ray": ray_tasks.execute,
}


def executor(name: str, address: str | None = None) -> Execute:
    """An executor by name; `address` is that of a running Ray cluster."""
    if name not in EXECUTORS:
        raise InputError(f"executor '{name}' is not known; {did_you_mean(name, EXECUTORS)}")
    if address is not None and name != "ray":
        raise InputError(f"--address is for --executor ray, not for {name}.")
    if address is None:
        return EXECUTORS[name]
    ray_tasks.knock(address)
    return partial(ray_tasks.execute, address=address)
