"""The scripts behind the evidence on training: ablation, velocity tasks, the picture of a run."""

import json

import deep_ablation
import limits_along_a_run
import numpy as np
import pytest
import velocity_defaults
from known_optima_tasks import TASKS, TUNING

from cmdpax.learning.config import TrainConfig
from cmdpax.learning.run_folder import RunFolder


def test_the_ablation_looks_at_no_untouched_task():
    names = {name for one in deep_ablation.VARIANTS.values() for name in one.tasks}
    assert names - {deep_ablation.VELOCITY} <= set(TUNING)


@pytest.mark.parametrize("name", deep_ablation.VARIANTS)
def test_a_variant_differs_from_the_recipe(name, monkeypatch):
    """Its settings are accepted and are not the defaults; what it replaces is there."""
    variant, base = deep_ablation.VARIANTS[name], TrainConfig().resolved()
    assert variant.sentence and bool(variant.settings or variant.patches) == (name != "base")
    changed = TrainConfig.of(variant.settings).resolved()
    for setting in variant.settings:
        assert getattr(changed, setting) != getattr(base, setting)
    for patch, instead in variant.patches.items():
        place, attribute = deep_ablation.place_of(patch)
        monkeypatch.setattr(place, attribute, getattr(place, attribute))  # restored afterwards
        assert getattr(place, attribute) != instead
        deep_ablation.patch(patch, instead)
        assert getattr(place, attribute) == instead


def test_without_a_warm_up_the_first_batch_trains_the_policy(monkeypatch):
    """And it does so in that variant only."""
    from cmdpax.learning import training

    moved = {}
    for name in ("base", "no-warm-up"):
        for patch, instead in deep_ablation.VARIANTS[name].patches.items():
            monkeypatch.setattr(training, patch.partition(".")[2], instead)
        settings = {"samples": 200, "batch": 200, "passes": 1, "minibatch": 100}
        job = {"task": "short-5", "method": "spma-alm", "seed": 0, "settings": settings}
        moved[name] = deep_ablation.known_optima.run(job)["return"]
    assert moved["base"] != moved["no-warm-up"]


def test_a_misspelt_patch_is_refused():
    with pytest.raises(AttributeError):
        deep_ablation.patch("margins.DRIFTS", 1.0)


def test_the_table_of_the_ablation_has_medians_and_the_largest_violation():
    rows = [
        {
            "variant": "base",
            "task": task,
            "violation": {"a": -9.0, "b": float(k)},
            "regret": 2.0 * k,
        }
        for task in deep_ablation.FIVE
        for k in (1, 3, 8)
    ]
    rows.append({"variant": "no-noise", "task": "heater", "error": "not finite"})
    lines = deep_ablation.table(rows).splitlines()
    assert lines[2].count("| +3.0 / 6.0 (+8.0) ") == 5
    assert lines[2].endswith("| 67% of 15 | +8.0 | 6.0 |")
    assert "| +inf / inf (+inf) |" in lines[3] and lines[3].endswith("|  |  |  |")


def test_jobs_are_what_the_variants_want():
    jobs = deep_ablation.jobs_of(["base", "mean-length"], 1, "Hopper", 1000, {})
    assert [job["task"] for job in jobs] == [
        *deep_ablation.FIVE,
        "short-5",
        "road",
        "pump",
        "Hopper",
        "Hopper",
    ]
    assert jobs[-1]["settings"] == {"samples": 1000, "reserve": 0.0}
    assert len(deep_ablation.jobs_of(["base", "mean-length"], 2, None, 0, {})) == 16


def rows_of(count):
    return [
        {"samples": 1000 * (k + 1), "return": float(k), "cost": {"cost": 2.0 * k}}
        for k in range(count)
    ]


def test_the_last_fifth_and_the_curve():
    assert velocity_defaults.last_fifth(rows_of(100)) == {"return": 89.5, "cost": 179.0}
    assert velocity_defaults.last_fifth(rows_of(3)) == {"return": 2.0, "cost": 4.0}
    curve = velocity_defaults.curve(rows_of(100))
    assert len(curve) == 50 and curve[-1] == [100_000, 98.5, 197.0]
    assert len(velocity_defaults.curve(rows_of(3))) == 3


def test_long_runs_are_compared_with_the_committed_records(tmp_path):
    for seed, mean in enumerate((10.0, 20.0)):
        folder = tmp_path / f"Ant-cpo-{seed}"
        folder.mkdir()
        late = {"last_fifth": {"return": mean, "cost": 3.0}}
        (folder / "summary.json").write_text(json.dumps(late))
    assert velocity_defaults.long_reference("Ant", "cpo", tmp_path) == (15.0, 3.0)
    assert velocity_defaults.long_reference("Ant", "ppo", tmp_path) is None
    mean, cost = velocity_defaults.reference("Hopper", "spma-alm", 10_000_000)
    assert 1600 < mean < 1800 and cost < 25
    assert velocity_defaults.reference("Hopper", "spma-alm", 1_000) is None


def test_the_table_of_the_velocity_tasks_has_the_ratio():
    row = {"task": "Hopper", "method": "spma-alm", "settings": {"samples": 2_000_000, "reserve": 0}}
    row |= {"samples": 2_000_000, "cost": 25.0, "verdict": "kept: cost", "seconds": 300.0}
    rows = [{**row, "seed": seed, "return": mean} for seed, mean in enumerate((1721.0, 1549.0))]
    line = velocity_defaults.table(rows).splitlines()[-1]
    assert "| 1,635 (1,721 1,549) | 25.0 (25.0 25.0) | 1,721 | 25.7 | 0.950 | 1.000 |" in line


def test_the_picture_is_of_the_committed_run():
    figure = limits_along_a_run.picture(RunFolder(limits_along_a_run.RECORDS))
    axes = figure.axes
    assert [len(one.lines) for one in axes] == [4, 2, 1]
    assert all(one.get_ylabel() for one in axes) and axes[-1].get_xlabel()
    assert axes[0].lines[-1].get_ydata()[0] == float(TASKS["heater"].limits[0].split("<=")[1])
    styles = {(line.get_linestyle(), line.get_marker()) for line in axes[0].lines}
    assert len(styles) == 4  # also without colour
    samples = axes[-1].lines[0].get_xdata()
    assert samples[-1] == 100 and (np.diff(samples) > 0).all()
