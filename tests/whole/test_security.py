"""What docs/security.md says: whose code runs, and whose does not.

Commands run in a folder whose modules have the names of libraries and write `ran` when they run.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cmdpax.cli.main import COMMANDS
from cmdpax.experiments.store import Store
from cmdpax.learning.portable import load_policy
from cmdpax.learning.training import train
from short_run import SMALL

DOCS = Path(__file__).parents[2] / "docs"
COMMAND = [str(Path(sys.executable).parent / "cmdpax")]
WRITES = "import pathlib; pathlib.Path({!r}).write_text(__name__)\n"
# libraries that are there, standard or not, and optional ones that are not
NAMES = ("linkify_it", "winreg", "colorama", "coverage", "queue", "numpy", "mujoco_py", "ray")
TINY = """
kind = "exact"
[settings]
model = "cliff-world"
method = "npg-pd"
steps = 20
step = [0.1, 0.2]
"""
HEATER = """
import os
import gymnasium
import helper  # lies beside this file

class Heater(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        import late  # so does this
        self.cost = late.COST
        os.chdir("/")  # which must not lead the next run, or its folder, astray

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return helper.ones(), {}

    def step(self, action):
        return helper.ones(), float(action), True, False, {"cost": self.cost}

def make():
    return Heater()
"""
HELPER = "import numpy\ndef ones():\n    return numpy.ones(1, dtype=numpy.float32)\n"


def run(folder, *arguments, command=COMMAND, **variables):
    """A command as a user gives it in `folder`."""
    done = subprocess.run(
        [*command, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "JAX_PLATFORMS": "cpu", **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture
def theirs(tmp_path):
    """Somebody's folder: modules with the names of libraries, and results to look at."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(WRITES.format(str(tmp_path / "ran")))
    (folder / "notes.md").write_text("see https://example.org")
    (folder / "table.csv").write_text("a,b\n1,2\n")
    (folder / "sweep.toml").write_text(TINY)
    return folder


def nothing_ran(folder):
    ran = folder.parent / "ran"
    return not ran.exists() or ran.read_text()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A short run, whose config is changed to name somebody's module."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(**{**SMALL, "environment": "probes:Bandit", "samples": 100}, folder=folder)
    return folder


@pytest.fixture
def naming_evil(theirs, trained):
    """The same in somebody's folder, beside the module that it names."""
    config = json.loads((trained / "config.json").read_text())
    subprocess.run(["cp", "-r", str(trained), str(theirs / "run")], check=True)
    (theirs / "run" / "config.json").write_text(json.dumps({**config, "environment": "evil:make"}))
    evil = WRITES.format(str(theirs.parent / "ran")) + "from probes import Bandit as make\n"
    (theirs / "evil.py").write_text(evil)
    return theirs / "run"


def test_modules_of_the_current_folder_are_not_run(theirs):
    assert run(theirs, "report", ".").returncode == 0
    assert nothing_ran(theirs) is True


@pytest.mark.parametrize("options", [("-m",), ("-P", "-m")])
def test_nor_by_python_itself_once_the_program_has_begun(theirs, options):
    if "-P" not in options:
        (theirs / "queue.py").unlink()  # Python may import it before anything of ours
    done = run(theirs, "solve", "cliff-world", command=[sys.executable, *options, "cmdpax"])
    assert done.returncode == 0 and nothing_ran(theirs) is True


def test_settings_of_numba_in_the_current_folder_move_no_cache(theirs):
    """Numba unpickles what lies in its cache."""
    pytest.importorskip("yaml")
    (theirs / ".numba_config.yaml").write_text("cache_dir: cache\n")
    assert run(theirs, "solve", "cliff-world").returncode == 0
    assert not (theirs / "cache").exists()


def test_settings_of_matplotlib_in_the_current_folder_run_nothing(theirs):
    (theirs / "matplotlibrc").write_text("backend: module://evil\n")
    (theirs / "evil.py").write_text(WRITES.format(str(theirs.parent / "ran")))
    assert run(theirs, "show", "cliff-world", "--out", "picture.png").returncode == 0
    assert nothing_ran(theirs) is True


@pytest.mark.parametrize("command", ["evaluate", "film", "report"])
def test_nothing_is_imported_because_a_file_names_it(naming_evil, command):
    folder = naming_evil.parent
    done = run(folder, command, "." if command == "report" else "run")
    assert nothing_ran(folder) is True
    if command == "report":
        assert done.returncode == 0
    else:
        assert done.returncode == 2 and done.stderr.count("\n") == 1
        assert "config.json names the environment 'evil:make'" in done.stderr
        assert "--environment" in done.stderr and "--trust" in done.stderr
        assert not (naming_evil / "evaluation.json").exists()


def test_a_resumed_run_imports_what_was_typed(naming_evil):
    arguments = ("train", "probes:Bandit", "--resume", "--out", "run")
    done = run(naming_evil.parent, *arguments, PYTHONPATH=_with_tests())
    assert done.returncode == 2 and "environment was 'evil:make'" in done.stderr
    assert nothing_ran(naming_evil.parent) is True


@pytest.mark.parametrize("option", [("--trust",), ("--environment", "evil:make")])
def test_what_is_trusted_or_typed_is_imported(naming_evil, option):
    folder = naming_evil.parent
    done = run(folder, "evaluate", "run", "--episodes", "2", *option, PYTHONPATH=_with_tests())
    assert done.returncode == 0 and nothing_ran(folder) == "evil"
    assert (naming_evil / "evaluation.json").exists()


def _with_tests():
    here = str(Path(__file__).parents[1])
    return os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), here])


HEATERS = """
seeds = [0, 1]
[settings]
environment = "heater:make"
samples = 100
batch = 50
rollout_steps = 50
hidden = [8]
"""


@pytest.fixture
def mine(theirs):
    """An environment of the user's own in a folder of such names, with modules beside it."""
    for name, text in (("heater", HEATER), ("helper", HELPER), ("late", "COST = 1.0\n")):
        (theirs / f"{name}.py").write_text(text)
    (theirs / "heater.toml").write_text(HEATERS)
    return theirs


def test_a_typed_module_finds_what_lies_beside_it_and_libraries_where_they_are(mine):
    assert run(mine, "check-env", "heater:make", "--steps", "5").returncode == 0
    assert nothing_ran(mine) is True


@pytest.mark.parametrize("executor", ["local", "serial", "ray"])
def test_the_environments_of_a_sweep_are_imported_by_its_workers(mine, executor):
    done = run(mine, "sweep", "heater.toml", "--workers", "1", "--executor", executor)
    assert done.returncode == 0, done.stderr
    assert nothing_ran(mine) is True
    outcomes = [
        json.loads(path.read_text()) for path in mine.glob("runs/heater/done/*/result.json")
    ]
    assert [one["outcome"]["cost"] for one in outcomes] == [{"cost": 1.0}] * 2


def test_records_of_a_store_name_nothing_that_is_imported(naming_evil):
    """A finished run of somebody's in a store is shown, not done again."""
    folder = naming_evil.parent
    Store(folder / "store", create=True)
    record = folder / "store" / "done" / "0123456789abcdef"
    record.mkdir()
    made = {"run": {"kind": "train", "config": {"environment": "evil:make"}, "seed": 0}}
    (record / "run.json").write_text(json.dumps({**made, "versions": {}}))
    outcome = {"return": 1.0, "cost": {}, "excess": 0.0, "samples": 1}
    (record / "result.json").write_text(json.dumps({**made, "versions": {}, "outcome": outcome}))
    for arguments in (("sweep", "sweep.toml", "--store", "store"), ("report", "store")):
        assert run(folder, *arguments).returncode == 0
    assert nothing_ran(folder) is True and (record / "result.json").exists()


def test_reading_a_policy_imports_nothing(naming_evil):
    assert load_policy(naming_evil).core.updates == 1
    assert "evil" not in sys.modules and nothing_ran(naming_evil.parent) is True


def test_a_store_leaves_alone_what_it_did_not_make(theirs):
    store = Store(theirs / "store", create=True)
    mine = [store.folder / "notes.txt", store.work / "thesis" / "chapter.txt"]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    assert run(theirs, "sweep", "sweep.toml", "--store", "store", "--workers", "1").returncode == 0
    assert [path.read_text() for path in mine] == ["mine"] * 2
    assert len(store.finished()) == 2 and [path.name for path in store.work.iterdir()] == ["thesis"]


def test_the_page_speaks_of_every_command():
    text = (DOCS / "security.md").read_text()
    assert set(re.findall(r"`cmdpax ([a-z-]+)", text)) >= COMMANDS.keys()
