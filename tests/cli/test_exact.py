import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from calls import call
from cmdpax.cli import exact
from cmdpax.environments import cliff_world
from cmdpax.model.archive import load_result, save_model, save_result


def test_solve_prints_one_json_object(capsys):
    code, out, err = call(capsys, "solve", "cliff-world", "--json")
    answer = json.loads(out)
    assert code == 0 and err == ""
    assert {"status", "reward", "margins", "multipliers", "gap", "violation"} <= set(answer)
    assert answer["status"] == "certified"
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
        (["deep-sea", "--method", "npg-pd", "--set", "steps=20"], 4, "limit"),
        (["deep-sea:threshold=0"], 5, "marginal"),
    ],
)
def test_exit_codes(capsys, arguments, code, status):
    got, out, _ = call(capsys, "solve", *arguments, "--json")
    assert (got, json.loads(out)["status"]) == (code, status)


def test_infeasible_shows_its_proof(capsys):
    _, out, _ = call(capsys, "solve", "cliff-world:threshold=0.3")
    assert "no policy meets all constraints" in out and "ray" in out


def test_frontier(capsys, tmp_path):
    picture = tmp_path / "frontier.png"
    code, out, _ = call(
        capsys, "frontier", "queue:capacity=10", "--points", "4", "--json", "--out", str(picture)
    )
    points = json.loads(out)["points"]
    assert (
        code == 0 and len(points) == 4 and all(point["status"] == "certified" for point in points)
    )
    assert picture.stat().st_size > 10_000
    assert "shadow price" in call(capsys, "frontier", "queue:capacity=10", "--points", "3")[1]


def test_list(capsys):
    _, out, _ = call(capsys, "list")
    assert "pqa-alm" in out and "cliff-world" in out
    _, out, _ = call(capsys, "list", "--json")
    assert "grid-world" in json.loads(out)["environments"]


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
        exact, "run", lambda *arguments, **settings: pytest.fail("nothing is solved")
    )
    (tmp_path / "folder.npz").mkdir()
    code, _, err = call(capsys, "solve", "cliff-world", "--out", str(tmp_path / "folder.npz"))
    assert code == 2 and "Is a directory" in err


def test_names_in_lists_are_whole_on_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setattr(exact, "out", Console(width=80))
    code, out, _ = call(capsys, "list")
    assert code == 0 and "corrective-alm" in out and "…" not in out


def test_a_curve_that_was_interrupted_says_so(capsys, monkeypatch):
    whole = exact.trace_frontier
    monkeypatch.setattr(exact, "trace_frontier", lambda *arguments: whole(*arguments)[:2])
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


@pytest.mark.parametrize("name", ["eps", "features", "model", "name"])
def test_set_takes_only_settings_of_the_method(capsys, name):
    assert f"--set {name}: it is no setting of a method" in refusal(
        capsys, "solve", "cliff-world", "--set", f"{name}=1"
    )


def test_small_odd_input(tmp_path, capsys):
    (tmp_path / "empty.npy").touch()
    empty = ["--method", "ppqa-alm", "--features", str(tmp_path / "empty.npy")]
    assert "not an array of numbers" in refusal(capsys, "solve", "cliff-world", *empty)
    assert "neither an index nor a name" in refusal(
        capsys, "frontier", "cliff-world", "--constraint", "²"
    )
    assert "would need more than" in refusal(capsys, "solve", "inventory:capacity=1e19")


@pytest.mark.parametrize(
    ("what", "names"), [("methods", ["methods"]), ("environments", ["environments"]), ("all", None)]
)
def test_the_list_in_json_is_of_what_was_asked_for(capsys, what, names):
    code, said, _ = call(capsys, "list", what, "--json")
    assert code == 0 and list(json.loads(said)) == (names or ["methods", "environments"])
