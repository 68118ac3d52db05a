"""Layouts of other libraries give the same model as our own."""

import gzip
import io
import json
import sys
import tarfile
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from cmdpax import CMDP, InputError, solve
from cmdpax.model import foreign

S, A = 3, 3  # square on purpose: no shape says which axis is which
RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(S), size=(A, S))  # [A, S, S]
PAID = RNG.random((A, S, S))  # by transition
REWARD, COST = RNG.random((S, A)), RNG.random((S, A))
REST = {"thresholds": [4.0], "senses": "<=", "initial": 0}


def plain(reward=REWARD, cost=COST) -> CMDP:
    """The same model, its rows stated one by one."""
    rows = [[P[a, s] for a in range(A)] for s in range(S)]
    return CMDP(np.array(rows), reward, [cost], discount=0.9, **REST)


def objects(matrices):
    array = np.empty(len(matrices), dtype=object)
    array[:] = [sp.csr_matrix(one) for one in matrices]
    return array


FORMS = {
    "array": lambda P: P,
    "list": list,
    "sparse": lambda P: [sp.csr_array(one) for one in P],
    "matrices": lambda P: tuple(sp.csc_matrix(one) for one in P),
    "objects": objects,
}


@pytest.mark.parametrize("form", FORMS)
def test_mdptoolbox_matrices_in_every_form(form):
    model = CMDP.from_mdptoolbox(FORMS[form](P), REWARD, 0.9, constraints=[COST], **REST)
    assert model.digest == plain().digest


@pytest.mark.parametrize("form", FORMS)
def test_mdptoolbox_rewards_of_transitions_are_means(form):
    expected = np.array([[P[a, s] @ PAID[a, s] for a in range(A)] for s in range(S)])
    matrices = FORMS[form](PAID)
    model = CMDP.from_mdptoolbox(P, matrices, 0.9, constraints=[matrices], **REST)
    np.testing.assert_allclose(model.reward, expected.ravel(), rtol=1e-14)
    np.testing.assert_allclose(model.constraints[0], expected.ravel(), rtol=1e-14)


def test_mdptoolbox_rewards_of_states_hold_for_every_action():
    model = CMDP.from_mdptoolbox(P, [1.0, 2.0, 3.0], 0.9, initial=0)
    assert model.as_table(model.reward).tolist() == [[1.0] * 3, [2.0] * 3, [3.0] * 3]
    assert model.constraint_count == 0 and model.reward.shape == (9,)


def test_the_forest_of_mdptoolbox():
    """`mdptoolbox.example.forest()`: 3 states, wait or cut; at discount .9 its policy is to wait,
    and V = [26.244, 29.484, 33.484] (its documentation)."""
    wait = [[0.1, 0.9, 0.0], [0.1, 0.0, 0.9], [0.1, 0.0, 0.9]]
    cut = [[1.0, 0.0, 0.0]] * 3
    model = CMDP.from_mdptoolbox([wait, cut], [[0, 0], [0, 1], [4, 2]], 0.9, initial=0)
    values = [solve(model.replace(initial=s)).reward for s in range(3)]
    np.testing.assert_allclose(values, [26.244, 29.484, 33.484], rtol=1e-9)


MDPTOOLBOX = {
    "P not square": (np.ones((2, 2, 3)), [0, 0], r"P\[0\]: shape \(2, 3\), expected \(3, 3\)"),
    "P empty": ([], [0], r"P: give a matrix \[S, S\] for each action"),
    "R transposed": (P[:2], np.zeros((2, 3)), r"R: shape \(2, 3\), expected \[S\], \[S, A\] or"),
    "R too few": (P, FORMS["sparse"](PAID[:2]), r"R: 2 matrices for 3 actions"),
}


@pytest.mark.parametrize(("matrices", "rewards", "sentence"), MDPTOOLBOX.values(), ids=MDPTOOLBOX)
def test_mdptoolbox_refusals(matrices, rewards, sentence):
    with pytest.raises(InputError, match=sentence):
        CMDP.from_mdptoolbox(matrices, rewards, 0.9, initial=0)


def test_quantecon_tables_and_pairs_are_one_model():
    Q = P.transpose(1, 0, 2)
    model = CMDP.from_quantecon(REWARD, Q, 0.9, constraints=[COST], **REST)
    assert model.digest == plain().digest
    s, a = (part.ravel() for part in np.indices((S, A)))
    for order in (np.arange(9), RNG.permutation(9)):
        for rows in (Q.reshape(9, S)[order], sp.csr_array(Q.reshape(9, S)[order])):
            pairs = REWARD.ravel()[order], rows, 0.9, s[order], a[order]
            own = CMDP.from_quantecon(*pairs, constraints=[COST.ravel()[order]], **REST)
            assert own.digest == model.digest


def test_quantecon_constraints_have_the_shape_of_the_rewards():
    with pytest.raises(InputError, match=r"constraints\[0\]: shape \(3,\), expected \(3, 3\) as R"):
        CMDP.from_quantecon(REWARD, P.transpose(1, 0, 2), 0.9, constraints=[COST[0]], **REST)


def test_quantecon_minus_infinity_is_no_action():
    """The example of QuantEcon's documentation: state 0 has two actions, state 1 one;
    at beta .95 the values are -8.57142857 and -20."""
    R, Q = [[5, 10], [-1, -np.inf]], [[(0.5, 0.5), (0, 1)], [(0, 1), (0.5, 0.5)]]
    table = CMDP.from_quantecon(R, Q, 0.95, initial=0)
    pairs = CMDP.from_quantecon(
        [5, 10, -1], [(0.5, 0.5), (0, 1), (0, 1)], 0.95, [0, 0, 1], [0, 1, 0], initial=0
    )
    assert table.choices == 3 and table.digest == pairs.digest
    for model in (table, pairs):
        assert solve(model).reward == pytest.approx(-8.57142857, abs=1e-8)
        assert solve(model.replace(initial=1)).reward == pytest.approx(-20, abs=1e-8)


QUANTECON = {
    "shapes": ((np.zeros((2, 2)), np.ones((2, 2, 3))), r"R \(2, 2\) and Q \(2, 2, 3\) do not fit"),
    "pairs": ((np.zeros(2), np.ones((3, 2)), 0.9, [0, 1], [0, 0]), r"Q \(3, 2\) do not fit"),
    "twice": ((np.zeros(2), np.eye(2), 0.9, [0, 0], [1, 1]), "state 0, action 1 is listed twice"),
    "none": ((np.zeros(2), np.eye(2), 0.9, [0, 0], [0, 1]), "state 1: the action set is empty"),
    "range": ((np.zeros(2), np.eye(2), 0.9, [0, 2], [0, 0]), r"s_indices\[1\] is 2; it must lie"),
    "size": ((np.zeros(2), np.eye(2), 0.9, [0], [0, 0]), r"s_indices: shape \(1,\) of int64, exp"),
    "NaN": ((np.full((1, 1), np.nan), np.ones((1, 1, 1))), "reward of state 0, action 0 is nan"),
}


@pytest.mark.parametrize(("arguments", "sentence"), QUANTECON.values(), ids=QUANTECON)
def test_quantecon_refusals(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        CMDP.from_quantecon(*arguments, **({"beta": 0.9} if len(arguments) < 3 else {}), initial=0)


# ---- UMB
@pytest.fixture
def umb(tmp_path):
    """Two rooms and a door: `stay` or `go`, which fails with chance 1/4, then the door."""
    ats = pytest.importorskip("umbi.ats", reason="umbi is not installed (extra 'umb')")
    model = ats.ExplicitAts()
    model.time, model.num_players = ats.TimeType.DISCRETE, 1
    model.choice_action_to_name = ["stay", "go"]
    model.num_choice_actions = 2
    for _ in range(3):
        model.add_state()
    model.set_initial_states([0])
    rooms = [(0, 0, {0: 4}), (0, 1, {1: 3, 0: 1}), (1, 1, {2: 3, 1: 1}), (1, 1, {2: 4})]
    for s, a, chances in (*rooms, (2, 0, {2: 4})):
        choice = model.add_state_choice(state=s)
        choice.action = a
        for to, weight in chances.items():
            choice.add_branch(target=to, prob=Fraction(weight, 4))
    model.add_ap_annotation(name="door").set_state_values([False, False, True])
    pay = model.add_reward_annotation(name="pay")
    pay.set_state_values([1.0, 2.0, 0.0])
    pay.set_choice_values([0.5, 0.0, 0.0, 7.0, 0.0])
    model.add_reward_annotation(name="noise").set_branch_values([0.0, 8.0, 4.0, 8.0, 0.0, 2.0, 0.0])
    model.validate()
    ats.write(model, tmp_path / "rooms.umb")
    return tmp_path / "rooms.umb"


def test_a_umb_file_is_the_model_that_it_says(umb):
    model = CMDP.from_umb(umb, discount=0.9, limits=["noise<=10"], goal="door", minimise=True)
    assert (model.states, model.choices, model.minimise) == (3, 5, True)
    np.testing.assert_allclose(model.reward, [1.5, 1.0, 2.0, 9.0, 0.0])
    np.testing.assert_allclose(model.constraints, [[0.0, 7.0, 6.0, 2.0, 0.0]])
    assert model.transitions.tensor[0, 1].tolist() == [0.25, 0.75, 0.0]
    assert model.action_names == (("stay", "go"), ("go", "go#2"), ("stay",))
    assert model.limits.texts == ("noise<=10",) and model.initial.tolist() == [1.0, 0.0, 0.0]
    other = CMDP.from_umb(umb, discount=0.9, reward="noise", initial=1)
    np.testing.assert_allclose(other.reward, [0.0, 7.0, 6.0, 2.0, 0.0])
    assert other.initial.tolist() == [0.0, 1.0, 0.0]


def test_what_a_umb_file_does_not_have_is_named(umb):
    with pytest.raises(InputError, match=r"rooms\.umb: reward 'pai' is not known; did you"):
        CMDP.from_umb(umb, discount=0.9, reward="pai")
    with pytest.raises(InputError, match=r"goal: label 'dor' is not known; did you mean 'door'"):
        CMDP.from_umb(umb, discount=0.9, goal=["dor"])
    with pytest.raises(InputError, match="discount: nothing says it"):
        CMDP.from_umb(umb)


def members(path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {one.name: archive.extractfile(one).read() for one in archive if one.isfile()}


def write(path, parts, packed=gzip.compress):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in parts.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    path.write_bytes(packed(buffer.getvalue()))


def test_a_umb_file_need_not_be_packed(umb):
    expected = CMDP.from_umb(umb, discount=0.9).digest
    write(umb, members(umb), packed=bytes)
    assert CMDP.from_umb(umb, discount=0.9).digest == expected


def test_damaged_umb_files_are_one_sentence(umb):
    """Whatever is cut out, cut short or overwritten: a model, or an InputError with the name."""
    parts, rng = members(umb), np.random.default_rng(0)
    sentences = []
    for name, content in parts.items():
        for bad in (None, b"", content[:-1], content + b"\0", rng.bytes(len(content))):
            broken = {key: value for key, value in parts.items() if key != name}
            write(umb, broken if bad is None else {**broken, name: bad})
            try:
                CMDP.from_umb(umb, discount=0.9, limits=["noise<=10"])
            except InputError as error:
                sentences.append(str(error))
    assert len(sentences) > len(parts) and not any("\n" in sentence for sentence in sentences)
    umb.write_bytes(b"\x1f\x8bnothing")
    with pytest.raises(InputError, match=r"rooms\.umb: it is not a UMB file, or a damaged one"):
        CMDP.from_umb(umb, discount=0.9)


def test_a_umb_file_allocates_nothing_that_it_does_not_hold(umb, monkeypatch):
    parts = members(umb)
    index = json.loads(parts["index.json"])
    index["transition-system"]["#states"] = 10**15
    write(umb, {**parts, "index.json": json.dumps(index).encode()})
    with pytest.raises(InputError, match="it claims 1000000000000000 states, more than"):
        CMDP.from_umb(umb, discount=0.9)
    write(umb, {**parts, "zeros": bytes(10**6)})
    monkeypatch.setattr(foreign, "LARGEST_UMB", 10**5)
    with pytest.raises(InputError, match="it unpacks to more than 100,000 bytes"):
        CMDP.from_umb(umb, discount=0.9)


def test_without_umbi_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "umbi", None)
    monkeypatch.setitem(sys.modules, "umbi.umb", None)
    with pytest.raises(InputError, match=r"needs the package 'umbi.*'; install cmdpax\[umb\]"):
        CMDP.from_umb("rooms.umb", discount=0.9)
