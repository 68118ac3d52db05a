"""What is demanded of a claim: what does not hold is refused, in one sentence."""

from typing import Any

import numpy as np

from cmdpax.errors import CertificateError


def demand(holds: bool, sentence: str) -> None:
    """Refuse the claim with the sentence unless it holds."""
    if not holds:
        raise CertificateError(f"check failed: {sentence}.")


def demand_close(name: str, claimed: float, true: float) -> None:
    """The number is the claimed one, but for its last digits."""
    is_close = claimed == true or abs(claimed - true) <= 1e-12 * (1 + abs(true))
    demand(is_close, f"the {name} is claimed as {claimed}, it is {true}")


def vector(potential: Any, size: int) -> np.ndarray:
    """A potential of the certificate, `[size]` finite numbers."""
    v = np.asarray(potential, dtype=np.float64)
    demand(
        v.shape == (size,) and bool(np.isfinite(v).all()),
        "a potential of the certificate is missing or not finite",
    )
    return v


def gauge(potential: Any, size: int) -> np.ndarray:
    """A gauge of the certificate, `[size]` finite numbers >= 0."""
    u = vector(potential, size)
    demand(bool((u >= 0).all()), "a gauge has negative entries")
    return u
