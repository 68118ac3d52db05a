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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from reprlib import repr as brief
from typing import Any, BinaryIO, get_args

import numpy as np

from cmdpax.errors import InputError, check_count, did_you_mean
from cmdpax.files.arrays import arrays_in, pop_label, write_archive
from cmdpax.files.reading import identified, named, opened, read_bytes
from cmdpax.files.written import replacing
from cmdpax.model import text
from cmdpax.model.cmdp import CMDP
from cmdpax.model.horizon import as_layers
from cmdpax.model.limits import Limits
from cmdpax.model.reading import RowLists, read_rows
from cmdpax.model.result import Certificate, Mixture, Result, Status
from cmdpax.model.umb import umb_bytes
from cmdpax.model.utility_archive import ARRAYS as UTILITY_ARRAYS
from cmdpax.model.utility_archive import packed, unpacked

RESULT = "cmdpax-result"
NUMBERS = ("reward", "constraints", "thresholds", "initial", "discount")
PADDED = ("successors", "probabilities")  # [S, A, B], of versions 1 and 2
ROWS = ("first_choice", "first_entry", *PADDED)
OF_CONSTRAINTS = ("values", "margins", "multipliers", "thresholds")
SCALARS = ("reward", "eps", "scaled_gap", "scaled_violation", "seconds")
BOUNDS = ("reward_bounds", "margin_bounds", "dual_bound", "weights")
PROOF_ARRAYS = (*BOUNDS, "value_potentials", "dual_potential")
RANGE_ARRAYS = ("ranges", "range_potentials")  # from version 3 on
RAY_ARRAYS = ("ray", "ray_bound", "ray_potential")
EXTRAS = ("sizes", "size_potentials", "gauge")  # of a certificate, where they are needed
CERTIFICATE_ARRAYS = (*PROOF_ARRAYS, *RANGE_ARRAYS, *RAY_ARRAYS, *EXTRAS)
MIXED_ARRAYS = ("shares", "mixture")  # instead of a policy
PARTS = (1, 2, 4)  # vectors over states in a potential
OPTIONAL_ARRAYS = ("points", "relaxations")  # of a result
RESULT_ARRAYS = ("policy", *SCALARS, *OF_CONSTRAINTS)
LABELS = ("status", "method", "digest")
RESULT_META = (*LABELS, "constraint_names", "senses", "trace")
VERSIONS = {text.MODEL: 3, RESULT: 3}  # written
KINDS = {"available": "b"}  # of dtype; every other array holds numbers


def save_model(model: CMDP, path: str | os.PathLike[str]) -> None:
    """Write a model to a `.npz` or `.json` file, or what UMB can say of it to a `.umb` file."""
    path = _suffixed(path, (".npz", ".json", ".umb"))
    if path.suffix.lower() != ".npz":
        is_text = path.suffix.lower() == ".json"
        written = text.model_to_json(model).encode() if is_text else umb_bytes(model)
        return _write(path, lambda file: file.write(written))
    arrays = {name: getattr(model.transitions, name) for name in ROWS}
    arrays |= {name: np.asarray(getattr(model, name)) for name in NUMBERS}
    most = int(np.diff(model.first_choice).max())
    if model.transitions.labels is not None or model.actions > most:  # else actions are 0, 1, ...
        arrays["available"] = model.transitions.as_table(np.ones(model.choices, dtype=bool))
    meta = {name: getattr(model, name) for name in ("senses", "minimise", "notes", *text.NAMES)}
    meta |= text.what_counts(model)
    meta["grid"] = model.grid and asdict(model.grid)
    meta |= {} if model.horizon is None else {"horizon": model.horizon}
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
    if result.mixture is None:
        arrays = {"policy": np.asarray(result.policy, dtype=np.float64)}
    else:
        shares, actions = zip(*result.mixture, strict=True)
        arrays = {"shares": np.array(shares), "mixture": np.stack(actions).astype(np.int32)}
    for part, own in (
        (result, RESULT_ARRAYS[1:]),
        (result.certificate, CERTIFICATE_ARRAYS),
        (result, OPTIONAL_ARRAYS),
    ):
        for name in own:
            if (value := getattr(part, name)) is not None:
                arrays[name] = np.asarray(value, dtype=np.float64)
    names = (*RESULT_META, "averaged", "minimise", "reason", "notes")
    meta = {name: getattr(result, name) for name in names}
    if result.utility is not None or result.certificate.utility is not None:
        of_utility, meta["utility"] = packed(result)
        arrays |= of_utility
    _write_archive(path, RESULT, arrays, meta)


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
    others = ("minimise", "may_stay", "criterion", "horizon", "grid", "notes", *lists)
    text.checked_keys("meta", meta, ("format", "version"), others)
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
    parts: dict[str, Any] = {name: arrays.get(name) for name in ("first_choice", "available")}
    parts["transitions"] = rows if is_padded else RowLists(arrays["first_entry"], *rows)
    if "horizon" in meta:
        horizon = check_count("meta.horizon", meta["horizon"])
        parts = {"transitions": as_layers(read_rows(**parts)[0], horizon), "horizon": horizon}
    return CMDP(
        reward=arrays["reward"],
        constraints=constraints,
        thresholds=thresholds,
        initial=arrays["initial"],
        discount=arrays["discount"],  # type: ignore[arg-type]  # [] of one number, checked there
        minimise=meta.get("minimise", False),
        may_stay=meta.get("may_stay", False),
        criterion=meta.get("criterion"),
        grid=text.grid_from(meta.get("grid")),
        notes=text.texts("meta.notes", meta.get("notes") or []),
        **parts,
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
    required = {*RESULT_ARRAYS, *PROOF_ARRAYS} - {"values", "policy"}
    others = ("values", "policy", *MIXED_ARRAYS, *OPTIONAL_ARRAYS, *UTILITY_ARRAYS)
    optional = sorted({*others, *CERTIFICATE_ARRAYS} - required)
    meta, arrays = _read_archive(file, RESULT, sorted(required), optional)
    labels = _labels(meta)
    names, senses = (text.texts(f"meta.{key}", meta[key]) for key in ("constraint_names", "senses"))
    of_utility = {name: arrays.pop(name) for name in UTILITY_ARRAYS if name in arrays}
    rays = {name in arrays for name in RAY_ARRAYS}
    mixture, policy = _mixture(arrays), arrays.get("policy")
    if (policy is None) == (mixture is None) or (policy is not None and policy.ndim not in (2, 3)):
        raise InputError(
            "the policy must be [S, A], [H, S, A], or shares [k] and a mixture [k, S]."
        )
    if len(senses) != len(names) or len(rays) > 1:
        raise InputError(
            "each constraint needs a name and a sense, and the arrays of a ray come together."
        )
    S = arrays["mixture"].shape[1] if policy is None else len(policy)
    if policy is not None and policy.ndim == 3:  # those of all times
        S = (policy.shape[0] + 1) * policy.shape[1]
    numbers = {"policy": None, **_shaped(arrays, S, len(names)), "mixture": mixture}
    numbers.pop("shares", None)
    if meta["version"] == 1:
        # the first files have no values
        numbers.setdefault("values", numbers["margins"] + numbers["thresholds"])
        for name in ("values", "thresholds"):
            numbers[name] = _turned(senses, numbers[name])
        numbers["value_potentials"] = _turned([">=", *senses], numbers["value_potentials"])
        labels["digest"] = f"0.1:{labels['digest']}"
    if meta["version"] < 3:  # their eps was a share of something else, and is not verified
        numbers["ranges"] = np.full((1 + len(names), 2), np.nan)
        numbers["range_potentials"] = np.zeros((1 + len(names), 2, S))
        numbers["scaled_gap"] = numbers["scaled_violation"] = np.nan
    for name in ("values", *RANGE_ARRAYS):
        if name not in numbers:
            raise InputError(f"arrays: '{name}' is missing.")
    labels["utility"], own = unpacked(meta.get("utility"), of_utility, S)
    proof = {name: numbers.pop(name) for name in CERTIFICATE_ARRAYS if name in numbers}
    limits = Limits.of(numbers.pop("thresholds"), senses, names)
    if "points" in numbers and numbers["points"].shape[-1] != 1 + len(limits.rows):
        raise InputError(f"array 'points' needs {1 + len(limits.rows)} columns.")
    return Result(
        fingerprint=labels.pop("digest"),
        limits=limits,
        certificate=Certificate(**proof, minimise=labels["minimise"], utility=own),
        **numbers,
        **labels,
    )


def _labels(meta: dict[str, Any]) -> dict[str, Any]:
    """What is not numbers in a result, but for names and senses."""
    averaged = "mixture" if meta["version"] == 1 else "averaged"
    known = ("format", "version", *RESULT_META, averaged)
    text.checked_keys("meta", meta, known, ("minimise", "reason", "notes", "utility"))
    labels: dict[str, Any] = {name: text.typed(f"meta.{name}", meta[name], str) for name in LABELS}
    labels["reason"] = text.typed("meta.reason", meta.get("reason", ""), str)
    labels["notes"] = tuple(text.texts("meta.notes", meta.get("notes") or []))
    if meta["version"] < 3 and labels["status"] == "marginal":
        labels["status"] = "limit"
    if labels["status"] not in get_args(Status):
        hint = did_you_mean(labels["status"][:40], get_args(Status))
        raise InputError(f"meta.status: {brief(labels['status'])} is unknown; {hint}")
    rows = text.typed("meta.trace", meta["trace"], list)
    labels["trace"] = [text.typed(f"meta.trace[{i}]", row, dict) for i, row in enumerate(rows)]
    if meta[averaged] is not None:
        labels["averaged"] = text.typed(f"meta.{averaged}", meta[averaged], dict)
    labels["minimise"] = meta.get("minimise", False)
    if not isinstance(labels["minimise"], bool):
        raise InputError(f"meta.minimise: {brief(labels['minimise'])} is neither true nor false.")
    return labels


def _mixture(arrays: Mapping[str, np.ndarray]) -> Mixture | None:
    """The policies of a mixture with their probabilities."""
    if not set(MIXED_ARRAYS) & arrays.keys():
        return None
    text.checked_keys("arrays", arrays, MIXED_ARRAYS, arrays)
    shares, actions = (arrays[name] for name in MIXED_ARRAYS)
    if shares.ndim != 1 or actions.ndim != 2 or len(shares) != len(actions) or not len(shares):
        raise InputError("the mixture must be shares [k] and actions [k, S], k > 0.")
    if actions.dtype.kind not in "iu":
        raise InputError("array 'mixture' must hold whole numbers, the actions.")
    return tuple(zip(shares.tolist(), actions.astype(np.int64), strict=True))


def _shaped(arrays: Mapping[str, np.ndarray], S: int, m: int) -> dict[str, Any]:
    """The arrays of a result with S states and m constraints, each in the shape it must have."""
    n = next((n for n in PARTS if arrays["dual_potential"].shape == (n * S,)), 1) * S
    k = len(arrays["shares"]) if "shares" in arrays else 1
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys((*OF_CONSTRAINTS, "weights", "ray"), (m,))
    if "policy" in arrays:
        shapes["policy"] = arrays["policy"].shape
    shapes |= {"dual_potential": (n,), "ray_potential": (n,)}
    shapes |= {"shares": (k,), "mixture": (k, S), "value_potentials": (k * (1 + m), n)}
    shapes |= {"reward_bounds": (2,), "margin_bounds": (m, 2)}
    shapes |= {"ranges": (1 + m, 2), "range_potentials": (1 + m, 2, n), "gauge": (S,)}
    shapes |= {"relaxations": (m,), "sizes": (1 + m,), "size_potentials": (1 + m, S)}
    if "points" in arrays and arrays["points"].ndim == 2:
        shapes["points"] = arrays["points"].shape
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
    """What `files.write_archive` writes, atomically."""
    meta = {"format": kind, "version": VERSIONS[kind], **meta}
    label = text.dump(meta, finite=kind == text.MODEL)
    _write(path, lambda file: write_archive(file, arrays, label))


def _read_archive(
    file: BinaryIO, kind: str, required: Iterable[str], optional: Iterable[str]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The parsed `meta` and the other arrays of an archive."""
    arrays = arrays_in(file)
    meta = identified(pop_label(arrays, finite=kind == text.MODEL), kind, VERSIONS[kind])
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
