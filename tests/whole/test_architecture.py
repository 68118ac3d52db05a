"""Imports point downwards only: a lower room never imports a higher one."""

import ast
from pathlib import Path

import cmdpax

ROOT = Path(cmdpax.__file__).parent
# from the ground floor up; a module may import what stands in an earlier place
FLOORS = (
    ("errors", "files", "stopping", "lagrangian", "loops"),
    ("model", "exact"),  # model.result still imports exact.certificate
    ("checker",),
    ("solvers", "environments"),
    ("learning",),
    ("experiments", "report"),
    ("paper",),
    ("cli", "__main__"),
)


def floor(module: str) -> int:
    room = module.split(".")[1]
    return next(level for level, rooms in enumerate(FLOORS) if room in rooms)


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "cmdpax":
            found |= {f"cmdpax.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return {name for name in found if name.startswith("cmdpax.")}


def test_no_room_imports_a_higher_one():
    files = [path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py"]
    assert len(files) > 20
    for path in files:
        module = "cmdpax." + ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for imported in imports(path):
            assert floor(imported) <= floor(module), (
                f"{module} imports {imported}, which stands above it"
            )


def test_the_checker_shares_no_code_with_the_solvers():
    assert imports(ROOT / "checker.py") == {"cmdpax.errors"}


def test_nothing_is_pickled():
    for path in ROOT.rglob("*.py"):
        text = path.read_text()
        assert "import pickle" not in text
        assert "allow_pickle=True" not in text
