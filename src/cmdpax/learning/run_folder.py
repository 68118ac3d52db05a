"""THE reader and writer of a run on disk: config, metrics, checkpoints, evaluation, lock.

| file                              | what                                                      |
|-----------------------------------|-----------------------------------------------------------|
| config.json                       | environment and every setting; samples may grow later     |
| metrics.jsonl                     | one row an update, without clocks                         |
| checkpoints/N.safetensors, N.json | arrays after update N; their spaces and checksums         |
| candidates/N.safetensors, N.json  | late policies, until the one that is kept is chosen       |
| kept.safetensors, kept.json       | that one's arrays, if it is not the last; verdict on it   |
| evaluation.json                   | what `evaluate` measured                                  |
| card.json                         | of a published run, to which nobody writes any more       |
| tensorboard/                      | for the eye only: never read here                         |
| lock                              | held by whoever trains                                    |

Files are whole or not there; `checkpoints` has those of arrays. Reading never executes code and
needs NumPy alone. Whatever is damaged is refused with one sentence, an `InputError`; a row that is
still being written is no damage.
"""

import json
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.files.arrays import LARGEST_ARRAY
from cmdpax.files.reading import (
    LARGEST_ROWS,
    LARGEST_TEXT,
    Row,
    checked_json,
    named,
    opened,
    parse_rows,
    read_bytes,
    read_json,
    row_of,
)
from cmdpax.files.written import locked, naming, remove_parts, write_bytes
from cmdpax.learning.checkpoints import PAIR, Arrays, read_checkpoint, write_pair

CHECKPOINTS_KEPT = 3  # older ones are removed
LONGEST_ROW = 65_536  # bytes; one takes some 150 for each cost
# of a config, what its readers rely on
REQUIRED: Row = {"environment": str, "method": str, "limits": list, "seed": int, "samples": int}
REQUIRED |= {"discount": int | float, "discounted": bool}
PARTS = ("reward", "costs")  # the same of evidence
NAMES_OF_0_1 = {"limit": "limits", "horizon": "rollout_steps"}
# what stood for "the method's own", which is None now
OWN_OF_0_1 = dict.fromkeys(("batch", "minibatch", "trust_region", "penalty", "dual_step"), 0)
OWN_OF_0_1 |= {"kl_stop": -1, "gradient_clip": -1}


class RunFolder:
    """A run on disk at `path`, which need not exist yet.

    Readers use `config`, `rows`, `last_row`, `checkpoints`, `policy`, `kept` and `evaluation`. A
    training enters `begin` or `resume`, which keep others out, calls `rewind`, then `add` for every
    row, `save` now and then, `set_aside` for late policies, `keep` and `clear` at the end; it goes
    on from `newest`.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._metrics = self.path / "metrics.jsonl"

    @property
    def config(self) -> Row:
        """Environment and settings, in today's names also where 0.1 wrote them."""
        file = self.path / "config.json"
        if not file.is_file():
            lacks = "it has no config.json" if self.path.is_dir() else "there is no such folder"
            lacks = "it is a file; give the folder of a training" if self.path.is_file() else lacks
            raise InputError(f"{self.path} is not a run folder: {lacks}.")
        config = from_0_1(read_json(file))
        whole = all(isinstance(config.get(name), kind) for name, kind in REQUIRED.items())
        if not whole or not all(isinstance(limit, str) for limit in config["limits"]):
            raise InputError(f"{self.path} is not a run folder: its config.json is damaged.")
        return config

    def rows(self) -> list[Row]:
        """Every row of metrics, in order; empty before the first."""
        rows, damaged = self.readable_rows()
        if damaged:
            raise InputError(f"{self._metrics} is damaged: line {damaged[0]} is no row.")
        return rows

    def readable_rows(self) -> tuple[list[Row], list[int]]:
        """The same, damaged or not, and the numbers of lines that are no rows."""
        return parse_rows(self._bytes().rpartition(b"\n")[0])

    def last_row(self) -> Row | None:
        """The last whole row, found without reading all of them; None if there is none."""
        try:
            with opened(self._metrics) as file:
                file.seek(max(0, self._metrics.stat().st_size - LONGEST_ROW))
                return row_of(file.read(LONGEST_ROW).split(b"\n")[-2]) or None
        except (OSError, IndexError, InputError):
            return None

    def checkpoints(self) -> list[Path]:
        """The `.safetensors` files of the checkpoints, newest first; a stem is the update."""
        stems = (path.stem for path in (self.path / "checkpoints").glob("*.json"))
        numbers = sorted((int(stem) for stem in stems if stem.isdecimal()), reverse=True)
        return [self._file("checkpoints", number) for number in numbers]

    def newest(self) -> tuple[Arrays, Row]:
        """Arrays and notes of the newest intact checkpoint; damaged ones are warned of."""
        for path in self.checkpoints():
            try:
                return read_checkpoint(path)
            except InputError as error:
                warnings.warn(f"{error} The one before is taken, if there is one.", stacklevel=2)
        self.config  # noqa: B018, says what is no run folder at all
        if (self.path / "evaluation.json").is_file() and not self.checkpoints():
            remedy = "train one by the settings of its config.json"
            raise InputError(f"{self.path} is a record of numbers, without its policy; {remedy}.")
        raise InputError(f"{self.path} holds no intact checkpoint; give another run folder.")

    def policy(self) -> tuple[Arrays, Row]:
        """The same, with the policy that was kept instead of the last."""
        arrays, notes = self.newest()
        kept, choice = self.kept() or ({}, {})
        return arrays | kept, notes | {name: choice[name] for name in ("checkpoint",) if choice}

    def kept(self) -> tuple[Arrays, Row] | None:
        """What `keep` wrote, if it is intact and the run did not go on since."""
        path = self.path / "kept.safetensors"
        if not path.with_suffix(".json").exists():
            return None
        try:
            arrays, notes = read_checkpoint(path)
        except InputError as error:
            warnings.warn(f"{error} The last policy is taken.", stacklevel=3)
            return None
        last = [int(newest.stem) for newest in self.checkpoints()[:1]]
        return (arrays, notes) if [notes.get("updates")] == last else None

    def candidate(self, number: int) -> Arrays | None:
        """What `set_aside` wrote; None if it is not there, or, with a warning, if it is damaged."""
        path = self._file("candidates", number)
        try:
            return read_checkpoint(path)[0] if path.with_suffix(".json").exists() else None
        except InputError as error:
            warnings.warn(f"{error} It cannot be kept.", stacklevel=2)
            return None

    @property
    def evaluation(self) -> Row | None:
        """What `evaluate` measured, `stochastic` and `deterministic`; None if it did not yet."""
        file = self.path / "evaluation.json"
        if not file.is_file():
            return None
        measured = read_json(file)
        evidence = [measured.get(kind) for kind in ("stochastic", "deterministic")]
        if not all(
            isinstance(one, dict) and all(isinstance(one.get(part), dict) for part in PARTS)
            for one in evidence
        ):
            raise InputError(f"{file} is damaged; evaluate the run again.")
        return measured

    @property
    def card(self) -> Row | None:
        """What a published run is and does; None for any other."""
        return checked_json(file) if (file := self.path / "card.json").is_file() else None

    def last_checkpoint_sentence(self) -> str:
        """What there is to go on from, for whoever reads why a run stopped."""
        for newest in self.checkpoints():
            return f"the checkpoint of update {int(newest.stem)} is kept in {self.path}"
        return "there was no checkpoint yet"

    @contextmanager
    def begin(self, config: Mapping[str, Any]) -> Iterator[None]:
        """Make the folder, with `config` in it; a folder that holds a run already is refused."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise InputError(f"{self.path} is not a folder; give another for the run.") from None
        parts = (self.path / "config.json", self._metrics, self.path / "checkpoints")
        with self._alone():
            if any(part.exists() for part in parts):
                remedy = "give another folder, or resume it"
                raise InputError(f"{self.path} already holds a run; {remedy}.")
            write_bytes(self.path / "config.json", json.dumps(config, indent=1).encode())
            yield

    @contextmanager
    def resume(self, config: Mapping[str, Any]) -> Iterator[None]:
        """Refuse to go on unless the run was begun with the same `config`, or fewer samples."""
        if not self.path.exists():
            raise InputError(f"{self.path} holds no run to resume; start one without resume.")
        if self.card is not None:
            raise InputError(f"{self.path} is published; give it as the start of another run.")
        before, now = self.config, json.loads(json.dumps(config))
        planned, is_longer = before["samples"], now["samples"] > before["samples"]
        changed = "; ".join(
            f"{name} was {before.get(name)!r}, is {now[name]!r}"
            for name in now
            if before.get(name) != now[name] and not (name == "samples" and is_longer)
        )
        if changed:
            what = f"{self.path} was started with another config ({changed})"
            raise InputError(f"{what}; repeat it, or give another folder.")
        with self._alone():
            if is_longer:
                history = {"planned": [*before.get("planned", []), planned]}
                longer = {**before, "samples": now["samples"], **history}
                write_bytes(self.path / "config.json", json.dumps(longer, indent=1).encode())
            yield

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Be the only one who trains here, and clear away what the dead left half written."""
        remedy = "wait for it, or give another folder"
        refusal = f"{self.path} is being trained by another process; {remedy}."
        with locked(self.path / "lock", refusal):
            for folder in (self.path, self.path / "checkpoints", self.path / "candidates"):
                remove_parts(folder)
            yield

    def rewind(self, updates: int) -> None:
        """Keep only the rows of the first `updates` updates, those behind the checkpoint."""
        lines = self._lines()
        kept = [lines[update] for update in sorted(lines) if 0 < update <= updates]
        if len(kept) < updates:
            lacks = f"{updates - len(kept)} of the {updates} rows before the checkpoint"
            warnings.warn(f"{self._metrics} lacks {lacks}.", stacklevel=2)
        write_bytes(self._metrics, b"".join(kept))

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a row of metrics; its `update` counts from 1."""
        with naming(self._metrics), open(self._metrics, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def save(self, number: int, arrays: Mapping[str, np.ndarray], notes: Mapping[str, Any]) -> Path:
        """Write checkpoint `number`, and remove all but the last few; returns its arrays' file."""
        path = self._file("checkpoints", number)
        path.parent.mkdir(exist_ok=True)
        with naming(self._metrics), open(self._metrics, "ab") as rows:
            os.fsync(rows.fileno())  # they come first, even if the power fails
        write_pair(path, arrays, {"checkpoint": number, **notes})
        self._keep(CHECKPOINTS_KEPT)
        return path

    def set_aside(self, number: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Write the policy of update `number`, which may be kept in the end."""
        path = self._file("candidates", number)
        path.parent.mkdir(exist_ok=True)
        write_pair(path, arrays, {"checkpoint": number})

    def keep(self, arrays: Mapping[str, np.ndarray], notes: Mapping[str, Any]) -> None:
        """Make a late policy the run's; without arrays it is the last."""
        path = self.path / "kept.safetensors"
        path.with_suffix(".json").unlink(missing_ok=True)  # it describes other arrays
        write_pair(path, arrays, notes)

    def clear(self) -> None:
        """Remove the policies that were set aside: one is kept."""
        shutil.rmtree(self.path / "candidates", ignore_errors=True)

    def _keep(self, count: int) -> None:
        """Remove all checkpoints but the newest `count`, and halves of any."""
        kept = {int(path.stem) for path in self.checkpoints()[:count]}
        for suffix in (".json", ".safetensors"):  # in this order: no JSON is without its arrays
            for file in (self.path / "checkpoints").glob(f"*{suffix}"):
                if file.stem.isdigit() and int(file.stem) not in kept:
                    file.unlink()

    def save_evaluation(self, measured: Mapping[str, Any]) -> None:
        """Keep what `evaluate` measured, in numbers that JSON knows."""
        text = json.dumps(measured, allow_nan=False) + "\n"
        remove_parts(self.path, "evaluation.json")
        write_bytes(self.path / "evaluation.json", text.encode())

    def adopt(self, others: Iterable[str | Path]) -> None:
        """Copy the furthest intact checkpoint of other attempts, if any; they may be running."""
        places = [path for other in others for path in RunFolder(other).checkpoints()]
        for path in sorted(places, key=lambda path: (path.stem, path), reverse=True):
            other = RunFolder(path.parents[1])
            try:
                read_checkpoint(path)
                lines = other._lines()
                rows = [lines[update] for update in range(1, int(path.stem) + 1)]
                files = [path.with_suffix(suffix) for suffix in PAIR]
                for pattern in ("candidates/*.*", "kept.*"):  # arrays first, as above
                    files += sorted(other.path.glob(pattern), reverse=True)
                for file in files:
                    place = self.path / file.relative_to(other.path)
                    place.parent.mkdir(exist_ok=True)
                    write_bytes(place, read_bytes(file, LARGEST_ARRAY))
                write_bytes(self._metrics, b"".join(rows))
                # last: with its config, the folder can be resumed
                config = read_bytes(other.path / "config.json", LARGEST_TEXT)
                write_bytes(self.path / "config.json", config)
                return
            except (FileNotFoundError, InputError, KeyError):  # removed, damaged, or rows missing
                continue

    def keep_result(self) -> None:
        """Remove what only a resume or a watcher needs: all but arrays, rows and config."""
        shutil.rmtree(self.path / "tensorboard", ignore_errors=True)
        (self.path / "lock").unlink(missing_ok=True)
        self._keep(1)

    def _file(self, folder: str, number: int) -> Path:
        return self.path / folder / f"{number:08d}.safetensors"

    def _bytes(self) -> bytes:
        with named(self._metrics):
            return read_bytes(self._metrics, LARGEST_ROWS) if self._metrics.is_file() else b""

    def _lines(self) -> dict[int, bytes]:
        """Lines of the metrics by their update; whatever is no row is passed over."""
        pairs = ((row_of(line).get("update"), line + b"\n") for line in self._bytes().split(b"\n"))
        return {update: line for update, line in pairs if isinstance(update, int)}


def from_0_1(config: Row) -> Row:
    """A config in today's names and meanings, if 0.1 wrote it; one of today's as it is."""
    if not NAMES_OF_0_1.keys() & config.keys():
        return config
    renamed = {NAMES_OF_0_1.get(name, name): value for name, value in config.items()}
    for name, sentinel in OWN_OF_0_1.items():
        if renamed.get(name) == sentinel:
            renamed[name] = None
    if renamed.get("method") == "cpo":
        renamed["gradient_clip"] = 0.0  # it was written down, but not used
    renamed.pop("critic_centre", None)  # of critics that were not normalised
    return renamed | {"units": "reward", "critics": "plain", "cost_gae": renamed.get("gae", 0.95)}
