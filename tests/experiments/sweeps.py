"""Small sweeps and ways to disturb them, shared by the tests of the store and of the executors."""

import os
from pathlib import Path

from cmdpax.experiments.runs import Run, exact_run


def tiny_runs(count: int, steps: int = 50) -> list[Run]:
    """Exact runs of a few hundredths of a second."""
    settings = [
        {"step": 0.1 * (1 + number), "dual_step": 1.0, "steps": steps} for number in range(count)
    ]
    return [
        exact_run({"model": "cliff-world", "method": "npg-pd", "settings": one}) for one in settings
    ]


def contents(done: Path) -> dict[str, bytes]:
    """Every file of finished runs but the one that says what they cost."""
    files = (path for path in done.rglob("*") if path.is_file() and path.name != "spent.json")
    return {str(path.relative_to(done)): path.read_bytes() for path in files}


def children(process: int) -> list[int]:
    """Ids of a process's direct children."""
    try:
        tasks = list(os.scandir(f"/proc/{process}/task"))
        return [
            int(child)
            for task in tasks
            for child in Path(task.path, "children").read_text().split()
        ]
    except (FileNotFoundError, ProcessLookupError):
        return []
