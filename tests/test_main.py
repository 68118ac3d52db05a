"""`python -m cmdpax` is the command line, wherever it is started."""

import subprocess
import sys


def version_printed(folder):
    return subprocess.run(
        [sys.executable, "-m", "cmdpax", "--version"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_package_runs_as_a_module(tmp_path):
    answer = version_printed(tmp_path)
    assert answer.returncode == 0 and answer.stdout.startswith("cmdpax ")


def test_modules_of_the_folder_hide_no_library(tmp_path):
    """`python -m` looks for modules first where it is started: somebody's `rich.py`, say."""
    (tmp_path / "rich.py").write_text("raise SystemExit('not the library')")
    answer = version_printed(tmp_path)
    assert answer.returncode == 0 and answer.stdout.startswith("cmdpax ")
