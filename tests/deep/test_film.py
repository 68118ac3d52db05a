import os
import subprocess
import sys

import pytest

from cmdpax.cli import main


def test_an_unknown_format_is_refused(finished, tmp_path):
    with pytest.raises(SystemExit) as stop:
        main(["film", str(finished), "--out", str(tmp_path / "policy.avi")])
    assert stop.value.code == 2


@pytest.mark.slow
def test_film_is_a_film(finished, tmp_path):
    """In a process of its own: MuJoCo chooses its GL when it is imported."""
    for name in ("policy.gif", "policy.mp4"):
        command = [sys.executable, "-m", "cmdpax", "film", str(finished), "--out", str(tmp_path / name), "--steps", "10"]
        subprocess.run(command, check=True, env={**os.environ, "MUJOCO_GL": "egl"})
        assert (tmp_path / name).stat().st_size > 1000
