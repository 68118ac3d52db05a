import base64

import numpy as np
import pytest

from cmdpax.environments import cliff_world
from cmdpax.report import series as films
from cmdpax.report.series import Shot, frames, scenes
from cmdpax.solvers.table import trajectory

SHOT = Shot(
    "Cliff World", "cliff-world", "PQA-ALM", "pqa-alm", {"step": 1.0, "outer": 2, "inner": 60}
)


@pytest.mark.parametrize("last", [0, 1, 39, 40, 41, 1000, 5000])
def test_frames_go_from_the_first_to_the_last_iterate(last):
    kept = frames(last)
    assert kept[0] == 0 and kept[-1] == last and kept == sorted(set(kept))


def test_frames_are_dense_at_first_and_never_hide_an_oscillation():
    kept = np.array(frames(1000))
    assert kept[:41].tolist() == list(range(41))
    assert len(kept) < 250
    assert np.diff(kept).max() == 9
    late = kept[kept > 400]
    assert {k % 2 for k in late} == {0, 1}  # both phases of period two


def test_many_films_have_fewer_frames_each():
    many, few = frames(1000), frames(1000, pace=3)
    assert len(few) < len(many) / 2 and few[-1] == 1000
    assert np.diff(few).max() % 2 == 1


def test_a_film_is_the_run_itself(tmp_path):
    (scene,) = scenes([SHOT], tmp_path)
    (film,) = scene["films"]
    run = trajectory(cliff_world(), "pqa-alm", step=1.0, outer=2, inner=60)
    shape = (len(film["frames"]), 21, 4)
    policies = np.frombuffer(base64.b64decode(film["policies"]), np.uint8).reshape(shape) / 255
    np.testing.assert_allclose(policies[0], 0.25, atol=1 / 500)
    np.testing.assert_allclose(policies[-1], run.policy, atol=1 / 500)
    prices = np.frombuffer(base64.b64decode(film["prices"]), "<f4")
    np.testing.assert_allclose(prices, run.weights[film["frames"], 0], rtol=1e-6, atol=1e-12)
    rewards = np.frombuffer(base64.b64decode(film["rewards"]), "<f4")
    np.testing.assert_allclose(rewards, run.rewards, rtol=1e-6)
    visits = np.frombuffer(base64.b64decode(film["visits"]), np.uint8).reshape(shape[:2])
    assert visits.max() == 255 and (film["most"] * visits[-1] / 255).sum() == pytest.approx(
        1, abs=0.05
    )
    assert film["frames"][-1] == 120 and scene["optimum"] == pytest.approx(0.655402, abs=1e-6)


def test_problems_that_cannot_be_drawn_and_runs_that_fail_are_left_out(tmp_path):
    without_grid = Shot(
        "Garnet", "garnet:states=20", "PQA-ALM", "pqa-alm", {"outer": 1, "inner": 2}
    )
    gone = Shot("lost", "lost.json", "PQA-ALM", "pqa-alm")
    renamed = Shot("Cliff World", "cliff-world", "PQA-ALM", "pqa-alm", {"no_such_setting": 1.0})
    assert scenes([without_grid, gone, renamed], tmp_path) == []


def test_a_run_that_took_long_is_not_done_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(films, "PATIENCE", -1.0)
    first = scenes([SHOT], tmp_path)
    (kept,) = (tmp_path / films.CACHE).iterdir()
    monkeypatch.setattr(films, "trajectory", None)  # would fail if it were called
    assert scenes([SHOT], tmp_path) == first
    kept.write_text("{")  # damaged: it has to be done again
    with pytest.raises(TypeError):
        scenes([SHOT], tmp_path)


def test_a_folder_that_cannot_be_written_only_costs_time(tmp_path, monkeypatch):
    monkeypatch.setattr(films, "PATIENCE", -1.0)
    (tmp_path / films.CACHE).write_text("in the way")
    assert scenes([SHOT], tmp_path)[0]["films"]


def test_a_model_without_constraints_has_a_film():
    model = cliff_world()
    free = model.replace(constraints=[], thresholds=[], constraint_names=None)
    assert films._run(free, Shot("x", "x", "x", "npg-pd", {"steps": 5}), 1)["rewards"]
