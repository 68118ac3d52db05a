import json
from dataclasses import asdict

import pytest

from cmdpax.learning.config import TrainConfig
from cmdpax.paper.deep_records import write_record
from cmdpax.paper.settings import ALL_TASKS


def metrics(batch, updates, cost=20.0):
    """Rows of a training: the return is the update's number, the cost swings by one."""
    return [
        {
            "update": n,
            "samples": n * batch,
            "return": float(n),
            "cost": {"cost": cost + (n % 2)},
            "multiplier": {"cost": 0.0},
        }
        for n in range(1, updates + 1)
    ]


def finished_folder(folder, task, method, seed, returns=(10.0, 20.0), costs=(24.0, 30.0)):
    """A finished run, as training leaves it."""
    batch = 20_000 if method == "ppo-lag" else 2_000
    settings = {"samples": 1_000_000, "batch": batch}
    config = asdict(TrainConfig(method=method, seed=seed, **settings).resolved(1_000))
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"environment": ALL_TASKS[task], **config}))
    lines = metrics(batch, 1_000_000 // batch)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    seen = {"returns": list(returns), "totals": {"cost": list(costs)}, "reward": {}, "costs": {}}
    (folder / "evaluation.json").write_text(json.dumps({"stochastic": seen, "deterministic": seen}))
    return folder


@pytest.fixture
def rows():
    return metrics


@pytest.fixture
def run_folder():
    return finished_folder


@pytest.fixture
def recorded(tmp_path):
    """Records of two seeds of two methods on Hopper."""
    out = tmp_path / "out"
    for method in ("spma-alm", "ppo-lag"):
        for seed in (0, 1):
            folder, returns = tmp_path / "runs" / f"{method}{seed}", (10.0 + seed, 20.0 + seed)
            run = finished_folder(folder, "Hopper", method, seed, returns=returns)
            write_record(run, out / f"Hopper-{method}-{seed}", cpu_seconds=3600.0)
    return out
