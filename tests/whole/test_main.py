import subprocess
import sys


def test_the_package_runs_as_a_module():
    answer = subprocess.run(
        [sys.executable, "-m", "cmdpax", "--version"], capture_output=True, text=True, timeout=60
    )
    assert answer.returncode == 0 and answer.stdout.startswith("cmdpax ")
