"""Rollouts by many processes, or by a Ray cluster: weights go out, whole horizons come back.

A batch is T steps of N copies of an environment. A message asks for the T steps of one copy: it
holds the policy's arrays, the copy's noise and its seed, and so all that its answer depends on. A
copy acts by itself (`forward`) and is seeded by itself (`reset(seed, first)`). So a batch is
the same to the last bit in this process, in N others and on Ray, and also when workers die or hang
half-way: their horizons are repeated elsewhere.

`python -P -m cmdpax.learning.workers` is a worker. It makes the environment once.
"""

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np

from cmdpax.errors import InputError, check_count, check_positive
from cmdpax.learning.checkpoints import pack, unpack
from cmdpax.learning.environment_names import USER_ERRORS, as_input_error, beside, name_of
from cmdpax.learning.gym_simulator import make_simulator
from cmdpax.learning.policy import NetworkPolicy, spaces_of
from cmdpax.learning.rollout import record_of
from cmdpax.learning.simulator import Record, Simulator
from cmdpax.model.cmdp import CMDP
from cmdpax.processes import LocalCrew, RayCrew, alone, ask, ray_cluster, refuse_silent, serve

MAIN = "__cmdpax_main__"  # what a script is called that is imported by a worker
Ask = Callable[[list[bytes]], list[bytes]]


class WorkerSimulator:
    """`count` copies of an environment, in other processes: what `rollout.collect` takes.

    one: a copy in this process, which says what its spaces are. ask: has messages answered.
    """

    def __init__(self, one: Simulator, count: int, environment: Any, ask: Ask) -> None:
        self.count, self.ask = count, ask
        self.observation_size, self.observation_shape = one.observation_size, one.observation_shape
        self.action_space, self.cost_names = one.action_space, one.cost_names
        self.episode_limit = one.episode_limit
        self.source = source_of(environment)

    def record(self, policy: NetworkPolicy, noise: np.ndarray, seed: int) -> Record:
        """T steps of all copies; noise `[T, N, a]`."""
        notes = {**self.source, "seed": seed, "spaces": spaces_of(policy)}
        messages = [
            packed({**notes, "copy": copy}, {**policy.arrays(), "noise": noise[:, [copy]]})
            for copy in range(self.count)
        ]
        parts = []
        for answer in self.ask(messages):
            notes, arrays = unpacked(answer)
            if "error" in notes:
                raise InputError(notes["error"])
            parts.append([arrays[field] for field in Record._fields])
        return Record(*(np.concatenate(columns, axis=1) for columns in zip(*parts)))


@contextmanager
def worker_simulator(
    wanted: int | str | None, one: Simulator, count: int, environment: Any, limit: float
) -> Iterator[Simulator | WorkerSimulator]:
    """`count` copies of an environment in other processes, which end with the context.

    wanted: so many processes of this machine; `ray`, a Ray of this machine; or the address
    HOST:PORT of a Ray cluster; None: `one` itself. limit: seconds after which a worker that has not
    answered is ended.
    """
    check_positive("worker_limit", limit)
    if wanted is None:
        yield one
        return
    if not isinstance(wanted, str) or wanted.isdecimal():
        most = check_count("workers", int(wanted) if isinstance(wanted, str) else wanted)
        with LocalCrew[int](["cmdpax.learning.workers"], limit=limit) as crew:
            yield WorkerSimulator(one, count, environment, partial(ask, crew, workers=most))
        return
    if wanted != "ray":
        refuse_silent("--workers", wanted, "a number, ray, or ")
    address = None if wanted == "ray" else wanted
    with ray_cluster(address, os.cpu_count() or 1, "--workers ray") as ray:
        actor = ray.remote(num_cpus=1, max_restarts=0)(Actor)
        most = max(1, int(ray.cluster_resources().get("CPU", 1)))
        hire = partial(actor.remote, os.getcwd())
        yield WorkerSimulator(
            one, count, environment, partial(ask, RayCrew(ray, hire, limit), workers=most)
        )


class Actor:
    """A worker of a Ray cluster."""

    def __init__(self, here: str) -> None:
        alone(here)

    def answer(self, message: bytes) -> bytes:
        """As the function."""
        return answer(message)


def answer(message: bytes) -> bytes:
    """The steps that a message asks for, or the sentence of an `InputError`."""
    notes, arrays = unpacked(message)
    try:
        simulator = _simulator(
            json.dumps([notes[part] for part in ("environment", "file", "path")])
        )
        noise = arrays.pop("noise").copy()  # writable, as without workers
        policy = NetworkPolicy.of_arrays(arrays, notes["spaces"], 0)
        steps = record_of(simulator, policy, noise, notes["seed"], notes["copy"])
    except InputError as error:
        return packed({"error": str(error)}, {})
    except ModuleNotFoundError as error:
        sentence = f"a worker needs the package '{error.name}'; install it where workers run."
        return packed({"error": sentence}, {})
    return packed({}, steps._asdict())


def packed(notes: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """Notes, as JSON, and arrays."""
    text = np.frombuffer(json.dumps(notes).encode(), np.uint8)
    return pack({"notes": text, **{k: np.ascontiguousarray(v) for k, v in arrays.items()}})


def unpacked(message: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What `packed` made bytes of."""
    arrays = unpack(message)
    return json.loads(arrays.pop("notes").tobytes()), arrays


def source_of(environment: Any) -> dict[str, Any]:
    """What a worker makes an environment of: its name, and where Python looks for modules.

    A function goes by the names of its module and itself; if that is a script, also by its file.
    """
    path = [entry for entry in sys.path if entry]
    if isinstance(environment, str):
        return {"environment": environment, "file": None, "path": path}
    what = f"environment '{name_of(environment)}'"
    if isinstance(environment, CMDP):
        raise InputError(f"{what}: a finite model needs no other processes; leave out workers.")
    module = sys.modules.get(getattr(environment, "__module__", ""))
    name = getattr(environment, "__qualname__", "")
    if module is None or getattr(module, name, None) is not environment:
        raise InputError(
            f"{what} cannot be made in another process; give workers a name, or a function that"
            " stands by itself in a module, not an object, a lambda or a local function."
        )
    if module.__name__ != "__main__":
        return {"environment": f"{module.__name__}:{name}", "file": None, "path": path}
    file = getattr(module, "__file__", None)
    if file is None:
        raise InputError(f"{what} was typed in; put it into a file, from which workers import it.")
    return {"environment": f"{MAIN}:{name}", "file": os.path.abspath(file), "path": path}


@cache
def _simulator(source: str) -> Simulator:
    """One copy of an environment, made once by each worker."""
    environment, file, path = json.loads(source)
    sys.path += [entry for entry in path if entry not in sys.path]
    if file is not None and MAIN not in sys.modules:
        spec = importlib.util.spec_from_file_location(MAIN, file)
        assert spec is not None and spec.loader is not None
        sys.modules[MAIN] = importlib.util.module_from_spec(spec)
        try:
            beside(spec.loader.exec_module, sys.modules[MAIN])
        except USER_ERRORS as error:
            raise as_input_error(environment, f"importing {file}", error) from error
    return make_simulator(environment, 1)


if __name__ == "__main__":
    serve(answer)
