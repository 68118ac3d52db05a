"""How do a utility and its proof become part of a result's file, and back?

A ready term is its name, weight and settings; arrays among them stand in one array of numbers, one
after the other, and the settings hold their shapes. Of a utility of one's own the file says only
that there is one: nothing that a file names is imported, and whoever checks it gives it again.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.model import text
from cmdpax.model.result import Result, UtilityProof
from cmdpax.utilities.ready import READY, made_again
from cmdpax.utilities.utility import Utility

PROOF = ("values", "visits", "policy", "uniform", "at_uniform")
ARRAYS = ("utility_numbers", *(f"utility_{name}" for name in PROOF))


def packed(result: Result) -> tuple[dict[str, np.ndarray], Any]:
    """Arrays and label of a result's utility; nothing, and None, without one."""
    utility, proof = result.utility, result.certificate.utility
    arrays: dict[str, np.ndarray] = {}
    numbers: list[np.ndarray] = []
    for name in PROOF:
        if proof is not None and getattr(proof, name) is not None:
            arrays[f"utility_{name}"] = np.asarray(getattr(proof, name), dtype=np.float64)
    if utility is None:
        return arrays, None
    label: dict[str, Any] = {"minimise": utility.minimise, "terms": []}
    for term in utility.terms:
        if term.recipe is None:
            return arrays, {**label, "terms": None}
        settings = {name: _placed(value, numbers) for name, value in term.recipe.items()}
        label["terms"].append({**settings, "weight": term.weight})
    arrays["utility_numbers"] = np.concatenate([np.zeros(0), *numbers])
    return arrays, label


def unpacked(
    label: Any, arrays: Mapping[str, np.ndarray], states: int
) -> tuple[Utility | None, UtilityProof | None]:
    """The utility and its proof, from a label and those of `ARRAYS` that a file has."""
    proof, own = None, {name: arrays.get(f"utility_{name}") for name in PROOF}
    if own["policy"] is not None:
        fits = (
            own["values"] is not None
            and own["values"].ndim == 1
            and own["uniform"] is not None
            and own["at_uniform"] is not None
            and own["at_uniform"].ndim == 0
            and own["policy"].shape == own["uniform"].shape == (len(own["policy"]), states)
        )
        if not fits:
            raise InputError("the arrays of a utility's proof do not fit one another.")
        proof = UtilityProof(**{**own, "at_uniform": float(own["at_uniform"])})  # type: ignore
    if label is None:
        return None, proof
    text.checked_keys("meta.utility", label, ("minimise", "terms"))
    if label["terms"] is None:
        return None, proof
    terms, place = [], [0]
    numbers = np.asarray(arrays.get("utility_numbers", np.zeros(0)), dtype=np.float64).reshape(-1)
    for i, term in enumerate(text.typed("meta.utility.terms", label["terms"], list)):
        settings = text.typed(f"meta.utility.terms[{i}]", term, dict)
        if settings.get("name") not in READY:
            raise InputError(f"meta.utility.terms[{i}]: its name is not that of a ready utility.")
        terms.append({key: _taken(value, numbers, place) for key, value in settings.items()})
    return made_again(terms, label["minimise"] is True), proof


def _placed(value: Any, numbers: list[np.ndarray]) -> Any:
    """A setting as it stands in a label; arrays are appended to the numbers."""
    if isinstance(value, tuple | list):
        return [_placed(one, numbers) for one in value]
    if isinstance(value, np.ndarray):
        numbers.append(np.asarray(value, dtype=np.float64).reshape(-1))
        return {"shape": list(value.shape)}
    return value


def _taken(value: Any, numbers: np.ndarray, place: list[int]) -> Any:
    """The inverse of `_placed`; place: of the next number."""
    if isinstance(value, list):
        return [_taken(one, numbers, place) for one in value]
    if not isinstance(value, dict):
        return value
    shape: Any = value.get("shape")
    is_shape = isinstance(shape, list) and all(isinstance(n, int) and n > 0 for n in shape)
    if not is_shape or place[0] + prod(shape) > len(numbers):
        raise InputError("meta.utility: the shape of an array does not fit its numbers.")
    first, place[0] = place[0], place[0] + prod(shape)
    return numbers[first : place[0]].reshape(shape)
