import os
import subprocess
import sys
from dataclasses import replace
from typing import ClassVar

import gymnasium
import imageio.v3
import numpy as np
import pytest

import probes
from cmdpax import InputError
from cmdpax.cli.main import main
from cmdpax.learning.film import _even, film
from cmdpax.learning.training import train
from short_run import SMALL


def test_an_unknown_format_is_refused(finished, tmp_path):
    with pytest.raises(SystemExit) as stop:
        main(["film", str(finished), "--out", str(tmp_path / "policy.avi")])
    assert stop.value.code == 2


@pytest.mark.slow
def test_film_is_a_film(finished, tmp_path):
    """In a process of its own: MuJoCo chooses its GL when it is imported."""
    for name in ("policy.gif", "policy.mp4"):
        command = [
            sys.executable,
            "-m",
            "cmdpax",
            "film",
            str(finished),
            "--out",
            str(tmp_path / name),
            "--steps",
            "10",
        ]
        subprocess.run(command, check=True, env={**os.environ, "MUJOCO_GL": "egl"})
        assert (tmp_path / name).stat().st_size > 1000


def test_pictures_have_even_sides():
    """The codec of .mp4 takes no others."""
    odd = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)
    even = _even(odd, "x")
    assert even.shape == (6, 8, 3) and even.dtype == np.uint8
    np.testing.assert_array_equal(even[:5, :7], odd)
    np.testing.assert_array_equal(even[5, :7], odd[4])
    assert _even(odd[:4, :6], "x").shape == (4, 6, 3)
    for nothing in (None, np.zeros((4, 4))):
        with pytest.raises(InputError, match="environment 'x': render returned no picture"):
            _even(nothing, "x")


class Painted(probes.Bandit):
    """Draws pictures of an odd size."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def render(self):
        return np.full((63, 65, 3), 100, dtype=np.uint8)


def test_a_film_of_odd_sides_is_a_film(tmp_path):
    gymnasium.register("Painted-v0", Painted)
    train(replace(SMALL, environment="Painted-v0", samples=100), tmp_path / "run")
    path = film(tmp_path / "run", tmp_path / "policy.mp4", steps=5)
    assert imageio.v3.imread(path).shape == (1, 64, 66, 3)  # of the one step that an episode has
