"""Whether two versions of cmdpax compute the same numbers, by way of the command line alone.

    python benchmarks/same_numbers.py record AFTER.json
    python benchmarks/same_numbers.py record PART.json models methods files
    python benchmarks/same_numbers.py compare benchmarks/same_numbers_0.1.json AFTER.json

`record` takes five minutes, and runs the source beside this file, or an absolute PYTHONPATH; a
record of some groups is compared in these alone. What was defined anew since version 0.1 (CHANGED
says what, and why) is not compared with its numbers; two records of later versions are, whole.
`compare` exits with 1 if a number is missing or differs by more than TOLERANCE, relative to what is
above 1. Of long arrays a checksum and three sums are kept, whose difference is a lower bound.
"""

import hashlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

RENAMED = {  # field names that changed since 0.1, applied to both sides
    "citation": "source",
    "rate": "proven",
    "dual_step": "dual_factor",
    "surrogate": "projection_step",
    "passes": "projection_steps",
    "mixture": "averaged",
}
GONE = (  # names that are not compared
    r"list/methods/.*/grid/",  # the paper's grids are the paper's, not the methods'
    r"tabular/.*/judged$",  # a list of names in the header of a record
    r"model\.json/version$",
    r"model\.npz/(successors|probabilities|reward)$",  # rows are by choice since version 3
    r"garnet.*model\.json/transitions/costs$",  # constraints without names are called c0, c1 now
)
CHANGED = {  # names whose meaning is another one since 0.1
    r"^deep/": "units, penalties and batches of training are others",
    r"/(gap|dual_bound|scaled_gap|scaled_violation)$": "eps is a share of what policies change",
}
DROPPED = {"python", "cmdpax", "numpy", "scipy", "seconds", "cpu_seconds", "model", "id"}
TOLERANCE = 1e-9
# evaluations share the forward pass of training now: its rounding, 1e-16, grows in the simulator
# and the thresholds of grids are those of rough plans; large models are solved to eps, 1e-6, and
# the one mixture of two policies that a plan led to is as good as another
LOOSER = {
    "/evaluate/": 1e-4,
    "models/grid-world": 3e-2,
    "models/queue:capacity=1000": 1e-3,
    "models/inventory:capacity=500": 1e-6,
}
SHORT, LONG = 8, 300  # so many numbers are kept as they are; text beyond so many characters is not
VARIANTS = {
    "cliff-world": "|chasm=reset|discount=0.95,threshold=-0.3|threshold=0.1",
    "deep-sea": "|size=10|size=30|threshold=0.1|mines=6+12+18,mine_cost=1",
    "garnet": "|feasible=false|states=2000|seed=1,constraints=2|seed=5,discount=0.99,tightness=0.9"
    "|states=256,seed=2,constraints=3|states=1500,constraints=5,seed=9|states=2000,feasible=false"
    "|states=5000,branching=3,seed=7|constraints=3,feasible=false,seed=4"
    "|states=2000,constraints=3,seed=1",
    "grid-world": "|width=8,height=8,seed=3|width=40,height=40,seed=1|feasible=false",
    "queue": "|capacity=1000|arrival=0.6,tightness=0.2|feasible=false",
    "inventory": "|capacity=500|feasible=false",
}
MODELS = [f"{name}:{v}".rstrip(":") for name, vs in VARIANTS.items() for v in vs.split("|")]
FEW = ("cliff-world", "queue", "garnet:states=300,constraints=2,seed=3", "inventory:feasible=false")
SMALL = ("queue:capacity=10", "garnet:states=30,constraints=2,seed=3")  # for tabular methods
UNORIENTED = ("successors", "probabilities", "reward", "initial", "discount", "available")
DEEP = ("spma-alm", "ppo-alm", "trpo-alm", "ppo-lag", "cpo", "ppo", "spma")
TASK = ("SafetyHopperVelocity-v1", "--limit", "cost<=0.1", "--samples", "24000", "--seed", "0")
KINDS = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U32": "<u4", "BOOL": "?"}
SOURCE = str(Path(__file__).resolve().parents[1] / "src")
Numbers = Iterator[tuple[str, Any]]


def cmdpax(*words: str) -> dict[str, Any]:
    """What a command prints with --json, and its exit code."""
    variables = {"PYTHONPATH": SOURCE, **os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "cmdpax", *words]
    run = subprocess.run(command, env=variables, capture_output=True, text=True)
    if run.returncode in (1, 2):
        print(f"exit {run.returncode}: cmdpax {' '.join(words)}\n  {run.stderr.strip()[-300:]}")
    return {**json.loads(run.stdout if "{" in run.stdout[:1] else "{}"), "exit": run.returncode}


def fingerprint(array: np.ndarray) -> dict[str, Any]:
    array = np.asarray(array, dtype="<f8" if array.dtype.kind == "f" else "<i8")
    flat = array.ravel().astype(float)
    finite = np.where(np.isfinite(flat), flat, 0.0)
    parts = (finite, finite * finite, finite * np.cos(np.arange(1.0, len(flat) + 1)))
    facts = {"sha256": hashlib.sha256(array.tobytes()).hexdigest(), "shape": list(array.shape)}
    sums = [math.fsum(part) for part in parts]
    return {**facts, "finite": int(np.isfinite(flat).sum()), "sums": sums}


def column(values: list[Any]) -> Any:
    """What is kept of a list of numbers or texts; None stands for NaN."""
    if any(isinstance(leaf, str) for leaf in values):
        text = "\n".join(map(str, values))
        return {"text": text if len(text) < LONG else hashlib.sha256(text.encode()).hexdigest()}
    if len(values) <= SHORT:
        return [None if leaf is None or math.isnan(leaf) else leaf for leaf in values]
    return fingerprint(np.array([math.nan if leaf is None else leaf for leaf in values]))


def leaves(path: str, value: Any) -> Numbers:
    """Nested JSON with the path of field names of each number."""
    if not isinstance(value, dict | list):
        yield path, value
        return
    for key, entry in value.items() if isinstance(value, dict) else (("0", one) for one in value):
        if key not in DROPPED:
            yield from leaves(path if key.isdecimal() else f"{path}/{key}", entry)


def columns(name: str, rows: Any) -> Numbers:
    """Nested JSON as one column for each path, over all the rows of its lists."""
    found: dict[str, list[Any]] = {}
    for path, leaf in leaves(name, rows):
        found.setdefault(path, []).append(leaf)
    yield from ((path, column(values)) for path, values in found.items())


def arrays(name: str, file: str, wanted: tuple[str, ...]) -> Numbers:
    """Some arrays of an .npz file."""
    with np.load(file, allow_pickle=False) as stored:
        yield from ((f"{name}/{k}", fingerprint(stored[k])) for k in wanted if k in stored)


def records(name: str, file: Path) -> Numbers:
    """A file of JSON lines; apart for each method or problem."""
    groups: dict[str, list[Any]] = {}
    for row in map(json.loads, file.read_text().splitlines()):
        key = row.get("label") or row.get("method") or row.get("problem") or row.get("kind", "all")
        groups.setdefault(f"{name}/{key}", []).append(row)
    for key, rows in groups.items():
        yield from columns(key, rows)


def table(name: str, file: Path, without: str = "") -> Numbers:
    """A table as text, without one column of a Markdown table."""
    rows = [line.split(" | ") for line in file.read_text().splitlines()]
    kept = [i for i, heading in enumerate(rows[0]) if heading != without]
    yield name, {"text": "\n".join(" | ".join(row[i] for i in kept) for row in rows)}


def solved(name: str, model: str, *options: str) -> Numbers:
    """What `cmdpax solve` answers, and the policy in its file."""
    answer = cmdpax("solve", model, *options, "--json", "--out", "result.npz")
    yield from columns(name, answer)
    if "reward" in answer:
        yield from arrays(name, "result.npz", ("policy",))


def models() -> Numbers:
    for model in MODELS:
        yield from solved(model, model)


def methods() -> Numbers:
    known = cmdpax("list", "--json")
    yield from columns("list", known)
    for method in known["methods"]:
        linear = re.match("lin-|p(pqa|npg|spma)-", method)  # log-linear
        features = ("--features", "tiles:60,4,3") if linear else ()
        for model in ("cliff-world", "deep-sea", *(() if linear else SMALL)):
            yield from solved(f"{method}/{model}", model, "--method", method, *features)


def tabular() -> Numbers:
    yield from columns("run", cmdpax("reproduce", "tabular", "--out", "tabular", "--rerun"))
    for file in sorted(Path("tabular/records").glob("*.jsonl")):
        yield from records(file.stem, file)
    yield from table("selected.csv", Path("tabular/selected.csv"))
    yield from table("sensitivity.csv", Path("tabular/sensitivity.csv"))


def deep() -> Numbers:
    runs = {method: ("--method", method) for method in DEEP}
    for name, words in {**runs, "paper": ("--preset", "paper")}.items():
        yield from columns(name, cmdpax("train", *TASK, *words, "--out", name))
        yield from records(f"{name}/metrics", Path(name, "metrics.jsonl"))
        data = max(Path(name, "checkpoints").glob("*.safetensors")).read_bytes()
        start = 8 + int.from_bytes(data[:8], "little")
        for key, entry in json.loads(data[8:start]).items():
            if key != "__metadata__":
                raw = data[start:][slice(*entry["data_offsets"])]
                array = np.frombuffer(raw, KINDS[entry["dtype"]])
                yield f"{name}/checkpoint/{key}", fingerprint(array.reshape(entry["shape"]))
        answer = cmdpax("evaluate", name, "--episodes", "2", "--json")
        yield from columns(f"{name}/evaluate", answer)


def sweep() -> Numbers:
    yield from columns("run", cmdpax("sweep", "tiny", "--store", "sweep", "--export", "rows.jsonl"))
    yield from records("rows", Path("rows.jsonl"))
    yield from table("selected.md", Path("sweep/selected.md"), "CPU hours")


def files() -> Numbers:
    """Exported models, results from them and checks of these; at last a check that must fail."""
    for model in FEW:
        for name in ("model.npz", "model.json"):
            yield from columns(f"{model}/{name}", cmdpax("export", model, name))
            yield from solved(f"{model}/{name}/solve", name)
            answer = cmdpax("check", model, "result.npz", "--json")
            yield from columns(f"{model}/{name}/check", answer)
        yield from columns(f"{model}/model.json", json.loads(Path("model.json").read_text()))
        yield from arrays(f"{model}/model.npz", "model.npz", UNORIENTED)
    yield from columns("wrong check", cmdpax("check", "cliff-world", "result.npz"))


def frontiers() -> Numbers:
    for model in ("cliff-world", "deep-sea", "queue", "garnet:constraints=2"):
        yield from columns(model, cmdpax("frontier", model, "--json"))


def record(target: Path, wanted: Sequence[str] = ()) -> None:
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for group in (models, methods, tabular, deep, sweep, files, frontiers):
            start, name = time.perf_counter(), group.__name__
            if wanted and name not in wanted:
                continue
            found.update((f"{name}/{path}", kept) for path, kept in group())
            print(f"{name:10} {time.perf_counter() - start:5.0f} s", flush=True)
    rows = (f"{json.dumps(k)}:{json.dumps(v, separators=(',', ':'))}" for k, v in found.items())
    target.write_text("{\n" + ",\n".join(rows) + "\n}\n")  # one name a line


def difference(old: Any, new: Any) -> float:
    """The largest difference, relative to what is above 1; infinite if they cannot be compared."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = [(a, b, max(1.0, abs(a or 0), abs(b or 0))) for a, b in zip(old, new) if a != b]
    elif "sums" in old and "sums" in new and all(old[k] == new[k] for k in ("shape", "finite")):
        squares = max(1.0, old["sums"][1])
        norm = math.sqrt(math.prod(old["shape"]) * squares)  # bounds the other two sums
        pairs = list(zip(old["sums"], new["sums"], (norm, squares, norm)))
    else:
        return math.inf
    sizes = (math.inf if None in (a, b) else abs(a - b) / scale for a, b, scale in pairs)
    return max(sizes, default=0.0)


def renamed(numbers: dict[str, Any]) -> dict[str, Any]:
    """The same with the new field names, in texts too."""
    fresh = partial(re.sub, r"[\w-]+", lambda word: RENAMED.get(word[0], word[0]))
    texts = {k: {"text": fresh(v["text"])} for k, v in numbers.items() if "text" in v}
    kept = {k: v for k, v in {**numbers, **texts}.items() if not any(re.search(g, k) for g in GONE)}
    return {fresh(k): v for k, v in kept.items()}


def tolerance(name: str) -> float:
    return next((size for part, size in LOOSER.items() if part in name), TOLERANCE)


def compare(before: Path, after: Path) -> int:
    old, new = (renamed(json.loads(path.read_text())) for path in (before, after))
    groups = {name.split("/")[0] for name in new}
    old = {name: kept for name, kept in old.items() if name.split("/")[0] in groups}
    if "0.1" in before.name:
        for pattern, reason in CHANGED.items():
            names = [name for name in old if re.search(pattern, name)]
            print(f"{len(names):5} names not compared: {reason}")
            old = {name: kept for name, kept in old.items() if name not in names}
    bad: list[str] = []
    row = "{:10} {:>6} {:>6} {:>11} {:>8} {:>7} {:>8} {:>5}".format
    print(row("", "names", "equal", "to rounding", "largest", "differ", "missing", "new"))
    for group in dict.fromkeys(name.split("/")[0] for name in (*old, *new)):
        mine, its = ({k for k in side if k.split("/")[0] == group} for side in (old, new))
        sizes = {k: difference(old[k], new[k]) for k in mine & its if old[k] != new[k]}
        near = [size for k, size in sizes.items() if size <= tolerance(k)]
        far = [f"{k}: by {size:.1e}" for k, size in sizes.items() if not size <= tolerance(k)]
        bad += sorted(far) + [f"{k}: missing" for k in sorted(mine - its)]
        counts = len(mine), len(mine & its) - len(sizes), len(near), f"{max(near, default=0):.0e}"
        print(row(group, *counts, len(far), len(mine - its), len(its - mine)))
    print(f"{len(bad)} missing, or beyond their tolerance", *bad, sep="\n  ")
    return 1 if bad else 0


if __name__ == "__main__":
    if sys.argv[1] == "record":
        record(Path(sys.argv[2]).resolve(), sys.argv[3:])
    else:
        sys.exit(compare(*map(Path, sys.argv[2:])))
