"""Building the package and installing it in clean environments, without a download."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = Path(sysconfig.get_paths()["purelib"])  # of the environment that runs the tests


def run(*command: object, folder: Path) -> str:
    """What a command prints; it sees nothing of this environment through PYTHONPATH."""
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    line = [str(part) for part in command]
    done = subprocess.run(line, cwd=folder, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(folder: Path) -> dict[str, Path]:
    """What `make build` makes, by suffix: `.gz`, the source archive, and `.whl`, the wheel."""
    copy, out = folder / "source", folder / "dist"  # a build leaves traces beside the sources
    leave = shutil.ignore_patterns("*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", copy / "src", ignore=leave)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, copy, folder=folder)
    return {path.suffix: path for path in out.iterdir()}


def install(wheel: Path, folder: Path) -> tuple[Path, Path]:
    """A new environment in `folder` with the wheel alone: its `bin`, its `site-packages`."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, folder=folder)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install")
    run(*pip, "--quiet", "--no-index", "--no-deps", wheel, folder=folder)
    return folder / "bin", folder / PACKAGES.relative_to(sys.prefix)
