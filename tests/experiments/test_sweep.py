"""Sweeps as files: every combination, draws that stay, parts of them, and mistakes that are named
before work begins.
"""

import os
import re
from collections import Counter

import numpy as np
import pytest

from cmdpax import InputError
from cmdpax.experiments.sweep import Sweep, read_sweep, subset
from cmdpax.paper.settings import find_sweep
from damage import fuzz, measured, toml_files

TASK = "SafetyHopperVelocity-v1"
PENALTIES = find_sweep("penalties").with_seeds(2).runs()


def write(tmp_path, text):
    path = tmp_path / "spec.toml"
    path.write_text(text)
    return path


def test_a_grid_with_fields_of_each_method(tmp_path):
    text = f"""
        seeds = [3, 5]
        [settings]
        environment = "{TASK}"
        limit = ["cost<=10"]
        hidden = [[8], [8, 8]]
        [methods.spma-alm]
        spma_step = [0.1, 0.3]
        [methods.ppo-lag]
        clip = 0.1
    """
    runs = read_sweep(write(tmp_path, text)).runs()
    assert len(runs) == 2 * (2 * 2 + 2)
    configs = [run.config for run in runs]
    assert {run.seed for run in runs} == {3, 5}
    assert all(config["limits"] == ["cost<=10"] for config in configs)
    assert [8] in (hidden := [config["hidden"] for config in configs]) and [8, 8] in hidden
    steps = {config["spma_step"] for config in configs if config["method"] == "spma-alm"}
    assert steps == {0.1, 0.3}
    assert all(
        config["clip"] == 0.1 and config["dual_step"] == 0.1
        for config in configs
        if config["method"] == "ppo-lag"
    )


def test_one_and_one_point_zero_are_one_run():
    one, two = (Sweep("x", settings={"environment": TASK, "penalty": value}) for value in (1, 1.0))
    assert [run.id for run in one.runs()] == [run.id for run in two.runs()]
    assert len(Sweep("x", settings={"environment": TASK, "penalty": [1, 1.0]}).runs()) == 1


def test_one_limit_or_layer_needs_no_list():
    (run,) = Sweep(
        "x", settings={"environment": "SafetyHopperVelocity-v1", "limits": "cost<=40", "hidden": 16}
    ).runs()
    assert (run.config["limits"], run.config["hidden"]) == (["cost<=40"], [16])


def test_draws_lie_in_their_range_and_stay_when_there_are_more():
    ranges = {
        "learning_rate": {"low": 1e-4, "high": 1e-2, "log": True},
        "inner": {"low": 1, "high": 20},
    }
    few, many = (
        Sweep("x", draws=count, settings={"environment": TASK, **ranges}).runs()
        for count in (5, 200)
    )
    assert [run.id for run in few] == [run.id for run in many[:5]] and len(many) == 200
    rates = np.array([run.config["learning_rate"] for run in many])
    assert rates.min() >= 1e-4 and rates.max() <= 1e-2
    assert np.median(rates) == pytest.approx(1e-3, rel=0.4)  # evenly in the logarithm
    assert {run.config["inner"] for run in many} == set(range(1, 21))


def test_a_sweep_cut_short_has_whole_seeds_then_whole_draws_then_whole_problems():
    tasks = ["SafetyHopperVelocity-v1", "SafetyAntVelocity-v1"]
    clips = {"among": [0.1, 0.2, 0.3]}
    sweep = Sweep(
        "x",
        seeds=(4, 0),
        draws=2,
        settings={"samples": [10_000, 20_000], "environment": tasks},
        methods={"ppo-alm": {"clip": clips}, "cpo": {}},
    )
    draws = {0: [("ppo-alm", 0), ("ppo-alm", 0), ("cpo", 0), ("cpo", 0)], 1: [("ppo-alm", 1)] * 2}
    expected = [
        (seed, task, method, samples)
        for seed in (4, 0)
        for draw in (0, 1)
        for task in tasks
        for (method, _), samples in zip(draws[draw], (10_000, 20_000) * 2)
    ]
    runs = sweep.runs()
    assert [
        (run.seed, run.problem, run.config["method"], run.config["samples"]) for run in runs
    ] == expected
    first = [run for run in runs if run.seed == 4 and run.config["method"] == "ppo-alm"]
    half = len(first) // 2  # of a draw, which all problems and samples share
    assert len({run.config["clip"] for run in first[:half]}) == 1
    assert first[0].config["clip"] != first[half].config["clip"]


def test_exact_runs_take_settings_of_the_method_and_seeds_of_the_model():
    spec = Sweep(
        "x",
        "exact",
        settings={"model": "garnet:states=20", "method": "npg-pd", "step": [1, 2], "steps": 10},
    )
    runs = spec.with_seeds(2).runs()
    assert len(runs) == 4 and runs[0].config["settings"] == {"step": 1.0, "steps": 10}
    with pytest.raises(InputError, match="takes no seed"):
        Sweep("x", "exact", settings={"model": "cliff-world"}).with_seeds(2).runs()


def test_points_that_make_no_sense_are_left_out():
    runs = Sweep(
        "x",
        "exact",
        settings={"model": "cliff-world"},
        methods={"rpg-pd": {"temperature": 0.1, "dual_step": [1, 100]}},
    )
    assert [run.config["settings"]["dual_step"] for run in runs.runs()] == [1.0]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("seeds = ", "not TOML"),
        ("sedes = 3", "key 'sedes' is not known; did you mean 'seeds'"),
        ("kind = 'deep'", "it is 'train' or 'exact'"),
        ("settings = 3", "must be a table"),
        ("[methods]\ncpo = 3", "methods.cpo must be a table"),
        ("[settings]\nenvironment = 3", "environment is 3; write a name in quotes"),
        ("seeds = 0", "between 1 and"),
        ("seeds = 'two'", "a number of them, or a list"),
        ("", "environment is missing"),
        (
            "[settings]\nenvironment = 'X'\npenalti = 1",
            "field 'penalti' is not known; did you mean 'penalty'",
        ),
        (
            "[settings]\nenvironment = 'X'\nlearning_rate = 'much'",
            'learning_rate is "much"; write 0.001',
        ),
        ("[settings]\nenvironment = 'X'\ninner = 1.5", "inner is 1.5; write 1,"),
        ("[settings]\nenvironment = 'X'\nrescale = 1", "rescale is 1; write false"),
        ("[settings]\nenvironment = 'X'\npenalty = -1", "it must be positive"),
        ("[settings]\nenvironment = 'X'\nmethod = 'ppo-llag'", "did you mean 'ppo-lag'"),
        ("[settings]\nenvironment = 'X'\npenalty = { low = 1, high = 2 }", "how many draws"),
        (
            "draws = 2\n[settings]\nenvironment = 'X'\npenalty = { low = 3, high = 2 }",
            "low below high",
        ),
        (
            "draws = 2\n[settings]\nenvironment = 'X'\npenalty = { low = 0, high = 2, log = true }",
            "low below high",
        ),
        ("[settings]\nenvironment = 'X'\npenalty = []", "is an empty list"),
        ("[settings]\nenvironment = 'X'\nhidden = 'wide'", 'hidden is "wide"; write [64, 64]'),
        ("[settings]\nenvironment = 'X'\nlimit = [3]", "limits is [3]; write"),
        (
            "[settings]\nenvironment = 'X'\n[methods.cpo]\nmethod = 'ppo'",
            "methods.cpo is of the method 'cpo'",
        ),
        ("kind = 'exact'", "model is missing"),
        (
            "kind = 'exact'\n[settings]\nmodel = 'cliff-world'\nstep = 1",
            "field 'step' is not known",
        ),
        ("kind = 'exact'\n[settings]\nmodle = 'cliff-world'", "did you mean 'model'"),
        (
            "kind = 'exact'\n[settings]\nmodel = 'cliff-world'\nsettings = 'x'",
            "field 'settings' is not known",
        ),
    ],
)
def test_mistakes_are_named(tmp_path, text, sentence):
    with pytest.raises(InputError, match=re.escape(sentence)):
        read_sweep(write(tmp_path, text)).runs()


def test_what_a_method_does_not_use_makes_no_other_run(tmp_path):
    text = (
        "seeds = 2\ndraws = 3\n[settings]\nenvironment = 'SafetyHopperVelocity-v1'\n"
        "dual_step = [0.1, 0.2, 0.4]\nclip = {low = 0.1, high = 0.3}\n"
        "[methods.cpo]\n[methods.spma-alm]\n[methods.ppo-lag]\n"
    )
    runs = read_sweep(write(tmp_path, text)).runs()
    often = Counter(run.config["method"] for run in runs)
    assert often == {"cpo": 2, "spma-alm": 2 * 3, "ppo-lag": 2 * 3 * 3}
    assert len({run.id for run in runs}) == len(runs)


def test_a_sweep_says_how_many_episodes_it_selects_by_and_which_network(tmp_path):
    text = (
        "[settings]\nenvironment = 'SafetyHopperVelocity-v1'\nevaluate_episodes = 100\n"
        "network = ['dense', 'mine:net']"
    )
    configs = [run.config for run in read_sweep(write(tmp_path, text)).runs()]
    assert [config["evaluate_episodes"] for config in configs] == [100, 100]
    assert [config["network"] for config in configs] == ["dense", "mine:net"]


def test_a_fraction_is_of_the_samples_wherever_they_are(tmp_path):
    text = (
        "[settings]\nenvironment = 'SafetyHopperVelocity-v1'\n[methods.ppo]\nsamples = [40_000,"
        " 80_000]\n[methods.spma]\n"
    )
    runs = read_sweep(write(tmp_path, text)).with_fraction(0.5).runs()
    assert [(run.config["method"], run.config["samples"]) for run in runs] == [
        ("ppo", 20_000),
        ("ppo", 40_000),
        ("spma", 1_000_000),
    ]


@pytest.mark.parametrize("samples", ["'many'", "{ low = 1, high = 9 }", "1", "[]"])
def test_a_fraction_of_nothing(tmp_path, samples):
    spec = read_sweep(write(tmp_path, f"[settings]\nenvironment = 'X'\nsamples = {samples}"))
    with pytest.raises(InputError, match="empty list" if samples == "[]" else "makes no sense"):
        spec.with_fraction(0.1).runs()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('kind = "exact"\neps = "x"\n[settings]\nmodel = "cliff-world"', "eps is 'x'"),
        ("allowed_excess = -1", "allowed_excess is -1; it must be a number >= 0"),
        ('kind = "exact"\ndraws = -1\n[settings]\nmodel = "cliff-world"', "draws is -1"),
        ('kind = "exact"\nseeds = 1000000000\n[settings]\nmodel = "garnet"', "between 1 and"),
        (
            (
                'kind = "exact"\ndraws = 1000000000\n[settings]\nmodel = "cliff-world"\npenalty = {'
                " low = 0.1, high = 1.0 }"
            ),
            "runs, more than",
        ),
        (
            'kind = "exact"\n[settings]\nmodel = "cliff-world"\n[methods.pqa-alm]\nstep = [nan]',
            "it must be finite",
        ),
        (
            'kind = "exact"\n[settings]\nmodel = "cliff-world"\n[methods.pqa-alm]\nstep = []',
            "'step' is an empty list",
        ),
        ('kind = "exact"\n[settings]\nmodel = "clif-world"', "did you mean 'cliff-world'"),
        ('[settings]\nmodel = "cliff-world"', 'need kind = "exact"'),
        (
            '[settings]\nenvironment = "SafetyHoperVelocity-v1"',
            "did you mean 'SafetyHopperVelocity-v1'",
        ),
        (
            '[settings]\nenvironment = "SafetyHopperVelocity-v1"\nlimit = ["heat<=3"]',
            "does not have",
        ),
    ],
)
def test_what_is_wrong_is_said_before_any_work(tmp_path, text, sentence):
    (tmp_path / "sweep.toml").write_text(text)
    with pytest.raises(InputError, match=re.escape(sentence)):
        read_sweep(tmp_path / "sweep.toml").runs()


def test_the_excess_that_is_allowed_suits_the_kind():
    sweeps = (Sweep("x"), Sweep("x", "exact"), Sweep("x", "exact", allowed_excess=0.0))
    assert [sweep.excess for sweep in sweeps] == [5.0, 0.01, 0.0]


def test_the_old_name_of_a_key_is_read(tmp_path):
    for key in ("eps", "allowed_excess"):
        assert read_sweep(write(tmp_path, f"{key} = 3")).allowed_excess == 3
    with pytest.raises(InputError, match="eps is the old name of allowed_excess; give one of them"):
        read_sweep(write(tmp_path, "eps = 3\nallowed_excess = 3"))


def test_values_may_be_drawn_from_a_list():
    settings = {"environment": TASK, "method": "ppo-alm"}
    settings |= {"clip": {"among": [0.1, 0.3]}, "inner": {"among": [1, 2]}}
    few, many = (Sweep("x", draws=count, settings=settings).runs() for count in (4, 40))
    assert {(run.config["clip"], run.config["inner"]) for run in many} == {
        *((0.1, 1), (0.1, 2), (0.3, 1), (0.3, 2))
    }
    assert len(many) == 4  # each once
    assert {run.id for run in few} <= {run.id for run in many}
    for wrong in ({"among": []}, {"among": [0.1], "low": 0.1}):
        with pytest.raises(InputError, match="write a range as"):
            Sweep("x", draws=2, settings={"environment": TASK, "clip": wrong}).runs()


def test_whole_ranges_are_drawn_whole_also_in_the_logarithm():
    settings = {
        "model": "cliff-world",
        "method": "npg-pd",
        "steps": {"low": 10, "high": 1000, "log": True},
    }
    steps = [
        run.config["settings"]["steps"]
        for run in Sweep("x", "exact", draws=50, settings=settings).runs()
    ]
    assert all(type(one) is int and 10 <= one <= 1000 for one in steps) and np.median(
        steps
    ) == pytest.approx(100, rel=0.6)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[methods.rpg-pd]\ndual_step = 'a'", 'dual_step is "a"; write'),
        ("[methods.rpg-pd]\ndual_step = 2020-01-01", 'dual_step is "2020-01-01"; write'),
        ("[settings]\nmodel = 2020-01-01", 'model is "2020-01-01"; write'),
        ("[settings]\nmodel = 'cliff-world'\nmethod = [['npg-pd']]", 'method is ["npg-pd"]; write'),
        (
            "[settings]\nmodel = 'cliff-world'\nmethod = 'npg-pd'\nstep = 1" + 400 * "0",
            "it must be finite",
        ),
        (
            "[settings]\nmodel = 'cliff-world'\nfeatures = 3",
            "features is 3; write a name in quotes",
        ),
        (
            "[settings]\nmodel = 'cliff-world'\nmethod = 'ppqa-alm'\nfeatures = 'tiles:bad'",
            "--features tiles:bad",
        ),
        ("[settings]\nmodel = 'cliff-world'\neps = 5.0", "eps is 5.0"),
        ("[settings]\nmodel = 'cliff-world'\ntime_limit = 'x'", 'time_limit is "x"; write'),
        ("[settings]\nmodel = 'cliff-world'\ntime_limit = -1", "time_limit is -1"),
        ("[settings]\nmodel = 'cliff-world'\nreport = 3", "field 'report' is not known"),
        ("seeds = [true, 0]\n[settings]\nmodel = 'garnet'", "a list of whole numbers"),
        (
            "draws = 1\n[settings]\nmodel = 'cliff-world'\nmethod = 'npg-pd'\nsteps = { low = 1,"
            " high = 1" + 30 * "0" + " }",
            "low below",
        ),
    ],
)
def test_odd_values_of_exact_sweeps_are_named(tmp_path, text, sentence):
    with pytest.raises(InputError, match=re.escape(sentence)):
        read_sweep(write(tmp_path, 'kind = "exact"\n' + text)).runs()


@pytest.mark.parametrize("samples", ["inf", "nan", "2020-01-01", "1" + 400 * "0"])
def test_a_fraction_of_odd_samples(tmp_path, samples):
    with pytest.raises(InputError, match="makes no sense"):
        read_sweep(
            write(tmp_path, f"[settings]\nenvironment = 'X'\nsamples = {samples}")
        ).with_fraction(0.1)


def test_without_conditions_it_is_the_whole():
    assert subset(PENALTIES, []) == PENALTIES


def test_every_condition_holds_and_the_order_stays():
    found = subset(
        PENALTIES,
        ["method=ppo-alm", "seed=1", "penalty=0.1,1", "environment=SafetyHopperVelocity-v1"],
    )
    assert [(run.config["penalty"], run.config["inner"]) for run in found] == [
        (p, k) for k in (1, 5, 10, 20) for p in (0.1, 1.0)
    ]
    assert {(run.config["method"], run.seed) for run in found} == {("ppo-alm", 1)}
    assert found == [run for run in PENALTIES if run in found]


def test_fields_of_an_exact_method_count_too():
    runs = find_sweep("tiny").runs()
    assert len(subset(runs, ["step=0.3,10.0", "method=reload"])) == 8
    assert len(subset(runs, ["steps=1000"])) == len(runs)


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        (["method"], "write FIELD=VALUE"),
        (["method="], "write FIELD=VALUE"),
        (["methods=cpo"], "field 'methods' is not known; did you mean 'method'"),
        (["method=cpo"], "no run has method cpo; there are spma-alm, ppo-alm"),
        (["penalty=0.5"], "no run has penalty 0.5; there are 0.0001, 0.001, 0.1, 1"),
        (["seed=0,"], "no run has seed ; there are 0, 1"),
    ],
)
def test_what_no_run_meets(conditions, message):
    with pytest.raises(InputError, match=message):
        subset(PENALTIES, conditions)


def test_conditions_that_exclude_each_other():
    with pytest.raises(InputError, match="no run has seed 0; there are 1"):
        subset(PENALTIES, ["seed=1", "seed=0"])


def test_values_that_are_lists(tmp_path):
    path = tmp_path / "lists.toml"
    path.write_text(
        '[settings]\nenvironment = "SafetyHopperVelocity-v1"\nhidden = [[8, 8], [16], [4]]\n'
    )
    runs = read_sweep(path).runs()
    assert [run.config["hidden"] for run in subset(runs, ["hidden=[8, 8]"])] == [[8, 8]]
    assert [run.config["hidden"] for run in subset(runs, ["hidden=[16],[4]"])] == [[16], [4]]
    with pytest.raises(
        InputError, match=r"no run has hidden \[8\]; there are \[8, 8\], \[16\], \[4\]"
    ):
        subset(runs, ["hidden=[8]"])


def test_specifications_that_are_no_files_or_nested_too_deeply(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "deep.toml").write_bytes(b"a." * 40_000 + b"a = 1")
    (tmp_path / "brackets.toml").write_bytes(b"a = " + b"[" * 40_000)
    (tmp_path / "long.toml").write_bytes(b"#" * 200_000)
    (tmp_path / "folder.toml").mkdir()
    for name, sentence in {
        "pipe": "it is not a regular file",
        "deep": "it is nested too deeply",
        "brackets": "it is nested too deeply",
        "long": "more than the 100,000 that are read",
        "folder": "it is a folder",
        "none": "there is no such file",
    }.items():
        with measured(), pytest.raises(InputError, match=f"^sweep .*{name}.toml: .*{sentence}"):
            read_sweep(tmp_path / f"{name}.toml")


def test_specifications_changed_at_random(tmp_path):
    good = b"""kind = "exact"
seeds = [0, 1]
draws = 2
[settings]
model = "cliff-world"
step = { low = 0.1, high = 1.0, log = true }
[methods.npg-pd]
steps = [ 1, 2 ]
"""
    assert fuzz(good, tmp_path / "spec.toml", toml_files, read_sweep, 1000) > 0
