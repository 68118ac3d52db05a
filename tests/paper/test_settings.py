"""What is typed off the paper fits the methods, and sweeps have the paper's sizes."""

import json
from dataclasses import fields

import pytest

from cmdpax import InputError
from cmdpax.learning.config import METHODS, TrainConfig
from cmdpax.paper import settings
from cmdpax.paper.deep_records import task_name
from cmdpax.paper.settings import DEEP_SWEEP, SEEDS, SWEEPS, TASKS, TITLES, find_sweep
from cmdpax.solvers.table import find_method


@pytest.mark.parametrize("name", SWEEPS)
def test_every_preset_is_a_sweep(name):
    runs = find_sweep(name).runs()
    assert len({run.id for run in runs}) == len(runs) >= 16
    assert all(json.loads(run.text)["kind"] == run.kind for run in runs)


def test_the_papers_grid_has_its_size():
    assert len(find_sweep("paper-grids").runs()) == 3 * (504 + 216 + 72 + 1)
    assert len(find_sweep("deep").runs()) == 3 * 4 * 5
    assert len(find_sweep("held-out").runs()) == 3 * 3 * 2
    assert len(find_sweep("two-limits").runs()) == 2 * 4 * 2
    assert len(find_sweep("penalties").runs()) == 2 * 2 * 4 * 4 * 3
    assert len(find_sweep("dual-steps").runs()) == 2 * 2 * 5 * 4 * 3
    assert {run.config["samples"] for run in find_sweep("deep").with_fraction(0.01).runs()} == {
        100_000
    }


def test_what_is_no_sweep(tmp_path):
    with pytest.raises(InputError, match="did you mean 'tiny'"):
        find_sweep("tini")
    with pytest.raises(InputError, match="there is no such file"):
        find_sweep(str(tmp_path / "none.toml"))
    with pytest.raises(InputError, match=r"must lie in \(0, 1\]"):
        find_sweep("deep").with_fraction(2)


@pytest.mark.parametrize("method", settings.GRIDS)
def test_grids_and_budgets_are_settings_of_the_methods(method):
    grid, budget = settings.GRIDS[method], settings.BUDGETS[method]
    assert grid.keys() | budget.keys() <= find_method(method).settings.keys()
    assert not grid.keys() & budget.keys()
    evaluations = budget.get("steps") or budget["outer"] * budget["inner"]
    assert evaluations == 1000


def test_the_second_ppo_lag_updates_its_multiplier_every_step():
    for entries, label in (
        (settings.TABLE_ENTRIES, "PPO-Lag"),
        (settings.FEATURE_ENTRIES, "Lin-PPO-Lag"),
    ):
        *_, plain, variant = entries
        assert (plain.label, variant.label) == (label, f"{label}, dual every step")
        assert plain.method == variant.method and variant.fixed == {"inner": 1}


def test_the_papers_training_is_a_preset():
    configs = {name: TrainConfig(**settings.training_settings(name)).resolved() for name in METHODS}
    assert all(config.method == name for name, config in configs.items())
    common = {
        (c.samples, c.standardise, c.dual_optimiser, c.discount, c.kl_stop)
        for c in configs.values()
    }
    assert common == {(10_000_000, "separate", "adam", 0.99, 0.0)}
    own = [
        (configs[name].batch, configs[name].minibatch, configs[name].learning_rate)
        for name in ("ppo-alm", "ppo-lag", "cpo")
    ]
    assert own == [(2_000, 64, 3e-3), (20_000, 64, 3e-3), (20_000, 128, 1e-3)]
    assert configs["cpo"].trust_region == 0.01
    names = {field.name for field in fields(TrainConfig)}
    assert all(set(grid) <= names for grid in settings.TRAINING_GRIDS.values())
    assert set(settings.TRAINING_GRIDS) <= set(METHODS)


def test_every_cell_of_the_papers_tables_is_there():
    assert list(settings.RESULTS) == list(settings.TITLES)
    for row in settings.RESULTS.values():
        assert list(row) == list(settings.TASKS)
        assert all(cell.excess < cell.p90 < cell.p95 < cell.worst for cell in row.values())


def test_the_search_draws_twelve_points_of_each_grid_on_two_tasks():
    runs = find_sweep("paper-search").runs()
    by_method = {name: [r for r in runs if r.config["method"] == name] for name in settings.TITLES}
    assert {name: len(own) for name, own in by_method.items()} == {
        **dict.fromkeys(("spma-alm", "ppo-alm", "ppo-lag"), 2 * 12),
        "cpo": 2,
    }
    assert {run.config["samples"] for run in runs} == {1_000_000}
    for method, own in by_method.items():
        for name, values in settings.TRAINING_GRIDS[method].items():
            drawn = {run.config[name] for run in own}
            assert drawn <= set(values) and (len(drawn) > 1 or len(values) == 1)


def test_our_runs_have_our_defaults_and_nothing_tuned_for_a_task():
    for name in ("deep", "held-out", "two-limits"):
        for run in find_sweep(name).runs():
            own = {key: run.config[key] for key in ("method", "samples", "limits")}
            config = TrainConfig(**{**own, "limits": tuple(own["limits"])})
            assert run.config["reserve"] is None and run.config["penalty"] == 1.0
            assert run.config["learning_rate"] == config.learning_rate


def test_the_table_has_one_seed_of_every_cell_before_the_second_of_any_and_cheap_tasks_first():
    runs = DEEP_SWEEP.runs()
    cells = len(TASKS) * len(TITLES)
    assert [run.seed for run in runs] == [seed for seed in range(SEEDS) for _ in range(cells)]
    for seed in range(SEEDS):
        own = [task_name(run.problem) for run in runs[seed * cells : (seed + 1) * cells]]
        assert own == [task for task in ("HalfCheetah", "Hopper", "Ant") for _ in TITLES]
    tasks = dict.fromkeys(task_name(run.problem) for run in SWEEPS["held-out"].runs())
    assert list(tasks) == ["Swimmer", "Walker2d", "Humanoid"]


def test_ablations_are_in_the_units_of_the_reward():
    for name in settings.ABLATIONS:
        runs = find_sweep(name).runs()
        assert {run.config["units"] for run in runs} == {"reward"}
        assert max(run.config["dual_step"] for run in runs) <= 0.2
    assert {run.config["penalty"] for run in find_sweep("dual-steps").runs()} == {0.02}
