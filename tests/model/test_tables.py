"""A table is the model that its rows say; whatever is wrong with one is named by its line."""

import sys
import warnings

import numpy as np
import pytest

from cmdpax import CMDP, InputError, solve
from cmdpax.model import tables

MACHINE = """\
# discount = 0.9
# made by hand
# initial = works
# limit = energy<=12
# limit = output>=5
state,action,next_state,probability,reward,energy,output,remark
works,slow,works,0.98,1,1,1,fine
works,slow,broken,0.02,1,1,1,
works,fast,works,0.8,3,2,2,
works,fast,broken,0.2,3,2,2,
broken,repair,works,0.5,-1,0,0,"dear, and slow"
broken,repair,broken,0.5,-1,0,0,
"""
CORRIDOR = """\
state,action,next_state,probability,reward
0,stay,0,1,0
1,go,2,1,-1
0,go,1,1,-1
"""
SAID = {"discount": 0.9, "initial": 0}


def same() -> CMDP:
    """The model of docs/model-format.md, which MACHINE is."""
    mask = [[True, True, False], [False, False, True]]
    return CMDP(
        [[[0.98, 0.02], [0.8, 0.2], [0, 0]], [[0, 0], [0, 0], [0.5, 0.5]]],
        [[1, 3, 0], [0, 0, -1]],
        [[[1, 2, 0], [0, 0, 0]], [[1, 2, 0], [0, 0, 0]]],
        [12, 5],
        [1, 0],
        0.9,
        senses=["<=", ">="],
        available=mask,
    )


@pytest.fixture
def written(tmp_path):
    def write(text, name="model.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_csv_file_says_everything(written, delimiter):
    rows = MACHINE.replace(",", delimiter).replace(f"dear{delimiter}", "dear,")
    model = CMDP.from_table(written("\ufeff" + rows.replace("\n", "\r\n")))
    assert model.digest == same().digest
    assert model.state_names == ("works", "broken")
    assert model.action_names == ("slow", "fast", "repair")
    assert model.limits.texts == ("energy<=12", "output>=5")
    assert solve(model).reward == pytest.approx(solve(same()).reward, rel=1e-9)


def test_what_the_caller_says_counts_first(written):
    path = written(MACHINE)
    model = CMDP.from_table(
        path,
        discount=0.5,
        limits=["2<=energy<=3"],
        initial={"works": 0.25, "broken": 0.75},
        reward="output",
        minimise=True,
    )
    assert (model.discount, model.minimise, model.limits.texts) == (0.5, True, ("2<=energy<=3",))
    np.testing.assert_array_equal(model.initial, [0.25, 0.75])
    np.testing.assert_array_equal(model.reward, [1, 2, 0])
    assert CMDP.from_table(path, initial=["works=0.25", "broken=0.75"]).initial[1] == 0.75


def columns():
    import csv

    rows = list(csv.reader(MACHINE.splitlines()[5:]))
    named = dict(zip(rows[0], zip(*rows[1:])))
    number = {name: np.array(named[name], dtype=float) for name in list(named)[3:7]}
    return {**{name: list(named[name]) for name in tables.NAMES}, **number}


SAYS = {"discount": 0.9, "initial": "works", "limits": ["energy<=12", "output>=5"]}


@pytest.mark.parametrize("kind", ["mapping", "frame", "parquet", "arrow"])
def test_columns_in_memory_and_parquet_are_the_same_model(tmp_path, kind):
    table = columns()
    if kind == "frame":
        table = pytest.importorskip("pandas").DataFrame(table)
    elif kind != "mapping":
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        table = arrow.table(table)
        if kind == "parquet":
            parquet.write_table(table, tmp_path / "model.parquet")
            table = tmp_path / "model.parquet"
        else:
            table = dict(zip(table.column_names, table.columns))
    assert CMDP.from_table(table, **SAYS).digest == same().digest


def test_rewards_of_transitions_count_with_their_probability(written):
    text = "state,action,next_state,probability,reward\n0,0,0,0.25,8\n0,0,1,0.75,4\n1,0,1,1,0\n"
    assert CMDP.from_table(written(text), **SAID).reward.tolist() == [5.0, 0.0]


def test_rows_in_any_order_and_rows_that_repeat_a_successor_add_up(written):
    head, *rows = MACHINE.splitlines()[5:]
    rows[0:1] = ["works,slow,works,0.49,0,0,2,", "works,slow,works,0.49,2,2,0,"]
    rng = np.random.default_rng(0)
    for _ in range(5):
        rng.shuffle(rows)
        text = "\n".join([head, *rows])
        own = CMDP.from_table(written(text), **SAYS)
        order = [own.state_names.index(name) for name in ("works", "broken")]
        assert own.initial[order[0]] == 1
        assert solve(own).reward == pytest.approx(solve(same()).reward, rel=1e-9)


def test_numbers_are_numbers_in_any_order(written):
    text = "state,action,next_state,probability,reward\n2,1,0,1,5\n1,0,2,1,4\n0,1,1,1,3\n"
    model = CMDP.from_table(written(text), **SAID)
    assert model.state_names is None and model.action_names is None
    assert model.as_table(model.reward).tolist() == [[0, 3], [4, 0], [0, 5]]
    names = CMDP.from_table(written(text.replace("2", "02")), **SAID)  # not a number
    assert names.state_names == ("02", "1", "0")


def test_a_goal_needs_no_rows(written):
    model = CMDP.from_table(written(CORRIDOR), **SAID, goal="2")
    assert model.reward.tolist() == [0, -1, -1, 0]
    value = solve(model.replace(initial=1)).reward
    assert value == pytest.approx(-1)
    assert tables.table_fields(written(CORRIDOR), **SAID, goal=["2"])["goal"].tolist()[-1]


def test_rows_slightly_off_are_divided_and_said(written):
    text = "state,action,next_state,probability,reward\n" + "".join(
        f"{s},0,{to},0.333333,{to}\n" for s in range(3) for to in range(3)
    )
    with pytest.warns(UserWarning, match="miss a sum of 1, by up to 1e-06"):
        model = CMDP.from_table(written(text), **SAID)
    np.testing.assert_allclose(model.reward, 1.0, rtol=1e-15)


HEAD = "state,action,next_state,probability,reward\n"
BAD = {
    "no column": (HEAD.replace("probability", "chance"), "there is no column 'probability'; known"),
    "twice": (HEAD.replace("reward", "Action") + "0,0,0,1,0\n", "the column 'action' occurs twice"),
    "empty": ("", "there is no column 'state'; it is empty"),
    "no rows": (HEAD, "it has no rows; give one for each successor"),
    "no number": (HEAD + "0,0,0,1,0\n0,1,0,one,0\n", "line 3: probability: 'one' is not a number"),
    "empty field": ("# a comment\n" + HEAD + "0,0,0,1,\n", "line 3: reward: '' is not a number"),
    "NaN": (HEAD + "0,0,0,nan,1\n", "line 2: probability nan is no probability"),
    "negative": (HEAD + "0,0,0,1.5,1\n0,0,0,-.5,1\n", "line 3: probability -0.5 is no probability"),
    "infinite": (HEAD + "0,0,0,1,0\n0,1,0,1,inf\n", "line 3: reward is inf; give a finite number"),
    "short": (HEAD + "0,0,0,1,1\n0,1,0,1\n", "line 3: 4 fields where the head has 5; repair it"),
    "sum": (
        HEAD + "0,0,0,1,1\nb,a,0,.5,1\nb,a,b,.4,1\n",
        r"line 3: the probabilities of state 'b', action 'a' sum to 0\.9, not 1; add what is",
    ),
    "no rows of": (HEAD + "0,0,0,1,1\n0,1,end,1,1\n", "line 3: next state 'end' has no rows of"),
    "quote": (HEAD + '0,0,0,1,"1\n', "line 2: unexpected end of data; repair it"),
    "setting": (
        "# limt = cost<=3\n" + HEAD,
        "line 1: setting 'limt' is not known; did you mean 'l",
    ),
    "setting twice": ("# reward = a\n# reward = b\n" + HEAD, "line 2: 'reward' is set twice"),
    "not text": (b"\xff\xfe" + HEAD.encode(), "it is not text in UTF-8"),
    "truth": ("# minimise = perhaps\n" + HEAD, "minimise 'perhaps' is not known"),
    "empty lines": (
        HEAD + "\n0,0,0,1,1\n\n0,1,0,1,x\n",
        "row 2 below the head: reward: 'x' is not",
    ),
    "limit": ("# limit = cost<=3\n" + HEAD, "there is no column 'cost'; known"),
}


@pytest.mark.parametrize(("text", "sentence"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_named_by_its_line(written, text, sentence):
    path = written(text)
    with pytest.raises(InputError, match=rf"model\.csv: {sentence}") as caught:
        CMDP.from_table(path, **SAID)
    assert str(caught.value)[-1] in ".?" and "\n" not in str(caught.value)


def test_what_nobody_says_is_asked_for(written):
    with pytest.raises(InputError, match="discount: nothing says it; give discount=, or begin"):
        CMDP.from_table(written(HEAD + "0,0,0,1,0\n"), initial=0)
    with pytest.raises(InputError, match="initial: nothing says it; give initial="):
        CMDP.from_table(written(HEAD + "0,0,0,1,0\n"), discount=0.9)
    with pytest.raises(InputError, match="initial: there is no state 'wrks'; did you mean 'works'"):
        CMDP.from_table(written(MACHINE), initial="wrks")
    with pytest.raises(InputError, match="goal: there is no state '7'"):
        CMDP.from_table(written(MACHINE), goal=[7])
    with pytest.raises(InputError, match=r"the ending '\.txt' is not known"):
        CMDP.from_table(written(MACHINE, "model.txt"))
    with pytest.raises(InputError, match=r"gone\.csv: there is no such file"):
        CMDP.from_table("gone.csv")


def test_columns_are_looked_at():
    table = columns()
    with pytest.raises(InputError, match=r"columns have different lengths \(state 6, .*action 5"):
        CMDP.from_table({**table, "action": table["action"][1:]}, **SAYS)
    with pytest.raises(InputError, match="column 'reward' holds <U1; it must hold numbers"):
        CMDP.from_table({**table, "reward": ["a"] * 6}, **SAYS)
    with pytest.raises(InputError, match="column 'state' holds float64; give names or whole"):
        CMDP.from_table({**table, "state": np.zeros(6)}, **SAYS)
    with pytest.raises(InputError, match=r"row 1: reward is nan; give a finite number"):
        CMDP.from_table({**table, "reward": [0, np.nan, 0, 0, 0, 0]}, **SAYS)


def test_a_damaged_parquet_file_is_one_sentence(written, tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow
    import pyarrow.parquet

    with pytest.raises(InputError, match=r"m\.parquet: it is not a Parquet file, or a damaged one"):
        CMDP.from_table(written(b"PAR1 nothing PAR1", "m.parquet"), **SAYS)
    table = columns()
    table["state"][2] = None
    pyarrow.parquet.write_table(pyarrow.table(table), tmp_path / "n.parquet")
    with pytest.raises(InputError, match="column 'state' has 1 empty entries; fill them"):
        CMDP.from_table(tmp_path / "n.parquet", **SAYS)


def test_a_parquet_file_that_unpacks_to_too_much_is_refused_before(tmp_path, monkeypatch):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table(columns()), tmp_path / "m.parquet")
    monkeypatch.setattr(tables, "MOST_ROWS", 5)
    with pytest.raises(InputError, match="it unpacks to 6 rows"):
        CMDP.from_table(tmp_path / "m.parquet", **SAYS)


def test_without_pyarrow_the_extra_is_named(written, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"needs the package 'pyarrow'; install cmdpax\[parquet\]"):
        CMDP.from_table(written(b"", "m.parquet"), **SAYS)


def test_many_chunks_are_one_table(written):
    """Rows beyond a chunk keep their labels, their numbers and their lines."""
    n = 2 * tables.CHUNK + 7
    rows = [f"s{i},go,s{(i + 1) % n},1,{i}\n" for i in range(n)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CMDP.from_table(written(HEAD + "".join(rows)), discount=0.9, initial="s0")
    assert model.states == n
    np.testing.assert_array_equal(model.reward, np.arange(n))
    np.testing.assert_array_equal(model.transitions.successors, (np.arange(n) + 1) % n)
    rows[tables.CHUNK + 3] = "s0,go,s1,1,x\n"
    line = tables.CHUNK + 5
    with pytest.raises(InputError, match=f"line {line}: reward: 'x' is not a number"):
        CMDP.from_table(written(HEAD + "".join(rows)), discount=0.9, initial="s0")


def test_a_file_may_say_that_the_average_counts(tmp_path):
    """No discount is needed then; what the caller says counts first."""
    rows = "state,action,next_state,probability,reward\n0,a,1,1,4\n1,a,0,1,0\n"
    path = tmp_path / "swing.csv"
    path.write_text("# criterion = average\n# initial = 0\n" + rows)
    model = CMDP.from_table(path)
    assert model.criterion == "average" and solve(model).reward == pytest.approx(2.0)
    with pytest.raises(InputError, match="criterion"):
        CMDP.from_table(path, criterion="mean", discount=0.9)
    path.write_text("# discount = 1\n# may_stay = true\n# initial = 0\n" + rows.replace("4", "0"))
    assert CMDP.from_table(path).may_stay
    path.write_text("# may_stay = perhaps\n# discount = 1\n# initial = 0\n" + rows)
    with pytest.raises(InputError, match="may_stay 'perhaps' is not known"):
        CMDP.from_table(path)
