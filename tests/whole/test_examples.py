"""The examples run, and print what they promise."""

import os
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
    "seasonal_inventory": ("certified", "service 95.00 per cent", "week 51 0 (1.00)"),
    "shortest_path": ("<= 45", "15 minutes: impossible, 5.0 more", "75 minutes: toll 0.000"),
    "reservoir": (
        "in 33 to 38",
        "1.3 to 1.4: certified, mean 1.400, price -",
        "2.0 to 2.2: infeas",
    ),
    "fair_clinic": ("== 0", "3          1.00          0.00", "without the equality 57.147"),
    "machine_maintenance": (
        "uptime       0.82    >= 0.82",
        "wear 7  service 1.000\nbroken  hurry 0.875, mend 0.125",
        "uptime 0.84: impossible, 0.010 too much",
    ),
    "explore_a_grid": ("verified: certified at eps 0.02", "random walk: as spread out as"),
    "share_a_link": ("max-min       certified: rates 0.202 0.202 0.202 0.202", "proportional"),
    "imitate_a_log": ("with limits: certified", "hazard visits 1.3"),
    "train_a_policy": ("update 1:", "10 episodes: return", "thrust towards"),
    "weights_and_biases": ("init cmdpax", "evaluated/return", "cost/cost", "finished: verdict"),
}
# what an example calls that is not installed: says what it is asked to do
STUBS = {
    "weights_and_biases": """
class Run:
    def __init__(self, project, config):
        print("init", project)
        self.summary, self.step = {}, 0
    def __enter__(self):
        return self
    def __exit__(self, *error):
        print("finished:", *self.summary)
    def log(self, row, step):
        assert step > self.step and all(isinstance(one, int | float) for one in row.values()), row
        self.step = step
        print(*row)
init = Run
"""
}


@pytest.mark.parametrize("name", PROMISES)
def test_an_example_runs(name, tmp_path, tmp_path_factory):
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    environment = dict(os.environ)
    if name in STUBS:
        stub = tmp_path_factory.mktemp("stub")
        (stub / "wandb.py").write_text(STUBS[name])
        paths = (str(stub), environment.get("PYTHONPATH", ""))
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for text in PROMISES[name]:
        assert text in done.stdout
    assert not list(tmp_path.iterdir())  # it leaves nothing behind


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == PROMISES.keys()
