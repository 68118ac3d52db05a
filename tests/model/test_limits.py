import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmdpax import InputError
from cmdpax.model.limits import Limit, can_be_limited, match_limits, parse_limit


def test_limits():
    assert parse_limit("cost<=25") == Limit("cost", "<=", 25.0)
    assert parse_limit(" up time >= -1e3 ") == Limit("up time", ">=", -1000.0)
    constraints = match_limits(["noise<=2", "heat>=1"], ("heat", "noise"))
    np.testing.assert_array_equal(constraints.rewards(np.array([[3.0, 4.0]])), [[-4, 3]])
    np.testing.assert_array_equal(constraints.thresholds, [-2, 1])


@pytest.mark.parametrize(
    "text", ["cost", "cost<25", "<=25", "cost<=", "cost<=nan", "cost<=many", "cost<=25 or so"]
)
def test_bad_limits(text):
    with pytest.raises(InputError, match="not understood"):
        parse_limit(text)


def test_limits_must_fit_the_environment():
    with pytest.raises(InputError, match="did you mean 'heat'"):
        match_limits(["heet<=1"], ("heat", "noise"))
    with pytest.raises(InputError, match="twice"):
        match_limits(["heat<=1", "heat>=0.5"], ("heat",))


@given(st.text(st.sampled_from("ab9 _.-[]/:<>=\n"), max_size=6))
def test_names_that_limits_can_have(name):
    assert can_be_limited(name) == (
        name != "" and name == name.strip() and not set("<>=") & set(name)
    )
    if can_be_limited(name):
        assert parse_limit(f"{name}<=3") == Limit(name, "<=", 3.0)
