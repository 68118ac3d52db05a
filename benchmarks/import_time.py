"""CPU seconds of `import cmdpax` (target: at most 0.25), and of first answers on a new machine.

    python benchmarks/import_time.py [processes]

The import is the best of some fresh processes. A first answer is a model, built and solved, in a
fresh process with an empty cache of machine code; of that, what compiling took (target: at most
3 s). Then the same once more in that process.
"""

import os
import subprocess
import sys
import tempfile

IMPORT = "import time; t = time.process_time(); import cmdpax; print(time.process_time() - t)"
SOLVE = """
import time
import cmdpax
from cmdpax.loops import compiled
def answer():
    t = time.process_time()
    cmdpax.solve(cmdpax.environments.{model})
    return time.process_time() - t
first = answer()
print(first, compiled._turn.compiling, answer())
"""
MODELS = (
    "cliff_world()",
    "garnet(states=100, constraints=10)",
    "garnet(states=400, constraints=2)",
    "grid_world()",
    "queue(capacity=2000)",
    "garnet(states=1000, constraints=2)",
    "queue(capacity=100000)",
)
TARGET, COMPILING = 0.25, 3.0


def seconds(code: str, **environment: str) -> list[float]:
    command = [sys.executable, "-c", code]
    said = subprocess.check_output(command, env={**os.environ, **environment})
    return [float(number) for number in said.split()]


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    best = min(seconds(IMPORT)[0] for _ in range(count))
    print(f"import cmdpax: {best:.3f} CPU seconds (target: at most {TARGET})")
    print(f"| model | first answer | of that, compiling (target: {COMPILING:g}) | second answer |")
    print("|---|---|---|---|")
    for model in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            first, compiling, second = seconds(SOLVE.format(model=model), NUMBA_CACHE_DIR=folder)
        print(f"| `{model}` | {first:.2f} | {compiling:.2f} | {second:.2f} |", flush=True)
