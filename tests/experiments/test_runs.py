"""A run is finished or it is not."""

import signal

import pytest

from cmdpax.experiments import runs
from cmdpax.experiments.runs import exact_run, perform
from cmdpax.experiments.store import Store
from cmdpax.solvers.table import run as run_method


def test_an_interrupted_solve_is_not_the_outcome_of_its_run(tmp_path, monkeypatch):
    run = exact_run({"model": "garnet:states=300,constraints=2"}, 0)
    store = Store(tmp_path / "store", create=True)

    def interrupt(row):
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(
            runs,
            "run_method",
            lambda *arguments, **settings: run_method(*arguments, report=interrupt, **settings),
        )
        with pytest.warns(UserWarning, match="stopping"), pytest.raises(KeyboardInterrupt):
            store.carry_out(run)
    assert store.pending([run]) == [run]
    assert perform(run, tmp_path)["status"] == "certified"
