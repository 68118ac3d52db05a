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


TOWN = """\
state,action,next_state,probability,minutes,toll
home,road,bridge,0.9,10,0
home,road,home,0.1,10,0
home,motorway,bridge,1,4,3
bridge,road,work,1,12,0
bridge,motorway,work,1,5,2
"""
RESTS = """\
state,action,next_state,probability,reward,cost
a,work,a,1,1,1
a,go,b,1,0,0
b,rest,b,1,0,0
"""
TO_WORK = (
    *("--discount", "1", "--initial", "home", "--goal", "work", "--reward", "minutes"),
    *("--minimise", "--limit", "toll<=2.5"),
)
WHILE = ("--initial", "works", "--limit")  # the machine's limit follows
EVERY = {  # a table, what it does not say, the answer, and further arguments of a UMB file
    "discounted": (MACHINE, READ, 14.0, READ[:4]),
    "total": (TOWN, TO_WORK, 14 + 25 / 27, ("--discount", "1", "--minimise", *TO_WORK[-2:])),
    "finite": (MACHINE, ("--horizon", "6", *WHILE, "energy<=7"), 8.0, ()),
    "average": (
        MACHINE,
        ("--criterion", "average", *WHILE, "energy<=1.2"),
        1.4,
        ("--criterion", "average", "--limit", "energy<=1.2"),
    ),
    "drawn": (
        RESTS,
        ("--criterion", "average", "--initial", "a", "--limit", "cost<=0.25"),
        0.25,
        ("--criterion", "average", "--limit", "cost<=0.25"),
    ),
}


@pytest.mark.parametrize("kind", EVERY)
def test_every_criterion_goes_through_every_command_and_file(capsys, tmp_path, kind):
    text, read, best, of_umb = EVERY[kind]
    (tmp_path / "m.csv").write_text(text)
    names = ["m.csv", "m.npz", "m.json"]
    table, *others = (str(tmp_path / name) for name in names)
    result, picture, policy = (str(tmp_path / name) for name in ("r.npz", "p.png", "policy.npz"))
    for path in others:
        assert call(capsys, "export", table, path, *read)[0] == 0
    for path, own in [(table, read), *((path, ()) for path in others)]:
        code, out, err = call(capsys, "solve", path, *own, "--out", result, "--json")
        assert (code, err) == (0, "") and json.loads(out)["reward"] == pytest.approx(best)
        assert (json.loads(out)["mixture"] is not None) == (kind == "drawn")
        assert call(capsys, "check", path, result, *own)[1].startswith("verified: certified")
        code, out, _ = call(capsys, "frontier", path, *own, "--points", "3")
        assert code == 0 and out.count("certified") >= 3
        assert call(capsys, "show", path, result, *own, "--out", picture)[0] == 0
        code, out, _ = call(capsys, "describe", path, *own, "--json")
        assert code == 0 and json.loads(out)["criterion"] == kind.replace("drawn", "average")
    assert call(capsys, "export", result, policy)[0] == 0
    if of_umb:
        pytest.importorskip("umbi")
        umb = str(tmp_path / "m.umb")
        assert call(capsys, "export", table, umb, *read)[0] == 0
        code, out, _ = call(capsys, "solve", umb, *of_umb, "--json")
        assert code == 0 and json.loads(out)["reward"] == pytest.approx(best)


def of_machine(*words, limit="energy<=1.2"):
    """Arguments for the machine, with a limit and an initial state."""
    return (*words, *WHILE, limit)


def towards_work(rows="", **instead):
    """The way to work, with further rows, and other words for some."""
    return TOWN + rows, [instead.get(word.removeprefix("--"), word) for word in TO_WORK]


HEAD, A = TOWN.split("home")[0], "home,spin,home,1,"
AVERAGE = ("--criterion", "average")
ON_TOTAL, ON_AVERAGE = ("--method", "ppqa-alm", "--features", "f.npy"), of_machine(*AVERAGE)
BAD = {
    "goal out of reach": (
        (f"{HEAD}home,walk,home,1,1,0\nbridge,road,work,1,12,0\n", TO_WORK),
        "initial: from state 'home' no policy surely reaches the goal; mend its choices, give may",
    ),
    "goal not always reached": (
        (f"{HEAD}home,road,pit,.1,1,0\nhome,road,work,.9,1,0\npit,stay,pit,1,1,0\n", TO_WORK),
        "initial: from state 'home' no policy surely reaches the goal; mend its choices, give may",
    ),
    "goal misspelt": (towards_work(work="wrk"), "goal: there is no state 'wrk'; did you mean 'wo"),
    "a cycle that earns": (
        towards_work(A + "-1,0\n"),
        "from state 'home', action 'spin', a run can go round for ever and better the reward each",
    ),
    "a cycle that betters a limit": (
        towards_work(A + "1,-1\n"),
        "from state 'home', action 'spin', a run can go round for ever and better constraint toll",
    ),
    "horizon 0": (of_machine("--horizon", "0"), "horizon is 0; it must be a whole number of at l"),
    "horizon below 0": (of_machine("--horizon", "-3"), "horizon is -3; it must be a whole number"),
    "criterion misspelt": (
        of_machine("--criterion", "avrage"),
        "criterion: 'avrage' is unknown; did you mean 'average'?",
    ),
    "discount on average": (
        of_machine(*AVERAGE, "--discount", "0.9"),
        "criterion: an average has no discount and no horizon; leave them out.",
    ),
    "horizon on average": (
        of_machine(*AVERAGE, "--horizon", "9"),
        "criterion: an average has no discount and no horizon; leave them out.",
    ),
    "goal on average": (
        of_machine(*AVERAGE, "--goal", "broken"),
        "goal: an average goes on for ever; leave it out, or the criterion.",
    ),
    "may-stay on average": (of_machine(*AVERAGE, "--may-stay"), "may_stay: it says when a run en"),
    "may-stay with a discount": (
        of_machine("--discount", "0.9", "--may-stay"),
        "may_stay: it says when a run ends; leave it out but for discount 1.",
    ),
    "utility on total": (
        (TOWN, (*TO_WORK, "--utility", "entropy")),
        "utility: entropy takes discounted models only, and this one is total; see the table in",
    ),
    "utility on average": (
        (*ON_AVERAGE, "--utility", "entropy"),
        "and this one is average; see the",
    ),
    "utility with a horizon": (
        of_machine("--horizon", "6", "--utility", "entropy"),
        "utility: entropy takes discounted models only, and this one is finite; see the table in",
    ),
    "features on total": (
        (TOWN, (*TO_WORK, *ON_TOTAL)),
        "method 'ppqa-alm' takes discounted models only, and this one is total; the default method",
    ),
    "features on average": (
        (*ON_AVERAGE, *ON_TOTAL),
        "method 'ppqa-alm' takes discounted models only, and this one is average; the default met",
    ),
    "gradients on average": (
        (*ON_AVERAGE, "--method", "pqa-alm"),
        "method 'pqa-alm' takes discounted and total models only, and this one is average; the def",
    ),
    "primal-dual with a horizon": (
        of_machine("--horizon", "6", "--method", "npg-pd"),
        "method 'npg-pd' takes discounted and total models only, and this one is finite; the defau",
    ),
    "pivots on average": (
        (*ON_AVERAGE, "--method", "key-simplex"),
        "method 'key-simplex' takes discounted, total and finite models only, and this one is ave",
    ),
    "cuts with cycles": (
        (TOWN + A + "1,0\n", (*TO_WORK, "--method", "cutting-plane")),
        "takes discounted, total and finite models only, and this one is total with cycles; the d",
    ),
    "a program with several ends": (
        (RESTS, (*EVERY["drawn"][1], "--method", "lp")),
        "averages of models with one end component, and this one has several; the default method",
    ),
    "no discount": (
        of_machine(),
        "discount: nothing says it; give discount=, or begin a .csv with",
    ),
    "discount 1 without an end": (
        of_machine("--discount", "1"),
        "from state 'works', action 'slow', some policy never ends, and no state has ended; give",
    ),
    "discount above 1": (
        of_machine("--discount", "1.2"),
        "discount is 1.2; it must be between 0 a",
    ),
    "a range of nothing": (
        of_machine("--discount", "0.9", limit="7<=energy<=5"),
        "limit '7<=energy<=5': nothing lies in it; write the smaller number first.",
    ),
    "a limit on nothing": (
        of_machine("--discount", "0.9", limit="enrgy<=5"),
        "there is no column 'enrgy'; did you mean 'energy'?",
    ),
    "initial misspelt": (
        ("--discount", "0.9", "--initial", "wroks"),
        "initial: there is no state 'wroks'; did you mean 'works'?",
    ),
    "no initial state": (
        ("--discount", "0.9"),
        "initial: nothing says it; give initial=, or begin",
    ),
    "theory on total": (
        (TOWN, (*TO_WORK, "--method", "pqa-alm", "--set", "step=theory")),
        "step 'theory' needs every state in the initial distribution",
    ),
}


@pytest.mark.parametrize(("given", "sentence"), BAD.values(), ids=BAD)
def test_a_wrong_word_is_refused_in_one_sentence(capsys, tmp_path, monkeypatch, given, sentence):
    """What is wrong, where, and how to mend it; exit code 2, and nothing on standard output."""
    monkeypatch.chdir(tmp_path)
    text, words = given if len(given) == 2 and given[0].startswith("state,") else (MACHINE, given)
    (tmp_path / "m.csv").write_text(text)
    np.save("f.npy", np.random.default_rng(0).random((2 + text.startswith(TOWN[:60]), 3, 2)))
    code, out, err = call(capsys, "solve", "m.csv", *words)
    assert (code, out) == (2, "") and sentence in err
    assert err.startswith("cmdpax: ") and err.count("\n") == 1
