"""Ray Core tasks, on a cluster or on an embedded Ray of this machine: one task a run, one core
each.

Only strings travel: the store's path (which every node must see), a run and its answer as JSON. Ray
notices dead workers and nodes and starts their tasks again elsewhere; it may be wrong about a
death, which does no harm.
"""

import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cmdpax.errors import InputError
from cmdpax.experiments.executors.local import DEATHS, TICK
from cmdpax.experiments.runs import Run
from cmdpax.experiments.store import Store
from cmdpax.experiments.worker import ONE_THREAD, carry_out


def execute(
    runs: Sequence[Run],
    store: Store,
    workers: int,
    report: Callable[[], None],
    address: str | None = None,
) -> None:
    """Carry out `runs` on the cluster at `address`, by as many workers as it has cores, or on an
    embedded Ray with `workers`.
    """
    try:
        import ray
    except ModuleNotFoundError:
        raise InputError("--executor ray needs the package 'ray'; install cmdpax[ray].") from None
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    if address is None:
        with _one_thread():  # an embedded Ray hands it on
            # "local": not a cluster that happens to run here
            ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
    else:
        ray.init(address=address, **quiet)
    try:
        task = ray.remote(num_cpus=1, max_retries=DEATHS)(_carry_out_alone)
        folder = str(store.folder.absolute())
        waiting = [task.remote(folder, run.text) for run in store.pending(runs)]
        while waiting:
            ended, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=TICK)
            for reference in ended:
                _read(ray, reference)
            report()
    finally:
        ray.shutdown()


def _carry_out_alone(store: str, text: str) -> str:
    """In a worker of Ray's, which does nothing else: a cluster's own may have more threads than
    one.
    """
    os.environ.update(ONE_THREAD)
    return carry_out(store, text)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Whatever starts within has one thread; this process, whose numba may have started more, is as
    before.
    """
    before = dict(os.environ)
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name in ONE_THREAD:
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]


def knock(address: str) -> None:
    """Refuse an address where nobody listens: Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise InputError(f"--address {address}: write HOST:PORT, as `ray start --head` prints it.")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError):
        raise InputError(
            f"--address {address}: no Ray cluster answers there; start one with `ray start --head`."
        ) from None


def _read(ray: Any, reference: Any) -> None:
    try:
        answer = json.loads(ray.get(reference))
    except (
        ray.exceptions.WorkerCrashedError,
        ray.exceptions.NodeDiedError,
        ray.exceptions.OutOfMemoryError,
    ):
        return  # given up: it is missing in the store
    if "error" in answer:
        raise InputError(answer["error"])
