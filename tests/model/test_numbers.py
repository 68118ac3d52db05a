"""Numbers as users give them, and distributions whose sum is 1 to the last bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmdpax import InputError
from cmdpax.model.numbers import normalised, real_array, real_number, refuse_huge, refuse_large


def test_absurd_sizes_are_refused_before_allocating() -> None:
    with pytest.raises(
        InputError, match=r"\(1000000, 10, 1000\) would be more than 2e\+09 entries"
    ):
        refuse_huge((1_000_000, 10, 1000))


@given(st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_normalising_is_idempotent(seed: int, terms: int) -> None:
    """Otherwise a model would change every time it is copied or saved."""
    once = normalised(np.random.default_rng(seed).random((5, terms)) + 1e-3)
    np.testing.assert_allclose(once.sum(-1), 1, rtol=1e-15 * (terms + 1))
    assert normalised(once.copy()).tobytes() == once.tobytes()


@pytest.mark.parametrize("wrong", [None, "text", [[1], [1, 2]], [object()], [1j]])
def test_what_is_no_array_of_real_numbers(wrong: object) -> None:
    with pytest.raises(InputError, match="prices: it must be an array of real numbers"):
        real_array("prices", wrong)


@pytest.mark.parametrize("wrong", [None, "1", float("nan"), float("inf"), 10**400, 1j])
def test_what_is_no_finite_number(wrong: object) -> None:
    with pytest.raises(InputError, match=r"price: .* is not a finite number"):
        real_number("price", wrong)


def test_numbers_whose_squares_would_overflow_are_refused() -> None:
    refuse_large("prices", np.array([1e100, -1e100]))
    with pytest.raises(InputError, match=r"prices: it has entries beyond 1e\+100"):
        refuse_large("prices", np.array([0.0, -2e100]))
