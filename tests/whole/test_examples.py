"""The examples run, and print what they promise."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PROMISES = {
    "solve_a_model": ("certified", "hours", "broken   repair with probability 1.000", "price"),
    "minimise_cost": ("best possible: at least", "in 20 to 30", "certified: sold 9.00 (asked 9.0)"),
    "compare_methods": ("pqa-alm", "npg-pd", "reload", "proven gap"),
    "own_oracle": ("method      FrankWolfe", "verified: certified at eps 0.001"),
    "explore_a_grid": ("verified: certified at eps 0.02", "random walk: as spread out as"),
    "share_a_link": ("max-min       certified: rates 0.202 0.202 0.202 0.202", "proportional"),
    "imitate_a_log": ("with limits: certified", "hazard visits 1.35"),
    "train_a_policy": ("update 1:", "10 episodes: return", "thrust towards"),
}


@pytest.mark.parametrize("name", PROMISES)
def test_an_example_runs(name, tmp_path):
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for text in PROMISES[name]:
        assert text in done.stdout
    assert not list(tmp_path.iterdir())  # it leaves nothing behind


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == PROMISES.keys()
