"""The public names: each resolves, explains itself, and keeps its signature.

`make signatures` writes them anew, after a change on purpose, which CHANGELOG.md then tells.
"""

import inspect
import re
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import cmdpax

GOLDEN = Path(__file__).parents[1] / "data" / "signatures.txt"


def members(value: type) -> list[str]:
    """Names of public functions and properties of a class, its own first, then inherited ones."""
    kinds = (FunctionType, staticmethod, classmethod, property)
    fields = getattr(value, "__dataclass_fields__", {})
    ours = [one for one in value.__mro__ if one.__module__.startswith("cmdpax")]
    own = [(name, vars(one)[name]) for one in ours for name in vars(one)]
    public = [name for name, kind in own if isinstance(kind, kinds) and not name.startswith("_")]
    return [name for name in dict.fromkeys(public) if name not in fields]


def signature(value: Any) -> str:
    """Parameters and defaults; types are mypy's business, and print otherwise in each Python."""
    if isinstance(value, property):
        return ""
    every = inspect.signature(value).parameters.values()
    parameters = [one.replace(annotation=one.empty) for one in every if one.name != "self"]
    return re.sub(r"<function .*?>(?=[,)])", "...", str(inspect.Signature(parameters)))


def described() -> str:
    """Every public name with its signature, classes with their members."""
    rows = []
    for name in cmdpax.__all__:
        value = getattr(cmdpax, name)
        if inspect.isfunction(value):
            rows.append(f"{name}{signature(value)}")
        elif inspect.isclass(value):
            rows.append(f"class {name}{'' if issubclass(value, Exception) else signature(value)}")
            rows += [f"    .{one}{signature(getattr(value, one))}" for one in members(value)]
        else:
            rows.append(name)
    rows += [f"environments.{name}{signature(make)}" for name, make in environments().items()]
    return "\n".join(rows) + "\n"


def environments() -> dict[str, Any]:
    every = vars(cmdpax.environments).items()
    return {name: value for name, value in sorted(every) if inspect.isfunction(value)}


@pytest.mark.parametrize("name", cmdpax.__all__)
def test_a_public_name_resolves_and_explains_itself(name):
    value = getattr(cmdpax, name)
    assert name in dir(cmdpax)
    if callable(value) or inspect.ismodule(value):
        assert value.__doc__ and not value.__doc__.startswith(f"{name}("), name
    if inspect.isclass(value):
        assert all(inspect.getdoc(getattr(value, member)) for member in members(value)), name


def test_signatures_change_only_on_purpose():
    assert described() == GOLDEN.read_text()


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'run'"):
        _ = cmdpax.run


if __name__ == "__main__":
    GOLDEN.write_text(described())
