"""What is typed off the paper fits the methods, and sweeps have the paper's sizes."""

import json
from dataclasses import fields

import pytest

from cmdpax import InputError
from cmdpax.learning.config import METHODS, TrainConfig
from cmdpax.paper import settings
from cmdpax.paper.settings import SWEEPS, find_sweep
from cmdpax.solvers.table import find_method


@pytest.mark.parametrize("name", SWEEPS)
def test_every_preset_is_a_sweep(name):
    runs = find_sweep(name).runs()
    assert len({run.id for run in runs}) == len(runs) >= 40
    assert all(json.loads(run.text)["kind"] == run.kind for run in runs)


def test_the_papers_grid_has_its_size():
    assert len(find_sweep("paper-grids").runs()) == 3 * (504 + 216 + 72 + 1)
    assert len(find_sweep("penalties").runs()) == 3 * 2 * 4 * 4 * 10
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
