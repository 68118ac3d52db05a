"""What a user can get wrong with simulators and runs, through the command line: one sentence, exit
code 2, nothing half done.
"""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import pytest

import probes
from calls import call
from cmdpax.learning.checkpoints import read_checkpoint
from cmdpax.learning.config import TrainConfig
from cmdpax.learning.run_folder import RunFolder
from cmdpax.learning.training import train

SETTINGS = {
    "samples": 300,
    "batch": 50,
    "rollout-steps": 50,
    "minibatch": 25,
    "passes": 1,
    "hidden": 8,
    "checkpoint-every": 2,
}
WORDS = ("kept: ", "exceeded: ", "undecided: ")  # with which a verdict begins
EFFECT = "acting deterministically: "
SMALL = [part for name, value in SETTINGS.items() for part in (f"--{name}", str(value))]
for wrong in ("missing", "length", "reward", "cost", "observation"):
    gymnasium.register(
        f"Wrong-{wrong}-v0", functools.partial(probes.Broken, wrong), disable_env_checker=True
    )


def refusal(capsys, *arguments):
    """The sentence with which a command is refused."""
    code, _, err = call(capsys, *arguments)
    assert code == 2
    sentence = err.strip().splitlines()[-1]
    assert sentence.startswith("cmdpax: ")
    return sentence


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["Wrong-missing-v0"],
            "'Wrong-missing-v0' reports no cost; its step must put one into info['cost']",
        ),
        (
            ["Wrong-length-v0", "--limit", "cost0<=1"],
            "changed its costs from ['cost0', 'cost1'] to ['cost0', 'cost1', 'cost2']",
        ),
        (["SafetyHoperVelocity-v1"], "did you mean 'SafetyHopperVelocity-v1'"),
        (["no_such_module:make"], "module 'no_such_module' cannot be imported"),
        (["SafetyHopperVelocity-v1", "--method", "pp-lag"], "did you mean 'ppo-lag'"),
        (
            ["SafetyHopperVelocity-v1", "--limit", "heat<=3"],
            "limit 'heat<=3' is on a cost that the environment does not have; known: cost",
        ),
        (["Wrong-reward-v0"], "'Wrong-reward-v0': its reward is nan; rewards and costs must be"),
        (["Wrong-cost-v0"], "cost 'cost' is nan"),
        (["Wrong-observation-v0"], "'Wrong-observation-v0': an observation holds nan"),
    ],
)
def test_training_is_refused(arguments, sentence, tmp_path, capsys):
    folder = tmp_path / "run"
    assert sentence in refusal(capsys, "train", *arguments, *SMALL, "--out", str(folder))
    assert (
        not (folder / "metrics.jsonl").exists() or not (folder / "metrics.jsonl").read_text()
    )  # within the first update
    assert not (folder / "checkpoints").exists()


@pytest.mark.parametrize("wrong", ["missing", "length", "reward", "cost", "observation"])
def test_check_env_tells_what_is_wrong(wrong, capsys):
    assert f"Wrong-{wrong}-v0" in refusal(capsys, "check-env", f"Wrong-{wrong}-v0")


@pytest.mark.parametrize("form", [["--preset", "paper"], ["--preset=paper"]])
def test_what_is_given_beside_a_preset_stays(tmp_path, capsys, monkeypatch, form):
    """Also where it happens to be the usual default."""
    given = []

    def train(environment, *, folder, resume, start, workers, worker_limit, callback, **settings):
        given.append(TrainConfig(**settings))
        return SimpleNamespace(verdict=None, out_of_reach=(), kept="")

    monkeypatch.setattr("cmdpax.learning.training.train", train)
    settings = ["--discount", "0.995", "--samples", "2000000", "--method", "cpo"]
    assert call(capsys, "train", "x", *settings, *form, "--out", str(tmp_path / "run"))[0] == 0
    (config,) = given
    assert (config.discount, config.samples, config.method) == (0.995, 2_000_000, "cpo")
    assert (config.batch, config.trust_region, config.margin) == (20_000, 0.01, "latest")
    assert (config.units, config.critics, config.reserve) == ("reward", "plain", 0.0)
    assert (config.minibatch, config.learning_rate) == (128, 1e-3)  # the paper's for CPO alone
    assert (
        call(
            capsys,
            "train",
            "x",
            "--method=ppo-lag",
            *form,
            "--minibatch=256",
            "--out",
            str(tmp_path / "other"),
        )[0]
        == 0
    )
    assert (given[1].batch, given[1].minibatch, given[1].learning_rate) == (20_000, 256, 3e-3)


def test_check_env_describes_what_is_right(capsys):
    code, out, _ = call(capsys, "check-env", "SafetyHopperVelocity-v1", "--steps", "200", "--json")
    assert code == 0 and json.loads(out)["cost_names"] == ["cost", "energy"]
    assert "info['cost']" in refusal(capsys, "check-env", "CartPole-v1")


def command(folder, *more):
    return [
        sys.executable,
        "-m",
        "cmdpax",
        "train",
        "SafetyHopperVelocity-v1",
        *SMALL,
        "--out",
        str(folder),
        *more,
    ]


def test_resume_shows_the_difference_and_falls_back_from_a_corrupt_checkpoint(tmp_path):
    folder = tmp_path / "run"
    subprocess.run(command(folder), check=True, capture_output=True, cwd=Path.cwd())
    whole = (folder / "metrics.jsonl").read_bytes()
    answer = subprocess.run(
        command(folder, "--resume", "--penalty", "0.5"), capture_output=True, text=True, check=False
    )
    assert answer.returncode == 2 and "penalty was 1.0, is 0.5" in answer.stderr
    newest, before, *_ = RunFolder(folder).checkpoints()
    newest.write_bytes(newest.read_bytes()[:-7])
    answer = subprocess.run(command(folder, "--resume"), capture_output=True, text=True, check=True)
    assert (
        f"cmdpax: checkpoint {newest} is damaged" in answer.stderr
        and "The one before is taken" in answer.stderr
    )
    assert (folder / "metrics.jsonl").read_bytes() == whole
    for path in (newest, before):
        path.write_bytes(b"")
    for path in RunFolder(folder).checkpoints():
        path.with_suffix(".json").write_text("{")
    answer = subprocess.run(
        command(folder, "--resume"), capture_output=True, text=True, check=False
    )
    assert answer.returncode == 2 and "holds no intact checkpoint" in answer.stderr
    assert json.loads((folder / "config.json").read_text())["penalty"] == 1.0


class Long(probes.Bandit):
    """Ends by its time limit alone; the name of its cost means something to rich."""

    def step(self, action):
        return *super().step(action)[:2], False, False, {"cost": {"a[/b]:six:": float(action)}}


gymnasium.register("Long-v0", Long, max_episode_steps=3_000)


def test_check_env_says_how_many_steps_hold_whole_episodes(capsys):
    code, out, _ = call(capsys, "check-env", "Long-v0", "--steps", "50")
    assert code == 0 and "at most 3000" in out
    *_, line, _ = out.splitlines()
    assert line.startswith('next: cmdpax train Long-v0 --limit "a[/b]:six:<=')
    assert line.endswith('" --rollout-steps 3000 --batch 6000')
    code, out, _ = call(capsys, "check-env", "SafetyHopperVelocity-v1", "--steps", "50")
    *_, line, _ = out.splitlines()
    assert 'cmdpax train SafetyHopperVelocity-v1 --limit "cost<=' in line and "batch" not in line


class Talking(probes.Bandit):
    """Prints, and after 230 steps of all copies it is not well."""

    steps = 0

    def step(self, action):
        print("so far so good")
        Talking.steps += 1
        if Talking.steps > 230:
            raise RuntimeError("no power")
        return super().step(action)


gymnasium.register("Talking-v0", Talking, disable_env_checker=True)


def test_what_an_environment_prints_is_no_answer(capsys):
    _, out, err = call(capsys, "check-env", "Talking-v0", "--steps", "5", "--json")
    assert json.loads(out)["steps"] == 5 and "so far so good" in err


def test_what_stops_a_run_says_what_is_kept_of_it(capsys, tmp_path):
    Talking.steps, folder = 0, tmp_path / "run"
    said = refusal(capsys, "train", "Talking-v0", *SMALL, "--out", str(folder))
    assert "its step raised RuntimeError: no power (" in said
    assert "the checkpoint of update 4 is kept in" in said and said.endswith("--resume goes on.")


def test_an_evaluation_fits_a_terminal(capsys, tmp_path):
    """Of eighty columns, nothing cut or folded."""
    folder = str(tmp_path / "run")
    limits = ["--limit", "heat<=0.25", "noise<=0.25"]
    assert call(capsys, "train", "probes:TwoLimits", *SMALL, *limits, "--out", folder)[0] == 0
    _, out, _ = call(capsys, "evaluate", folder, "--trust")
    assert "…" not in out
    (row,) = [line for line in out.split("deterministic:")[0].splitlines() if "heat<=" in line][:1]
    assert row.split()[0] == "heat<=0.25" and row.rstrip().endswith("%)")


def test_an_interrupt_promises_what_there_is(tmp_path, capsys, monkeypatch):
    folder = tmp_path / "run"

    def interrupted(*_, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("cmdpax.learning.training.train", interrupted)
    code, _, err = call(capsys, "train", "x", "--out", str(folder))
    assert code == 130 and err.strip().endswith("interrupted; the run had not begun.")
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    _, _, err = call(capsys, "train", "x", "--out", str(folder))
    assert "there was no checkpoint yet; the same command with --resume goes on." in err


def test_evaluate_shows_limits_and_costs_without_one_within_80_columns(tmp_path, capsys):
    folder = tmp_path / "run"
    code, out, _ = call(
        capsys, "train", "probes:TwoLimits", *SMALL, "--limit", "noise<=0.25", "--out", str(folder)
    )
    following = f"cmdpax evaluate {folder} --environment probes:TwoLimits"
    assert code == 0 and out.strip().endswith(following)
    code, out, _ = call(capsys, *following.split()[1:], "--episodes", "5")
    tables = [line for line in out.splitlines()[:-1] if not line.startswith((*WORDS, EFFECT))]
    assert sum("noise<=0.25" in line for line in tables) == 2
    assert code == 0 and sum("heat" in line for line in tables) == 2 and "…" not in out
    assert max(len(line.rstrip()) for line in tables) <= 80
    verdicts = [line for line in out.splitlines() if line.startswith(WORDS)]
    assert len(verdicts) == 2 and all("(noise<=0.25: " in line for line in verdicts)
    assert all(line.endswith("over 5 episodes") for line in verdicts)
    assert sum(line.startswith(EFFECT) for line in out.splitlines()) == 1


def test_train_says_how_samples_are_divided_and_ends_with_a_verdict(tmp_path, capsys):
    folder = tmp_path / "run"
    limits = ["--limit", "heat<=0.9", "noise<=-0.1"]
    code, out, err = call(
        capsys, "train", "probes:TwoLimits", *SMALL, *limits, "--out", str(folder)
    )
    assert code == 0 and "6 updates of 50 steps, 50 in each of 1 simulators\n" in err
    verdict, sentence, following = out.splitlines()[-3:]
    assert re.fullmatch(
        r"exceeded: heat \S+ \(heat<=0\.9: 100%\), noise \S+ \(noise<=-0\.1: 0%\)"
        r" over 100 episodes of training",
        verdict,
    )
    assert sentence.startswith("noise<=-0.1 was not kept at any time; the best estimate was ")
    assert following.startswith("trained; next: cmdpax evaluate ")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A short run on an environment that can be drawn, and evaluated."""
    folder = tmp_path_factory.mktemp("damaged") / "run"
    train(
        "probes:Bandit",
        folder=folder,
        **{name.replace("-", "_"): value for name, value in SETTINGS.items()},
    )
    return folder


def garble(path, start=0):
    data = bytearray(path.read_bytes())
    data[start : start + 40] = bytes(len(data[start : start + 40]))
    path.write_bytes(data)


def checkpoints(folder, suffix):
    return [path.with_suffix(suffix) for path in RunFolder(folder).checkpoints()]


def pipe(path):
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def rewrite(folder, change):
    """Every checkpoint with its arrays changed, and the right checksums."""
    run = RunFolder(folder)
    for path in run.checkpoints():
        arrays, notes = read_checkpoint(path)
        own = {name: value for name, value in notes.items() if not name.endswith("sha256")}
        run.save(own.pop("checkpoint"), *change(dict(arrays), own))


def lose(part):
    return lambda folder: rewrite(
        folder, lambda arrays, notes: ({k: v for k, v in arrays.items() if k != part}, notes)
    )


DAMAGES = {
    "config a pipe": lambda folder: pipe(folder / "config.json"),
    "arrays pipes": lambda folder: [pipe(path) for path in checkpoints(folder, ".safetensors")],
    "notes pipes": lambda folder: [pipe(path) for path in checkpoints(folder, ".json")],
    "no weights": lose("policy/layers/0/weight"),
    "no normaliser": lose("seen/mean"),
    "no spaces": lambda folder: rewrite(folder, lambda arrays, _: (arrays, {"action_space": 3})),
    "config 900 deep": lambda folder: (folder / "config.json").write_text("[" * 900 + "]" * 900),
    "no config": lambda folder: (folder / "config.json").unlink(),
    "config of zeros": lambda folder: garble(folder / "config.json"),
    "config of something else": lambda folder: (folder / "config.json").write_text("{}"),
    "config nested": lambda folder: (folder / "config.json").write_text("[" * 99_999),
    "arrays": lambda folder: [garble(path, 500) for path in checkpoints(folder, ".safetensors")],
    "arrays missing": lambda folder: [p.unlink() for p in checkpoints(folder, ".safetensors")],
    "notes": lambda folder: [garble(path, 20) for path in checkpoints(folder, ".json")],
    "notes that are none": lambda folder: [p.write_text("7") for p in checkpoints(folder, ".json")],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_gets_one_sentence_from_every_command(damage, trained, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    DAMAGES[damage](folder)
    commands = (
        ["train", "probes:Bandit", *SMALL, "--out", str(folder), "--resume"],
        ["evaluate", str(folder), "--trust"],
        ["film", str(folder), "--trust", "--out", str(tmp_path / "policy.gif")],
    )
    for arguments in commands:
        sentence = refusal(capsys, *arguments)
        assert str(folder) in sentence and "internal error" not in sentence
        assert sentence.endswith(".") and "Traceback" not in sentence
    assert not (folder / "evaluation.json").exists() and not (tmp_path / "policy.gif").exists()


def test_limits_and_open_settings_are_written_as_in_the_help(capsys):
    code, out, _ = call(capsys, "train", "--help")
    text = " ".join(out.replace("│", " ").split())
    assert code == 0 and "--limit [STR [STR ...]] Limits on named costs" in text
    assert "--batch {None}|INT Environment steps per update. None: whole episodes of about" in text
    assert "--rollout-steps {None}|INT Steps of one simulator in a batch" in text
    sentence = refusal(capsys, "train", "x", "--method", "trpo-alm", "--gradient-clip", "40")
    assert "gradient_clip is 40.0, but trpo-alm has a trust region instead" in sentence


def test_a_run_on_images_says_which_network_sees_them(capsys, tmp_path):
    words = ["--samples", "8e1", "--batch", "40", "--rollout-steps", "40", "--passes", "1"]
    for network, is_said in ((), True), (("--network", "dense"), False):
        folder = str(tmp_path / f"run-{is_said}")
        command = ["train", "learning.pictures:make", *words, *network, "--out", folder]
        code, _, err = call(capsys, *command)
        assert code == 0 and ("images: a convolutional network sees them" in err) == is_said


def test_a_run_stays_where_it_was_begun_if_its_environment_leaves(tmp_path, capsys, monkeypatch):
    def leaving():
        (tmp_path / "elsewhere").mkdir(exist_ok=True)
        os.chdir(tmp_path / "elsewhere")
        return probes.Bandit()

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probes, "leaving", leaving, raising=False)
    assert call(capsys, "train", "probes:leaving", "--out", "run", *SMALL)[0] == 0
    assert len(RunFolder(tmp_path / "run").rows()) == 6
    assert not list((tmp_path / "elsewhere").iterdir())
