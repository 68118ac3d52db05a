import json
import os
import random
import subprocess
import sys

import pytest

from calls import call
from cmdpax.cli.main import COMMANDS, main
from cmdpax.environments import cliff_world
from cmdpax.model.archive import save_model


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["solve", "cliff-wrold"], "did you mean 'cliff-world'?"),
        (["solve", "missing.npz"], "missing.npz"),
        (["train", "CartPole-v1", "--lr", "1e-3"], "did you mean '--learning-rate'?"),
        (["train", "CartPole-v1", "--total_timesteps=1e5"], "did you mean '--samples'?"),
        (["train", "CartPole-v1", "--samples", "1e2", "--batch", "1.5e2"], "samples 100 are fewer"),
        (["train", "CartPole-v1", "--samples=1e2", "--batch=2e2"], "than one batch of 200"),
        (["solve", "missing.json"], "missing.json"),
        (["solve", "cliff-world", "--eps", "-1"], "eps is -1.0"),
        (["solve", "cliff-world", "--method", "pqa-aml"], "did you mean 'pqa-alm'?"),
        (
            ["solve", "cliff-world", "--method", "pqa-alm", "--set", "step=-1"],
            "step is -1; it must be positive",
        ),
        (
            ["solve", "cliff-world", "--method", "pqa-alm", "--set", "stpe=1"],
            "did you mean 'step'?",
        ),
        (["solve", "cliff-world", "--method", "pqa-alm", "--set", "step"], "write name=value"),
        (
            ["solve", "cliff-world", "--method", "pqa-alm", "--set", "step=fast"],
            "'fast' is neither a number",
        ),
        (["solve", "cliff-world", "--method", "pqa-alm", "--set", "inner=0"], "inner is 0"),
        (
            ["solve", "cliff-world", "--method", "pqa-alm", "--set", "step=nan"],
            "give a finite number",
        ),
        (
            ["solve", "cliff-world", "--method", "pqa-alm", "--set", "outer=abc"],
            "outer is 'abc'; it must be a number",
        ),
        (
            ["solve", "cliff-world", "--set", "report=1"],
            "'report' is not known; known: dual_factor",
        ),
        (
            ["solve", "cliff-world", "--method", "cutting-plane", "--set", "entropy=-1"],
            "entropy is -1",
        ),
        (["solve", "cliff-world", "--time-limit", "-5"], "time_limit is -5.0"),
        (["solve", "cliff-world", "--memory-limit", "0.001"], "memory limit"),
        (
            ["solve", "cliff-world", "--memory-limit", "-5"],
            "memory_limit is -5.0; it must be a number, at least 0",
        ),
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
        (["solve", "garnet:discount=1"], "discount is 1"),
        (["check", "cliff-world", "missing.npz"], "missing.npz"),
        (["show", "cliff-world", "--out", "picture.txt"], ".png"),
        (["show", "cliff-world", "--out", "no/such/picture.png"], "there is no folder no/such"),
        (["frontier", "cliff-world", "--out", "curve.pdf"], "ends in .png"),
        (["frontier", "cliff-world", "--out", "no/such/curve.png"], "there is no folder no/such"),
        (["export", "cliff-world", "no/such/model.npz"], "there is no folder no/such"),
        (["frontier", "cliff-world", "--constraint", "7"], "constraints 0..0"),
        (["export", "cliff-world", "model.xml"], "model.xml"),
        (
            ["train", "x", "--limit", "a<=1", "--method", "cpo", "--limit", "b<=2"],
            "--limit is given 2 times; give it once, with all",
        ),
        (["sweep", "tiny", "--only=seed=0", "--only", "seed=1"], "--only is given 2 times"),
        (
            ["solve", "cliff-world", "--time-limit", "1", "--time_limit", "2"],
            "--time-limit is given 2 times",
        ),
        (
            ["sweep", "tiny", "--executor", "ray", "--address", "nonsense", "--store", "s"],
            "write HOST:PORT",
        ),
    ],
)
def test_bad_input_gets_one_sentence_and_code_2(capsys, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *arguments)
    assert code == 2 and out == ""
    assert sentence in err and err.startswith("cmdpax: ") and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []  # nothing is left behind


@pytest.mark.parametrize(
    "arguments", [[], ["slove"], ["solve"], ["solve", "cliff-world", "--epps", "1"]]
)
def test_bad_usage_exits_with_2(capsys, arguments):
    assert call(capsys, *arguments)[0] == 2


def test_every_command_has_help(capsys):
    for name in COMMANDS:
        code, out, _ = call(capsys, name, "--help")
        assert code == 0 and "usage: cmdpax" in out


@pytest.mark.parametrize("seed", range(4))
def test_25_fuzzed_files_through_the_command_line(tmp_path, seed):
    """Byte flips and truncations: exit code of a solved model or 2, one line on standard error,
    never a traceback.
    """
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
            [sys.executable, "-m", "cmdpax", "solve", str(path), "--json"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "Traceback" not in done.stderr
        if done.returncode == 2:
            assert done.stderr.startswith("cmdpax: ") and done.stderr.count("\n") == 1
        else:
            assert done.returncode in (0, 3, 4, 5) and "status" in json.loads(done.stdout)


def test_a_fault_of_ours_is_still_one_sentence(capsys, monkeypatch):
    monkeypatch.setattr("cmdpax.cli.exact.open_model", lambda *_: 1 / 0)
    code, _, err = call(capsys, "solve", "cliff-world")
    assert (
        code == 1
        and err.startswith("cmdpax: internal error, please report it: ZeroDivisionError")
        and err.count("\n") == 1
    )


def test_version(capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--version"])
    assert capsys.readouterr().out.startswith("cmdpax 0.")


def test_commands_use_one_thread_of_blas_unless_told_otherwise():
    code = "import os, cmdpax.cli.main; print(os.environ['OPENBLAS_NUM_THREADS'])"
    for said, threads in ({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3"):
        others = {key: text for key, text in os.environ.items() if key != "OPENBLAS_NUM_THREADS"}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env={**others, **said}, capture_output=True, text=True)
        assert done.stdout.strip() == threads, done.stderr
