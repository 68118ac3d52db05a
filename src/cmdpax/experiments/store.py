"""Where do runs live so that a kill loses nothing, and which versions made them?

A run is one folder, and its state is the place where the folder stands:

    STORE/work/<id>.<attempt>/    attempts under way, or left behind by the dead
    STORE/done/<id>/              finished: run.json, result.json, spent.json, and for training the
                                  run folder itself

A worker makes an attempt folder that is its own, works there, and commits by renaming it to
`done/<id>`. A rename onto a folder that is not empty fails, so that the first commit wins; whoever
comes late, even a worker that was believed dead, throws its own (equal) folder away. No lease and
no timeout is needed, and nothing that anybody does in an attempt can touch a finished run.

A store removes only what it made: folders in `work/` with the name of an attempt (16 hexadecimal
digits, a dot, 8 more) and `run.json` in them. Whatever else lies in the store is left alone.

`result.json` holds the run, the versions that made it and the outcome: the same bytes whoever made
it. `spent.json` is what it cost, attempts that died included, and the only file that differs
between two makers. The folder must be seen by every machine that takes part.
"""

import errno
import hashlib
import json
import os
import platform
import re
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import cmdpax
from cmdpax.errors import InputError, NumericalError
from cmdpax.experiments.runs import Run, carry_out, load_code
from cmdpax.files.reading import Row, read_json
from cmdpax.files.written import is_part, locked, naming, remove_parts, write_json
from cmdpax.learning.run_folder import RunFolder

PACKAGES = ("numpy", "scipy", "numba", "highspy", "jax", "jaxlib", "optax", "gymnasium", "mujoco")
MARK, HOLDS = "store.json", {"holds": "runs of cmdpax, one folder each"}  # says what it is
RUN, RESULT, SPENT = "run.json", "result.json", "spent.json"
ID, ATTEMPT = re.compile(r"[0-9a-f]{16}"), re.compile(r"[0-9a-f]{16}\.[0-9a-f]{8}(\.gone)?")
TIMES = ("seconds", "cpu_seconds")
NUMBERS = {"return", "reward", "excess", "violation", "samples"}  # of an outcome, or null
LARGEST = 1e300  # a number of more digits is no float
NOTE_SECONDS = 5.0  # between two notes of what an attempt has cost so far
TAKEN = (errno.ENOTEMPTY, errno.EEXIST)
REFUSALS = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS),
    *(errno.EACCES, errno.EPERM, errno.EIO, errno.ENOTDIR),
}


class Store:
    """A run store on disk. All it knows is in the folder: two objects of one folder are equal."""

    def __init__(self, folder: str | Path, create: bool = False) -> None:
        self.folder = Path(folder).absolute()  # an environment may change the current folder
        self.work, self.done = self.folder / "work", self.folder / "done"
        if create:
            try:
                with self.writing():
                    self._make()
            except (FileNotFoundError, FileExistsError):  # as in /proc, or where a file is
                sentence = f"the store {self.folder} cannot be made there; give another folder."
                raise InputError(sentence) from None
        elif not self._is_marked():
            what = f"{self.folder} is no run store on {socket.gethostname()}"
            raise InputError(f"{what}; every machine must see the same folder.")

    def _is_marked(self) -> bool:
        return (self.folder / MARK).is_file() and read_json(self.folder / MARK) == HOLDS

    def _make(self) -> None:
        """The mark comes first: a folder without it that holds anything is somebody else's."""
        self.folder.mkdir(parents=True, exist_ok=True)
        is_empty = all(map(is_part, self.folder.iterdir()))
        if not self._is_marked():  # asked last: somebody else may be making the same store
            if not is_empty:
                remedy = "give another, a new or an empty one"
                raise InputError(f"{self.folder} is not empty and no run store; {remedy}.")
            write_json(self.folder / MARK, HOLDS)
        self.work.mkdir(exist_ok=True)
        self.done.mkdir(exist_ok=True)

    def finished(self) -> set[str]:
        """Ids of finished runs."""
        return {entry.name for entry in os.scandir(self.done) if ID.fullmatch(entry.name)}

    def begun(self) -> set[str]:
        """Ids of runs that are, or were, worked on."""
        return {path.stem for path in self._attempts()}

    def begun_by_others(self) -> set[str]:
        """Those begun by other versions alone: their checkpoints are of no use here."""
        usable = {path.stem for path in self._attempts() if _is_usable(path)}
        return self.begun() - usable

    def pending(self, runs: Iterable[Run]) -> list[Run]:
        """Those of `runs` that are not finished, each once."""
        done = self.finished()
        return list({run.id: run for run in runs if run.id not in done}.values())

    def attempts(self, run: Run) -> list[Path]:
        """Folders in which the run is, or was, worked on."""
        return [path for path in self._attempts() if path.stem == run.id]

    def _attempts(self, suffix: str = "") -> list[Path]:
        """Attempts at any run, by name and mark; with `.gone`, those that are being removed."""
        return sorted(
            Path(entry)
            for entry in os.scandir(self.work)
            if (match := ATTEMPT.fullmatch(entry.name))
            and (match[1] or "") == suffix
            and entry.is_dir(follow_symlinks=False)
            and _is_own(Path(entry))
        )

    def furthest(self, run: Run) -> int:
        """Updates up to the furthest checkpoint of its attempts, from which a retry goes on."""
        newest = [
            path
            for attempt in filter(_is_usable, self.attempts(run))
            for path in RunFolder(attempt).checkpoints()[:1]
        ]
        return max((int(path.stem) for path in newest), default=0)

    def result(self, run: Run) -> Row | None:
        """Run, versions and outcome, once it is finished."""
        folder = self.done / run.id
        result = read_json(folder / RESULT)
        if folder.exists() and not _is_whole(result):
            remedy = f"remove {folder}, and the same command does the run again"
            raise InputError(f"{folder / RESULT} is damaged; {remedy}.")
        return result or None

    def finished_runs(self) -> list[Run]:
        """Finished runs as they were asked for, in the order of ids; damaged ones are left out."""
        runs = [read_json(self.done / name / RUN).get("run") for name in sorted(self.finished())]
        keys = {"kind", "config", "seed"}
        return [Run(**run) for run in runs if isinstance(run, dict) and run.keys() == keys]

    def spent(self, run: Run) -> Row:
        """What it cost in all attempts: wall and CPU seconds; the last one's number and host."""
        noted = read_json(self.done / run.id / SPENT)
        return {name: _seconds(one) if name in TIMES else one for name, one in noted.items()}

    def carry_out(self, run: Run) -> bool:
        """Do a run and commit it; False if somebody else committed it first.

        Whatever the run raises is its outcome; not so what the disk says about the store, or that
        a package is missing here.
        """
        load_code(run)

        def outcome(folder: Path, earlier: Sequence[Path], watch: Callable[[], None]) -> Row:
            try:
                return carry_out(run, folder, earlier, watch)
            except (InputError, NumericalError) as error:
                return {"failed": str(error).replace(str(folder), "its folder")}
            except (Exception, SystemExit) as error:  # of an environment, which may do anything
                if isinstance(error, OSError) and self._is_inside(error.filename):
                    raise
                what = " ".join(str(error).replace(str(folder), "its folder").split())[:300]
                return {"failed": f"the run broke off: {type(error).__name__}: {what}"}

        return self._finish(run, outcome)

    def give_up(self, run: Run, why: str) -> bool:
        """Commit a run as failed, with the furthest checkpoint of its attempts."""

        def outcome(folder: Path, earlier: Sequence[Path], watch: Callable[[], None]) -> Row:
            RunFolder(folder).adopt(earlier)
            return {"failed": why}

        return self._finish(run, outcome)

    def _finish(self, run: Run, work: Callable[..., Row]) -> bool:
        """Commit the outcome of `work(folder, earlier, watch)` in an attempt of its own."""
        if (self.done / run.id).exists():
            return False
        with self.writing():
            earlier, folder = self.attempts(run), self.work / f"{run.id}.{uuid.uuid4().hex[:8]}"
            folder.mkdir()
            meter = _Meter(folder / SPENT)
            try:
                made = {"run": json.loads(run.text), "versions": versions()}
                write_json(folder / RUN, made)
                outcome = work(folder, list(filter(_is_usable, earlier)), meter.note)
                write_json(folder / RESULT, {**made, "outcome": outcome})
                others = [read_json(path / SPENT) for path in self.attempts(run) if path != folder]
                spent: Row = {
                    name: own + sum(_seconds(one.get(name)) for one in others)
                    for name, own in meter.spent().items()
                }
                spent |= {"host": socket.gethostname(), "attempt": len(earlier) + 1}
                write_json(folder / SPENT, spent)
                return self._commit(run, folder)
            except FileNotFoundError:
                if not (self.done / run.id).exists():
                    raise
                self._discard(folder)  # somebody committed the run and cleared this attempt away
                return False

    def _commit(self, run: Run, folder: Path) -> bool:
        """Move an attempt into its final place, whole or not at all, and clear others away."""
        won = (folder / RUN).exists()  # not so if it was cleared away as a late one
        if won:
            _flush([folder, *folder.rglob("*")])
            try:
                folder.rename(self.done / run.id)
                _flush([self.done])
            except OSError as error:
                if error.errno not in TAKEN:
                    raise
                won = False
        self._discard(folder)
        for other in self.attempts(run):
            self._discard(other)
        return won

    def tidy(self) -> None:
        """Remove attempts at runs that are finished, and halves of removals."""
        done = self.finished()
        for path in self._attempts():
            if path.stem in done:
                self._discard(path)
        for path in self._attempts(".gone"):
            _remove(path)

    def _discard(self, attempt: Path) -> None:
        """Remove an attempt. Renamed first, so that a living owner does not take half for whole."""
        gone = self.work / f"{attempt.stem}.{uuid.uuid4().hex[:8]}.gone"
        with suppress(FileNotFoundError):
            attempt.rename(gone)
            _remove(gone)

    def _is_inside(self, path: object) -> bool:
        return isinstance(path, str) and Path(path).is_relative_to(self.folder)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the store as its only driver."""
        refusal = f"another sweep is at work in {self.folder}; wait for it, or give another store."
        with ExitStack() as stack:
            with self.writing():
                stack.enter_context(locked(self.folder / "driver.lock", refusal))
                remove_parts(self.folder)
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn the ways in which a disk says no to the store into one sentence."""
        try:
            yield
        except OSError as error:
            ours = error.filename is None or self._is_inside(error.filename)
            if error.errno not in REFUSALS or not ours:
                raise
            remedy = "mend that and give the same command again: finished runs are kept"
            sentence = f"the store {self.folder} cannot be written ({error.strerror}); {remedy}."
            raise InputError(sentence) from None


class _Meter:
    """What an attempt has cost so far, noted in its folder now and then, in case it dies."""

    def __init__(self, path: Path) -> None:
        self.path, self.wall, self.cpu = path, time.perf_counter(), time.process_time()
        self.noted = self.wall

    def spent(self) -> dict[str, float]:
        """Wall and CPU seconds until now."""
        wall, cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu
        return {"seconds": wall, "cpu_seconds": cpu}

    def note(self) -> None:
        """Write them down, if that was long ago."""
        if time.perf_counter() - self.noted >= NOTE_SECONDS:
            write_json(self.path, self.spent())
            self.noted = time.perf_counter()


def _is_usable(attempt: Path) -> bool:
    """Whether a checkpoint of that attempt leads to the bytes that this code would make."""
    return read_json(attempt / RUN).get("versions") == versions()


def _is_own(attempt: Path) -> bool:
    """Whether a store made that folder: its mark is there, or nothing but the mark's beginning."""
    with suppress(FileNotFoundError):  # somebody else removes it
        return (attempt / RUN).is_file() or all(map(is_part, attempt.iterdir()))
    return False


def _remove(attempt: Path) -> None:
    """Remove an attempt, its mark last; what cannot be removed waits for the next `tidy`."""
    with suppress(OSError):
        for path in attempt.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != RUN:
                path.unlink()
        (attempt / RUN).unlink(missing_ok=True)
        attempt.rmdir()


def _seconds(noted: object) -> float:
    """What an attempt noted that it cost; nothing if that is no number of seconds."""
    return float(noted) if isinstance(noted, int | float) and 0 <= noted < LARGEST else 0.0


def _is_whole(result: Row) -> bool:
    """Whether a `result.json` holds what its readers rely on."""
    made_by, outcome = result.get("versions"), result.get("outcome")
    if not isinstance(made_by, dict) or not isinstance(outcome, dict):
        return False
    numbers = [outcome[name] for name in NUMBERS & outcome.keys() if outcome[name] is not None]
    return isinstance(outcome.get("failed", ""), str) and all(
        isinstance(one, int | float) and abs(one) < LARGEST for one in numbers
    )


def _flush(paths: Iterable[Path]) -> None:
    """Bring files, and the entries of folders, to the disk."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            with naming(path):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


@cache
def versions() -> dict[str, str]:
    """Versions of Python, of this package (and a digest of its source), of what it computes with.

    They stand beside every result; a difference is shown, and nothing is redone for it.
    """
    own = {"python": platform.python_version(), "cmdpax": cmdpax.__version__, "code": _digest()}
    return {**own, **installed(PACKAGES)}


def installed(names: Iterable[str]) -> dict[str, str]:
    """Versions of those packages that are there."""
    versions = {}
    for name in names:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def difference(made_by: Mapping[str, str], now: Mapping[str, str]) -> str:
    """What changed, as in `numpy 2.3.1 -> 2.4.6, code 1f3a -> 77b0`; empty if nothing did."""
    keys = [key for key in {**made_by, **now} if made_by.get(key) != now.get(key)]
    return ", ".join(f"{key} {made_by.get(key, 'none')} -> {now.get(key, 'none')}" for key in keys)


def _digest() -> str:
    """Of the names and contents of all source files."""
    root, total = Path(cmdpax.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        total.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()[:12]
