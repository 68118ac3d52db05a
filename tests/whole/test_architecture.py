"""The house: eight floors, foreign packages in their rooms, and a budget of lines for each room."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import cmdpax

ROOT = Path(cmdpax.__file__).parent
HOME = ROOT.parents[1]  # of the repository
FILES = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))
# from the ground up: a room imports lower floors, and rooms to its left on its own
FLOORS = (
    ("errors", "files", "stopping", "processes", "lagrangian", "utilities", "loops"),
    ("model",),
    ("checker", "exact"),
    ("environments", "solvers"),
    ("learning",),
    ("experiments", "report"),
    ("paper",),
    ("cli", "__main__"),
)
STRANGERS = {"environments", "solvers"}  # on one floor, but neither imports the other
# which files may import a package; a room stands for all of its files
HOSTS = {
    "numba": ("loops/compiled.py",),
    "jax": tuple(
        f"learning/{file}.py"
        for file in [
            *("formulas", "learner", "passes", "trust_region", "training"),
            *("own_network", "compilation", "saved"),
        ]
    ),
    "optax": ("learning/learner.py", "learning/passes.py"),
    "onnx": ("learning/graph.py",),
    "onnxruntime": (),
    "gymnasium": ("learning/",),
    "mujoco": ("learning/robots.py", "learning/velocity.py"),
    "highspy": ("solvers/programs.py",),
    "matplotlib": ("experiments/pictures.py", "experiments/policy_pictures.py", "paper/"),
    "ray": ("processes.py",),
    "markdown_it": ("report/page.py",),
    "tyro": ("cli/",),
    "rich": ("cli/",),
    "pickle": (),
    "cloudpickle": (),
    "safetensors": (),
    "tomllib": ("files/reading.py",),
    "imageio_ffmpeg": ("learning/video.py",),
    "pyarrow": ("experiments/results.py", "model/tables.py"),
    "stormpy": ("model/prism.py",),
    "umbi": ("model/umb.py",),
    "PIL": ("experiments/pictures.py", "learning/video.py"),
}
# who may open a file without the guards of `files`: those who append or lock, and write an archive
OPENERS = (
    *("files/reading.py", "files/written.py", "learning/run_folder.py", "learning/board.py"),
    *("experiments/store.py", "experiments/executors.py"),
)
READS = {"read_text", "read_bytes", "load", "memmap", "fromfile", "ZipFile"}
UNGUARDED = {
    "report/page.py: read_text",  # its own assets
    "experiments/store.py: read_bytes",  # its own source, to digest
}
# who may ask whether a limit is an upper or a lower bound, and who may know a discount factor
SENSES = (
    "model/limits.py",
    "model/text.py",
    "model/result.py",
    "model/prints.py",
    "checker/limits.py",
)
DISCOUNT = (
    *("model/", "exact/standard.py", "exact/discounted.py", "exact/planning.py"),
    *("exact/bounds.py", "exact/proper.py", "exact/average.py", "exact/stack.py"),
    *("exact/by_blocks.py", "exact/transient.py"),
    *("exact/systems.py", "loops/", "checker/", "environments/", "learning/"),
    "solvers/description.py",  # says it
)
# names that the glossary replaced: `weights`, `action_values`, `successor`, or the noun itself
WORDS_REPLACED = {"worth", "quality", "following", "found", "given", "told"}
FOREIGN_WORDS = {"learning/velocity_gym.py": {"quality"}}  # of MuJoCo: a field of its models
# lines, raised only on purpose
BUDGETS = {
    "loose modules": 773,
    "files": 537,
    "utilities": 663,
    "checker": 1078,
    "loops": 4256,
    "model": 4904,
    "exact": 3998,
    "solvers": 5418,
    "environments": 618,
    "learning": 6981,
    "experiments": 1976,
    "report": 951,
    "paper": 2821,
    "cli": 1193,
}
LINES, MODULES, LOOSE_MODULES = 36_200, 177, 6
# the longest list of files that one has to read, in CONTRIBUTING.md
READING = {
    "one `solve`": 15,
    "PQA-ALM": 5,
    "the corrective oracle": 7,
    "pivots": 4,
    "an update of SPMA-ALM": 9,
    "a baseline": 4,
    "a utility": 5,
    "a proof": 6,
}


@cache
def tree(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text())


def room(file: str) -> str:
    return file.removesuffix(".py").split("/")[0]


def place(name: str) -> tuple[int, int]:
    """Floor, and place on it from the left."""
    floor = next(number for number, rooms in enumerate(FLOORS) if name in rooms)
    return floor, FLOORS[floor].index(name)


def imports(file: str) -> Iterator[str]:
    """Every module that a file imports anywhere, as `cmdpax.loops` or `numba`."""
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "cmdpax":
            yield from (f"cmdpax.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def rooms_imported(file: str) -> set[str]:
    return {name.split(".")[1] for name in imports(file) if name.startswith("cmdpax.")}


def allowed(file: str, hosts: tuple[str, ...]) -> bool:
    return file.startswith(hosts)


@pytest.mark.parametrize("file", [file for file in FILES if file != "__init__.py"])
def test_a_room_imports_lower_floors_and_rooms_to_its_left(file):
    own = room(file)
    for other in rooms_imported(file) - {own}:
        assert place(other) < place(own), f"{file} imports {other}, which stands above it"
        assert {own, other} != STRANGERS, f"{file} imports {other}"


def test_the_checker_shares_no_code_with_the_solvers():
    inside = [file for file in FILES if room(file) == "checker"]
    assert set().union(*map(rooms_imported, inside)) == {"errors", "checker"}


def test_nobody_imports_the_paper_but_the_command_line():
    importers = {room(file) for file in FILES if "paper" in rooms_imported(file)}
    assert importers <= {"paper", "cli"}


@pytest.mark.parametrize("package", HOSTS)
def test_a_foreign_package_has_its_rooms(package):
    users = {file for file in FILES for name in imports(file) if name.split(".")[0] == package}
    assert not [file for file in sorted(users) if not allowed(file, HOSTS[package])]


def test_nothing_is_unpickled():
    for file in FILES:
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant) and node.value.value is False, file


def test_files_are_read_with_the_guards_of_one_reader():
    """By no other way: a pipe would keep us waiting, and an archive may unpack without end."""
    calls = {
        (file, node.func)
        for file in FILES
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Call)
    }
    openers = {file for file, function in calls if getattr(function, "id", "") == "open"}
    assert openers <= set(OPENERS)
    reads = {(file, getattr(function, "attr", "")) for file, function in calls}
    unguarded = {
        f"{file}: {name}" for file, name in reads if room(file) != "files" and name in READS
    }
    assert unguarded == UNGUARDED


def asks_for_a_sense(node: ast.AST) -> bool:
    """Whether a comparison, or a key of a dictionary, is `"<="` or `">="`."""
    parts: list[ast.AST | None] = []
    if isinstance(node, ast.Compare):
        parts = [node.left, *node.comparators]
    elif isinstance(node, ast.Dict):
        parts = [*node.keys]
    constants = [inner for part in parts if part for inner in ast.walk(part)]
    return any(isinstance(one, ast.Constant) and one.value in ("<=", ">=") for one in constants)


def test_a_sign_comes_from_a_sense_in_one_place():
    asking = {file for file in FILES if any(map(asks_for_a_sense, ast.walk(tree(file))))}
    assert not [file for file in sorted(asking) if not allowed(file, SENSES)]


def test_only_mathematics_of_one_criterion_knows_the_discount():
    knowing = {
        file
        for file in FILES
        for node in ast.walk(tree(file))
        if "discount" in (getattr(node, "id", ""), getattr(node, "attr", ""))
    }
    assert not [file for file in sorted(knowing) if not allowed(file, DISCOUNT)]


def names(file: str) -> set[str]:
    """Every name that a file gives to a value, a parameter, a function or an attribute."""
    keys = ("id", "attr", "arg", "name")
    values = (getattr(node, key, None) for node in ast.walk(tree(file)) for key in keys)
    return {value for value in values if isinstance(value, str)}


@pytest.mark.parametrize("file", FILES)
def test_names_are_those_of_the_glossary(file):
    assert not names(file) & WORDS_REPLACED - FOREIGN_WORDS.get(file, set())


def lines(file: str) -> int:
    return len((ROOT / file).read_text().splitlines())


@pytest.mark.parametrize("name", BUDGETS)
def test_a_room_keeps_to_its_budget(name):
    inside = [file for file in FILES if (room(file) if "/" in file else "loose modules") == name]
    total = sum(map(lines, inside))
    assert 0 < total <= BUDGETS[name], f"{name} has {total} lines"


def test_the_house_is_small():
    loose = [file for file in FILES if "/" not in file]
    total = sum(map(lines, FILES))
    assert total < LINES, f"{total} lines in all"
    assert len(FILES) <= MODULES and len(loose) <= LOOSE_MODULES
    assert {room(file) for file in FILES} == {"__init__", *(name for one in FLOORS for name in one)}
    assert {room(file) for file in FILES if "/" in file} == BUDGETS.keys() - {"loose modules"}


@pytest.mark.parametrize("what", READING)
def test_a_reading_path_is_short_and_leads_through_the_house(what):
    text = (HOME / "CONTRIBUTING.md").read_text()
    (row,) = re.findall(rf"^\| {re.escape(what)} \|(.*)\|$", text, flags=re.M)
    path = re.findall(r"`([\w/]+)`", row)
    assert 0 < len(path) == len(set(path)) <= READING[what]
    assert {f"{file}.py" for file in path} <= set(FILES)
