import pytest

from cmdpax.errors import CertificateError, CmdpaxError, InputError, NumericalError, did_you_mean


def test_suggestion_or_list():
    assert did_you_mean("cliff-wrold", ["cliff-world", "queue"]) == "did you mean 'cliff-world'?"
    assert did_you_mean("zzz", ["b", "a"]) == "known: a, b."


@pytest.mark.parametrize("kind", [InputError, CertificateError, NumericalError])
def test_every_error_is_ours(kind):
    assert issubclass(kind, CmdpaxError)
