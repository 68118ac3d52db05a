"""A part of a sweep by the values of its fields."""

import pytest

from cmdpax import InputError
from cmdpax.experiments.part import part
from cmdpax.experiments.sweep import read_spec
from cmdpax.paper.settings import find_spec

RUNS = find_spec("penalties").with_seeds(2).runs()


def test_without_conditions_it_is_the_whole():
    assert part(RUNS, []) == RUNS


def test_every_condition_holds_and_the_order_stays():
    found = part(
        RUNS, ["method=ppo-alm", "seed=1", "penalty=0.1,1", "environment=SafetyHopperVelocity-v1"]
    )
    assert [(run.config["penalty"], run.config["inner"]) for run in found] == [
        (p, k) for k in (1, 5, 10, 20) for p in (0.1, 1.0)
    ]
    assert {(run.config["method"], run.seed) for run in found} == {("ppo-alm", 1)}
    assert found == [run for run in RUNS if run in found]


def test_fields_of_an_exact_method_count_too():
    runs = find_spec("tiny").runs()
    assert len(part(runs, ["step=0.3,10.0", "method=reload"])) == 8
    assert len(part(runs, ["steps=1000"])) == len(runs)


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        (["method"], "write FIELD=VALUE"),
        (["method="], "write FIELD=VALUE"),
        (["methods=cpo"], "no field 'methods'; did you mean 'method'"),
        (["method=cpo"], "no run has method cpo; there are spma-alm, ppo-alm"),
        (["penalty=0.5"], "no run has penalty 0.5; there are 0.0001, 0.001, 0.1, 1"),
        (["seed=0,"], "no run has seed ; there are 0, 1"),
    ],
)
def test_what_no_run_meets(conditions, message):
    with pytest.raises(InputError, match=message):
        part(RUNS, conditions)


def test_conditions_that_exclude_each_other():
    with pytest.raises(InputError, match="no run has seed 0; there are 1"):
        part(RUNS, ["seed=1", "seed=0"])


def test_values_that_are_lists(tmp_path):
    path = tmp_path / "lists.toml"
    path.write_text(
        '[settings]\nenvironment = "SafetyHopperVelocity-v1"\nhidden = [[8, 8], [16], [4]]\n'
    )
    runs = read_spec(path).runs()
    assert [run.config["hidden"] for run in part(runs, ["hidden=[8, 8]"])] == [[8, 8]]
    assert [run.config["hidden"] for run in part(runs, ["hidden=[16],[4]"])] == [[16], [4]]
    with pytest.raises(
        InputError, match=r"no run has hidden \[8\]; there are \[8, 8\], \[16\], \[4\]"
    ):
        part(runs, ["hidden=[8]"])
