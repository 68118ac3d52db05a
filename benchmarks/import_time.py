"""CPU seconds of `import cmdpax`: the best of some fresh processes. Target: at most 0.25.

python benchmarks/import_time.py [processes]
"""

import subprocess
import sys

CODE = "import time; t = time.process_time(); import cmdpax; print(time.process_time() - t)"
TARGET = 0.25

if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    command = [sys.executable, "-c", CODE]
    seconds = min(float(subprocess.check_output(command)) for _ in range(count))
    print(f"import cmdpax: {seconds:.3f} CPU seconds (target: at most {TARGET})")
