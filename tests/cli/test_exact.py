import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from calls import call
from cmdpax.cli import exact
from cmdpax.environments import cliff_world, finite, queue
from cmdpax.model.archive import load_result, save_model, save_result
from cmdpax.solvers.table import methods


def test_solve_prints_one_json_object(capsys):
    code, out, err = call(capsys, "solve", "cliff-world", "--json")
    answer = json.loads(out)
    assert code == 0 and err == ""
    assert list(answer) == [
        "status",
        "reason",
        "method",
        "eps",
        "reward",
        "minimise",
        "utility",
        "constraints",
        "senses",
        "values",
        "thresholds",
        "margins",
        "multipliers",
        "price_bounds",
        "ranges",
        "gap",
        "violation",
        "scaled_gap",
        "scaled_violation",
        "dual_bound",
        "ray",
        "ray_bound",
        "relaxations",
        "seconds",
        "mixture",
        "notes",
    ]
    assert answer["status"] == "certified" and answer["method"] == "key-simplex"
    assert (answer["minimise"], answer["constraints"], answer["senses"]) == (
        False,
        ["chasm"],
        [">="],
    )
    assert answer["reward"] == pytest.approx(0.655402, abs=1e-6)
    assert answer["multipliers"] == pytest.approx([0.171], abs=1e-6)


@pytest.mark.parametrize("method", ["corrective-alm", "pqa-alm", "lp"])
def test_solve_check_show_with_files(capsys, tmp_path, method):
    model, result, picture = (
        tmp_path / "model.npz",
        tmp_path / "result.npz",
        tmp_path / "policy.png",
    )
    assert call(capsys, "export", "deep-sea", str(model))[0] == 0
    code, out, _ = call(capsys, "solve", str(model), "--method", method, "--out", str(result))
    assert code == 0 and "certified" in out and "mines" in out
    code, out, _ = call(capsys, "check", str(model), str(result))
    assert code == 0 and out.startswith("verified: certified")
    code, out, _ = call(capsys, "check", str(model), str(result), "--json")
    assert json.loads(out)["verified"] is True
    assert call(capsys, "show", str(model), str(result), "--out", str(picture))[0] == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_tampered_result_fails_the_check(capsys, tmp_path):
    path = tmp_path / "result.npz"
    call(capsys, "solve", "cliff-world", "--out", str(path))
    result = load_result(path)
    save_result(replace(result, reward=result.reward + 0.01), path)
    code, out, err = call(capsys, "check", "cliff-world", str(path))
    assert code == 1 and err.startswith("cmdpax: check failed") and out == ""


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        (["cliff-world"], 0, "certified"),
        (["cliff-world:threshold=0.3"], 3, "infeasible"),
        (["cliff-world:threshold=0.3", "--method", "npg-pd"], 3, "infeasible"),
        (["cliff-world:threshold=0.3", "--time-limit", "0"], 4, "limit"),
        (["deep-sea", "--method", "npg-pd", "--set", "steps=20"], 4, "limit"),
        (["deep-sea:threshold=0"], 0, "certified"),
    ],
)
def test_exit_codes(capsys, arguments, code, status):
    got, out, _ = call(capsys, "solve", *arguments, "--json")
    assert (got, json.loads(out)["status"]) == (code, status)


def test_numbers_that_fail_end_with_1(capsys):
    arguments = ["--method", "rpg-pd", "--set", "step=100", "temperature=0.1"]
    code, out, err = call(capsys, "solve", "cliff-world", *arguments)
    assert code == 1 and out == ""
    assert err.startswith("cmdpax: rpg-pd: step ") and "not finite" in err


def test_a_user_who_minimises_reads_costs(capsys, tmp_path):
    model = queue(capacity=10)
    save_model(model.replace(reward=-model.reward, minimise=True), tmp_path / "cost.json")
    answers = [
        json.loads(call(capsys, "solve", source, "--json")[1])
        for source in ("queue:capacity=10", str(tmp_path / "cost.json"))
    ]
    gain, cost = answers
    assert cost["minimise"] and cost["reward"] == -gain["reward"] > 0
    assert cost["dual_bound"] == -gain["dual_bound"] and cost["gap"] == gain["gap"]
    for same in ("values", "thresholds", "margins", "multipliers", "senses"):
        assert cost[same] == gain[same]


def test_infeasible_shows_its_proof(capsys):
    _, out, _ = call(capsys, "solve", "cliff-world:threshold=0.3")
    assert "no policy meets all constraints" in out and "ray" in out


def test_frontier(capsys, tmp_path):
    picture = tmp_path / "frontier.png"
    code, out, _ = call(
        capsys, "frontier", "queue:capacity=10", "--points", "4", "--json", "--out", str(picture)
    )
    curve = json.loads(out)
    points = curve["points"]
    assert list(curve) == ["constraint", "sense", "points"]
    assert (curve["constraint"], curve["sense"]) == ("energy", "<=")
    numbers = ["threshold", "reward", "multiplier", "gap", "violation"]
    assert list(points[0]) == [*numbers, "status", "is_breakpoint"]
    assert code == 0 and len(points) == 5  # the own budget among them
    assert all(point["status"] == "certified" for point in points)
    assert picture.stat().st_size > 10_000
    assert "shadow price" in call(capsys, "frontier", "queue:capacity=10", "--points", "3")[1]


def test_list(capsys):
    _, out, _ = call(capsys, "list")
    assert "pqa-alm" in out and "cliff-world" in out
    listed = json.loads(call(capsys, "list", "--json")[1])
    assert list(listed["methods"]) == list(methods) and list(listed["environments"]) == list(finite)
    assert listed["environments"]["queue"]["rates"] == [0.0, 0.3, 0.6, 0.9]
    assert listed["methods"]["lp"] == {
        "title": "Linear program (HiGHS)",
        "family": "exact",
        "source": "Altman 1999",
        "proven": "exact",
    }


def test_an_unwritable_target_is_one_sentence(capsys, tmp_path):
    code, _, err = call(
        capsys, "solve", "cliff-world", "--out", str(tmp_path / "no" / "such" / "folder.npz")
    )
    assert code == 2 and err.count("\n") == 1


def test_numbers_survive_the_round_trip(capsys, tmp_path):
    path = tmp_path / "result.npz"
    _, out, _ = call(capsys, "solve", "deep-sea", "--json", "--out", str(path))
    saved = load_result(path)
    assert saved.summary() == json.loads(out)
    assert np.isclose(saved.policy.sum(1), 1).all()


def test_solve_with_features(capsys):
    code, out, _ = call(
        capsys,
        "solve",
        "deep-sea",
        "--method",
        "ppqa-alm",
        "--features",
        "tiles:40,4,1",
        "--set",
        "outer=2",
        "inner=5",
        "--json",
    )
    answer = json.loads(out)
    assert (
        code == 4 and answer["method"] == "ppqa-alm" and answer["gap"] > 0.02
    )  # the features cannot express the optimum
    code, out, err = call(capsys, "solve", "deep-sea", "--method", "ppqa-alm")
    assert code == 2 and out == "" and "give it features" in err


def test_names_are_text_to_every_printer(capsys, tmp_path):
    """Rich reads markup in square brackets and matplotlib mathematics between dollars: names are
    neither.
    """
    model = cliff_world().replace(constraint_names=["[/b]$\\frac$"])
    source, picture = tmp_path / "m$x$.npz", tmp_path / "p[b].png"
    save_model(model, source)
    for arguments in (
        ["solve", str(source)],
        ["frontier", str(source), "--points", "3", "--out", str(picture)],
    ):
        assert call(capsys, *arguments)[0] == 0
    assert call(capsys, "show", str(source), "--out", str(picture))[0] == 0


def test_a_constraint_is_found_by_name(capsys):
    by_name = call(
        capsys, "frontier", "queue:capacity=8", "--points", "3", "--constraint", "energy", "--json"
    )
    assert by_name == call(
        capsys, "frontier", "queue:capacity=8", "--points", "3", "--constraint", "0", "--json"
    )


def test_a_result_does_not_take_the_place_of_its_model(capsys, tmp_path):
    path = tmp_path / "m.npz"
    call(capsys, "export", "cliff-world", str(path))
    before = path.read_bytes()
    code, out, err = call(capsys, "solve", str(path), "--out", str(path))
    assert (
        code == 2
        and out == ""
        and "that is the model itself" in err
        and path.read_bytes() == before
    )


def test_an_unwritable_place_is_refused_before_the_work(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(
        exact.door, "solve", lambda *arguments, **settings: pytest.fail("nothing is solved")
    )
    (tmp_path / "folder.npz").mkdir()
    code, _, err = call(capsys, "solve", "cliff-world", "--out", str(tmp_path / "folder.npz"))
    assert code == 2 and "Is a directory" in err


def test_names_in_lists_are_whole_on_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setattr(exact, "out", Console(width=80))
    code, out, _ = call(capsys, "list")
    assert code == 0 and "corrective-alm" in out and "…" not in out


def test_a_curve_that_was_interrupted_says_so(capsys, monkeypatch):
    whole = exact.frontiers.frontier
    monkeypatch.setattr(
        exact.frontiers, "frontier", lambda *arguments, **options: whole(*arguments, **options)[:2]
    )
    code, out, _ = call(capsys, "frontier", "queue:capacity=10", "--points", "4", "--json")
    assert code == 4 and len(json.loads(out)["points"]) == 2


def refusal(capsys, *arguments):
    code, _, said = call(capsys, *arguments)
    assert code == 2 and said.count("\n") == 1
    return said


def test_the_features_are_not_overwritten(tmp_path, capsys):
    path = tmp_path / "f.npz"
    np.savez(path, features=np.ones((21, 4, 1)))
    before = path.read_bytes()
    said = refusal(
        capsys,
        "solve",
        "cliff-world",
        "--method",
        "ppqa-alm",
        "--features",
        str(path),
        "--out",
        str(path),
    )
    assert "that is the file of features itself" in said and path.read_bytes() == before


@pytest.mark.parametrize(
    "name", ["eps", "features", "model", "method", "time_limit", "memory_limit", "callback"]
)
def test_set_takes_only_settings_of_the_method(capsys, name):
    assert f"--set {name}: it is no setting of a method; known: dual_factor" in refusal(
        capsys, "solve", "cliff-world", "--set", f"{name}=1"
    )
    assert "setting of corrective-alm 'name' is not known" in refusal(
        capsys, "solve", "cliff-world", "--set", "name=1"
    )


def test_settings_reach_the_method(capsys):
    arguments = ["solve", "deep-sea", "--method", "npg-pd", "--json", "--set", "steps=3"]
    rewards = [
        json.loads(call(capsys, *arguments, step)[1])["reward"]
        for step in ("step=0.1", "step=1e-1", "step=2")
    ]
    assert rewards[0] == rewards[1] != rewards[2]
    code, out, _ = call(capsys, "solve", "deep-sea", "--method", "lp", "--set", "algorithm=ipm")
    assert code == 0 and "lp" in out


def test_a_limit_that_a_method_does_not_keep_is_refused(capsys):
    assert "only corrective-alm keeps to one" in refusal(
        capsys, "solve", "cliff-world", "--method", "lp", "--memory-limit", "64"
    )
    assert "npg-pd has a fixed budget; set its steps" in refusal(
        capsys, "solve", "cliff-world", "--method", "npg-pd", "--time-limit", "60"
    )
    assert call(capsys, "solve", "cliff-world", "--memory-limit", "64")[0] == 0


def test_describe_says_what_a_model_holds(capsys, tmp_path):
    code, printed = call(capsys, "describe", "queue:capacity=20")[:2]
    assert code == 0 and "states in cycles" in printed and "energy<=" in printed
    code, printed = call(capsys, "describe", "queue:capacity=20,feasible=false", "--json")[:2]
    content = json.loads(printed)
    assert (code, content["states"], content["components"]) == (0, 21, 1)
    assert [one["name"] for one in content["series"]] == ["reward", "energy"]
    assert "no policy keeps" in content["odd"][0]


def test_small_odd_input(tmp_path, capsys):
    (tmp_path / "empty.npy").touch()
    empty = ["--method", "ppqa-alm", "--features", str(tmp_path / "empty.npy")]
    assert "not a plain array of numbers" in refusal(capsys, "solve", "cliff-world", *empty)
    for odd in ("²", "--1", "-"):
        assert f"constraint '{odd}' is not one of the model's; known: chasm." in refusal(
            capsys, "frontier", "cliff-world", f"--constraint={odd}"
        )
    assert "would be more than" in refusal(capsys, "solve", "inventory:capacity=1e19")


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("methods", ["methods", "deep methods"]),
        ("environments", ["environments"]),
        ("all", ["methods", "deep methods", "environments"]),
    ],
)
def test_the_list_in_json_is_of_what_was_asked_for(capsys, what, names):
    code, said, _ = call(capsys, "list", what, "--json")
    assert code == 0 and list(json.loads(said)) == names


MACHINE = """\
state,action,next_state,probability,reward,energy
works,slow,works,0.98,1,1
works,slow,broken,0.02,1,1
works,fast,works,0.8,3,2
works,fast,broken,0.2,3,2
broken,repair,works,0.5,-1,0
broken,repair,broken,0.5,-1,0
"""
READ = ("--discount", "0.9", "--limit", "energy<=12", "--initial", "works")


def test_a_table_goes_through_every_command(capsys, tmp_path):
    table, result, model = (str(tmp_path / name) for name in ("m.csv", "r.npz", "m.npz"))
    (tmp_path / "m.csv").write_text(MACHINE)
    code, out, err = call(capsys, "solve", table, *READ, "--out", result)
    assert code == 0 and err == "" and "energy" in out
    assert call(capsys, "check", table, result, *READ)[0] == 0
    assert call(capsys, "frontier", table, *READ, "--points", "3")[0] == 0
    assert call(capsys, "show", table, result, *READ, "--out", str(tmp_path / "p.png"))[0] == 0
    code, out, _ = call(capsys, "describe", table, *READ, "--json")
    assert json.loads(out)["states"] == 2
    assert call(capsys, "export", table, model, *READ)[0] == 0
    assert call(capsys, "check", model, result)[0] == 0  # the same model
    head = "# discount = 0.9\n# limit = energy<=12\n# initial = works\n"
    (tmp_path / "m.csv").write_text(head + MACHINE)
    assert call(capsys, "check", table, result)[0] == 0


def test_a_table_with_a_horizon_goes_through_every_command(capsys, tmp_path):
    table, result, model = (str(tmp_path / name) for name in ("m.csv", "r.npz", "m.npz"))
    (tmp_path / "m.csv").write_text(MACHINE)
    read = ("--horizon", "6", "--limit", "energy<=7", "--initial", "works")
    code, out, err = call(capsys, "solve", table, *read, "--out", result)
    assert code == 0 and err == "" and "<= 7" in out
    assert call(capsys, "check", table, result, *read)[0] == 0
    assert call(capsys, "frontier", table, *read, "--points", "3")[0] == 0
    assert call(capsys, "show", table, result, *read, "--out", str(tmp_path / "p.png"))[0] == 0
    code, out, _ = call(capsys, "describe", table, *read, "--json")
    said = json.loads(out)
    assert (said["states"], said["horizon"], said["odd"]) == (2, 6, [])
    for path in (model, str(tmp_path / "m.json")):
        assert call(capsys, "export", table, path, *read)[0] == 0
        assert call(capsys, "check", path, result)[0] == 0
    policy = str(tmp_path / "policy.npz")
    assert call(capsys, "export", result, policy)[0] == 0
    (tmp_path / "m.csv").write_text("# horizon = 6\n# limit = energy<=7\n" + MACHINE)
    assert call(capsys, "check", table, result, "--initial", "works")[0] == 0
    code, _, err = call(capsys, "solve", model, "--method", "pqa-alm")
    assert code == 2 and "this one is finite" in err


def test_rows_that_miss_one_are_said_on_standard_error(capsys, tmp_path):
    (tmp_path / "m.csv").write_text(MACHINE.replace("0.02", "0.020001"))
    code, out, err = call(capsys, "solve", str(tmp_path / "m.csv"), *READ, "--json")
    assert code == 0 and json.loads(out)["status"] == "certified"
    assert err == (
        "cmdpax: transitions: the probabilities of some choices miss a sum of 1, by up to 1e-06;"
        " they are divided by their sum.\n"
    )
    out = call(capsys, "describe", str(tmp_path / "m.csv"), *READ)[1]
    assert "rows missed a sum of 1 by up to 1e-06; they were divided by it" in out


def test_a_program_is_solved_and_what_was_done_is_said(capsys, tmp_path):
    pytest.importorskip("stormpy")
    program = str(tmp_path / "coin.prism")
    (tmp_path / "coin.prism").write_text(
        "mdp\nconst double p;\nmodule m\ns : [0..2] init 0;\n[fair] s=0 -> 1/2:(s'=1)+1/2:(s'=2);\n"
        "[bent] s=0 -> p:(s'=1)+1-p:(s'=2);\n[] s>0 -> true;\nendmodule\n"
        'rewards "price"\n[fair] true : 1;\n[bent] true : 3;\nendrewards\nlabel "won" = s=1;\n'
    )
    asked = 'multi(R{"price"}min=? [C], P>=0.6 [F "won"])'
    options = ("--property", asked, "--constants", "p=0.75", "--discount", "0.5")
    code, out, err = call(capsys, "solve", program, *options, "--json")
    answer = json.loads(out)
    assert code == 0 and answer["constraints"] == ['P [F "won"]']
    assert answer["reward"] == pytest.approx(1 + 2 * 0.4)  # bent with chance .4: .5 + .4 / 4 = .6
    assert "cmdpax: Storm built 3 states" in err and "may stay for ever" in err
    out = call(capsys, "describe", program, *options)[1]
    assert "Storm built 3 states" in out


WRONG = {
    "environment": (["cliff-world", "--discount", "0.9"], "--discount: cliff-world is an environ"),
    "property": (["m.nm"], "m.nm: nothing says what is asked; give --property"),
    "table": (["m.csv", "--constants", "a=1"], "--constants: m.csv is a table, which takes none;"),
    "model": (
        ["m.json", "--minimise"],
        "--minimise: m.json is a model file, which takes none; leav",
    ),
    "missing": (["m.csv", *READ], "m.csv: there is no such file"),
}


@pytest.mark.parametrize(("arguments", "sentence"), WRONG.values(), ids=WRONG)
def test_what_a_source_does_not_take_is_refused(capsys, arguments, sentence):
    code, out, err = call(capsys, "solve", *arguments)
    assert code == 2 and out == "" and sentence in err


def test_a_utility_is_solved_checked_and_drawn(capsys, tmp_path):
    result, picture = str(tmp_path / "result.npz"), str(tmp_path / "policy.png")
    words = ["cliff-world", "--utility", "entropy", "--eps", "1e-2"]
    code, answer, _ = call(capsys, "solve", *words, "--json", "--out", result)
    answer = json.loads(answer)
    assert code == 0 and (answer["utility"], answer["method"]) == ("entropy", "interior-point")
    code, text, _ = call(capsys, "check", "cliff-world", result)
    assert code == 0 and text.startswith("verified: certified at eps 0.01")
    assert call(capsys, "show", "cliff-world", result, "--out", picture)[0] == 0
    code, _, error = call(capsys, "solve", "cliff-world", "--utility", "entrpy")
    assert code == 2 and "did you mean 'entropy'" in error
