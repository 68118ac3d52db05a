"""10,000 random models of four criteria, every claim of `solve` verified in rational numbers.

    python benchmarks/rational_campaign.py            # goes on where it was stopped
    python benchmarks/rational_campaign.py --table    # what is recorded

Draw and judgement are those of `tests/whole/test_rational.py`. A line of the record is one block of
a hundred seeds of one criterion: how often each status came, the seeds that ended undecided and
why, every false claim, and a digest of the sources that were run. Remove the file to begin anew.
"""

import argparse
import hashlib
import json
import sys
import time
from collections import Counter
from functools import cache
from pathlib import Path

import cmdpax

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "whole")]

from test_rational import CRITERIA, judged  # noqa: E402

RECORD = ROOT / "results" / "rational" / "campaign.jsonl"
MODELS, BLOCK = 2500, 100  # of each criterion


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=MODELS, help="of each criterion")
    parser.add_argument("--first", type=int, default=0, help="seed")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--table", action="store_true", help="only print what is recorded")
    options = parser.parse_args()
    rows = recorded(options.record)
    if not options.table:
        done = {(row["criterion"], row["first"]) for row in rows}
        for first in range(options.first, options.first + options.models, BLOCK):
            for criterion in CRITERIA:
                if (criterion, first) not in done:
                    row = block(criterion, range(first, first + BLOCK))
                    options.record.parent.mkdir(parents=True, exist_ok=True)
                    with options.record.open("a") as file:
                        file.write(json.dumps(row) + "\n")
    print(table(recorded(options.record)))


@cache
def sources() -> str:
    """A digest of the package and of the draw, as they are run."""
    digest = hashlib.sha256()
    files = [*Path(cmdpax.__file__).parent.rglob("*.py"), *(ROOT / "tests").glob("*.py")]
    for file in sorted([*files, ROOT / "tests" / "whole" / "test_rational.py"]):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def recorded(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def block(criterion: str, seeds: range) -> dict:
    """One line of the record."""
    counts: Counter[str] = Counter()
    undecided, wrong, began = {}, [], time.process_time()
    for seed in seeds:
        status, sentences, why = judged(criterion, seed)
        counts[status] += 1
        wrong += [f"seed {seed}: {sentence}" for sentence in sentences]
        if status == "limit":
            undecided[seed] = why
    return {
        "criterion": criterion,
        "first": seeds.start,
        "models": len(seeds),
        "counts": dict(counts),
        "undecided": undecided,
        "false": wrong,
        "seconds": round(time.process_time() - began, 1),
        "sources": sources(),
    }


def table(rows: list[dict]) -> str:
    """Counts of every criterion, as Markdown."""
    lines = [
        "| criterion | models | certified | infeasible | undecided | false claims | CPU-s |",
        "|---|---|---|---|---|---|---|",
    ]
    for criterion in (*CRITERIA, "all"):
        own = [row for row in rows if criterion in (row["criterion"], "all")]
        models = sum(row["models"] for row in own)
        counts = sum((Counter(row["counts"]) for row in own), Counter())
        limit = f"{counts['limit']} ({counts['limit'] / max(models, 1):.2%})"
        numbers = models, counts["certified"], counts["infeasible"], limit
        wrong, seconds = sum(len(row["false"]) for row in own), sum(row["seconds"] for row in own)
        cells = " | ".join(map(str, (*numbers, wrong, round(seconds))))
        lines.append(f"| {criterion} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
