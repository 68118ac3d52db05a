import json
from pathlib import Path

import numpy as np

from cmdpax.report.learning import POINTS, environments, read_run

RESULTS = Path(__file__).parents[2] / "results" / "deep-short"


def write(folder, rows, **config):
    folder.mkdir(parents=True)
    lines = [json.dumps(row) if isinstance(row, dict) else row for row in rows]
    (folder / "metrics.jsonl").write_text("\n".join(lines))
    (folder / "config.json").write_text(
        json.dumps({"environment": "e", "method": "ppo-lag", "limit": ["cost<=25"], **config})
    )


def row(k, value=1.0):
    return {"samples": 10 * k, "return": value, "cost": {"cost": 2 * value}}


def test_a_committed_run_is_read():
    run = read_run(RESULTS / "Hopper-cpo", "Hopper-cpo")
    assert run.method == "cpo" and run.environment == "SafetyHopperVelocity-v1"
    assert set(run.series) == {"return", "cost"} and run.samples[-1] == 2_000_000
    assert run.limits == {"cost": {"sense": "<=", "bound": 25.0}}
    assert run.evaluation["stochastic"]["episodes"] == 10


def test_many_rows_are_averaged_and_their_range_kept(tmp_path):
    values = np.random.default_rng(0).normal(size=1000)
    write(tmp_path / "run", [row(k, value) for k, value in enumerate(values)])
    curves = read_run(tmp_path / "run", "run").curves()
    line = curves["series"]["return"]
    assert len(curves["samples"]) == len(line["mean"]) == POINTS
    np.testing.assert_allclose(line["mean"][0], values[:5].mean(), rtol=1e-4)
    np.testing.assert_allclose(
        [line["low"][0], line["high"][0]], [values[:5].min(), values[:5].max()], rtol=1e-4
    )


def test_what_a_kill_left_behind_is_passed_over(tmp_path):
    write(
        tmp_path / "run",
        [row(1), '{"samples": 20, "ret', {"samples": 30}, {**row(4), "return": None}, row(5)],
        limit=["what?"],
    )
    run = read_run(tmp_path / "run", "run")
    assert run.samples.tolist() == [10, 50] and run.limits == {}
    assert read_run(tmp_path, "nothing") is None
    (tmp_path / "run" / "config.json").unlink()
    assert read_run(tmp_path / "run", "run") is None


def test_runs_stand_together_by_environment_in_the_order_of_the_methods(tmp_path):
    for name, settings in {
        "a": {"method": "cpo"},
        "b": {"method": "spma-alm"},
        "c": {"environment": "d"},
    }.items():
        write(tmp_path / name, [row(1), row(2)], **settings)
    runs = [read_run(tmp_path / name, name) for name in "abc"]
    first, second = environments(runs)
    assert [first["title"], second["title"]] == ["d", "e"]
    assert [run["method"] for run in second["runs"]] == ["spma-alm", "cpo"]
    assert second["limits"]["cost"]["bound"] == 25 and second["costs"] == ["cost"]
