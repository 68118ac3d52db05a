"""Is anything lost, false or left hanging when files are damaged and processes are killed?

    python benchmarks/attack.py                    the whole campaign, an hour or two; resumable
    python benchmarks/attack.py --shard 2/8        the second of eight parts, which add up
    python benchmarks/attack.py --kind models --count 20 --seed 7    repeat a part; no records

Every case is made from its seed alone. A block of cases that is finished is a line in
results/attack/KIND.jsonl, with the seeds, the versions, the counts, and what failed in full; the
same code does not do it again. The table adds up all lines.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

HOME = Path(__file__).parents[1]
sys.path.append(str(HOME / "tests"))  # the strategies are those of the tests
# ruff: noqa: E402

import attack_damage
import attack_kills
import attack_models

from cmdpax.experiments.store import versions
from cmdpax.files.reading import read_rows
from cmdpax.files.written import write_rows

RECORDS = HOME / "results" / "attack"
Outcome = tuple[int, str | None]  # how many were tried in a case, and what went wrong


class Kind(NamedTuple):
    """A way of attacking: `blocks` of so many `cases`, of which each tries `tries` things."""

    attack: Callable[[Sequence[int], Path], Iterator[Outcome]]
    blocks: int
    cases: int
    tries: int = 1

    def seeds(self) -> list[range]:
        """The seeds of every block."""
        return [range(self.cases * k, self.cases * (k + 1)) for k in range(self.blocks)]


KINDS = {
    "models": Kind(attack_models.certificates, 8, 250),
    "damaged-files": Kind(attack_damage.damaged_files, 20, 500),
    "training-kills": Kind(attack_kills.trainings, 9, 7, attack_kills.KILLS),
    "local-sweep-kills": Kind(attack_kills.local_sweeps, 9, 1, attack_kills.SWEEP_KILLS),
    "ray-sweep-kills": Kind(attack_kills.ray_sweeps, 2, 4, attack_kills.SWEEP_KILLS),
}


def attacked(kind: str, seeds: Sequence[int], folder: Path) -> dict[str, Any]:
    """Carry out the cases of some seeds: counts, and what failed."""
    tried, failed, failures, started = 0, 0, [], time.perf_counter()
    for seed, (tries, failure) in zip(seeds, KINDS[kind].attack(seeds, folder), strict=True):
        tried += tries
        if failure is not None:
            failed += tries
            failures.append({"seed": seed, "failure": failure})
            print(f"{kind}, seed {seed}: {failure}", flush=True)
    counts = {"tried": tried, "survived": tried - failed, "failed": failed, "failures": failures}
    return {"seeds": [seeds[0], seeds[-1]], **counts, "seconds": time.perf_counter() - started}


def campaign(kind: str, shard: tuple[int, int]) -> None:
    """Do the blocks of one shard that are not yet in the records."""
    number, shards = shard
    path, made_by = RECORDS / f"{kind}.jsonl", versions()
    with tempfile.TemporaryDirectory() as folder:
        for seeds in KINDS[kind].seeds()[number - 1 :: shards]:
            ends = [seeds[0], seeds[-1]]
            rows, _ = read_rows(path)
            if any(row["seeds"] == ends and row["versions"] == made_by for row in rows):
                continue
            row = {"kind": kind, **attacked(kind, seeds, Path(folder)), "versions": made_by}
            rows = [one for one in read_rows(path)[0] if one["seeds"] != ends]
            write_rows(path, sorted([*rows, row], key=lambda one: one["seeds"]))
            print(f"{kind}, seeds {ends[0]} to {ends[1]}: {row['failed']} failed", flush=True)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Counts of every kind in Markdown."""
    lines = ["| kind | tried | survived | failed |", "|---|---:|---:|---:|"]
    for kind in dict.fromkeys(row["kind"] for row in rows):
        own = [row for row in rows if row["kind"] == kind]
        counts = [sum(row[name] for row in own) for name in ("tried", "survived", "failed")]
        lines.append(f"| {kind} | " + " | ".join(f"{count:,}" for count in counts) + " |")
    return "\n".join(lines)


def _shard(text: str) -> tuple[int, int]:
    number, _, shards = text.partition("/")
    if not 1 <= int(number) <= int(shards):
        raise ValueError
    return int(number), int(shards)


def main() -> int:
    """Attack, and print the table; 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=list(KINDS), help="one kind alone")
    parser.add_argument("--shard", type=_shard, default=(1, 1), help="K/N: the K-th of N parts")
    parser.add_argument("--count", type=int, help="try so many, and keep no records")
    parser.add_argument("--seed", type=int, default=0, help="the first seed, with --count")
    options = parser.parse_args()
    kinds = [options.kind] if options.kind else list(KINDS)
    if options.count:
        rows = []
        for kind in kinds:
            cases = -(-options.count // KINDS[kind].tries)
            with tempfile.TemporaryDirectory() as folder:
                row = attacked(kind, range(options.seed, options.seed + cases), Path(folder))
            rows.append({"kind": kind, **row})
    else:
        RECORDS.mkdir(parents=True, exist_ok=True)
        for kind in kinds:
            campaign(kind, options.shard)
        rows = [row for kind in kinds for row in read_rows(RECORDS / f"{kind}.jsonl")[0]]
    print(table(rows))
    return int(any(row["failed"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
