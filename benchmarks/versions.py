"""Is a solve of this version slower, or larger, than one of another version? In one run, in turns.

    git worktree add ../before 476e393^       the last version with padded rows
    python benchmarks/versions.py ../before/src OUT.jsonl 6.3e-7 1e5 1e6    eps of the other version

Garnet models with one limit, discount .99, eps 1e-6, one thread. Every solve has a process of its
own, which builds the model, compiles with a small one first, and says the CPU seconds of `solve`
and the peak of its memory; the two versions take turns. The other version's eps was a share of all
conceivable values, of which policies change 63 per cent here (`share`): 6.3e-7 of these is the
same tolerance.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parents[1] / "src"
EPS, ROUNDS = 1e-6, 300_000  # states in all rounds of a size, two rounds at the least
CHILD = """
import json, resource, sys, time
import cmdpax
cmdpax.solve(cmdpax.environments.garnet(2000))  # compiles
model = cmdpax.environments.garnet(int(sys.argv[1]), discount=0.99)
started = time.process_time()
result = cmdpax.solve(model, eps=float(sys.argv[2]))
seconds = time.process_time() - started
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
ranges = getattr(result.certificate, "ranges", None)
share = None if ranges is None else float(ranges[0, 1] - ranges[0, 0]) / (1 / (1 - 0.99))
print(json.dumps({"seconds": seconds, "mb": peak, "share": share, "status": result.status}))
"""


def solved(source: Path, states: int, eps: float) -> dict[str, Any]:
    """What a process says that imports cmdpax from `source`."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    environment = {**os.environ, **threads, "PYTHONPATH": str(source.resolve())}
    call = [sys.executable, "-c", CHILD, str(states), str(eps)]
    text = subprocess.run(call, env=environment, capture_output=True, text=True, check=True).stdout
    return json.loads(text.splitlines()[-1])


def main(other: Path, out: Path, eps: float, sizes: list[int]) -> None:
    sides = (other, eps), (HERE, EPS)
    with out.open("a") as file:
        for states in sizes:
            rounds = range(max(2, ROUNDS // states))
            pairs = [[solved(one, states, own) for one, own in sides] for _ in rounds]
            row: dict[str, object] = {"states": states, "rounds": len(rounds), "eps_before": eps}
            for name in ("seconds", "mb"):
                both = np.median([[side[name] for side in pair] for pair in pairs], 0).tolist()
                row |= {
                    f"{name}_before": both[0],
                    name: both[1],
                    f"{name}_ratio": both[1] / both[0],
                }
            row["share"] = pairs[0][1]["share"]
            row["status"] = [[side["status"] for side in pair] for pair in pairs]
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    places, numbers = map(Path, sys.argv[1:3]), list(map(float, sys.argv[3:]))
    main(*places, numbers[0], [int(size) for size in numbers[1:]])
