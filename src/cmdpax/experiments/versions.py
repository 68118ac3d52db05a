"""Which code and libraries make a result. They stand beside every result; a difference is shown,
and nothing is redone for it.
"""

import hashlib
import platform
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import cmdpax

PACKAGES = ("numpy", "scipy", "numba", "highspy", "jax", "jaxlib", "optax", "gymnasium", "mujoco")


@cache
def versions() -> dict[str, str]:
    """Python, this package (also as a digest of its source, since a version may cover many states),
    and what it computes with.
    """
    return {
        "python": platform.python_version(),
        "cmdpax": cmdpax.__version__,
        "code": _digest(),
        **installed(PACKAGES),
    }


def installed(names: Iterable[str]) -> dict[str, str]:
    """Versions of those packages that are there."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def difference(made_by: Mapping[str, str], now: Mapping[str, str]) -> str:
    """What changed, as in `numpy 2.3.1 -> 2.4.6, code 1f3a -> 77b0`; empty if nothing did."""
    names = dict.fromkeys([*made_by, *now])
    changed = [name for name in names if made_by.get(name) != now.get(name)]
    return ", ".join(
        f"{name} {made_by.get(name, 'none')} -> {now.get(name, 'none')}" for name in changed
    )


def _digest() -> str:
    root = Path(cmdpax.__file__).parent
    total = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        total.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()[:12]
