"""Records of training runs: what a store has finished, what is still to run."""

import json

import pytest

from cmdpax import InputError
from cmdpax.experiments.runs import train_run
from cmdpax.experiments.store import Store
from cmdpax.experiments.sweep import read_sweep
from cmdpax.learning.config import TrainConfig
from cmdpax.paper import deep_study
from cmdpax.paper.deep_records import read_records
from cmdpax.paper.deep_study import (
    DeepStudy,
    budget,
    choose_settings,
    not_recorded,
    place,
    record_finished,
    run_missing,
    sweep_of,
    sweep_text,
)
from cmdpax.paper.settings import ALL_TASKS, SWEEPS, TASKS, TITLES, paper_settings_sweep


def test_the_budget_in_words():
    assert budget([10_000_000], [3, 0, 3], 5) == (
        "100% of the paper's samples, 3 seeds (paper: 100%, 5 seeds)"
    )
    assert budget([500_000, 10_000_000], [1, 2], 10) == (
        "5% and 100% of the paper's samples, 1 to 2 seeds (paper: 100%, 10 seeds)"
    )
    assert budget([3_000_000], [2], None) == "3e6 samples, 2 seeds (not in the paper)"


def test_only_what_is_missing_is_run(recorded, tmp_path):
    asked = []

    def carry_out(runs, store):
        assert store.folder == tmp_path / "store"
        asked.extend(runs)

    run_missing(recorded, "deep", 0.1, 2, list(TASKS), tmp_path / "store", carry_out)
    assert len(asked) == 3 * 4 * 2 - 4 and {run.config["samples"] for run in asked} == {1_000_000}
    assert len(read_records(recorded)) == 4  # nothing was finished


def test_policies_of_what_a_fraction_runs_are_kept_too(tmp_path, run_folder, monkeypatch):
    store, kept = Store(tmp_path / "store", create=True), []
    monkeypatch.setattr(deep_study, "publish", lambda run, folder: kept.append(folder.name))
    finished(store, run_folder, "Hopper", "cpo", 0)
    part = (0.1, 1, ["Hopper"], store.folder, lambda runs, store: None)
    run_missing(tmp_path / "out", "deep", *part, keep_policies=True)
    assert kept == ["Hopper-cpo-0"]


def planned(task, method, seed, **settings):
    settings = {"samples": 1_000_000, **settings}
    if method == "ppo-lag":
        settings["batch"] = 20_000  # as `run_folder` has it
    return train_run(TASKS[task], TrainConfig(method=method, seed=seed, **settings))


def finished(store, run_folder, task, method, seed, code="c0de", **settings):
    """A training run that a store has finished, without the training."""
    run = planned(task, method, seed, **settings)
    folder = run_folder(store.done / run.id, task, method, seed)
    note = {"run": json.loads(run.text), "versions": {"code": code}}
    trained = {**json.loads((folder / "config.json").read_text()), **settings}
    (folder / "config.json").write_text(json.dumps(trained))
    (folder / "run.json").write_text(json.dumps(note))
    (folder / "result.json").write_text(
        json.dumps({**note, "outcome": {"return": 15.0, "excess": 2.0}})
    )
    (folder / "spent.json").write_text(json.dumps({"cpu_seconds": 1800.0}))


def test_records_out_of_a_store_without_running_anything(tmp_path, run_folder):
    store, out = Store(tmp_path / "store", create=True), tmp_path / "out"
    for seed in (0, 1):
        finished(store, run_folder, "Hopper", "spma-alm", seed)
        finished(store, run_folder, "Ant", "cpo", seed)
    for _ in range(2):  # what is recorded is kept
        assert record_finished(out, "deep", None, ["Hopper"], store) == 2
    records = read_records(out)
    assert [(one.task, one.method, one.seed) for one in records] == [
        ("Hopper", "spma-alm", 0),
        ("Hopper", "spma-alm", 1),
    ]
    assert records[0].summary["cpu_seconds"] == 1800
    assert records[0].summary["versions"] == {"code": "c0de"}
    assert record_finished(out, "deep", 1, list(TASKS), store) == 2  # one seed of each
    finished(store, run_folder, "Hopper", "spma-alm", 0, penalty=0.1)
    with pytest.raises(
        InputError, match=r"more than one run of Hopper, spma-alm, 0 \(.* differ in penalty\)"
    ):
        record_finished(out, "deep", None, list(TASKS), store)


def codes(folder):
    return {(one.task, one.method, one.seed): one.code for one in read_records(folder)}


def test_older_records_give_way_to_what_a_store_has_finished(tmp_path, run_folder):
    out = tmp_path / "out"
    old, new = (Store(tmp_path / name, create=True) for name in ("old", "new"))
    cells = [("Hopper", "cpo", 0), ("Hopper", "cpo", 1), ("Hopper", "spma-alm", 0)]
    for one in cells:
        finished(old, run_folder, *one, code="01d", reserve=0.2)
    finished(old, run_folder, "Ant", "cpo", 0, code="01d")
    finished(old, run_folder, "Ant", "cpo", 1, code="01d")
    record_finished(out, "deep", None, list(TASKS), old)
    finished(new, run_folder, "Hopper", "cpo", 0)  # other settings: both seeds go
    finished(new, run_folder, "Ant", "cpo", 0)  # other code alone: this seed
    for _ in range(2):
        record_finished(out, "deep", None, list(TASKS), new)
        assert codes(out) == {
            ("Hopper", "cpo", 0): "c0de",
            ("Hopper", "spma-alm", 0): "01d",
            ("Ant", "cpo", 0): "c0de",
            ("Ant", "cpo", 1): "01d",
        }
    short = Store(tmp_path / "short", create=True)  # a trial takes nobody's place
    finished(short, run_folder, "Hopper", "cpo", 0, code="5h0t", samples=100_000)
    record_finished(out, "deep", None, list(TASKS), short)
    assert codes(out)[("Hopper", "cpo", 0)] == "c0de"


def test_a_failed_run_and_a_row_give_way_too(tmp_path, run_folder):
    out = tmp_path / "out"
    old, new = (Store(tmp_path / name, create=True) for name in ("old", "new"))
    for store, code in ((old, "01d"), (new, "c0de")):
        finished(store, run_folder, "Hopper", "spma-alm", 0, code, penalty=0.1, inner=5)
    for store in (old, new):
        record_finished(out, "penalties", None, list(TASKS), store)
    assert [row["code"] for row in DeepStudy(out).lines["penalties"]] == ["c0de"]
    (folder,) = old.done.iterdir()
    result = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**result, "outcome": {"failed": "it broke."}}))
    record_finished(out, "deep", None, list(TASKS), old)
    assert [row["code"] for row in DeepStudy(out).failed] == ["01d"]
    record_finished(out, "deep", None, list(TASKS), new)
    study = DeepStudy(out)
    assert not study.failed and [one.code for one in study.records] == ["c0de"]


def test_what_is_recorded_by_this_code_need_not_be_run_elsewhere(tmp_path, run_folder, monkeypatch):
    store, out = Store(tmp_path / "store", create=True), tmp_path / "out"
    monkeypatch.setattr(deep_study, "versions", lambda: {"code": "c0de"})
    finished(store, run_folder, "Hopper", "cpo", 0)
    finished(store, run_folder, "Hopper", "cpo", 1, reserve=0.2)
    finished(store, run_folder, "Hopper", "cpo", 2, code="01d")
    finished(store, run_folder, "Hopper", "ppo-lag", 0)
    record_finished(out, "deep", None, list(TASKS), store)
    wanted = [planned("Hopper", "cpo", seed) for seed in range(4)]
    wanted.append(planned("Hopper", "ppo-lag", 0))
    left, others = not_recorded(wanted, out, "deep")
    assert ([run.seed for run in left], others) == ([1, 2, 3], 1)
    # other samples are another run; nor are records of one sweep those of another
    longer = [planned("Hopper", "cpo", 0, samples=2_000_000)]
    assert not_recorded(longer, out, "deep") == (longer, 0)
    assert not_recorded(wanted, out, "two-limits") == (wanted, 0)
    rows = Store(tmp_path / "rows", create=True)
    own = {"penalty": 0.1, "inner": 5}
    finished(rows, run_folder, "Hopper", "spma-alm", 0, **own)
    finished(rows, run_folder, "Hopper", "spma-alm", 1, code="01d", **own)
    record_finished(out, "penalties", None, list(TASKS), rows)
    wanted = [planned("Hopper", "spma-alm", seed, **own) for seed in range(3)]
    assert not_recorded(wanted, out, "penalties") == (wanted[1:], 1)


def test_rows_of_an_ablation_out_of_a_store(tmp_path, run_folder):
    store, out = Store(tmp_path / "store", create=True), tmp_path / "out"
    finished(store, run_folder, "Hopper", "spma-alm", 0, penalty=0.1, inner=5)
    finished(store, run_folder, "Hopper", "spma-alm", 0, penalty=0.3, inner=5)  # no such line
    assert record_finished(out, "penalties", None, list(TASKS), store) == 1
    (row,) = DeepStudy(out).lines["penalties"]
    assert row == {
        "task": "Hopper",
        "method": "spma-alm",
        "penalty": 0.1,
        "inner": 5,
        "seed": 0,
        "samples": 1_000_000,
        "return": 15,
        "excess": 2,
        "code": "c0de",
    }
    asked = []
    run_missing(
        out, "penalties", 0.001, 1, ["Hopper"], store.folder, lambda runs, store: asked.extend(runs)
    )
    assert len(asked) == 2 * 4 * 4 - 1  # without what is recorded


def test_what_cannot_be_read(tmp_path, run_folder):
    run_folder(tmp_path / "other", "Hopper", "cpo", 0)
    (tmp_path / "other" / "evaluation.json").write_text("[]")
    with pytest.raises(
        InputError,
        match=r"other cannot be read: .*evaluation\.json is damaged; evaluate the run again",
    ):
        DeepStudy(tmp_path)
    (tmp_path / "other" / "config.json").write_text("{}")
    with pytest.raises(InputError, match=r"its config\.json is damaged"):
        DeepStudy(tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    with pytest.raises(InputError, match="broken cannot be read"):
        DeepStudy(tmp_path)


def test_a_run_that_failed_is_recorded_and_not_run_again(tmp_path, run_folder):
    store, out = Store(tmp_path / "store", create=True), tmp_path / "out"
    finished(store, run_folder, "Hopper", "spma-alm", 0)
    (folder,) = store.done.iterdir()
    result = json.loads((folder / "result.json").read_text())
    text = json.dumps({**result, "outcome": {"failed": "the policy is not finite."}})
    (folder / "result.json").write_text(text)
    assert record_finished(out, "deep", None, list(TASKS), store) == 1
    study = DeepStudy(out)
    assert not study.records and study.failed[0]["failed"] == "the policy is not finite."
    assert list(study.cells("deep")) == [("Hopper", "spma-alm", 0)]


def test_other_sweeps_have_folders_of_their_own(tmp_path, run_folder):
    store, out = Store(tmp_path / "store", create=True), tmp_path / "out"
    finished(store, run_folder, "Hopper", "spma-alm", 0)
    assert record_finished(out, "two-limits", None, list(TASKS), store) == 1
    assert not DeepStudy(out).records
    assert [one.task for one in DeepStudy(out / "two-limits").records] == ["Hopper"]


def searched(task, clip, gained, excess):
    row = {"task": task, "method": "ppo-lag", "seed": 0, "samples": 1, "spma_step": None}
    row |= {"minibatch": 64, "learning_rate": 3e-3, "dual_step": 1e-3, "penalty": 1.0}
    return {**row, "clip": clip, "return": gained, "excess": excess}


def test_the_search_takes_the_best_that_is_feasible_on_both_tasks():
    pairs = {0.1: [(900, -5), (2000, 4)], 0.2: [(1600, 0), (2900, 9)], 0.3: [(1000, 0), (2000, 5)]}
    rows = [
        searched(task, clip, *numbers)
        for clip, both in pairs.items()
        for task, numbers in zip(("Hopper", "HalfCheetah"), both)
    ]
    rows.append(searched("Hopper", 0.4, 1700, 0))  # lacks a task
    own = {"minibatch": 64, "learning_rate": 3e-3, "dual_step": 1e-3}
    assert choose_settings(rows) == {"ppo-lag": {**own, "clip": 0.3}}
    # where none is, the least infeasible; what failed never is
    rows = [{**row, "excess": (row["excess"] or 0) + 20} for row in rows]
    lost = [searched(task, 0.2, None, None) for task in ("Hopper", "HalfCheetah")]
    assert choose_settings([*rows, *lost])["ppo-lag"]["clip"] == 0.1


def test_what_was_chosen_is_a_sweep_that_can_be_started(tmp_path):
    with pytest.raises(InputError, match="has no search in the paper's grids"):
        sweep_of(tmp_path, "paper-settings")
    chosen = {"spma-alm": {"spma_step": 0.5, "penalty": 0.1}, "cpo": {}}
    sweep, path = paper_settings_sweep(chosen), tmp_path / "paper-settings.toml"
    path.write_text(sweep_text(sweep))
    runs = read_sweep(path).runs()
    assert [run.id for run in runs] == [run.id for run in sweep.runs()]
    assert len(runs) == 2 * len(TASKS) and {run.config["samples"] for run in runs} == {10_000_000}
    assert {run.config["spma_step"] for run in runs if run.config["method"] == "spma-alm"} == {0.5}


@pytest.mark.parametrize(
    "name", ["deep", "held-out", "two-limits", "paper-search", "penalties", "dual-steps"]
)
def test_every_run_of_the_study_is_recorded_as_a_cell_of_its_own(tmp_path, name):
    store, runs, out = Store(tmp_path / "s", create=True), SWEEPS[name].runs(), tmp_path / "out"
    assert SWEEPS[name].methods.keys() <= TITLES.keys()
    for run in runs:
        note = {"run": json.loads(run.text), "versions": {"code": "c0de"}}
        (store.done / run.id).mkdir()
        (store.done / run.id / "run.json").write_text(json.dumps(note))
        text = json.dumps({**note, "outcome": {"failed": "it was not even tried."}})
        (store.done / run.id / "result.json").write_text(text)
    assert record_finished(out, name, None, list(ALL_TASKS), store) == len(runs)
    assert len(DeepStudy(place(out, name)).cells(name)) == len(runs)
