import pytest

from whole.installing import build


@pytest.fixture(scope="session")
def distributions(tmp_path_factory):
    """The source archive and the wheel, by suffix, built once."""
    return build(tmp_path_factory.mktemp("build"))
