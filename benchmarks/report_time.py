"""How long does a report about a store of 1,000 finished runs take?

    python benchmarks/report_time.py [RUNS]

Half of the runs are exact (a sweep of five methods on the paper's two problems), half are training
runs of 250 updates with an evaluation. It prints the seconds and the size of the page.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from cmdpax.experiments.runs import exact_run, train_run
from cmdpax.experiments.store import Store
from cmdpax.learning.config import TrainConfig
from cmdpax.learning.run_folder import RunFolder
from cmdpax.report import write_report

METHODS = ("npg-pd", "rpg-pd", "reload", "pqa-alm", "spma-alm")
UPDATES = 250


def put(store, run, outcome):
    """A finished run, as `Store.carry_out` leaves it; its folder."""
    folder = store.done / run.id
    folder.mkdir(exist_ok=True)
    made = {"run": json.loads(run.text), "versions": {}}
    (folder / "run.json").write_text(json.dumps(made))
    (folder / "result.json").write_text(json.dumps({**made, "outcome": outcome}))
    return folder


def exact(store, number):
    model = ("cliff-world", "deep-sea")[number % 2]
    method, step = METHODS[number // 2 % len(METHODS)], 0.001 * (1 + number)
    config = {"model": model, "method": method, "settings": {"step": step}}
    put(store, exact_run(config), {"status": "limit", "reward": 0.5, "violation": 0.0})


def training(store, number, random):
    limits, seed = ("cost<=25",), number % 5
    config = TrainConfig(method="spma-alm", limits=limits, seed=seed, spma_step=0.01 * (1 + number))
    run = train_run(f"Task{number % 4}-v0", config)
    folder = RunFolder(put(store, run, {"return": 1.0, "cost": {"cost": 20.0}, "excess": -5.0}))
    config = {**run.config, "seed": run.seed}
    (folder.path / "config.json").write_text(json.dumps(config))
    rows = (
        {"update": k, "samples": 4000 * k, "return": y, "cost": {"cost": c}, "kl": 0.01}
        for k, (y, c) in enumerate(random.random((UPDATES, 2)).tolist(), 1)
    )
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder.path / "metrics.jsonl").write_text(lines)
    part = {"mean": 1.0, "std": 0.1, "worst": 0.5}
    seen = {"episodes": 10, "reward": part, "costs": {"cost": part}}
    folder.save_evaluation({"stochastic": seen, "deterministic": seen})


def main():
    runs, random = int((*sys.argv[1:], 1000)[0]), np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as place:
        store = Store(place, create=True)
        for number in range(runs // 2):
            exact(store, number)
            training(store, number, random)
        started, before = time.perf_counter(), time.process_time()
        report = write_report(Path(place))
        seconds, busy = time.perf_counter() - started, time.process_time() - before
        size, count = report.path.stat().st_size / 1e6, len(store.finished())
        print(f"{count} runs: {seconds:.1f} s ({busy:.1f} s of CPU), a page of {size:.1f} MB")
        for name, why in report.passed_over:
            print(f"passed over: {name}: {why}")


if __name__ == "__main__":
    main()
