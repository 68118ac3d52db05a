"""What `make build` makes: the wheel is complete, and works where it is installed."""

import re
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from whole.installing import PACKAGES, ROOT, install, run

SOLVE = """
import cmdpax
result = cmdpax.solve(cmdpax.environments.cliff_world())
print(cmdpax.__file__, result.status, f"{result.reward:.6f}")
"""


def package_files() -> set[str]:
    files = (ROOT / "src" / "cmdpax").rglob("*.*")
    names = {str(path.relative_to(ROOT / "src")) for path in files}
    return {name for name in names if "__pycache__" not in name}


@pytest.fixture(scope="module")
def programs(distributions, tmp_path_factory) -> Path:
    """The `bin` of an environment with the wheel; its dependencies are those of this one."""
    programs, packages = install(distributions[".whl"], tmp_path_factory.mktemp("installed"))
    (packages / "dependencies.pth").write_text(f"{PACKAGES}\n")
    return programs


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(distributions):
    names = ZipFile(distributions[".whl"]).namelist()
    packed = {name for name in names if not name.split("/")[0].endswith(".dist-info")}
    assert packed == package_files()
    assert {"cmdpax/py.typed", "cmdpax/report/page.html", "cmdpax/report/page.css"} <= packed
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_source_archive_has_them_too(distributions):
    with tarfile.open(distributions[".gz"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in package_files()} <= names
    assert {"pyproject.toml", "README.md", "LICENSE"} <= names


def test_the_installed_command_says_the_version_of_the_wheel(programs, distributions, tmp_path):
    version = distributions[".whl"].name.split("-")[1]
    assert run(programs / "cmdpax", "--version", folder=tmp_path).split() == ["cmdpax", version]


def test_the_installed_library_solves(programs, tmp_path):
    file, *answer = run(programs / "python", "-c", SOLVE, folder=tmp_path).split()
    assert Path(file).is_relative_to(programs.parent)
    assert answer == ["certified", "0.655402"]


def test_the_supported_pythons_are_those_that_the_workflow_tests():
    project = (ROOT / "pyproject.toml").read_text()
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    supported = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    (matrix,) = re.findall(r"python: \[(.*)\]", workflow)
    assert supported == re.findall(r"3\.\d+", matrix)
    assert f'requires-python = ">={supported[0]}"' in project
