import json
import random
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console

from cmdpax.cli import COMMANDS, main
from cmdpax.commands import exact
from cmdpax.environments import cliff_world
from cmdpax.storage import load_result, save_model, save_result


def call(capsys, *arguments):
    """Exit code, standard output and standard error of one command."""
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    captured = capsys.readouterr()
    return end.value.code or 0, captured.out, captured.err


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
    model, result, picture = tmp_path / "model.npz", tmp_path / "result.npz", tmp_path / "policy.png"
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
    from dataclasses import replace

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
    code, out, _ = call(capsys, "frontier", "queue:capacity=10", "--points", "4", "--json", "--out", str(picture))
    points = json.loads(out)["points"]
    assert code == 0 and len(points) == 4 and all(point["status"] == "certified" for point in points)
    assert picture.stat().st_size > 10_000
    assert "shadow price" in call(capsys, "frontier", "queue:capacity=10", "--points", "3")[1]


def test_list(capsys):
    _, out, _ = call(capsys, "list")
    assert "pqa-alm" in out and "cliff-world" in out
    _, out, _ = call(capsys, "list", "--json")
    assert "grid-world" in json.loads(out)["environments"]


def test_demo(capsys, tmp_path):
    code, out, _ = call(capsys, "demo", "--out", str(tmp_path))
    assert code == 0 and out.count("verified: certified") == 2
    assert {path.name for path in tmp_path.iterdir()} == {"cliff-world.png", "deep-sea.png", "alm-against-primal-dual.png"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["solve", "cliff-wrold"], "did you mean 'cliff-world'?"),
        (["solve", "missing.npz"], "missing.npz"),
        (["solve", "missing.json"], "missing.json"),
        (["solve", "cliff-world", "--eps", "-1"], "eps is -1.0"),
        (["solve", "cliff-world", "--method", "pqa-aml"], "did you mean 'pqa-alm'?"),
        (["solve", "cliff-world", "--method", "pqa-alm", "--set", "step=-1"], "step is -1; it must be positive"),
        (["solve", "cliff-world", "--method", "pqa-alm", "--set", "stpe=1"], "did you mean 'step'?"),
        (["solve", "cliff-world", "--method", "pqa-alm", "--set", "step"], "write name=value"),
        (["solve", "cliff-world", "--method", "pqa-alm", "--set", "step=fast"], "'fast' is neither a number"),
        (["solve", "cliff-world", "--method", "pqa-alm", "--set", "inner=0"], "inner is 0"),
        (["solve", "cliff-world", "--method", "pqa-alm", "--set", "step=nan"], "give a finite number"),
        (["solve", "cliff-world", "--method", "pqa-alm", "--set", "outer=abc"], "outer is 'abc'; it must be a number"),
        (["solve", "cliff-world", "--set", "report=1"], "report"),
        (["solve", "cliff-world", "--set", "time_limit=soon"], "time_limit is 'soon'; it must be a number"),
        (["solve", "cliff-world", "--method", "cutting-plane", "--set", "entropy=-1"], "entropy is -1"),
        (["solve", "cliff-world", "--time-limit", "-5"], "time_limit is -5.0"),
        (["solve", "cliff-world", "--memory-limit", "0.001"], "memory limit"),
        (["solve", "cliff-world", "--memory-limit", "-5"], "--memory-limit is -5.0; it must be a number, at least 0"),
        (["solve", "cliff-world", "--eps", "1e300"], "below 1"),
        (["solve", "cliff-world", "--out", "no/such/folder.npz"], "there is no folder no/such"),
        (["solve", "garnet:states=inf"], "states=inf is not understood"),
        (["solve", "garnet:seed=-1"], "seed at least 0"),
        (["solve", "garnet:states=5,states=6"], "given twice"),
        (["frontier", "queue", "--constraint", "enrgy"], "did you mean 'energy'?"),
        (["solve", "cliff-world", "--out", "result.txt"], ".npz"),
        (["solve", "garnet:states=ten"], "states=ten is not understood"),
        (["solve", "garnet:sates=10"], "did you mean 'states'?"),
        (["solve", "garnet:states"], "has no value"),
        (["solve", "garnet:states=1e12"], "states"),
        (["solve", "cliff-world:discount=1"], "discount is 1"),
        (["check", "cliff-world", "missing.npz"], "missing.npz"),
        (["show", "cliff-world", "--out", "picture.txt"], ".png"),
        (["frontier", "cliff-world", "--constraint", "7"], "constraints 0..0"),
        (["export", "cliff-world", "model.xml"], "model.xml"),
    ],
)
def test_bad_input_gets_one_sentence_and_code_2(capsys, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *arguments)
    assert code == 2 and out == ""
    assert sentence in err and err.startswith("cmdpax: ") and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []  # nothing is left behind


@pytest.mark.parametrize("arguments", [[], ["slove"], ["solve"], ["solve", "cliff-world", "--epps", "1"]])
def test_bad_usage_exits_with_2(capsys, arguments):
    assert call(capsys, *arguments)[0] == 2


def test_every_command_has_help(capsys):
    for name in COMMANDS:
        code, out, _ = call(capsys, name, "--help")
        assert code == 0 and "usage: cmdpax" in out


@pytest.mark.parametrize("seed", range(4))
def test_25_fuzzed_files_through_the_command_line(tmp_path, seed):
    """Byte flips and truncations: exit code of a solved model or 2, one line on standard error, never a traceback."""
    rng = random.Random(seed)
    source = tmp_path / ("model.npz" if seed % 2 else "model.json")
    save_model(cliff_world(), source)
    original = source.read_bytes()
    for case in range(25):
        data = bytearray(original)
        for _ in range(rng.choice([1, 3, 30])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.3:
            data = data[: rng.randrange(len(data))]
        path = tmp_path / f"fuzzed{case}{source.suffix}"
        path.write_bytes(bytes(data))
        done = subprocess.run(
            [sys.executable, "-m", "cmdpax", "solve", str(path), "--json"], capture_output=True, text=True, timeout=60
        )
        assert "Traceback" not in done.stderr
        if done.returncode == 2:
            assert done.stderr.startswith("cmdpax: ") and done.stderr.count("\n") == 1
        else:
            assert done.returncode in (0, 3, 4, 5) and "status" in json.loads(done.stdout)


def test_an_unwritable_target_is_one_sentence(capsys, tmp_path):
    code, _, err = call(capsys, "solve", "cliff-world", "--out", str(tmp_path / "no" / "such" / "folder.npz"))
    assert code == 2 and err.count("\n") == 1


def test_numbers_survive_the_round_trip(capsys, tmp_path):
    path = tmp_path / "result.npz"
    _, out, _ = call(capsys, "solve", "deep-sea", "--json", "--out", str(path))
    saved = load_result(path)
    assert saved.summary() == json.loads(out)
    assert np.isclose(saved.policy.sum(1), 1).all()


def test_solve_with_features(capsys):
    code, out, _ = call(
        capsys, "solve", "deep-sea", "--method", "ppqa-alm", "--features", "tiles:40,4,1", "--set", "outer=2", "inner=5", "--json"
    )
    answer = json.loads(out)
    assert code == 4 and answer["method"] == "ppqa-alm" and answer["gap"] > 0.02  # the features cannot express the optimum
    code, out, err = call(capsys, "solve", "deep-sea", "--method", "ppqa-alm")
    assert code == 2 and out == "" and "give it features" in err


def test_names_are_text_to_every_printer(capsys, tmp_path):
    """Rich reads markup in square brackets and matplotlib mathematics between dollars: names are neither."""
    model = cliff_world().replace(constraint_names=["[/b]$\\frac$"])
    source, picture = tmp_path / "m$x$.npz", tmp_path / "p[b].png"
    save_model(model, source)
    for arguments in (["solve", str(source)], ["frontier", str(source), "--points", "3", "--out", str(picture)]):
        assert call(capsys, *arguments)[0] == 0
    assert call(capsys, "show", str(source), "--out", str(picture))[0] == 0


def test_a_constraint_is_found_by_name(capsys):
    by_name = call(capsys, "frontier", "queue:capacity=8", "--points", "3", "--constraint", "energy", "--json")
    assert by_name == call(capsys, "frontier", "queue:capacity=8", "--points", "3", "--constraint", "0", "--json")


def test_a_fault_of_ours_is_still_one_sentence(capsys, monkeypatch):
    monkeypatch.setattr("cmdpax.commands.exact.open_model", lambda source: 1 / 0)
    code, _, err = call(capsys, "solve", "cliff-world")
    assert code == 1 and err.startswith("cmdpax: internal error, please report it: ZeroDivisionError") and err.count("\n") == 1


def test_version(capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--version"])
    assert capsys.readouterr().out.startswith("cmdpax 0.")


def test_a_result_does_not_take_the_place_of_its_model(capsys, tmp_path):
    path = tmp_path / "m.npz"
    call(capsys, "export", "cliff-world", str(path))
    before = path.read_bytes()
    code, out, err = call(capsys, "solve", str(path), "--out", str(path))
    assert code == 2 and out == "" and "that is the model itself" in err and path.read_bytes() == before


def test_an_unwritable_place_is_refused_before_the_work(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(exact, "run", lambda *arguments, **settings: pytest.fail("nothing is solved"))
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
