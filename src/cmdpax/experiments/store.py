"""The run store: a folder in which every run is one folder, and a run's state is the place where
its folder stands.

    STORE/work/<id>.<attempt>/    attempts under way, or left behind by the dead
    STORE/done/<id>/              finished: run.json, result.json, spent.json, and for training the
    run folder itself

A worker makes an attempt folder that is its own, works there, and commits by renaming it to
`done/<id>`. A rename onto a folder that is not empty fails, so that the first commit wins; whoever
comes late, even a worker that was believed dead, throws its own (equal) folder away. No lease and
no timeout is needed, and nothing that anybody does in an attempt can touch a finished run.

`result.json` holds the run, the versions that made it and the outcome: the same bytes whoever made
it. `spent.json` is what it cost, attempts that died included, and the only file that differs
between two makers. The folder must be seen by every machine that takes part.
"""

import errno
import json
import math
import os
import shutil
import socket
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cmdpax.errors import InputError, NumericalError
from cmdpax.experiments.runs import Run, perform
from cmdpax.experiments.versions import versions
from cmdpax.files import write_text

MARK = "store.json"  # says what the folder is
SPENT = "spent.json"
NOTE_SECONDS = 5.0  # between two notes of what an attempt has cost so far
# says that an attempt was begun, and by which versions; without it, it was cleared away
MINE = "run.json"
TAKEN = (errno.ENOTEMPTY, errno.EEXIST)
REFUSALS = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.ENOTDIR,
)


class Store:
    """A run store on disk. Everything it knows is in the folder: two objects of one folder are
    equal.
    """

    def __init__(self, folder: str | Path, create: bool = False) -> None:
        self.folder = Path(folder)
        self.work, self.done = self.folder / "work", self.folder / "done"
        if create:
            try:
                with self.writing():
                    self.work.mkdir(parents=True, exist_ok=True)
                    self.done.mkdir(exist_ok=True)
                    write(self.folder / MARK, {"holds": "runs of cmdpax, one folder each"})
            except FileNotFoundError:  # as in /proc, where nothing can be made
                raise InputError(
                    f"the store {self.folder} cannot be made there; give another folder."
                ) from None
        elif not (self.folder / MARK).exists():
            raise InputError(
                f"{self.folder} is no run store on {socket.gethostname()}; every machine must see"
                " the same folder."
            )

    def finished(self) -> set[str]:
        """Ids of finished runs."""
        return {entry.name for entry in os.scandir(self.done)}

    def pending(self, runs: Iterable[Run]) -> list[Run]:
        """Those of `runs` that are not finished, each once."""
        done = self.finished()
        return list({run.id: run for run in runs if run.id not in done}.values())

    def attempts(self, run: Run) -> list[Path]:
        """Folders in which the run is, or was, worked on."""
        return sorted(self.work.glob(f"{run.id}.*"))

    def result(self, run: Run) -> dict[str, Any] | None:
        """Run, versions and outcome, once it is finished."""
        folder = self.done / run.id
        found = read(folder / "result.json")
        if folder.exists() and not (
            isinstance(found, dict) and {"versions", "outcome"} <= found.keys()
        ):
            raise InputError(
                f"{folder / 'result.json'} is damaged; remove {folder}, and the same command does"
                " the run again."
            )
        return found

    def finished_runs(self) -> list[Run]:
        """Finished runs as they were asked for, in the order of their ids; what is damaged is
        passed over.
        """
        notes = [read(self.done / name / MINE) for name in sorted(self.finished())]
        asked = [
            note["run"]
            for note in notes
            if isinstance(note, dict) and isinstance(note.get("run"), dict)
        ]
        return [Run(**one) for one in asked if one.keys() == {"kind", "config", "seed"}]

    def spent(self, run: Run) -> dict[str, Any] | None:
        """What it cost in all attempts: wall and CPU seconds; the last one's number and host."""
        return read(self.done / run.id / SPENT)

    def carry_out(self, run: Run) -> bool:
        """Do a run and commit it; False if somebody else committed it first. A failure of the run
        itself is an outcome.
        """
        if (self.done / run.id).exists():
            return False
        with self.writing():
            earlier, folder = self.attempts(run), self.work / f"{run.id}.{uuid.uuid4().hex[:8]}"
            folder.mkdir()
            meter = _Meter(folder / SPENT)
            try:
                write(folder / MINE, {"run": json.loads(run.text), "versions": versions()})
                try:
                    outcome = perform(
                        run, folder, [path for path in earlier if _same_versions(path)], meter.note
                    )
                except (InputError, NumericalError) as error:
                    outcome = {"failed": str(error).replace(str(folder), "its folder")}
                write(
                    folder / "result.json",
                    {
                        "run": json.loads(run.text),
                        "versions": versions(),
                        "outcome": _plain(outcome),
                    },
                )
                others = [read(path / SPENT) or {} for path in self.attempts(run) if path != folder]
                total = {
                    name: own + sum(one.get(name, 0.0) for one in others)
                    for name, own in meter.spent().items()
                }
                write(
                    folder / SPENT,
                    {**total, "host": socket.gethostname(), "attempt": len(earlier) + 1},
                )
                return self._commit(run, folder)
            except FileNotFoundError:
                if not (self.done / run.id).exists():
                    raise
                self._discard(folder)  # somebody committed the run and cleared this attempt away
                return False

    def _commit(self, run: Run, folder: Path) -> bool:
        """Move an attempt into its final place, all of it or nothing, and clear other attempts at
        the run away.
        """
        won = (folder / MINE).exists()  # not so if it was cleared away as a late one
        if won:
            _flush([folder, *folder.rglob("*")])
            try:
                folder.rename(self.done / run.id)
                _flush([self.done])
            except OSError as error:
                if error.errno not in TAKEN:
                    raise
                won = False
        for other in self.attempts(run):
            self._discard(other)
        return won

    def begun_by_others(self) -> set[str]:
        """Ids of runs that were begun, but by other versions alone: their checkpoints are of no use
        here.
        """
        begun: dict[str, bool] = {}
        for entry in os.scandir(self.work):
            name = entry.name.split(".")[0]
            begun[name] = begun.get(name, False) or _same_versions(Path(entry.path))
        return {name for name, usable in begun.items() if name and not usable}

    def tidy(self) -> None:
        """Remove attempts at runs that are finished, and halves of removals."""
        done = self.finished()
        for entry in list(os.scandir(self.work)):
            if entry.name.split(".")[0] in done or entry.name.startswith(".gone"):
                self._discard(Path(entry.path))

    def _discard(self, folder: Path) -> None:
        """Remove an attempt. Renamed first: its owner, if alive, then never finds half of it and
        takes it for whole.
        """
        gone = self.work / f".gone-{uuid.uuid4().hex[:8]}"
        try:
            folder.rename(gone)
        except FileNotFoundError:
            return
        shutil.rmtree(gone, ignore_errors=True)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the store as its only driver; the system frees it when the driver dies, however it
        dies.
        """
        import fcntl

        with self.writing():
            (self.folder / "driver.lock").touch()
        with open(self.folder / "driver.lock") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"another sweep is at work in {self.folder}; wait for it, or give another"
                    " store."
                ) from None
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn the ways in which a disk says no into one sentence."""
        try:
            yield
        except OSError as error:
            if error.errno not in REFUSALS:
                raise
            raise InputError(
                f"the store {self.folder} cannot be written ({error.strerror}); "
                "mend that and give the same command again: finished runs are kept."
            ) from None


class _Meter:
    """What an attempt has cost so far, noted in its folder now and then: whoever comes after its
    death can add it.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.wall, self.cpu = path, time.perf_counter(), time.process_time()
        self.noted = self.wall

    def spent(self) -> dict[str, float]:
        """Wall and CPU seconds until now."""
        return {
            "seconds": time.perf_counter() - self.wall,
            "cpu_seconds": time.process_time() - self.cpu,
        }

    def note(self) -> None:
        """Write them down, if that was long ago."""
        if time.perf_counter() - self.noted >= NOTE_SECONDS:
            write(self.path, self.spent())
            self.noted = time.perf_counter()


def write(path: Path, content: Any) -> None:
    """A small JSON file, whole or not at all."""
    write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def read(path: Path) -> Any | None:
    """What such a file holds; None if there is none, or it is damaged."""
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None


def _same_versions(attempt: Path) -> bool:
    """Whether a checkpoint of that attempt leads to the bytes that this code would make."""
    made = read(attempt / MINE)
    return isinstance(made, dict) and made.get("versions") == versions()


def _plain(value: Any) -> Any:
    """With null for what is not finite: JSON has no other word for it."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _flush(paths: Iterable[Path]) -> None:
    """Bring files, and the entries of folders, to the disk."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
