"""Damaged files of every kind, read by the real commands in one process.

`cmdpax.cli.main.main` is called as a shell would call it. Whatever a file holds, the command ends
within seconds, in little memory, with an exit code from 0 to 5 and, if it refuses, with one
sentence: no traceback, no internal error, no control characters on the terminal. A command that
only reads leaves the file as it was.
"""

import faulthandler
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

import cmdpax
import probes
from cmdpax.cli.main import main
from damage import (
    MEMORY,
    SECONDS,
    json_files,
    mutate_bytes,
    mutate_npy,
    npz_files,
    row_files,
    safetensors_files,
    special_file,
    toml_files,
)
from models import labelled

PATIENCE = 30  # seconds on the clock, after which a command is interrupted
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
WARNING = re.compile("is taken, if there is one|rows before the checkpoint")
ENVIRONMENT = f"{__name__}:Drawn"
SIZES = "--batch 10 --rollout-steps 10 --passes 1 --hidden 2 --inner 2 --checkpoint-every 2"
TRAIN = f"train {ENVIRONMENT} --samples 60 {SIZES} --out run"
SWEEP = """
kind = "exact"
seeds = [0]
[settings]
model = "cliff-world"
steps = 20
dual_step = { low = 0.1, high = 1.0, log = true }
[methods.npg-pd]
step = [0.1, 1.0, 3.0]
"""
DRAWS = "draws = 1\n"


class Drawn(probes.Corridor):
    """A corridor of four cells that can be filmed."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def render(self) -> np.ndarray:
        """A picture of one colour."""
        return np.full((16, 16, 3), 40 * self.cell, dtype=np.uint8)


class Target(NamedTuple):
    """A file that is damaged, and the commands that read it."""

    file: str
    mutate: Callable[[bytes, Random], bytes]
    commands: tuple[str, ...]


SOLVE = "solve {} --time-limit 5 --eps 1e-3"
SHOW = "show model.json result.npz --out picture.png"
READ_MODEL = (
    *(SOLVE, SOLVE + " --json", "check {} result.npz", "export {} other.json"),
    *("export {} other.npz", "frontier {} --points 2 --eps 1e-2"),
)
EVALUATE = "evaluate run --episodes 1 --trust"
READ_RUN = (EVALUATE, "report run --out page.html")
FILM = f"film run --out film.gif --environment {ENVIRONMENT}"
RESUME = TRAIN + " --resume"
SWEPT = "sweep sweep.toml --executor serial --store store"
REPORT = "report {} --out page.html"
FEATURES = "solve model.json --method npg-pd --features {} --set steps=5 step=1 dual_step=1"
DONE, WORK = "store/done/*/", "store/work/*/"
TARGETS = (
    Target("model.npz", npz_files, (*READ_MODEL, "show {} --out picture.png")),
    Target("model.json", json_files, (*READ_MODEL, "show {} --out picture.png")),
    Target("result.npz", npz_files, ("check model.json {}", "report . --out page.html", SHOW)),
    Target("features.npy", mutate_npy, (FEATURES,)),
    Target("features.npz", npz_files, (FEATURES,)),
    Target("run/checkpoints/*6.safetensors", safetensors_files, (*READ_RUN, RESUME)),
    Target("run/checkpoints/*6.json", json_files, (*READ_RUN, RESUME)),
    Target("run/config.json", json_files, (*READ_RUN, RESUME, FILM)),
    Target("run/metrics.jsonl", row_files, ("report run --out page.html", RESUME)),
    Target("run/evaluation.json", json_files, READ_RUN),
    Target("sweep.toml", toml_files, ("sweep {} --executor serial --store other",)),
    Target(DONE + "result.json", json_files, (SWEPT, REPORT.format("store"))),
    Target(DONE + "run.json", json_files, (SWEPT, REPORT.format("store"))),
    Target(DONE + "spent.json", json_files, (SWEPT, REPORT.format("store"))),
    Target(WORK + "run.json", json_files, (SWEPT,)),
    Target(WORK + "spent.json", json_files, (SWEPT,)),
    Target("store/store.json", json_files, (SWEPT, REPORT.format("store"))),
    Target("study/study.jsonl", row_files, (REPORT.format("study"),)),
    Target("study/selected.csv", mutate_bytes, (REPORT.format("study"),)),
    Target("study/README.md", mutate_bytes, (REPORT.format("study"),)),
)
# what a command is there to write: metrics are rewound, a store is filled and kept in order
WRITES = {"train": ("run/",), "sweep": ("store/",), "evaluate": ("run/evaluation.json",)}


def damaged_files(seeds: Sequence[int], folder: Path) -> Iterator[tuple[int, str | None]]:
    """One damaged file and one command for each seed."""
    base, before = folder / "base", Path.cwd()
    fresh = not base.exists()
    base.mkdir(exist_ok=True)
    os.chdir(base)
    try:
        if fresh:
            make_base(base)
        for seed in seeds:
            with copied(base):
                failure = attacked(seed)
            yield 1, failure
    finally:
        os.chdir(before)


def make_base(folder: Path) -> None:
    """One whole file of every kind; every command reads it, which also compiles what it needs."""
    model, results = labelled(), Path(__file__).parents[1] / "results" / "tabular"
    for path in (Path("model.npz"), Path("model.json")):
        cmdpax.save_model(model, path)
    cmdpax.save_result(cmdpax.solve(model), Path("result.npz"))
    features = np.random.default_rng(0).random((model.states, model.actions, 2))
    np.save("features.npy", features)
    np.savez("features.npz", features=features)
    Path("sweep.toml").write_text(DRAWS + SWEEP.lstrip())
    for command in (TRAIN, EVALUATE, SWEPT, "solve model.json"):
        whole(command.split())
    finished = sorted(Path("store/done").iterdir())[0]
    finished.rename(f"store/work/{finished.name}.dead")
    Path("study").mkdir()
    lines = (results / "records" / "cliff-world.jsonl").read_text().splitlines()
    rows = {line: json.loads(line) for line in lines}
    own = [line for line, row in rows.items() if row.get("label", "NPG-PD") == "NPG-PD"]
    Path("study/study.jsonl").write_text("\n".join([lines[0], *own[1:]]) + "\n")
    shutil.copy(results / "selected.csv", "study")
    Path("study/README.md").write_text("# A study\n\n| a | b |\n|---|---|\n| 1 | *2* |\n")
    for target in TARGETS:
        for command in target.commands:
            with copied(folder):
                whole(command.format(*Path().glob(target.file)).split())


@contextmanager
def copied(base: Path) -> Iterator[None]:
    """Be in a copy of a folder."""
    copy, before = base.with_name("copy"), Path.cwd()
    shutil.copytree(base, copy)
    os.chdir(copy)
    try:
        yield
    finally:
        os.chdir(before)
        shutil.rmtree(copy)


def whole(command: Sequence[str]) -> None:
    """A command on files that nobody damaged."""
    code, _, complaint = called(command, 20 * PATIENCE)  # loops are compiled on the way
    assert code in (0, 4) and "cmdpax:" not in complaint, (command, code, complaint)


def attacked(seed: int) -> str | None:
    """Damage one file of this folder and read it; what went wrong, if anything did."""
    random = Random(seed)
    target = TARGETS[seed % len(TARGETS)]
    file = random.choice(sorted(Path().glob(target.file)))
    command = random.choice(target.commands).format(file).split()
    if random.random() < 0.02:
        special_file(file, random)
    else:
        file.write_bytes(target.mutate(file.read_bytes(), random))
    wrote = WRITES.get(command[0], ())
    before = None if str(file).startswith(wrote) else state(file)
    with used() as costs:
        code, printed, complaint = called(command)
    wrong = list(faults(command, code, printed, complaint, costs))
    if before is not None and state(file) != before:
        wrong.append("the file was changed")
    what = f"{file}, {' '.join(command)}: exit code {code}"
    return f"{what}: {'; '.join(wrong)} ({complaint.strip()[-500:]})" if wrong else None


def faults(
    command: Sequence[str], code: int, printed: str, complaint: str, costs: dict[str, float]
) -> Iterator[str]:
    """What a command must not do, whatever it reads."""
    # a sweep may ask for more work than we wait for: then Ctrl-C must do
    if not 0 <= code <= 5 and not (code == 130 and command[1] == "sweep.toml"):
        yield f"it ended with {code}"
    sentences = [line for line in complaint.splitlines() if line.startswith("cmdpax:")]
    refusals = [line for line in sentences if not WARNING.search(line)]
    # with 1 a sweep says which runs failed; a refusal is the last that is said
    last = complaint.splitlines()[-1:]
    if len(refusals) > 1 or (code == 2 and (not refusals or last != refusals)):
        yield "its refusal is not one sentence"
    if "Traceback" in complaint or "internal error" in complaint:
        yield "it broke"
    if any(len(line) > 1000 for line in complaint.splitlines()):
        yield "its sentence is too long to read"
    if CONTROL.search(printed) or CONTROL.search(complaint):
        yield "it printed control characters"
    if costs["bytes"] > MEMORY:
        yield f"it took {costs['bytes'] / 1e6:.0f} MB"
    if costs["seconds"] > SECONDS and code != 130:
        yield f"it took {costs['seconds']:.0f} s"


def called(command: Sequence[str], patience: float = PATIENCE) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command, called in this process."""
    out, err, code = StringIO(), StringIO(), 0
    signal.setitimer(signal.ITIMER_REAL, patience)  # SIGALRM interrupts like Ctrl-C
    faulthandler.dump_traceback_later(5 * patience, exit=True)  # compiled code that never ends
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main(list(command))
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, previous)
    return code, out.getvalue(), err.getvalue()


@contextmanager
def used() -> Iterator[dict[str, float]]:
    """Processor seconds, and bytes of memory at the peak beyond those at the start."""
    costs: dict[str, float] = {}
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts anew
    held, started = memory("VmRSS"), time.process_time()
    limit = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (int(memory("VmSize") + 20 * MEMORY), limit[1]))
    try:
        yield costs
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)
        costs |= {"seconds": time.process_time() - started, "bytes": memory("VmHWM") - held}


def memory(field: str) -> float:
    """A number of bytes from the system's account of this process."""
    status = Path("/proc/self/status").read_text()
    return 1024.0 * int(re.search(rf"{field}:\s+(\d+)", status)[1])


def state(file: Path) -> Any:
    """What would change if anybody wrote the file."""
    if file.is_symlink():
        return os.readlink(file)
    status = file.lstat()
    own = (status.st_ino, status.st_mtime_ns, status.st_size)
    is_small = file.is_file() and status.st_size < 1e6
    return own, hashlib.sha256(file.read_bytes()).hexdigest() if is_small else None
