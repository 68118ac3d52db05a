"""A run is what it was in 0.1, and it is finished or it is not."""

import signal

import pytest

from cmdpax.experiments import runs
from cmdpax.experiments.runs import Run, carry_out, exact_run, train_run
from cmdpax.experiments.store import Store
from cmdpax.learning.config import SHAPE, TrainConfig
from cmdpax.learning.run_folder import RunFolder
from cmdpax.solvers.solve import solve


def test_an_interrupted_solve_is_not_the_outcome_of_its_run(tmp_path, monkeypatch):
    run = exact_run({"model": "garnet:states=300,constraints=2"}, 0)
    store = Store(tmp_path / "store", create=True)

    def interrupt(row):
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(
            runs,
            "solve",
            lambda *arguments, **settings: solve(*arguments, callback=interrupt, **settings),
        )
        with pytest.warns(UserWarning, match="stopping"), pytest.raises(KeyboardInterrupt):
            store.carry_out(run)
    assert store.pending([run]) == [run]
    assert carry_out(run, tmp_path)["status"] == "certified"


def test_ids_of_exact_runs_are_those_of_version_0_1():
    """A store goes by ids: if this changes, finished runs of 0.1 are done again."""
    settings = {"step": 0.1, "dual_step": 1.0, "steps": 50}
    exact = exact_run({"model": "cliff-world", "method": "npg-pd", "settings": settings})
    assert exact.id == "e634fc926e8ce947"


def test_an_id_goes_by_every_setting_and_leaves_open_what_the_environment_decides():
    run, same, other, shaped = (
        train_run("probes:Bandit", TrainConfig(method="cpo", seed=3, **settings))
        for settings in ({}, {"trust_region": 0.02}, {"trust_region": 0.03}, {"batch": 5_000})
    )
    assert run.id == same.id and len({run.id, other.id, shaped.id}) == 3
    assert run.config["trust_region"] == 0.02 and shaped.config["batch"] == 5_000
    assert [run.config[name] for name in SHAPE] == [None, None, None]
    assert Run.from_text(run.text) == run and Run.from_text(run.text).id == run.id


def test_what_a_training_left_open_its_environment_decides(tmp_path):
    """Bandit's episodes have no limit, but 300 samples are few: batches are smaller."""
    run = train_run("probes:Bandit", TrainConfig(limits=("cost<=0.3",), samples=300))
    outcome = carry_out(run, tmp_path / "run")
    config = RunFolder(tmp_path / "run").config
    assert [config[name] for name in SHAPE] == [6, 6, 6] and outcome["samples"] == 300
    assert outcome["verdict"] in ("kept", "exceeded", "undecided")
