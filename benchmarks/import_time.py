"""CPU seconds of `import cmdpax` (target: at most 0.25), and of a first answer on a new machine.

    python benchmarks/import_time.py [processes]

The import is the best of some fresh processes. A first answer is `cmdpax.solve` in a fresh process
with an empty cache of compiled loops, less the same with a full cache: what compiling takes.
Target: at most 3 s.
"""

import os
import subprocess
import sys
import tempfile

IMPORT = "import time; t = time.process_time(); import cmdpax; print(time.process_time() - t)"
SOLVE = """
import time
import cmdpax
model = cmdpax.environments.{model}
t = time.process_time()
cmdpax.solve(model)
print(time.process_time() - t)
"""
MODELS = ("cliff_world()", "garnet(states=100, constraints=2)", "queue(capacity=2000)")
TARGET, COMPILING = 0.25, 3.0


def seconds(code: str, **environment: str) -> float:
    command = [sys.executable, "-c", code]
    return float(subprocess.check_output(command, env={**os.environ, **environment}))


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    best = min(seconds(IMPORT) for _ in range(count))
    print(f"import cmdpax: {best:.3f} CPU seconds (target: at most {TARGET})")
    for model in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            first, second = (
                seconds(SOLVE.format(model=model), NUMBA_CACHE_DIR=folder) for _ in range(2)
            )
        said = f"{first:.2f} with nothing compiled, {second:.2f} then"
        print(f"solve {model}: {said}; compiling {first - second:.2f} s (target: {COMPILING:g})")
