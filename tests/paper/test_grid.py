import numpy as np
import pytest

import plain
from cmdpax import InputError
from cmdpax.environments import cliff_world
from cmdpax.paper.grid import Entry, configurations, search, select
from cmdpax.solvers.table import methods, trajectory

NONE = np.zeros(4)


def test_the_smallest_gap_within_the_limit_wins():
    gaps, violations = np.array([1e-5, -2e-4, 3e-4, 0.5]), np.array([5e-3, 1e-3, 0.0, 0.0])
    assert select(gaps, violations, NONE, 1e-3) == 1
    assert select(gaps, violations, NONE, 1e-2) == 0
    assert select(gaps, violations + 1, NONE, 1e-2) is None


def test_what_diverged_is_never_selected():
    gaps, violations = np.array([np.nan, 0.1]), np.array([np.nan, 0.0])
    assert select(gaps, violations, np.zeros(2), 1e-3) == 1
    assert select(gaps[:1], violations[:1], np.zeros(1), 1e-3) is None


def test_ties_go_to_the_steadier_and_then_to_the_first():
    gaps, worst = np.array([3e-16, 0.0, -1e-13, 1e-9]), np.array([1e-2, 1e-5, 1e-5, 0.0])
    assert select(gaps, NONE, worst, 1e-3) == 1


def test_paper_grids():
    sizes = {name: len(configurations(name)[0]) for name, row in methods.items() if row.grid}
    assert sizes["pqa-alm"] == 3 and sizes["npg-pd"] == sizes["opg-pd"] == sizes["reload"] == 25
    assert sizes["npg-dd"] == 16 and sizes["npg-nrl"] == 9 and sizes["ppo-lag"] == 75
    points, skipped = configurations("rpg-pd")
    assert len(points) == 70 and len(skipped) == 5
    assert all(point["dual_step"] == 100 and point["temperature"] == 0.1 for point in skipped)
    with pytest.raises(InputError, match="'lp' has no paper grid"):
        configurations("lp")


def test_a_search_is_the_same_as_its_single_runs():
    model = plain.tiny()
    found = search(model, Entry("npg-dd", fixed={"steps": 30}), 2.0)
    assert found.entry.label == "NPG-DD" and len(found.points) == 16
    for i in (0, 7, 15):
        run = trajectory(model, "npg-dd", steps=30, **found.points[i])
        assert found.gaps[i] == pytest.approx(2.0 - run.rewards[-1], abs=1e-11)
        assert found.violations[i] == pytest.approx(max(0.0, -run.margins[-1].min()), abs=1e-11)
        assert found.worst_violations[i] == pytest.approx(
            max(0.0, -run.margins[-200:].min()), abs=1e-11
        )
        assert found.worst_gaps[i] == pytest.approx(
            max(abs(2.0 - reward) for reward in run.rewards[-200:]), abs=1e-11
        )


def test_diverged_configurations_are_reported_and_the_rest_is_judged():
    found = search(cliff_world(), Entry("rpg-pd", fixed={"steps": 400}), 0.655402)
    lost = [point for point, step in zip(found.points, found.run.diverged, strict=True) if step]
    assert len(lost) == 4 and all(point["step"] * point["temperature"] > 1 for point in lost)
    assert np.isnan(found.gaps).sum() == np.isnan(found.violations).sum() == 4
    assert found.winner(0.01) is not None
