"""Is a solve of this version slower, or larger, than one of another version? In one run, in turns.

    git worktree add ../before 476e393^       the last version with padded rows
    python benchmarks/versions.py ../before/src OUT.jsonl 1e5 1e6

Garnet models with one limit, discount .99, eps 1e-6, one thread. Every solve has a process of its
own, which builds the model, compiles with a small one first, and says the CPU seconds of `solve`
and the peak of its memory; the two versions take turns.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parents[1] / "src"
ROUNDS = 300_000  # states in all rounds of a size, one round at the least
CHILD = """
import json, resource, sys, time
import cmdpax
cmdpax.solve(cmdpax.environments.garnet(2000))  # compiles
model = cmdpax.environments.garnet(int(sys.argv[1]))
started = time.process_time()
result = cmdpax.solve(model)
seconds = time.process_time() - started
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"seconds": seconds, "mb": peak, "status": result.status}))
"""


def solved(source: Path, states: int) -> dict[str, float]:
    """What a process says that imports cmdpax from `source`."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    environment = {**os.environ, **threads, "PYTHONPATH": str(source.resolve())}
    call = [sys.executable, "-c", CHILD, str(states)]
    text = subprocess.run(call, env=environment, capture_output=True, text=True, check=True).stdout
    return json.loads(text.splitlines()[-1])


def main(other: Path, out: Path, sizes: list[int]) -> None:
    with out.open("w") as file:
        for states in sizes:
            rounds = range(max(1, ROUNDS // states))
            pairs = [[solved(one, states) for one in (other, HERE)] for _ in rounds]
            row: dict[str, object] = {"states": states, "rounds": len(rounds)}
            for name in ("seconds", "mb"):
                both = np.median([[side[name] for side in pair] for pair in pairs], 0).tolist()
                row |= {
                    f"{name}_before": both[0],
                    name: both[1],
                    f"{name}_ratio": both[1] / both[0],
                }
            row["status"] = [[side["status"] for side in pair] for pair in pairs]
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [int(float(size)) for size in sys.argv[3:]])
