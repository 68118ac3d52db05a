"""How do models and results become files, and back without trusting the file?

The schema is documented in `docs/model-format.md`. A model is saved as `.npz` (uncompressed NumPy
arrays, any size) or as `.json` (for people to write: small); a result as `.npz`. Both hold the
user's orientation, and rows by choice, as they are. Version 2, whose rows were padded, and version
1, which held `>=` everywhere besides, are read too. What is not numbers is one JSON text, the array
`meta`.

Loading never executes code, and `files` guards it: whatever is wrong with a file is an `InputError`
of one sentence. Writing is atomic: a reader finds the old file or the new one, never a part of it.
"""

import os
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from reprlib import repr as brief
from typing import Any, BinaryIO, get_args

import numpy as np

from cmdpax.errors import InputError, did_you_mean
from cmdpax.files import arrays_in, intact, named, opened, parse_json, read_bytes, replacing
from cmdpax.model import text
from cmdpax.model.cmdp import CMDP
from cmdpax.model.limits import Limits
from cmdpax.model.result import Certificate, Result, Status
from cmdpax.model.transitions import RowLists

RESULT = "cmdpax-result"
NUMBERS = ("reward", "constraints", "thresholds", "initial", "discount")
PADDED = ("successors", "probabilities")  # [S, A, B], of versions 1 and 2
ROWS = ("first_choice", "first_entry", *PADDED)
OF_CONSTRAINTS = ("values", "margins", "multipliers", "thresholds")
SCALARS = ("reward", "eps", "scaled_gap", "scaled_violation", "seconds")
BOUNDS = ("reward_bounds", "margin_bounds", "dual_bound", "weights")
PROOF_ARRAYS = (*BOUNDS, "value_potentials", "dual_potential")
RAY_ARRAYS = ("ray", "ray_bound", "ray_potential")
RESULT_ARRAYS = ("policy", *SCALARS, *OF_CONSTRAINTS)
LABELS = ("status", "method", "digest")
RESULT_META = (*LABELS, "constraint_names", "senses", "trace")
VERSIONS = {text.MODEL: 3, RESULT: text.VERSION}  # written
AVERAGED = {1: "mixture", 2: "averaged"}  # what each version calls it

KINDS = {"available": "b"}  # of dtype; every other array holds numbers


def save_model(model: CMDP, path: str | os.PathLike[str]) -> None:
    """Write a model to a `.npz` or `.json` file."""
    path = _suffixed(path, (".npz", ".json"))
    if path.suffix.lower() == ".json":
        written = text.model_to_json(model).encode()
        return _write(path, lambda file: file.write(written))
    arrays = {name: getattr(model.transitions, name) for name in ROWS}
    arrays |= {name: np.asarray(getattr(model, name)) for name in NUMBERS}
    most = int(np.diff(model.first_choice).max())
    if model.transitions.labels is not None or model.actions > most:  # else actions are 0, 1, ...
        arrays["available"] = model.transitions.as_table(np.ones(model.choices, dtype=bool))
    meta = {name: getattr(model, name) for name in ("senses", "minimise", "notes", *text.NAMES)}
    meta["grid"] = model.grid and asdict(model.grid)
    return _write_archive(path, text.MODEL, arrays, meta)


def load_model(path: str | os.PathLike[str]) -> CMDP:
    """Read a model from a `.npz` or `.json` file."""
    path = _suffixed(path, (".npz", ".json"))
    with named(path):
        if path.suffix.lower() == ".json":
            return text.model_from_json(read_bytes(path))
        with opened(path) as file:
            return _model_from_archive(file)


def save_result(result: Result, path: str | os.PathLike[str]) -> None:
    """Write a result, with its certificate and trace, to a `.npz` file."""
    path = _suffixed(path, (".npz",))
    arrays = {name: np.asarray(getattr(result, name), dtype=np.float64) for name in RESULT_ARRAYS}
    for name in (*PROOF_ARRAYS, *RAY_ARRAYS):
        if (value := getattr(result.certificate, name)) is not None:
            arrays[name] = np.asarray(value, dtype=np.float64)
    names = (*RESULT_META, "averaged", "minimise")
    _write_archive(path, RESULT, arrays, {name: getattr(result, name) for name in names})


def load_result(path: str | os.PathLike[str]) -> Result:
    """Read a result from a `.npz` file. Its claims are verified by `cmdpax.check`, not here."""
    path = _suffixed(path, (".npz",))
    with named(path), opened(path) as file:
        return _result_from_archive(file)


def _model_from_archive(file: BinaryIO) -> CMDP:
    meta, arrays = _read_archive(file, text.MODEL, NUMBERS, ("available", *ROWS))
    is_padded = meta["version"] < 3
    text.checked_keys("arrays", arrays, PADDED if is_padded else ROWS, (*NUMBERS, "available"))
    lists = ("senses", *text.NAMES)
    text.checked_keys("meta", meta, ("format", "version"), ("minimise", "grid", "notes", *lists))
    labels: dict[str, Any] = {
        name: None if meta.get(name) is None else text.texts(f"meta.{name}", meta[name])
        for name in lists
        if name != "action_names"
    }
    labels["action_names"] = _action_names(meta.get("action_names"))
    senses, thresholds = labels["senses"], arrays["thresholds"]
    constraints = arrays["constraints"]
    if senses is not None and {thresholds.shape[:1], constraints.shape[:1]} != {(len(senses),)}:
        shapes = f"constraints {constraints.shape}, thresholds {thresholds.shape}"
        raise InputError(f"meta.senses: {len(senses)} given for {shapes}; give one for each.")
    if meta["version"] == 1 and senses is not None:
        thresholds, constraints = _turned(senses, thresholds), _turned(senses, constraints)
    rows = (arrays["successors"], arrays["probabilities"])
    return CMDP(
        rows if is_padded else RowLists(arrays["first_entry"], *rows),
        arrays["reward"],
        constraints,
        thresholds,
        arrays["initial"],
        arrays["discount"],  # type: ignore[arg-type]  # [] of one number, checked there
        minimise=meta.get("minimise", False),
        first_choice=arrays.get("first_choice"),
        available=arrays.get("available"),
        grid=text.grid_from(meta.get("grid")),
        notes=text.texts("meta.notes", meta.get("notes") or []),
        **labels,
    )


def _action_names(value: Any) -> Any:
    """Texts, or a list of texts for every state."""
    if isinstance(value, list) and value and isinstance(value[0], list):
        return [text.texts(f"meta.action_names[{s}]", own) for s, own in enumerate(value)]
    return None if value is None else text.texts("meta.action_names", value)


def _turned(senses: list[str], array: np.ndarray) -> np.ndarray:
    """An array `[m, ...]` of version 1, which has `>=` everywhere, in the user's orientation."""
    return Limits.of(np.zeros(len(senses)), senses).turn(array, axis=0) + 0.0


def _result_from_archive(file: BinaryIO) -> Result:
    required = {*RESULT_ARRAYS, *PROOF_ARRAYS} - {"values"}
    meta, arrays = _read_archive(file, RESULT, sorted(required), ("values", *RAY_ARRAYS))
    averaged = AVERAGED[meta["version"]]
    text.checked_keys("meta", meta, ("format", "version", *RESULT_META, averaged), ("minimise",))
    labels: dict[str, Any] = {name: text.typed(f"meta.{name}", meta[name], str) for name in LABELS}
    if labels["status"] not in get_args(Status):
        hint = did_you_mean(labels["status"][:40], get_args(Status))
        raise InputError(f"meta.status: {brief(labels['status'])} is unknown; {hint}")
    names, senses = (text.texts(f"meta.{key}", meta[key]) for key in ("constraint_names", "senses"))
    rows = text.typed("meta.trace", meta["trace"], list)
    labels["trace"] = [text.typed(f"meta.trace[{i}]", row, dict) for i, row in enumerate(rows)]
    if meta[averaged] is not None:
        labels["averaged"] = text.typed(f"meta.{averaged}", meta[averaged], dict)
    labels["minimise"] = minimise = meta.get("minimise", False)
    if not isinstance(minimise, bool):
        raise InputError(f"meta.minimise: {brief(minimise)} is neither true nor false.")
    rays = {name in arrays for name in RAY_ARRAYS}
    if arrays["policy"].ndim != 2 or len(senses) != len(names) or len(rays) > 1:
        raise InputError(
            "the policy must be [S, A], each constraint needs a name and a sense, and the arrays of"
            " a ray come together."
        )
    numbers = _shaped(arrays, len(names))
    if meta["version"] == 1:
        # the first files have no values
        numbers.setdefault("values", numbers["margins"] + numbers["thresholds"])
        for name in ("values", "thresholds"):
            numbers[name] = _turned(senses, numbers[name])
        numbers["value_potentials"] = _turned([">=", *senses], numbers["value_potentials"])
        labels["digest"] = f"0.1:{labels['digest']}"
    if "values" not in numbers:
        raise InputError("arrays: 'values' is missing.")
    proof = {name: numbers.pop(name) for name in (*PROOF_ARRAYS, *RAY_ARRAYS) if name in numbers}
    return Result(
        limits=Limits.of(numbers.pop("thresholds"), senses, names),
        certificate=Certificate(**proof, minimise=minimise),
        **numbers,
        **labels,
    )


def _shaped(arrays: Mapping[str, np.ndarray], m: int) -> dict[str, Any]:
    """The arrays of a result with m constraints, each in the shape it must have."""
    S, A = arrays["policy"].shape
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys((*OF_CONSTRAINTS, "weights", "ray"), (m,))
    shapes |= {"policy": (S, A), "dual_potential": (S,), "ray_potential": (S,)}
    shapes |= {"reward_bounds": (2,), "margin_bounds": (m, 2), "value_potentials": (1 + m, S)}
    if arrays["thresholds"].ndim == 2:  # pairs
        shapes["thresholds"] = (m, 2)
    numbers: dict[str, Any] = {}
    for name, array in arrays.items():
        if array.shape != (expected := shapes.get(name, ())):
            raise InputError(f"array '{name}' has shape {array.shape}, expected {expected}.")
        numbers[name] = array.astype(np.float64) if array.ndim else float(array)
    numbers["reward_bounds"] = tuple(numbers["reward_bounds"].tolist())
    return numbers


def _write_archive(
    path: Path, kind: str, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]
) -> None:
    """What `numpy.savez(path, **arrays, meta=...)` writes, atomically."""
    meta = {"format": kind, "version": VERSIONS[kind], **meta}
    label = np.array(text.dump(meta, finite=kind == text.MODEL))

    def emit(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w") as archive:
            for name, array in {**arrays, "meta": label}.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)

    _write(path, emit)


def _read_archive(
    file: BinaryIO, kind: str, required: Iterable[str], optional: Iterable[str]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The parsed `meta` and the other arrays of an archive."""
    arrays = arrays_in(file)
    if "meta" not in arrays:
        raise InputError("it is not a cmdpax file; it has no array 'meta'.")
    array = arrays.pop("meta")("U")
    with intact():  # not str(array): NumPy does not check that its characters exist
        label = array.astype(array.dtype.newbyteorder("<")).tobytes().decode("utf-32-le")
    content = parse_json(label.rstrip("\0"), finite=kind == text.MODEL)
    meta = text.identified(content, kind, VERSIONS[kind])
    text.checked_keys("arrays", arrays, tuple(required), optional)
    return meta, {name: read(KINDS.get(name, "iuf")) for name, read in arrays.items()}


def _suffixed(path: str | os.PathLike[str], suffixes: tuple[str, ...]) -> Path:
    try:
        path = Path(path)
    except TypeError:
        raise InputError(f"path: {brief(path)} is not the name of a file.") from None
    if path.suffix.lower() not in suffixes:
        raise InputError(f"{path}: the name must end in {' or '.join(suffixes)}.")
    return path


def _write(path: Path, emit: Callable[[BinaryIO], Any]) -> None:
    """Write all or nothing."""
    try:
        with replacing(path) as file:
            emit(file)
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: it cannot be written ({reason}).") from None
