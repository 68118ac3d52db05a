"""A few cases of every kind of the campaign, and that its records add up (`make attack`)."""

from dataclasses import replace
from fractions import Fraction

import attack
import attack_damage
import attack_kills
import attack_models
import numpy as np
import pytest

from cmdpax import solve
from cmdpax.files.reading import read_rows
from models import build


def assert_survived(kind, seeds, folder):
    row = attack.attacked(kind, seeds, folder)
    assert row["failures"] == [] and row["tried"] == row["survived"] > 0
    return row["tried"]


def test_certificates_hold_in_rational_numbers(tmp_path):
    assert assert_survived("models", range(40), tmp_path) == 40


def test_rational_numbers_by_hand():
    """The second of two states pays 1 for ever: `V = (gamma / (1 - gamma), 1 / (1 - gamma))`."""
    half, one, none = Fraction(1, 2), Fraction(1), Fraction(0)
    moves = [[{0: one}, {1: one}], [{1: one}, {1: one}]]
    reward = [[none, none], [one, one]]
    model = attack_models.Exact(moves, [reward], [], [one, none], half, [[0, 1], [0, 1]])
    assert model.values(model.deterministic([1, 0]), [reward]) == [[1, 2]]
    assert model.best(reward) == model.best_of_all(reward) == 1
    assert model.scale(reward) == 2
    assert attack_models.room(Fraction(3), (Fraction(1), Fraction(4))) == 1


@pytest.mark.parametrize("offset", [-0.3, 0.3])
def test_a_false_claim_is_refuted(offset):
    model = build("random", 4, 3, 2, 0.9, 3, 2, offset=offset)
    result = solve(model)
    proof = result.certificate
    assert attack_models.refuted(model, result) is None
    high = proof.reward_bounds[1]
    false = {
        "the reward": replace(proof, reward_bounds=(high + 1e-9, high + 1)),
        "the margin": replace(proof, margin_bounds=proof.margin_bounds + 1),
        "the dual bound": replace(proof, dual_bound=proof.dual_bound - 1e-6),
    }
    if proof.ray is not None:
        false["the ray's bound"] = replace(proof, ray_bound=proof.ray_bound - 1e-6)
        assert offset > 0
    for what, claim in false.items():
        assert attack_models.refuted(model, replace(result, certificate=claim)).startswith(what)


def test_damaged_files_are_refused_in_one_sentence(tmp_path):
    assert assert_survived("damaged-files", range(60), tmp_path) == 60


@pytest.mark.parametrize(
    ("code", "printed", "complaint", "fault"),
    [
        (1, "", "Traceback (most recent call last)", "broke"),
        (1, "", "cmdpax: internal error, please report it: KeyError: 'x'", "broke"),
        (2, "", "cmdpax: no.\ncmdpax: no, indeed.", "not one sentence"),
        (2, "", "", "not one sentence"),
        (0, "\x1b[2J", "", "control characters"),
        (139, "", "", "ended with 139"),
        (2, "", "cmdpax: " + 2000 * "x", "too long"),
    ],
)
def test_what_a_command_must_not_do_is_noticed(code, printed, complaint, fault):
    costs = {"seconds": 0.0, "bytes": 0.0}
    (sentence, *_) = attack_damage.faults(["solve", "m.npz"], code, printed, complaint, costs)
    assert fault in sentence


def test_what_a_command_takes_is_measured():
    with attack_damage.used() as costs:
        np.ones(50_000_000).sum()
    assert 390e6 < costs["bytes"] < 500e6
    (sentence,) = attack_damage.faults(["solve", "m.npz"], 0, "", "", costs)
    assert "MB" in sentence


def test_a_killed_training_ends_as_if_nobody_had_killed_it(tmp_path, monkeypatch):
    monkeypatch.setattr(attack_kills, "METHODS", ("spma-alm",))
    monkeypatch.setattr(attack_kills, "KILLS", 2)
    assert assert_survived("training-kills", [0], tmp_path) >= 1
    folder = tmp_path / "spma-alm"
    assert attack_kills.different(folder, folder, 0) is None
    (tmp_path / "run-0" / "metrics.jsonl").write_text("")
    assert "metrics.jsonl" in attack_kills.different(tmp_path / "run-0", folder, 0)


def test_a_killed_sweep_ends_as_if_nobody_had_killed_it(tmp_path, monkeypatch):
    monkeypatch.setattr(attack_kills, "EXACT", attack_kills.EXACT.replace(", 0.5, 1, 2", ""))
    monkeypatch.setattr(attack_kills, "SWEEP_KILLS", 2)
    assert assert_survived("local-sweep-kills", [0], tmp_path) >= 1


@pytest.mark.slow
def test_a_killed_cluster_ends_as_if_nobody_had_killed_it(tmp_path, monkeypatch):
    monkeypatch.setattr(attack_kills, "SWEEP_KILLS", 4)
    assert assert_survived("ray-sweep-kills", [0], tmp_path) >= 1


def test_shards_add_up_and_are_done_once(tmp_path, monkeypatch):
    done = []

    def cases(seeds, folder):
        for seed in seeds:
            done.append(seed)
            yield 2, "it broke" if seed == 5 else None

    monkeypatch.setattr(attack, "RECORDS", tmp_path)
    monkeypatch.setattr(attack, "KINDS", {"toy": attack.Kind(cases, 4, 2, 2)})
    for shard in ((1, 3), (2, 3), (1, 3), (3, 3), (1, 1)):
        attack.campaign("toy", shard)
    assert done == [0, 1, 6, 7, 2, 3, 4, 5]
    rows, _ = read_rows(tmp_path / "toy.jsonl")
    assert [row["seeds"] for row in rows] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert rows[2]["failures"] == [{"seed": 5, "failure": "it broke"}]
    assert "| toy | 16 | 14 | 2 |" in attack.table(rows)


def test_the_page_shows_the_records():
    rows = [row for kind in attack.KINDS for row in read_rows(attack.RECORDS / f"{kind}.jsonl")[0]]
    assert attack.table(rows) in (attack.HOME / "docs" / "reliability.md").read_text()
    for name, kind in attack.KINDS.items():  # all of it, and each block once
        seeds = [row["seeds"] for row in rows if row["kind"] == name]
        assert seeds == [[block[0], block[-1]] for block in kind.seeds()]
