"""A run is what it was in 0.1, and it is finished or it is not."""

import signal

import pytest

from cmdpax.experiments import runs
from cmdpax.experiments.runs import carry_out, exact_run, train_run
from cmdpax.experiments.store import Store
from cmdpax.learning.config import TrainConfig
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


def test_ids_are_those_of_version_0_1():
    """A store goes by ids: if one of these changes, finished runs of 0.1 are done again."""
    settings = {"step": 0.1, "dual_step": 1.0, "steps": 50}
    exact = exact_run({"model": "cliff-world", "method": "npg-pd", "settings": settings})
    assert exact.id == "e634fc926e8ce947"
    assert (
        train_run("SafetyHopperVelocity-v1", TrainConfig(method="cpo", seed=3)).id
        == "2a059d28001526a8"
    )
