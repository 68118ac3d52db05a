import json

import pytest

from calls import call
from cmdpax.cli import experiments
from cmdpax.cli.experiments import Board
from cmdpax.experiments import executors
from cmdpax.experiments.runs import train_run
from cmdpax.experiments.store import Store
from cmdpax.learning.config import TrainConfig
from cmdpax.paper import deep_study

TASK = "SafetyHopperVelocity-v1"
RUNS = [train_run(TASK, TrainConfig(seed=seed)) for seed in range(6)]


@pytest.fixture
def spec(tmp_path):
    text = (
        'kind = "exact"\neps = 0.01\n[settings]\nmodel = "cliff-world"\nsteps = 30\nstep = [0.1,'
        " 1]\n[methods.npg-pd]\n"
    )
    path = tmp_path / "spec.toml"
    path.write_text(text)
    return path


def sweep(capsys, spec, store, *options):
    where = ("--store", str(store), "--executor", "serial")
    return call(capsys, "sweep", str(spec), *where, *options)


def test_the_command(spec, tmp_path, capsys):
    store, table = tmp_path / "s", tmp_path / "x.csv"
    for _ in range(2):  # the second time there is nothing to do
        code, out, _ = sweep(capsys, spec, store, "--export", str(table))
        assert code == 0 and "selected" in out
    assert len(Store(store).finished()) == 2 and (store / "selected.md").exists()
    assert len(table.read_text().splitlines()) == 3
    code, out, _ = call(capsys, "report", str(store))
    assert code == 0 and "report.html" in out
    assert "NPG-PD, step 0.1" in (store / "report.html").read_text()


def test_a_part_of_a_sweep_shares_its_store(spec, tmp_path, capsys):
    for part, done in ((["--only", "step=1"], 1), ([], 2)):
        code, _, _ = sweep(capsys, spec, tmp_path / "s", *part)
        assert code == 0 and len(Store(tmp_path / "s").finished()) == done
        # a part's would pass for the whole's
        assert (tmp_path / "s" / "selected.md").exists() == (not part)


def test_runs_with_a_record_are_left_out(tmp_path, capsys, monkeypatch):
    carried = []
    monkeypatch.setattr(deep_study, "not_recorded", lambda runs, folder, name: (runs[2:], 1))
    monkeypatch.setattr(experiments, "execute", lambda runs, *_: carried.extend(runs))
    monkeypatch.setattr(experiments.results, "rows", lambda runs, store: [{"failed": None}])
    monkeypatch.setattr(experiments.results, "select_configurations", lambda *_: [])
    where = ["--store", str(tmp_path / "s"), "--skip-recorded", str(tmp_path / "records")]
    code, _, err = call(capsys, "sweep", "deep", *where)
    assert code == 0 and len(carried) == 58
    text = " ".join(err.split())
    assert "2 of 60 runs are recorded in" in text
    assert "1 more are by other code, and are done again" in text
    assert not (tmp_path / "s" / "selected.md").exists()  # a part's would pass for the whole's
    monkeypatch.setattr(deep_study, "not_recorded", lambda runs, folder, name: ([], 0))
    code, _, err = call(capsys, "sweep", "deep", *where)
    assert code == 0 and len(carried) == 58
    assert "60 of 60 runs are recorded" in " ".join(err.split())


def test_the_board_reads_everything_in_the_store(tmp_path):
    store = Store(tmp_path / "s", create=True)
    board = Board(RUNS, store)
    attempt = store.work / f"{RUNS[0].id}.0000000a"
    attempt.mkdir()
    (attempt / "run.json").touch()
    row = {"samples": 500_000, "return": 12.345, "cost": {"cost": 3.0}}
    (attempt / "metrics.jsonl").write_text(json.dumps(row) + "\n" + '{"samples": 600')
    (store.done / RUNS[1].id).mkdir()
    assert board.training() == [f"{TASK} spma-alm seed 0: 25%, return 12.35, cost 3"]
    assert board.summary().startswith("1 of 6 runs are done, 1 begun, about ")
    assert board.table().row_count == 1


@pytest.mark.parametrize("workers", ["0", "-1"])
def test_workers_are_a_positive_number(spec, tmp_path, capsys, workers):
    store = tmp_path / "s"
    code, _, err = call(capsys, "sweep", str(spec), "--store", str(store), "--workers", workers)
    assert code == 2 and f"--workers is {workers}; it must be a whole number of at least 1" in err
    assert not store.exists()


def test_an_interrupt_is_safe_and_says_how_to_go_on(spec, tmp_path, monkeypatch, capsys):
    def interrupted(runs, store, workers, watch):
        store.carry_out(runs[0])
        raise KeyboardInterrupt

    monkeypatch.setitem(executors.EXECUTORS, "local", interrupted)
    code, _, err = call(capsys, "sweep", str(spec), "--store", str(tmp_path / "s"))
    assert code == 130 and "interrupted; 1 of 2 runs are done" in err


def test_demo(capsys, tmp_path):
    code, out, _ = call(capsys, "demo", "--out", str(tmp_path))
    assert code == 0 and out.count("verified: certified") == 2
    assert {path.name for path in tmp_path.iterdir()} == {
        "cliff-world.png",
        "deep-sea.png",
        "alm-against-primal-dual.png",
    }


def test_reproduce_draws_one_figure(capsys, tmp_path):
    code, out, _ = call(
        capsys, "reproduce", "tabular", "--figure", "deep-sea-policy", "--out", str(tmp_path)
    )
    assert code == 0 and "deep-sea-policy.png" in out
    assert (tmp_path / "deep-sea-policy.png").stat().st_size > 5000


def test_what_does_not_belong_to_a_study_is_refused(capsys, tmp_path):
    for what, *option in (
        *(("tabular", "--fraction", "0.5"), ("tabular", "--seeds", "2"), ("linear", "--policies")),
        *(("linear", "--tasks", "Hopper"), ("deep", "--rerun")),
    ):
        code, _, err = call(capsys, "reproduce", what, *option, "--out", str(tmp_path))
        assert code == 2 and option[0] in err
