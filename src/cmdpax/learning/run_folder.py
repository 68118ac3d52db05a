"""A run on disk: its config, and checkpoints, arrays in a safetensors file with counters and a
checksum in a JSON file beside it.

Both files are written to a temporary name, flushed to the disk and renamed, arrays first: a
checkpoint exists once its JSON does, whatever is killed when. Reading never executes code, and a
damaged file is noticed by its checksum.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.files import write_bytes

KEPT = 3  # older checkpoints are removed
NEEDED = {
    "environment": str,
    "limit": list,
    "discount": int | float,
    "discounted": bool,
}  # of a config, by what reads it


def write(
    folder: Path, number: int, arrays: Mapping[str, np.ndarray], notes: Mapping[str, Any]
) -> Path:
    """Add checkpoint `number` to a folder; returns its arrays' file."""
    from safetensors.numpy import save

    folder.mkdir(parents=True, exist_ok=True)
    data = save({name: np.array(value, order="C") for name, value in arrays.items()})
    path = folder / f"{number:08d}.safetensors"
    write_bytes(path, data)
    described = {"checkpoint": number, "sha256": hashlib.sha256(data).hexdigest(), **notes}
    write_bytes(path.with_suffix(".json"), json.dumps(described, indent=1).encode())
    for old in _numbers(folder)[:-KEPT]:
        for suffix in (".json", ".safetensors"):
            (folder / f"{old:08d}{suffix}").unlink(missing_ok=True)
    return path


def read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and notes of one checkpoint, given either of its files."""
    from safetensors.numpy import load

    try:
        notes = json.loads(path.with_suffix(".json").read_bytes())
        data = path.with_suffix(".safetensors").read_bytes()
    except (OSError, ValueError) as error:
        raise InputError(f"checkpoint {path} cannot be read: {error}.") from None
    if not isinstance(notes, dict) or hashlib.sha256(data).hexdigest() != notes.get("sha256"):
        raise InputError(f"checkpoint {path} is damaged: its checksum does not match.")
    return load(data), notes


def newest(folder: Path) -> Iterator[Path]:
    """Checkpoints of a folder, newest first."""
    for number in reversed(_numbers(folder)):
        yield folder / f"{number:08d}.safetensors"


def kept(run: Path) -> str:
    """What a run folder has to go on from, for whoever reads why the run stopped."""
    last = next(newest(run / "checkpoints"), None)
    return (
        f"the checkpoint of update {int(last.stem)} is kept in {run}"
        if last
        else "there was no checkpoint yet"
    )


def read_config(run: Path) -> dict[str, Any]:
    """The frozen config of a run folder."""
    path = run / "config.json"
    try:
        config = json.loads(path.read_bytes())
    except (OSError, ValueError):
        config = None
    whole = isinstance(config, dict) and all(
        isinstance(config.get(name), kind) for name, kind in NEEDED.items()
    )
    if not whole or not all(isinstance(limit, str) for limit in config["limit"]):
        what = "its config.json is damaged" if path.exists() else "it has no config.json"
        raise InputError(f"{run} is not a run folder: {what}.")
    return config


def _numbers(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.json") if path.stem.isdigit())
