"""Models and results as files; the schema is documented in `docs/model-format.md`.

A model is saved as `.npz` (uncompressed NumPy arrays in the normalised `>=` orientation, any size) or as `.json` (for people to
write: small, in the caller's own orientation); a result as `.npz`. What is not numbers is one JSON text, the array `meta`.

Loading never executes code: no pickle, no `eval`. Nothing is allocated before the file has been seen to hold it: arrays are
stored uncompressed, so that none can be larger than its file. Whatever is wrong with a file is an `InputError` of one sentence.
Writing is atomic: a reader finds the old file or the new one, never a part of it.
"""

import json
import os
import re
import secrets
import struct
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from math import prod
from pathlib import Path
from reprlib import repr as brief
from sys import float_info
from typing import Any, BinaryIO, Literal, TypeVar, get_args

import numpy as np

from cmdpax.certificate import Certificate
from cmdpax.errors import InputError, did_you_mean
from cmdpax.model import CMDP, Grid
from cmdpax.result import Result, Status
from cmdpax.transitions import PADDED_ENTRIES, padded_rows

MODEL, RESULT, VERSION = "cmdpax-model", "cmdpax-result", 1
LARGEST_ARRAY = 8 * PADDED_ENTRIES  # bytes
MAPPED = 16_000_000  # bytes from which on an array stays in its file, memory-mapped
CHUNK = 1 << 20
LARGEST_TEXT = 64_000_000  # bytes of a .json file
LARGEST_JSON = 500_000  # entries of a model in .json: S * A * max(B, 1 + m)

NAMES = ("state_names", "action_names", "constraint_names")
MODEL_ARRAYS = ("successors", "probabilities", "reward", "constraints", "thresholds", "initial", "discount")
MODEL_KEYS = ("format", "version", "discount", "states", "actions", "initial", "constraints", "transitions")
RESULT_ARRAYS = ("policy", "reward", "margins", "multipliers", "thresholds", "eps", "scaled_gap", "scaled_violation", "seconds")
RESULT_META = ("status", "method", "digest", "constraint_names", "senses", "trace", "mixture")
PROOF_ARRAYS = ("reward_bounds", "margin_bounds", "dual_bound", "weights", "value_potentials", "dual_potential")
RAY_ARRAYS = ("ray", "ray_bound", "ray_potential")

KINDS = {"meta": ("U", "text"), "available": ("b", "booleans")}  # of dtype; every other array holds numbers
NPY_MAGIC = b"\x93NUMPY\x01\x00"
NPY_HEADER = re.compile(  # what NumPy writes for plain arrays; a pattern, unlike a parser, has nothing to trip over
    rb"\{'descr': '([<>|](?:[iu][1248]|f[248]|b1|U[1-9][0-9]{0,7}))',"
    rb" 'fortran_order': (True|False), 'shape': \(([0-9, ]*)\), \} *\n"
)
ZIP_DAMAGE = (OSError, ValueError, LookupError, EOFError, OverflowError, RuntimeError, zipfile.BadZipFile, struct.error)
WORDS: Mapping[type, str] = {dict: "a JSON object", list: "a list", str: "text"}
T = TypeVar("T")


def save_model(model: CMDP, path: str | os.PathLike[str]) -> None:
    """Write a model to a `.npz` or `.json` file."""
    path = _suffixed(path, (".npz", ".json"))
    if path.suffix.lower() == ".json":
        text = _model_to_json(model).encode()
        return _write(path, lambda file: file.write(text))
    arrays = {name: np.asarray(getattr(model, name)) for name in MODEL_ARRAYS}
    if model.available is not None:
        arrays["available"] = model.available
    meta = {name: getattr(model, name) for name in ("senses", *NAMES)}
    return _write_archive(path, MODEL, arrays, {**meta, "grid": model.grid and asdict(model.grid)})


def load_model(path: str | os.PathLike[str]) -> CMDP:
    """Read a model from a `.npz` or `.json` file."""
    path = _suffixed(path, (".npz", ".json"))
    with _opened(path) as file:
        return _model_from_json(file) if path.suffix.lower() == ".json" else _model_from_archive(file)


def save_result(result: Result, path: str | os.PathLike[str]) -> None:
    """Write a result, with its certificate and trace, to a `.npz` file."""
    path = _suffixed(path, (".npz",))
    arrays = {name: np.asarray(getattr(result, name), dtype=np.float64) for name in RESULT_ARRAYS}
    for name in (*PROOF_ARRAYS, *RAY_ARRAYS):
        if (value := getattr(result.certificate, name)) is not None:
            arrays[name] = np.asarray(value, dtype=np.float64)
    _write_archive(path, RESULT, arrays, {name: getattr(result, name) for name in RESULT_META})


def load_result(path: str | os.PathLike[str]) -> Result:
    """Read a result from a `.npz` file. Whether its claims are true is for `cmdpax.check` to say."""
    path = _suffixed(path, (".npz",))
    with _opened(path) as file:
        return _result_from_archive(file)


# ---- .npz -------------------------------------------------------------------------------------------------------------
def _model_from_archive(file: BinaryIO) -> CMDP:
    meta, arrays = _read_archive(file, MODEL, MODEL_ARRAYS, ("available",))
    _keys("meta", meta, ("format", "version"), ("senses", "grid", *NAMES))
    labels = {name: None if meta.get(name) is None else _texts(f"meta.{name}", meta[name]) for name in ("senses", *NAMES)}
    senses = labels.pop("senses")
    constraints, thresholds = arrays["constraints"], arrays["thresholds"]
    if senses is not None:  # the file holds `>=`; the constructor wants the caller's orientation, and negation is exact
        sign = np.array([-1.0 if sense == "<=" else 1.0 for sense in senses])
        if constraints.shape[:1] != sign.shape or thresholds.shape != sign.shape:
            raise InputError(
                f"meta.senses: {len(sign)} given for constraints {constraints.shape},"
                f" thresholds {thresholds.shape}; give one for each."
            )
        constraints, thresholds = (constraints.T * sign).T, thresholds * sign
    return CMDP(
        (arrays["successors"], arrays["probabilities"]),
        arrays["reward"],
        constraints,
        thresholds,
        arrays["initial"],
        arrays["discount"],  # type: ignore[arg-type]  # an array [] of one number, checked by the constructor
        senses=senses,
        available=arrays.get("available"),
        grid=_grid(meta.get("grid")),
        **labels,
    )


def _result_from_archive(file: BinaryIO) -> Result:
    meta, arrays = _read_archive(file, RESULT, (*RESULT_ARRAYS, *PROOF_ARRAYS), RAY_ARRAYS)
    _keys("meta", meta, ("format", "version", *RESULT_META))
    texts = {name: _typed(f"meta.{name}", meta[name], str) for name in ("status", "method", "digest")}
    if texts["status"] not in get_args(Status):
        raise InputError(
            f"meta.status: {brief(texts['status'])} is unknown; {did_you_mean(texts['status'][:40], get_args(Status))}"
        )
    names, senses = _texts("meta.constraint_names", meta["constraint_names"]), _texts("meta.senses", meta["senses"])
    trace = [_typed(f"meta.trace[{i}]", row, dict) for i, row in enumerate(_typed("meta.trace", meta["trace"], list))]
    if arrays["policy"].ndim != 2 or len(senses) != len(names) or {name in arrays for name in RAY_ARRAYS} == {True, False}:
        raise InputError(
            "the policy must be [S, A], each constraint needs a name and a sense, and the arrays of a ray come together."
        )
    S, A, m = *arrays["policy"].shape, len(names)
    shapes = {"policy": (S, A), "reward_bounds": (2,), "margin_bounds": (m, 2), "value_potentials": (1 + m, S)}
    shapes |= dict.fromkeys(("margins", "multipliers", "thresholds", "weights", "ray"), (m,))
    shapes |= dict.fromkeys(("dual_potential", "ray_potential"), (S,))
    values: dict[str, Any] = {}
    for name, array in arrays.items():
        if array.shape != shapes.get(name, ()):
            raise InputError(f"array '{name}' has shape {array.shape}, expected {shapes.get(name, ())}.")
        values[name] = array.astype(np.float64) if array.ndim else float(array)
    values["reward_bounds"] = tuple(values["reward_bounds"].tolist())
    return Result(
        **{name: values[name] for name in RESULT_ARRAYS},
        **texts,  # type: ignore[arg-type]
        certificate=Certificate(**{name: values[name] for name in (*PROOF_ARRAYS, *RAY_ARRAYS) if name in values}),
        constraint_names=tuple(names),
        senses=tuple(senses),
        trace=trace,
        mixture=None if meta["mixture"] is None else _typed("meta.mixture", meta["mixture"], dict),
    )


def _write_archive(path: Path, kind: str, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
    """What `numpy.savez(path, **arrays, meta=...)` writes, atomically."""
    members = {**arrays, "meta": np.array(_dump({"format": kind, "version": VERSION, **meta}, finite=kind == MODEL))}

    def emit(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w") as archive:
            for name, array in members.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)

    _write(path, emit)


def _read_archive(
    file: BinaryIO, kind: str, required: Iterable[str], optional: Iterable[str]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The parsed `meta` and the other arrays of an archive."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            if "meta" not in members:
                raise InputError("it is not a cmdpax file; it has no array 'meta'.")
            size = os.fstat(file.fileno()).st_size
            array = _read_array(file, archive, members["meta"], "meta", size)
            # not str(array): NumPy does not check that its characters exist
            text = array.astype(array.dtype.newbyteorder("<")).tobytes().decode("utf-32-le").rstrip("\0")
            meta = _identified(_parse(text, finite=kind == MODEL), kind)
            _keys("arrays", members, ("meta", *required), optional)
            return meta, {name: _read_array(file, archive, info, name, size) for name, info in members.items() if name != "meta"}
    except InputError:
        raise
    except ZIP_DAMAGE as error:
        raise InputError(f"it is not an .npz archive, or a damaged one ({error}); write or copy it again.") from None


def _data_offset(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> int:
    """Where a member's bytes begin: after its local header, whose name and extra field may differ from the directory's."""
    assert archive.fp is not None
    place = archive.fp.tell()
    archive.fp.seek(info.header_offset)
    header = archive.fp.read(30)
    archive.fp.seek(place)
    return info.header_offset + 30 + int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")


def _read_array(file: BinaryIO, archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, size: int) -> np.ndarray:
    """One array out of a file of `size` bytes, allocated only once it is known to be as large as it says."""
    if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
        raise InputError(f"array '{name}' is compressed; write the file with numpy.savez.")
    if info.file_size > min(size, LARGEST_ARRAY):
        raise InputError(f"array '{name}' claims {info.file_size} bytes, more than the file has or cmdpax reads.")
    with archive.open(info) as member:
        start = member.read(len(NPY_MAGIC) + 2)
        header = member.read(int.from_bytes(start[len(NPY_MAGIC) :], "little"))
        match = NPY_HEADER.fullmatch(header)
        if not start.startswith(NPY_MAGIC) or match is None:
            raise InputError(f"array '{name}' is not a plain array of numbers, booleans or text ({brief(header)}).")
        dtype, shape = np.dtype(match[1].decode()), tuple(int(digits) for digits in re.findall(rb"[0-9]+", match[3]))
        kinds, word = KINDS.get(name, ("iuf", "numbers"))
        if dtype.kind not in kinds:
            raise InputError(f"array '{name}' holds {dtype}; it must hold {word}.")
        declared, held = dtype.itemsize * prod(shape), info.file_size - len(start) - len(header)
        if declared != held:
            raise InputError(f"array '{name}' declares {declared} bytes, shape {brief(shape)} of {dtype}, but holds {held}.")
        order: Literal["F", "C"] = "F" if match[2] == b"True" else "C"
        if declared >= MAPPED and dtype.kind != "b":  # left in the file, once its checksum has been seen to be right
            while member.read(CHUNK):
                pass
            end = _data_offset(archive, info) + info.file_size
            return np.memmap(file, dtype, "r", end - declared, shape, order)
        array = np.frombuffer(member.read(), dtype).reshape(shape, order=order)
    return array.view(np.uint8) != 0 if dtype.kind == "b" else array  # NumPy trusts that the byte of a boolean is 0 or 1


# ---- .json ------------------------------------------------------------------------------------------------------------
def _model_from_json(file: BinaryIO) -> CMDP:
    text = file.read(LARGEST_TEXT + 1)
    if len(text) > LARGEST_TEXT:
        raise InputError(f"it has more than {LARGEST_TEXT:,} bytes; save a model of this size as .npz.")
    data = _keys("the model", _identified(_parse(text), MODEL), MODEL_KEYS, ("grid",))
    transitions = _typed("transitions", data["transitions"], list)
    senses, thresholds, constraint_names = _limits(_typed("constraints", data["constraints"], list))
    S, state_names = _counted("states", data["states"])
    A, action_names = _counted("actions", data["actions"])
    m = len(thresholds)
    if len(transitions) < S:  # a count costs nothing to write, so it is not yet to be believed
        raise InputError(f"states: {brief(S)} of them but {len(transitions)} transitions; some state's action set is empty.")
    _refuse_large(S, A, 1 + m)
    states, actions, costs = _index(state_names, S), _index(action_names, A), _index(constraint_names, m)
    reward, constraints, available = np.zeros((S, A)), np.zeros((m, S, A)), np.zeros((S, A), dtype=bool)
    rows: dict[tuple[int, int], dict[int, float]] = {}
    for i, entry in enumerate(transitions):
        where = f"transitions[{i}]"
        _keys(where, entry, ("state", "action", "to"), ("reward", "costs"))
        s, a = _find(f"{where}.state", entry["state"], states), _find(f"{where}.action", entry["action"], actions)
        if available[s, a]:
            raise InputError(
                f"{where}: state {brief(entry['state'])}, action {brief(entry['action'])} is listed twice; keep one."
            )
        available[s, a] = True
        rows[s, a] = _by_index(f"{where}.to", entry["to"], states)
        reward[s, a] = _number(f"{where}.reward", entry.get("reward", 0.0))
        for c, cost in _by_index(f"{where}.costs", entry.get("costs", {}), costs).items():
            constraints[c, s, a] = cost
    for name, s in states.items():
        if not available[s].any():
            raise InputError(f"state {brief(name)}: the action set is empty; list a transition for each of its actions.")
    _refuse_large(S, A, max((len(row) for row in rows.values()), default=1))
    return CMDP(
        padded_rows(rows, {s: s for s in range(S)}, S, A),
        reward,
        constraints,
        thresholds,
        _initial(data["initial"], states),
        _number("discount", data["discount"]),
        senses=senses,
        available=available,
        state_names=state_names,
        action_names=action_names,
        constraint_names=constraint_names,
        grid=_grid(data.get("grid")),
    )


def _limits(limits: list[Any]) -> tuple[list[str], list[float], list[str] | None]:
    """Senses, thresholds and names (or None) of the constraints, in the caller's own orientation."""
    senses, thresholds, names = [], [], []
    for i, limit in enumerate(limits):
        where = f"constraints[{i}]"
        _keys(where, limit, (), ("name", "at_most", "at_least"))
        if ("at_most" in limit) == ("at_least" in limit):
            raise InputError(f"{where}: give either 'at_most' or 'at_least'.")
        bound, sense = ("at_most", "<=") if "at_most" in limit else ("at_least", ">=")
        senses.append(sense)
        thresholds.append(_number(f"{where}.{bound}", limit[bound]))
        names += [limit["name"]] if "name" in limit else []
    if names and len(names) < len(limits):
        raise InputError("constraints: some have a name and some have none; name all of them, or none.")
    return senses, thresholds, _counted("constraints", names)[1] if names else None


def _initial(value: Any, states: Mapping[str, int]) -> np.ndarray:
    if isinstance(value, list):
        return np.array([_number(f"initial[{s}]", probability) for s, probability in enumerate(value)])
    start = np.zeros(len(states))
    for s, probability in _by_index("initial", value, states).items():
        start[s] = probability
    return start


def _grid(value: Any) -> Grid | None:
    if value is None:
        return None
    marks = ("hazards", "goals", "absorbing")
    _keys("grid", value, ("cells", "moves"), marks)
    lists = {name: _typed(f"grid.{name}", value.get(name, []), list) for name in ("cells", "moves", *marks)}
    for name in ("cells", "moves"):
        for i, point in enumerate(lists[name]):
            if len(_typed(f"grid.{name}[{i}]", point, list)) != 2:
                raise InputError(f"grid.{name}[{i}]: {brief(point)} is not a pair [x, y].")
        lists[name] = [(_number(f"grid.{name}", x), _number(f"grid.{name}", y)) for x, y in lists[name]]
    for name in marks:
        if any(type(state) is not int for state in lists[name]):
            raise InputError(f"grid.{name}: it must list indices of states.")
    return Grid(**{name: tuple(items) for name, items in lists.items()})


def _model_to_json(model: CMDP) -> str:
    S, A, m = model.states, model.actions, model.constraint_count
    _refuse_large(S, A, max(model.successors.shape[2], 1 + m))
    labels = []
    for field, count in zip(NAMES, (S, A, m), strict=True):
        labels.append(list(_index(getattr(model, field), count)))
        if len(labels[-1]) < count:
            raise InputError(f"{field}: a .json file needs them all different; rename some, or save as .npz.")
    states, actions, costs = labels
    sign = np.array([1.0 if sense == ">=" else -1.0 for sense in model.senses])
    constraints = model.constraints * sign[:, None, None]
    head = {
        "format": MODEL,
        "version": VERSION,
        "discount": model.discount,
        "states": model.state_names or S,
        "actions": model.action_names or A,
        "initial": {states[s]: model.initial[s] for s in np.nonzero(model.initial)[0]},
        "constraints": [
            ({"name": name} if model.constraint_names else {}) | {"at_least" if sense == ">=" else "at_most": limit}
            for name, sense, limit in zip(costs, model.senses, model.thresholds * sign + 0.0, strict=True)
        ],
    } | ({"grid": asdict(model.grid)} if model.grid else {})
    lines = []
    for s, a in np.argwhere(np.ones((S, A), dtype=bool) if model.available is None else model.available):
        entry = {
            "state": states[s],
            "action": actions[a],
            "to": {states[t]: p for t, p in zip(model.successors[s, a], model.probabilities[s, a], strict=True) if p},
            "reward": model.reward[s, a],
            "costs": {name: row[s, a] for name, row in zip(costs, constraints, strict=True) if row[s, a]},
        }
        lines.append(f"    {_dump(entry)}")
    fields = [f"  {_dump(key)}: {_dump(value)}" for key, value in head.items()]
    return "{\n" + ",\n".join([*fields, '  "transitions": [\n' + ",\n".join(lines) + "\n  ]"]) + "\n}\n"


def _refuse_large(S: int, A: int, width: int) -> None:
    if S * A * width > LARGEST_JSON:
        raise InputError(
            f"{brief(S)} states x {brief(A)} actions x {width} entries are too many for .json; save the model as .npz."
        )


# ---- files ------------------------------------------------------------------------------------------------------------
def _suffixed(path: str | os.PathLike[str], suffixes: tuple[str, ...]) -> Path:
    try:
        path = Path(path)
    except TypeError:
        raise InputError(f"path: {brief(path)} is not the name of a file.") from None
    if path.suffix.lower() not in suffixes:
        raise InputError(f"{path}: the name must end in {' or '.join(suffixes)}.")
    return path


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The file, open for reading; every error inside is named after it."""
    try:
        if path.is_dir():
            raise InputError("it is a folder; give the file itself.")
        if not path.is_file():  # a pipe could keep us waiting for ever
            raise InputError("it is not a regular file." if path.exists() else "there is no such file.")
        with open(path, "rb") as file:
            yield file
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: it cannot be read ({error.strerror or error}).") from None


def _write(path: Path, emit: Callable[[BinaryIO], Any]) -> None:
    """Write all or nothing: into a temporary file beside the target, which then takes its name."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            emit(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte
        raise InputError(f"{path}: it cannot be written ({error}).") from None
    finally:
        with suppress(OSError, ValueError):
            temporary.unlink()


# ---- JSON values, each named by where it stands -----------------------------------------------------------------------
def _dump(value: Any, finite: bool = True) -> str:
    """JSON text; NumPy's numbers and arrays become plain ones."""
    try:
        return json.dumps(value, default=lambda item: item.tolist(), allow_nan=not finite)
    except (AttributeError, TypeError, ValueError):
        raise InputError("trace, mixture and grid: only finite numbers, text, lists and dictionaries can be saved.") from None


def _parse(text: str | bytes, finite: bool = True) -> Any:
    """JSON with no key twice; NaN and Infinity, which JSON does not know, only where `finite` is false."""
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_refuse_constant if finite else float)
    except InputError:
        raise
    except json.JSONDecodeError as error:
        raise InputError(f"it is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno}).") from None
    except UnicodeDecodeError:
        raise InputError("it is not valid JSON: it is not text in UTF-8.") from None
    except (RecursionError, ValueError):
        raise InputError("it is JSON nested too deeply, or with a number of thousands of digits.") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise InputError(f"key {brief(Counter(key for key, _ in pairs).most_common(1)[0][0])} is given twice; keep one.")
    return data


def _refuse_constant(word: str) -> float:
    raise InputError(f"it holds {word}; every number must be finite.")


def _identified(data: Any, kind: str) -> dict[str, Any]:
    """A JSON object that says it is of this kind and version."""
    found = data.get("format") if isinstance(data, dict) else None
    if found != kind:
        raise InputError(f"it is not a {kind} file; its 'format' is {brief(found)}.")
    if type(data.get("version")) is not int or data["version"] != VERSION:
        raise InputError(f"its version is {brief(data.get('version'))}; this cmdpax reads version {VERSION}.")
    return data


def _keys(where: str, value: Any, required: tuple[str, ...], optional: Iterable[str] = ()) -> dict[str, Any]:
    known = (*required, *optional)
    for key in _typed(where, value, dict):
        if key not in known:
            raise InputError(f"{where}: unknown key {brief(key)}; {did_you_mean(key[:40], known)}")
    for key in required:
        if key not in value:
            raise InputError(f"{where}: '{key}' is missing.")
    return value


def _typed(where: str, value: Any, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise InputError(f"{where}: {brief(value)} is not {WORDS[kind]}.")
    return value


def _texts(where: str, value: Any) -> list[str]:
    return [_typed(f"{where}[{i}]", item, str) for i, item in enumerate(_typed(where, value, list))]


def _number(where: str, value: Any) -> float:
    if type(value) not in (int, float) or not -float_info.max <= value <= float_info.max:
        raise InputError(f"{where}: {brief(value)} is not a finite number.")
    return float(value)


def _counted(where: str, value: Any) -> tuple[int, list[str] | None]:
    """A count, or a list of different names, as (count, names or None)."""
    if type(value) is int and value > 0:
        return value, None
    names = _texts(where, value)
    if not names:
        raise InputError(f"{where}: the list is empty; give at least one.")
    if len(set(names)) < len(names):
        raise InputError(f"{where}: {brief(Counter(names).most_common(1)[0][0])} is listed twice; names must differ.")
    return len(names), names


def _index(names: Iterable[str] | None, count: int) -> dict[str, int]:
    """Index of each label; what has no name goes by its number."""
    return {label: i for i, label in enumerate(map(str, range(count)) if names is None else names)}


def _find(where: str, label: Any, index: Mapping[str, int]) -> int:
    found = index.get(str(label)) if type(label) in (str, int) else None
    if found is None:
        hint = did_you_mean(label[:40], index) if isinstance(label, str) and len(index) <= 20 else f"there are {len(index)}."
        raise InputError(f"{where}: {brief(label)} is not known; {hint}")
    return found


def _by_index(where: str, value: Any, index: Mapping[str, int]) -> dict[int, float]:
    """`{label: number}` as `{index: number}`."""
    return {_find(where, label, index): _number(f"{where}.{label[:40]}", x) for label, x in _typed(where, value, dict).items()}
