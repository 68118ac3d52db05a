import json
import os
import subprocess
from pathlib import Path

import pytest

from cmdpax import InputError, environments, save_model, save_result, solve
from cmdpax.report import contents as contents_module
from cmdpax.report.contents import gather
from cmdpax.report.page import compose

RESULTS = Path(__file__).parents[2] / "results"
CONFIG = {"environment": "x", "method": "cpo", "limits": [], "seed": 0, "samples": 1}
CONFIG |= {"discount": 0.9, "discounted": False}


def test_the_tabular_results():
    contents = gather(RESULTS / "tabular")
    assert [table.title for table in contents.tables] == ["selected", "sensitivity"]
    assert len(contents.figures) >= 11 and not contents.runs
    assert not contents.notes  # .md beside .csv is the same table
    assert {replay.problem for replay in contents.replays} == {"Cliff World", "Deep Sea"}
    assert len(contents.replays) == 24
    npg = next(
        replay
        for replay in contents.replays
        if replay.label == "NPG-PD" and replay.model == "cliff-world"
    )
    assert npg.method == "npg-pd" and set(npg.settings) == {"step", "dual_step"}


def test_the_linear_results():
    contents = gather(RESULTS / "linear")
    problems = {replay.problem for replay in contents.replays}
    assert len(problems) == 6 and "Cliff World, 40 features" in problems
    assert {replay.features for replay in contents.replays} == {
        "tiles:40,4,1",
        "tiles:60,4,3",
        "tiles:80,6,5",
    }


def test_training_runs_and_a_mixture():
    contents = gather(RESULTS)
    assert {"deep-short/Hopper-cpo", "deep-short/Hopper-spma-alm"} <= {
        run.name for run in contents.runs
    }
    assert (
        contents.replays
        and contents.figures
        and any(note.name == "README.md" for note in contents.notes)
    )
    records = next(table for table in contents.tables if table.title == "vs_lp/targets")
    assert "family" in records.headings
    assert "versions.numpy" not in records.headings  # the same in all rows
    assert gather(RESULTS / "deep-short" / "Hopper-cpo").runs[0].name == "Hopper-cpo"


def test_a_run_store(tmp_path):
    def put(where, method, seed, settings, outcome, kind="exact", **config):
        folder = tmp_path / where
        folder.mkdir(parents=True)
        config = {
            "model": "cliff-world",
            "method": method,
            "eps": 1e-6,
            "features": None,
            "settings": settings,
            **config,
        }
        content = {
            "run": {"kind": kind, "config": config, "seed": seed},
            "versions": {"numpy": "2"},
            "outcome": outcome,
        }
        (folder / "result.json").write_text(json.dumps(content))

    (tmp_path / "store.json").write_text("{}")
    put("done/1", "npg-pd", 0, {"step": 0.1}, {"reward": 0.6, "status": "limit"})
    put("done/2", "npg-pd", 0, {"step": 1.0}, {"reward": 0.5, "status": "limit"})
    put(
        "done/3",
        "npg-pd",
        0,
        {"step": 9.0},
        {"failed": "step 3 produced numbers that are not finite"},
    )
    put("done/4", "lp", 0, {}, {"reward": 0.6, "status": "certified"})
    put("work/5.abc", "npg-pd", 0, {"step": 2.0}, {"reward": 0.5})
    contents = gather(tmp_path)
    (table,) = contents.tables
    assert table.title == "finished runs of the sweep" and len(table.rows) == 4
    assert (
        "settings.step" in table.headings
        and "model" not in table.headings
        and "model cliff-world" in table.common
    )
    assert [replay.label for replay in contents.replays] == ["NPG-PD, step 0.1", "NPG-PD, step 1"]


def test_methods_and_limits_are_those_of_the_record(tmp_path):
    """Whoever wrote it: labels that nobody knows, and the strictest of its own limits."""
    header = {"kind": "header", "problem": "deep-sea", "limits": [0.5, 0.25], "tiles": [8, 2, 1]}
    tried = {"kind": "configuration", "label": "mine", "method": "npg-pd"}
    curves = [
        {"kind": "curve", "label": label, "settings": {"step": step}, "limits": limits}
        for label, step, limits in (("mine", 1.0, [0.25]), ("mine", 2.0, [0.5]), ("x", 3.0, [0.25]))
    ]
    lines = map(json.dumps, [header, tried, *curves])
    (tmp_path / "record.jsonl").write_text("\n".join(lines))
    (replay,) = gather(tmp_path).replays
    assert (replay.problem, replay.model) == ("Deep Sea, 8 features", "deep-sea")
    assert (replay.label, replay.method, replay.settings) == ("mine", "npg-pd", {"step": 1.0})
    assert replay.features == "tiles:8,2,1"


def test_what_may_not_be_read_is_passed_over(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    (tmp_path / "config.json").mkdir()
    (tmp_path / "metrics.jsonl").write_text('{"samples": 1, "return": 1.0, "cost": {}}\n')
    contents = gather(tmp_path)
    assert not contents.runs and len(contents.tables) == 1


def test_certified_results(tmp_path):
    model = environments.deep_sea()
    save_model(model, tmp_path / "model.npz")
    save_result(solve(model), tmp_path / "answer.npz")
    (table,) = gather(tmp_path).tables
    assert table.title == "certified results" and table.rows[0][:2] == ["answer.npz", "certified"]


@pytest.mark.parametrize(
    "junk", [b"", b"{", b"\xff\xfe", b"[1, 2]\n", b'{"kind": "header", "problem": "nowhere"}\n']
)
def test_damaged_files_are_passed_over(tmp_path, junk):
    for name in ("metrics.jsonl", "config.json", "result.json", "x.jsonl", "x.npz", "x.csv"):
        (tmp_path / name).write_bytes(junk)
    (tmp_path / "good.csv").write_text("a,b\n1,2\n")
    contents = gather(tmp_path)
    assert (
        not contents.runs
        and not contents.replays
        and "good" in [table.title for table in contents.tables]
    )


def test_a_folder_without_results_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match="there is no folder"):
        gather(tmp_path / "nowhere")
    (tmp_path / "file").write_text("hello")
    with pytest.raises(InputError, match="is a file"):
        gather(tmp_path / "file")
    with pytest.raises(InputError, match="holds no results"):
        gather(tmp_path)


def test_parts_that_are_not_what_they_should_be_are_passed_over(tmp_path):
    """Beside a good table: nothing of this may keep the page from being made."""
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    good = {
        "kind": "exact",
        "config": {"model": "cliff-world", "method": "npg-pd", "settings": {}},
        "seed": 0,
    }
    outcome = {"reward": 1.0}
    results = [
        {"run": {**good, "config": []}, "outcome": outcome},
        {"run": good, "outcome": None},
        {"run": {**good, "config": {**good["config"], "method": ["npg-pd"]}}, "outcome": outcome},
    ]
    texts = [*map(json.dumps, results), "[" * 100_000]
    for number, text in enumerate(texts):
        (tmp_path / f"r{number}").mkdir()
        (tmp_path / f"r{number}" / "result.json").write_text(text)
    header, curve = (
        {"kind": "header", "problem": "cliff-world"},
        {"kind": "curve", "label": "NPG-PD", "limits": [0.001]},
    )
    headers = [
        {**header, "tiles": 3},
        {**header, "problem": ["cliff-world"]},
        {**header, "entries": [1]},
        {**header, "limits": ["0.1"]},
        header,
    ]
    for number, one in enumerate(headers):
        (tmp_path / f"s{number}.jsonl").write_text(
            json.dumps(one) + "\n" + json.dumps(curve) + "\n"
        )
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "run" / "metrics.jsonl").write_text(
        '{"samples": 1, "return": 1.0, "cost": {"cost": 1.0}}\n'
    )
    (tmp_path / "run" / "evaluation.json").write_text(
        '{"stochastic": 3, "deterministic": {"costs": {"cost": 4}}}'
    )
    contents = gather(tmp_path)
    assert (
        contents.tables[0].title == "t"
        and not contents.replays
        and len(contents.runs) == 1
        and not contents.runs[0].evaluation
    )
    assert "<table" in compose(contents, [])
    reasons = dict(contents.passed_over)
    assert reasons.keys() == {
        *(f"r{number}/result.json" for number in range(4)),
        *(f"s{number}.jsonl" for number in range(4)),
        "run/evaluation.json",
    }
    assert "nested too deeply" in reasons["r3/result.json"]


def test_every_seed_of_a_sweep_has_its_own_model(tmp_path):
    for seed in (0, 1):
        config = {
            "model": "grid-world:width=4,height=4",
            "method": "npg-pd",
            "settings": {"steps": 5},
            "features": None,
        }
        (tmp_path / str(seed)).mkdir()
        content = {
            "run": {"kind": "exact", "config": config, "seed": seed},
            "outcome": {"reward": 1.0},
        }
        (tmp_path / str(seed) / "result.json").write_text(json.dumps(content))
    replays = gather(tmp_path).replays
    assert [replay.model.rpartition(",")[2] for replay in replays] == [
        "seed=0",
        "seed=1",
    ] and replays[0].problem != replays[1].problem


def test_links_are_neither_followed_nor_shown(tmp_path):
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "secret.csv").write_text("secret\nof somebody\n")
    (outside / "evaluation.json").write_text("{}")
    (folder / "good.csv").write_text("a\n1\n")
    for name, target in {
        "one": ".",
        "two": ".",
        "file.csv": outside / "secret.csv",
        "picture.png": outside / "secret.csv",
        "below": outside,
        "nowhere.csv": "nowhere",
    }.items():
        (folder / name).symlink_to(target)
    run = folder / "run"
    run.mkdir()
    (run / "config.json").write_text(json.dumps(CONFIG))
    (run / "metrics.jsonl").write_text('{"samples": 1, "return": 1.0, "cost": {}}\n')
    (run / "evaluation.json").symlink_to(outside / "evaluation.json")
    contents = gather(folder)
    assert [table.title for table in contents.tables] == ["good"] and not contents.figures
    assert not contents.runs
    names = ["below", "file.csv", "nowhere.csv", "one", "picture.png", "run/evaluation.json"]
    names += ["run/metrics.jsonl", "two"]
    assert sorted(name for name, _ in contents.passed_over) == names
    assert all("link, and not followed" in why for _, why in contents.passed_over)
    (tmp_path / "by a link").symlink_to(folder)
    assert gather(tmp_path / "by a link").tables  # the one that somebody asked for


def test_files_that_would_keep_us_waiting(tmp_path):
    (tmp_path / "good.csv").write_text("a\n1\n")
    for name in ("x.csv", "x.npz", "x.jsonl", "metrics.jsonl", "result.json", "x.md", "x.toml"):
        os.mkfifo(tmp_path / name)
    contents = gather(tmp_path)
    assert [table.title for table in contents.tables] == ["good"]
    assert len(contents.passed_over) == 7


def test_folders_in_folders_without_end(tmp_path):
    (tmp_path / "good.csv").write_text("a\n1\n")
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        for _ in range(1_500):  # more than Python calls in calls
            os.mkdir("d")
            os.chdir("d")
        os.chdir(here)
        assert gather(tmp_path).tables
    finally:
        os.chdir(here)
        # pytest, which removes folders in calls within calls, could not
        subprocess.run(["rm", "-r", tmp_path / "d"], check=True)


def test_a_table_has_so_many_columns_and_no_more(tmp_path):
    rows = [{f"c{i}": i + k for i in range(contents_module.COLUMNS + 5)} for k in range(2)]
    (tmp_path / "wide.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (table,) = gather(tmp_path).tables
    assert len(table.headings) == contents_module.COLUMNS and "5 more columns" in table.common


def test_a_sweep_has_so_many_replays_and_says_how_many_it_has_not(tmp_path):
    for number in range(30):
        config = {"model": "grid-world:width=4,height=4", "method": "npg-pd", "settings": {}}
        run = {"kind": "exact", "config": config, "seed": number // 10}
        (tmp_path / str(number)).mkdir()
        content = {"run": run, "outcome": {"reward": 1.0}}
        (tmp_path / str(number) / "result.json").write_text(json.dumps(content))
    contents = gather(tmp_path)
    assert len(contents.replays) == 8 and len({one.problem for one in contents.replays}) == 3
    ((_, why),) = contents.passed_over
    assert why == "22 exact runs of the sweep are in its table, but have no replay."


def test_nothing_of_our_own_results_is_passed_over():
    assert gather(RESULTS).passed_over == []
