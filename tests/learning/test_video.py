"""Films: what is written above a picture, how many pictures, how fast; which library draws."""

import os
import subprocess
import sys
from typing import ClassVar

import gymnasium
import imageio.v3
import numpy as np
import pytest
from PIL import Image

import probes
from cmdpax import InputError
from cmdpax.cli.main import main
from cmdpax.learning import video as film
from cmdpax.learning.gym_simulator import GymSimulator
from cmdpax.learning.training import train
from cmdpax.learning.video import captioned, choose_gl, drawn, has_egl, library, video, word
from short_run import SMALL

NO_DRIVERS = {"__EGL_VENDOR_LIBRARY_FILENAMES": os.devnull}  # EGL without a device


class Painted(probes.Meter):
    """Draws grey pictures of an odd size."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 60}

    def __init__(self, render_mode=None):
        super().__init__()
        self.render_mode = render_mode

    def render(self):
        return np.full((63, 65, 3), 100, dtype=np.uint8)

    def caption(self):
        return "light", "bright", "<= limit 3"


gymnasium.register("Painted-v0", Painted)


@pytest.fixture(scope="module")
def painted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "painted"
    settings = {"environment": "Painted-v0", "samples": 100, "limits": "cost<=6", "discount": 0.9}
    train(**{**SMALL, **settings}, folder=folder)
    return folder


@pytest.fixture
def written(monkeypatch):
    """The rows of text above every picture."""
    rows = []

    def spy(picture, texts):
        rows.append([tuple(row) for row in texts])
        return captioned(picture, texts)

    monkeypatch.setattr(film, "captioned", spy)
    return rows


def test_an_unknown_format_is_refused(painted, tmp_path):
    with pytest.raises(SystemExit) as stop:
        main(["film", str(painted), "--out", str(tmp_path / "policy.avi")])
    assert stop.value.code == 2


def test_totals_so_far_stand_above_the_pictures(painted, tmp_path, written):
    """Ten steps that earn one and cost one each; 60 steps a second make 30 pictures: every other,
    and the last.
    """
    video(painted, tmp_path / "policy.gif", steps=7)
    assert written == [
        [
            ("return", f"{age}.0", f"step {age}"),
            ("cost", str(age), "limit cost<=6"),
            ("light", "bright", "<= limit 3"),
        ]
        for age in (0, 2, 4, 6, 7)
    ]
    written.clear()
    video(painted, tmp_path / "policy.gif")  # until the episode ends
    assert written[-1][:2] == [("return", "10.0", "step 10"), ("cost", "10", "limit cost<=6")]


def test_costs_are_what_the_limit_is_on(tmp_path, written):
    settings = {"environment": "Painted-v0", "samples": 100, "limits": "cost<=6", "discount": 0.9}
    train(**{**SMALL, **settings}, discounted=True, folder=tmp_path / "run")
    video(tmp_path / "run", tmp_path / "policy.gif", steps=2)
    assert written[-1][1] == ("cost", "1.9", "limit cost<=6")


@pytest.mark.parametrize("name", ["policy.mp4", "policy.gif"])
def test_a_film_of_odd_sides_is_a_film(painted, tmp_path, name):
    path = video(painted, tmp_path / name, steps=4)
    pictures = imageio.v3.imread(path)
    assert len(pictures) == 3
    height, width = pictures.shape[1:3]
    assert height % 2 == width % 2 == 0 and height > 63 + 3 * film.LINE and width > 65
    assert [file.name for file in tmp_path.iterdir()] == [name]  # and no half of one


def test_text_and_picture_are_whole():
    """The picture is under the text, in the middle, and nothing of either is cut off."""
    picture = Image.fromarray(np.full((63, 65, 3), 100, dtype=np.uint8))
    rows = [("return", "1.0", "step 1"), ("a cost with a long name", "2", "limit cost<=25")]
    page = np.asarray(captioned(picture, rows))
    middle = (page.shape[1] - 65) // 2
    top = 2 * film.LINE + film.GAP
    assert (page[top : top + 63, middle : middle + 65] == 100).all()
    strip = page[:top]
    assert (strip[:, -film.GAP // 2 :] == 255).all() and (strip[-2:] == 255).all()
    ink = sum((255 - np.asarray(word(text), dtype=int)).sum() for row in rows for text in row)
    assert ink > 0 and (255 - strip[..., 0].astype(int)).sum() == ink


def test_what_draws_no_picture_is_named(painted, tmp_path, monkeypatch):
    for nothing in (None, np.zeros((4, 4))):
        monkeypatch.setattr(Painted, "render", lambda self, nothing=nothing: nothing)
        with pytest.raises(InputError, match="'Painted-v0': render returned no picture"):
            video(painted, tmp_path / "policy.gif")

    def fail(self):
        raise RuntimeError("no GL")

    monkeypatch.setattr(Painted, "render", fail)
    with pytest.raises(InputError, match=r"RuntimeError: no GL .* apt install libegl1 libgl1"):
        video(painted, tmp_path / "policy.gif")
    assert not list(tmp_path.iterdir())


def test_a_library_that_is_set_stays(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    choose_gl()
    assert os.environ["MUJOCO_GL"] == "glfw"


@pytest.mark.parametrize(
    ("egl", "osmesa", "chosen"),
    [(True, True, "egl"), (False, True, "osmesa"), (False, False, "unset")],
)
def test_the_library_that_is_there_draws(monkeypatch, egl, osmesa, chosen):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("MUJOCO_GL", "")
    monkeypatch.setattr(film, "has_egl", lambda: egl)
    monkeypatch.setattr(film, "library", lambda file: osmesa)
    choose_gl()
    assert (os.environ["MUJOCO_GL"] or "unset") == chosen


def test_no_library_is_no_egl(monkeypatch):
    assert library("libof-nobody.so.1") is None
    monkeypatch.setattr(film, "library", lambda file: None)
    assert not has_egl()


def shell(*arguments, **variables):
    """A process of its own: MuJoCo and PyOpenGL choose a library once."""
    inherited = {key: value for key, value in os.environ.items() if key != "MUJOCO_GL"}
    command = [sys.executable, "-m", "cmdpax", *map(str, arguments)]
    return subprocess.run(
        command, env={**inherited, **variables}, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or not has_egl(), reason="nothing to draw with")
@pytest.mark.parametrize("name", ["policy.gif", "policy.mp4"])
def test_a_robot_is_filmed_without_a_display(finished, tmp_path, name):
    done = shell("film", finished, "--out", tmp_path / name, "--steps", 10, DISPLAY="")
    assert done.returncode == 0, done.stderr
    pictures = imageio.v3.imread(tmp_path / name)
    assert pictures[0].std() > 20


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or library("libOSMesa.so.8"), reason="OSMesa draws")
def test_without_a_library_there_is_one_sentence(finished, tmp_path):
    path = tmp_path / "policy.mp4"
    done = shell("film", finished, "--out", path, "--steps", 10, DISPLAY="", **NO_DRIVERS)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "apt install libegl1 libgl1" in done.stderr and not path.exists()


def test_a_picture_is_what_the_environment_shows():
    simulator = GymSimulator(lambda: Painted("rgb_array"))
    assert drawn(simulator).size == (65, 63)
