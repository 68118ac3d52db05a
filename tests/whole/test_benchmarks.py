"""What benchmarks and examples import from the package is there; they themselves take too long."""

import ast
from pathlib import Path

import pytest

import cmdpax

ROOT = Path(cmdpax.__file__).parent
HOME = ROOT.parents[1]
FILES = sorted([*HOME.glob("benchmarks/*.py"), *HOME.glob("examples/*.py")])


def names_in(module: str) -> set[str]:
    """Names at the top of a module, and modules within it."""
    place = ROOT.joinpath(*module.split(".")[1:])
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    inside = {path.stem for path in place.glob("*")} if place.is_dir() else set()
    nodes = list(ast.walk(ast.parse(file.read_text())))
    inside |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    inside |= {node.id for node in nodes if isinstance(node, ast.Name)}
    return inside | {alias.asname or alias.name for node in nodes for alias in aliases(node)}


def aliases(node: ast.AST) -> list[ast.alias]:
    return node.names if isinstance(node, ast.Import | ast.ImportFrom) else []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_name_that_is_imported_exists(file):
    for node in ast.walk(ast.parse(file.read_text())):
        module = getattr(node, "module", None) or ""
        if isinstance(node, ast.ImportFrom) and module.split(".")[0] == "cmdpax":
            wanted = {alias.name for alias in node.names}
            inside = set(cmdpax.__all__) if module == "cmdpax" else set()
            assert wanted <= inside | names_in(module), f"{file.name}: from {module}"
