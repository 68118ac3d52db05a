import pytest

from cmdpax.learning.training import train
from short_run import SMALL


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A short run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    train(**SMALL, folder=folder)
    return folder
