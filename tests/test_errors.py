"""The checks of names and numbers: what passes, and the one sentence for what does not."""

import re
from functools import partial

import numpy as np
import pytest

from cmdpax.errors import (
    CertificateError,
    CmdpaxError,
    InputError,
    NumericalError,
    check_count,
    check_known,
    check_number,
    check_positive,
    check_share,
    did_you_mean,
    needing,
)


def test_suggestion_or_list():
    assert did_you_mean("cliff-wrold", ["cliff-world", "queue"]) == "did you mean 'cliff-world'?"
    assert did_you_mean("zzz", ["b", "a"]) == "known: a, b."


@pytest.mark.parametrize("kind", [InputError, CertificateError, NumericalError])
def test_every_error_is_ours(kind):
    assert issubclass(kind, CmdpaxError)


def test_what_passes_a_check_comes_back():
    assert check_known("method", "lp", {"lp": 1}) == "lp"
    assert check_number("eps", np.float32(0.5), above=0, below=1) == 0.5
    assert check_number("seconds", 0, least=0) == 0.0 and check_number("reward", -3) == -3.0
    assert check_count("inner", 3.0) == 3 and type(check_count("inner", np.int64(3))) is int
    assert check_count("seed", 0, least=0, most=9) == 0
    assert type(check_positive("step", 2)) is float
    np.testing.assert_array_equal(check_positive("step", [1, 2.5]), np.array([1.0, 2.5]))
    assert [check_share("gae", value) for value in (0, 0.5, 1)] == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("check", "values", "wanted"),
    [
        (
            partial(check_number, above=0, below=1),
            [0.0, 1, np.nan, "soon", None],
            "a number, more than 0 and below 1",
        ),
        (partial(check_number, least=0), [-1, np.inf], "a number, at least 0"),
        (check_number, [np.nan, "soon"], "a finite number"),
        (check_count, [0, 1.5, np.nan, np.inf, "3"], "a whole number of at least 1"),
        (partial(check_count, least=0, most=9), [-1, 10], "a whole number between 0 and 9"),
    ],
)
def test_numbers_that_do_not_pass_get_one_sentence(check, values, wanted):
    for value in values:
        with pytest.raises(InputError, match=f"^inner is {value!r}; it must be {wanted}.$"):
            check("inner", value)


@pytest.mark.parametrize("value", [0, -1.0, np.inf, np.nan, [1.0, 0.0], "fast"])
def test_what_is_not_positive(value):
    sentence = f"step is {value}; it must be positive and finite."
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
        check_positive("step", value)


@pytest.mark.parametrize("value", [-0.1, 1.1, np.nan, "all"])
def test_what_is_no_share(value):
    with pytest.raises(InputError, match=rf"^gae is {value}; it must lie in \[0, 1\].$"):
        check_share("gae", value)


def test_names_that_are_not_known():
    with pytest.raises(InputError, match=r"^method 'pqa-aml' is not known; did you mean 'pqa-alm'"):
        check_known("method", "pqa-aml", ["pqa-alm"])
    with pytest.raises(InputError, match=f"^key '{80 * 'b'}' is not known; known: a.$"):
        check_known("key", 10**6 * "b", ["a"])


def test_a_package_that_is_not_there_is_an_extra_to_install():
    sentence = r"this needs the package 'no_such_package'; install cmdpax\[storm\]\."
    with pytest.raises(InputError, match=sentence), needing("storm"):
        import no_such_package  # noqa: F401
    with needing("storm"):
        import math  # noqa: F401
