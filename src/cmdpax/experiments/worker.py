"""A worker: a process of one thread that carries out runs, one after the other, as they are told to
it.

`python -m cmdpax.experiments.worker STORE` reads a run per line (canonical JSON) and answers with a
line for each. Imports and compilers are paid for once in a worker's life. When its driver is gone,
it is gone: a thread waits for the end of the input.
"""

import json
import os
import queue
import sys
import threading
from pathlib import Path

from cmdpax.errors import InputError
from cmdpax.experiments.runs import Run
from cmdpax.experiments.store import Store

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}


def carry_out(store: str, text: str) -> str:
    """Do one run, given and answered as JSON: `{"won": ...}`, or `{"error": one sentence}` where
    nothing can be committed.
    """
    try:
        return json.dumps({"won": Store(store).carry_out(Run.from_text(text))})
    except InputError as error:
        return json.dumps({"error": str(error)})
    except ModuleNotFoundError as error:
        return json.dumps(
            {"error": f"this sweep needs the package '{error.name}'; install cmdpax[deep]."}
        )
    # a fault of ours, or of an environment: it must reach whoever reads the driver's answer
    except Exception as error:
        return json.dumps({"error": f"a run broke off: {type(error).__name__}: {error}"})


def main(store: Path) -> None:
    """Serve until the input ends."""
    os.environ.update(ONE_THREAD)  # in time for JAX, which starts with the first training
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what an environment prints must not be taken for an answer
    told: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(told,), daemon=True).start()
    while True:
        answers.write(carry_out(str(store), told.get()) + "\n")


def _listen(told: queue.Queue[str]) -> None:
    for line in sys.stdin:
        told.put(line)
    os._exit(0)  # at once, whatever the run is doing: an attempt can be left at any moment


if __name__ == "__main__":
    main(Path(sys.argv[1]))
