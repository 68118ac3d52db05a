import base64
import json
from pathlib import Path

import numpy as np
import pytest

from cmdpax import InputError
from cmdpax.environments import cliff_world
from cmdpax.report import series
from cmdpax.report.contents import gather
from cmdpax.report.series import POINTS, Replay, environments, frames, problems, read_run
from cmdpax.solvers.trajectory import trajectory
from damage import measured

RESULTS = Path(__file__).parents[2] / "results" / "deep-short"
REPLAY = Replay(
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


def test_many_replays_have_fewer_frames_each():
    many, few = frames(1000), frames(1000, pace=3)
    assert len(few) < len(many) / 2 and few[-1] == 1000
    assert np.diff(few).max() % 2 == 1


def test_a_replay_is_the_run_itself(tmp_path):
    rows = []
    (problem,), left_out = problems([REPLAY], tmp_path, rows.append)
    assert not left_out
    (replay,) = problem["replays"]
    assert rows == [{"problem": "Cliff World", "label": "PQA-ALM", "number": 1, "count": 1}]
    run = trajectory(cliff_world(), "pqa-alm", step=1.0, outer=2, inner=60)
    shape = (len(replay["frames"]), 21, 4)
    policies = np.frombuffer(base64.b64decode(replay["policies"]), np.uint8).reshape(shape) / 255
    np.testing.assert_allclose(policies[0], 0.25, atol=1 / 500)
    np.testing.assert_allclose(policies[-1], run.policy, atol=1 / 500)
    weights = np.frombuffer(base64.b64decode(replay["weights"]), "<f4")
    np.testing.assert_allclose(weights, run.weights[replay["frames"], 0], rtol=1e-6, atol=1e-12)
    rewards = np.frombuffer(base64.b64decode(replay["rewards"]), "<f4")
    np.testing.assert_allclose(rewards, run.rewards, rtol=1e-6)
    visits = np.frombuffer(base64.b64decode(replay["visits"]), np.uint8).reshape(shape[:2])
    assert visits.max() == 255 and (replay["most"] * visits[-1] / 255).sum() == pytest.approx(
        1, abs=0.05
    )
    assert replay["frames"][-1] == 120 and problem["optimum"] == pytest.approx(0.655402, abs=1e-6)


def test_problems_that_cannot_be_drawn_and_runs_that_fail_are_left_out(tmp_path):
    without_grid = Replay(
        "Garnet", "garnet:states=20", "PQA-ALM", "pqa-alm", {"outer": 1, "inner": 2}
    )
    gone = Replay("lost", "lost.json", "PQA-ALM", "pqa-alm")
    renamed = Replay("Cliff World", "cliff-world", "PQA-ALM", "pqa-alm", {"no_such_setting": 1.0})
    shown, left_out = problems([without_grid, gone, renamed], tmp_path)
    assert shown == [] and len(left_out) == 3


def test_a_run_that_took_long_is_not_done_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(series, "PATIENCE_SECONDS", -1.0)
    first = problems([REPLAY], tmp_path)
    (kept,) = (tmp_path / series.CACHE).iterdir()
    monkeypatch.setattr(series, "trajectory", None)  # would fail if it were called
    assert problems([REPLAY], tmp_path) == first
    kept.write_text("{")  # damaged: it has to be done again
    assert "TypeError" in problems([REPLAY], tmp_path)[1][0][1]


def test_a_folder_that_cannot_be_written_only_costs_time(tmp_path, monkeypatch):
    monkeypatch.setattr(series, "PATIENCE_SECONDS", -1.0)
    (tmp_path / series.CACHE).write_text("in the way")
    assert problems([REPLAY], tmp_path)[0][0]["replays"]


def test_a_model_without_constraints_has_a_replay():
    model = cliff_world()
    free = model.replace(constraints=[], thresholds=[], constraint_names=None)
    assert series._run(free, Replay("x", "x", "x", "npg-pd", {"steps": 5}), None, 1)["rewards"]


CONFIG = {"environment": "e", "method": "ppo-lag", "limits": ["cost<=25"], "seed": 0}
CONFIG |= {"samples": 100, "discount": 0.9, "discounted": False}


def write(folder, rows, **config):
    folder.mkdir(parents=True)
    lines = [json.dumps(row) if isinstance(row, dict) else row for row in rows]
    (folder / "metrics.jsonl").write_text("\n".join([*lines, ""]))
    (folder / "config.json").write_text(json.dumps({**CONFIG, **config}))


def row(k, value=1.0):
    return {"samples": 10 * k, "return": value, "cost": {"cost": 2 * value}}


def test_a_committed_run_is_read():
    run, complaints = read_run(RESULTS / "Hopper-cpo", "Hopper-cpo")
    assert not complaints
    assert run.method == "cpo" and run.environment == "SafetyHopperVelocity-v1"
    assert set(run.series) == {"return", "cost"} and run.samples[-1] == 2_000_000
    assert run.limits == {"cost": {"sense": "<=", "bound": 25.0}}
    assert run.evaluation["stochastic"]["episodes"] == 10


def test_many_rows_are_averaged_and_their_range_kept(tmp_path):
    values = np.random.default_rng(0).normal(size=1000)
    write(tmp_path / "run", [row(k, value) for k, value in enumerate(values)])
    curves = read_run(tmp_path / "run", "run")[0].curves()
    line = curves["series"]["return"]
    assert len(curves["samples"]) == len(line["mean"]) == POINTS
    np.testing.assert_allclose(line["mean"][0], values[:5].mean(), rtol=1e-4)
    np.testing.assert_allclose(
        [line["low"][0], line["high"][0]], [values[:5].min(), values[:5].max()], rtol=1e-4
    )


def test_what_a_kill_left_behind_is_passed_over(tmp_path):
    write(
        tmp_path / "run",
        [
            row(1),
            '{"samples": 20, "ret',
            {"samples": 30},
            {**row(4), "return": None},
            {**row(4), "return": 10**400},
            row(5),
        ],
        limits=["what?"],
    )
    run, complaints = read_run(tmp_path / "run", "run")
    assert complaints == {"metrics.jsonl": "4 of 6 lines are no rows."}
    assert run.samples.tolist() == [10, 50] and run.limits == {}
    with pytest.raises(InputError, match="is not a run folder"):
        read_run(tmp_path, "nothing")
    (tmp_path / "run" / "metrics.jsonl").write_text("nothing\n")
    with pytest.raises(InputError, match="no row that could be drawn"):
        read_run(tmp_path / "run", "run")


def test_runs_stand_together_by_environment_in_the_order_of_the_methods(tmp_path):
    for name, settings in {
        "a": {"method": "cpo"},
        "b": {"method": "spma-alm"},
        "c": {"environment": "d"},
    }.items():
        write(tmp_path / name, [row(1), row(2)], **settings)
    runs = [read_run(tmp_path / name, name)[0] for name in "abc"]
    first, second = environments(runs)
    assert [first["title"], second["title"]] == ["d", "e"]
    assert [run["method"] for run in second["runs"]] == ["spma-alm", "cpo"]
    assert second["limits"]["cost"]["bound"] == 25 and second["costs"] == ["cost"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"settings": {"steps": 10**9}}, "1e+09 evaluations are more than a page can show"),
        ({"settings": {"steps": 10**30}}, "1e+30 evaluations"),
        ({"settings": {"steps": float("nan")}}, "steps is nan"),
        ({"settings": {"step": [0.1] * 1000}}, "a replay needs one number"),
        ({"settings": {"step": None}}, "a replay needs one number"),
        ({"method": "pqa-alm", "settings": {"inner": 10**6}}, "evaluations are more than"),
        ({"method": "ppo-lag", "settings": {"passes": 10**9}}, "passes is 1000000000"),
        ({"model": "garnet:states=3000000"}, "cannot be drawn"),
        ({"model": "grid-world:width=100000,height=100000"}, "more than the 2500 states"),
        ({"model": "deep-sea:size=100000"}, "more than the 2500 states"),
        ({"model": "deep-sea:size=50", "settings": {"steps": 20_000}}, "would take too long"),
        ({"features": "tiles:1000000000,4,3"}, "a report makes 1000 at most"),
        ({"features": "tiles:40,1000000000,3"}, "a report makes 1000 at most"),
        ({"features": "nowhere.npy"}, "is not there"),
        ({"model": "/dev/zero"}, "cannot be drawn"),
        ({"model": "null\0byte.json"}, "cannot be drawn"),
        ({"method": "no-such-method"}, "is not known"),
    ],
)
def test_what_a_record_says_is_not_believed(tmp_path, changes, sentence):
    """Each would take minutes, or all memory, if it were done; its refusal takes nothing."""
    usual = {"model": "cliff-world", "method": "npg-pd", "settings": {}, "features": None}
    replay = Replay(problem="p", label="l", file="result.json", **{**usual, **changes})
    with measured():
        shown, ((file, why),) = problems([replay], tmp_path)
    assert shown == [] and file == "result.json" and sentence in why


def test_files_that_a_record_names_are_bounded(tmp_path):
    for name in ("large.npy", "large.npz"):
        with open(tmp_path / name, "wb") as file:
            file.truncate(10**11)
    features = Replay("p", "cliff-world", "l", "lin-npg-pd", {}, str(tmp_path / "large.npy"))
    model = Replay("q", str(tmp_path / "large.npz"), "l", "npg-pd")
    with measured():
        shown, left_out = problems([features, model], tmp_path)
    assert shown == [] and all("bytes that a report reads" in why for _, why in left_out)


def test_all_replays_together_are_bounded(tmp_path, monkeypatch):
    short = Replay("p", "cliff-world", "a", "npg-pd", {"steps": 10})
    monkeypatch.setattr(series, "MAX_TOTAL_COST", 25 * (500 + 84))
    shown, left_out = problems([short] * 4, tmp_path)
    assert len(shown[0]["replays"]) == 2 and len(left_out) == 2


def test_a_kept_replay_is_neither_read_nor_written_through_a_link(tmp_path, monkeypatch):
    monkeypatch.setattr(series, "PATIENCE_SECONDS", -1.0)
    (tmp_path / "outside").mkdir()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / series.CACHE).symlink_to(tmp_path / "outside")
    assert problems([REPLAY], tmp_path / "folder")[0]
    assert not list((tmp_path / "outside").iterdir())


def test_the_papers_replays_are_within_the_bounds():
    total = 0.0
    for folder in ("tabular", "linear"):
        for replay in gather(RESULTS.parent / folder).replays:
            model = series._drawable(replay.model)
            features = replay.features and series._features(model, replay.features)
            total += series._cost(model, replay, features)
    assert total < series.MAX_TOTAL_COST


def test_an_evaluation_that_is_damaged_is_named_and_the_run_is_shown(tmp_path):
    write(tmp_path / "run", [row(1)])
    for text in ("{", "[]", '{"stochastic": 3}', "[" * 100_000):
        (tmp_path / "run" / "evaluation.json").write_text(text)
        run, complaints = read_run(tmp_path / "run", "run")
        assert run.evaluation == {} and "is damaged" in complaints["evaluation.json"]
