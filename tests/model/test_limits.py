import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmdpax import InputError
from cmdpax.model.limits import Limits, can_be_limited


def test_each_sense_makes_its_rows():
    limits = Limits.of([25, 10, 3, (2, 5)], ["<=", ">=", "==", "in"])
    assert limits.names == ("c0", "c1", "c2", "c3")
    np.testing.assert_array_equal(limits.rows, [0, 1, 2, 2, 3, 3])
    np.testing.assert_array_equal(limits.signs, [-1, 1, 1, -1, 1, -1])
    np.testing.assert_array_equal(limits.row_thresholds, [-25, 10, 3, -3, 2, -5])
    np.testing.assert_array_equal(limits.turn(np.array([1.0, 2, 3, 4])), [-1, 2, 3, -3, 4, -4])
    np.testing.assert_array_equal(limits.margins(np.array([20.0, 12, 4, 3])), [5, 2, -1, 1])


def test_thresholds_are_as_written():
    np.testing.assert_array_equal(Limits.of([25, 10], ["<=", ">="]).thresholds, [25, 10])
    both = Limits.of([25, (2, 5)], ["<=", "in"])
    np.testing.assert_array_equal(both.thresholds, [[-np.inf, 25], [2, 5]])
    again = Limits.of(both.thresholds)
    assert again.senses == both.senses
    np.testing.assert_array_equal(again.bounds, both.bounds)
    assert both.entries == [25, [2, 5]] and again.entries == both.entries
    narrow = Limits.of([(3, 3), (3, 3), 3], ["in", None, "=="])
    assert narrow.senses == ("in", "==", "==") and narrow.entries == [[3, 3], 3, 3]
    assert len(Limits.of([])) == 0 and Limits.of(3.0).senses == (">=",)


def test_where_nothing_turns_the_array_itself_comes_back():
    values = np.arange(6.0).reshape(2, 3)
    rows = Limits.of([1, 2], ">=")
    assert rows.turn(values, axis=0) is values
    np.testing.assert_array_equal(rows.row_thresholds, [1, 2])
    turned = Limits.of([1, 2], ["<=", ">="]).turn(values, axis=0)
    np.testing.assert_array_equal(turned, [[0, -1, -2], [3, 4, 5]])
    assert not np.signbit(turned[0, 0])  # one form for one number


def test_prices_of_two_rows_fold_into_one_signed_price():
    limits = Limits.of([25, 3, (2, 5)], ["<=", "==", "in"])
    np.testing.assert_array_equal(limits.fold(np.array([7.0, 0, 4, 2, 0])), [7, -4, 2])
    np.testing.assert_array_equal(limits.unfold(np.array([7.0, -4, 2])), [7, 0, 4, 2, 0])


@given(st.lists(st.tuples(st.sampled_from(["<=", ">=", "==", "in"]), st.floats(-9, 9)), max_size=5))
def test_a_limit_is_kept_when_all_its_rows_are(written):
    thresholds = [(bound, bound + 1) if sense == "in" else bound for sense, bound in written]
    limits = Limits.of(thresholds, [sense for sense, _ in written])
    values = np.linspace(-3, 3, len(written))
    rows = limits.turn(values) - limits.row_thresholds
    least = np.full(len(written), np.inf)
    np.minimum.at(least, limits.rows, rows)
    np.testing.assert_allclose(limits.margins(values), least, rtol=0, atol=1e-15)


def test_texts():
    limits = Limits.parse(["cost<=25", " up time >= -1e3 ", "2 <= heat <= 5", "stock==3"])
    assert limits.names == ("cost", "up time", "heat", "stock")
    assert limits.texts == ("cost<=25", "up time>=-1000", "2<=heat<=5", "stock==3")
    assert Limits.parse(limits.texts).texts == limits.texts == tuple(str(limits).split(", "))


@pytest.mark.parametrize(
    "text",
    ["cost", "cost<25", "<=25", "cost<=", "cost<=nan", "cost<=many", "cost<=25 or so", "5<=x<=nan"],
)
def test_texts_that_are_not_understood(text):
    with pytest.raises(InputError, match="not understood"):
        Limits.parse([text])
    with pytest.raises(InputError, match="'5<=x<=2': nothing lies in it; write the smaller number"):
        Limits.parse(["5<=x<=2"])


def test_limits_must_fit_the_environment():
    assert Limits.parse(["noise<=2", "heat>=1"]).columns(("heat", "noise")) == [1, 0]
    with pytest.raises(InputError, match="did you mean 'heat'"):
        Limits.parse(["heet<=1"]).columns(("heat", "noise"))
    with pytest.raises(InputError, match="it has none"):
        Limits.parse(["heat<=1"]).columns(())
    with pytest.raises(InputError, match="twice"):
        Limits.parse(["heat<=1", "heat>=0.5"])


@pytest.mark.parametrize(
    ("thresholds", "senses", "sentence"),
    [
        ([1, 2], ["<="], "1 given for 2"),
        ([1], ["<"], r"senses\[0\] is '<'"),
        ([1], 3, r"senses\[0\] is 3"),
        ([np.nan], None, r"thresholds\[0\] is nan"),
        ([1e101], None, "rescale"),
        ([(5, 2)], None, "low <= high"),
        ([(1, 2)], ["<="], "its sense is 'in', not '<='"),
        ([(1, 2)], ["=="], "its sense is 'in', not '=='"),
        ([(-np.inf, 2)], [">="], "its sense is '<=', not '>='"),
        ([(-np.inf, 2)], ["in"], "its sense is '<=', not 'in'"),
        ([1], ["in"], r"a range needs a pair \(low, high\)"),
        (["1"], None, r"thresholds\[0\] is '1'; it must be a number"),
        ([None], None, r"thresholds\[0\] is None; it must be a number"),
        ([(1, 2, 3)], None, "a pair"),
        (["much"], None, "must be a number"),
        ([(-np.inf, np.inf)], None, "finite"),
    ],
)
def test_refusals(thresholds, senses, sentence):
    with pytest.raises(InputError, match=sentence):
        Limits.of(thresholds, senses)


@given(st.text(st.sampled_from("ab9 _.-[]/:<>=\n"), max_size=6))
def test_names_that_limits_can_have(name):
    possible = name != "" and name == name.strip() and not set("<>=") & set(name)
    assert can_be_limited(name) == possible
    if possible:
        assert Limits.parse([f"{name}<=3"]).names == (name,)
