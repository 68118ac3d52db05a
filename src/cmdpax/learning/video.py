"""One deterministic episode of a trained policy as a film, .mp4 or .gif, without a display.

Above every picture stand the return and the costs so far, with their limits. An environment may
have a method `caption`, whose three texts (what, its value, its limit) stand there too.
"""

import ctypes
import math
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from cmdpax.errors import InputError, check_count
from cmdpax.files.written import replacing, writable_path
from cmdpax.learning.environment_names import USER_ERRORS, as_input_error, environment_factory
from cmdpax.learning.evaluation import trained_in
from cmdpax.learning.gym_simulator import GymSimulator
from cmdpax.learning.policy import NetworkPolicy, refuse_other_spaces
from cmdpax.learning.portable import read_network
from cmdpax.learning.run_folder import RunFolder
from cmdpax.model.limits import Limits

RATE = 30  # pictures a second, about: of faster steps some are left out
LETTERS, LINE, GAP = 16, 20, 8  # pixels: height of letters and lines, and room around them
NUMBER = "-000000.0"  # no column is narrower

Rows = Sequence[tuple[str, str, str]]  # what, its value, its limit


def video(
    run: str | Path,
    path: Path,
    *,
    environment: str | None = None,
    trust: bool = False,
    steps: int = 500,
    seed: int = 12345,
) -> Path:
    """Record at most `steps` steps of the policy of a run folder as `path`, .mp4 or .gif.

    environment, trust: as for `evaluate`. The film runs as fast as the environment says that it
    does (`render_fps`).
    """
    writable_path(path, ".mp4", ".gif")
    check_count("steps", steps)
    check_count("seed", seed, least=0)
    run_folder, policy = RunFolder(run), read_network(Path(run), trust)
    name = environment or trained_in(run_folder, trust)
    choose_gl()
    simulator = GymSimulator(environment_factory(name, pictures=True), 1, name)
    refuse_other_spaces({"observation_shape": list(policy.observation_shape)}, simulator)
    shown = simulator.environments[0]
    if getattr(shown, "render_mode", None) != "rgb_array":
        raise InputError(
            f"environment '{name}' draws no pictures; its function must take render_mode and hand"
            " it to the environment."
        )
    rate = shown.metadata.get("render_fps", RATE)
    every = max(1, round(rate / RATE))
    try:
        write(
            path, pictures(simulator, policy, run_folder.config, steps, seed, every), rate / every
        )
    finally:
        shown.close()
    return path


def choose_gl() -> None:
    """Let MuJoCo draw by a library that needs no display, unless one is set.

    They are asked for directly: PyOpenGL keeps to the first that it has tried.
    """
    if sys.platform == "linux" and not os.environ.get("MUJOCO_GL"):
        if has_egl():
            os.environ["MUJOCO_GL"] = "egl"
        elif library("libOSMesa.so.8"):
            os.environ["MUJOCO_GL"] = "osmesa"


def has_egl() -> bool:
    """Whether EGL is there, and has a device to draw on."""
    if not (egl := library("libEGL.so.1")):
        return False
    egl.eglGetProcAddress.restype = ctypes.c_void_p
    address, devices = egl.eglGetProcAddress(b"eglQueryDevicesEXT"), ctypes.c_int()
    signature = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    if address:
        signature(address)(0, None, ctypes.addressof(devices))
    return devices.value > 0


def library(file: str) -> Any:
    """A shared library, or None."""
    try:
        return ctypes.CDLL(file)
    except OSError:
        return None


def pictures(
    simulator: GymSimulator,
    policy: NetworkPolicy,
    config: dict[str, Any],
    steps: int,
    seed: int,
    every: int,
) -> Iterator[Image.Image]:
    """The first picture of an episode, every so many steps one, and the last, with captions."""
    limits, shown = Limits.parse(config["limits"]), simulator.environments[0]
    texts = dict(zip(limits.names, limits.texts))
    caption = getattr(getattr(shown, "unwrapped", shown), "caption", None)
    cost_discount = config["discount"] if config["discounted"] else 1.0
    total, costs, ended = 0.0, np.zeros(len(simulator.cost_names)), False
    observation = simulator.reset(seed)
    for age in range(steps + 1):
        if age % every == 0 or age == steps or ended:
            rows = [("return", f"{total:.1f}", f"step {age}")]
            for name, cost in zip(simulator.cost_names, costs.tolist()):
                rows.append((name, f"{cost:.4g}", f"limit {texts[name]}" if name in texts else ""))
            yield captioned(drawn(simulator), [*rows, caption()] if caption else rows)
        if age == steps or ended:
            return
        outcome = simulator.step_one(shown, policy.best(observation)[0])
        successor, reward, added, terminated, truncated = outcome
        total, costs = total + reward, costs + cost_discount**age * added
        observation, ended = simulator.flat(successor, shown)[None], terminated or truncated


def drawn(simulator: GymSimulator) -> Image.Image:
    """What the environment shows now."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # GLFW warns before it fails
            picture = np.asarray(simulator.environments[0].render())
    except USER_ERRORS as error:  # the GL libraries raise whatever they like
        sentence = str(as_input_error(simulator.name, "its render", error)).removesuffix(".")
        raise InputError(
            f"{sentence}; one of MuJoCo needs EGL (Debian, Ubuntu: apt install libegl1 libgl1) or"
            " OSMesa (libosmesa6), and MUJOCO_GL unset."
        ) from None
    if picture.ndim != 3 or picture.shape[2] != 3:
        raise simulator.wrong("render returned no picture of [height, width, 3]")
    return Image.fromarray(picture.astype(np.uint8, copy=False))


@cache
def letters() -> Any:
    """The font that Pillow brings."""
    return ImageFont.load_default(LETTERS)


@lru_cache(1000)
def word(text: str) -> Image.Image:
    """A text in black on white, as wide as it is, `LINE` pixels high."""
    font = letters()
    picture = Image.new("L", (math.ceil(font.getlength(text)), LINE), "white")
    ImageDraw.Draw(picture).text((0, 0), text, "black", font)
    return picture


def captioned(picture: Image.Image, rows: Rows) -> Image.Image:
    """A picture under its rows of text; its sides are even, as .mp4 needs."""
    columns = [[word(text) for text in column] for column in zip(*rows)]
    wide = [GAP + max(text.width for text in [word(NUMBER), *column]) for column in columns]
    width, top = max(picture.width, GAP + sum(wide)), len(rows) * LINE + GAP
    canvas = Image.new("RGB", (width + width % 2, (top + picture.height + 1) // 2 * 2), "white")
    canvas.paste(picture, ((width - picture.width) // 2, top))
    for number, column in enumerate(columns):
        for line, text in enumerate(column):
            canvas.paste(text, (GAP + sum(wide[:number]), GAP // 2 + line * LINE))
    return canvas


def write(path: Path, film: Iterator[Image.Image], rate: float) -> None:
    """Save pictures, so many a second, one at a time; all get the size of the first."""
    first = next(film)
    same = (one if one.size == first.size else one.crop((0, 0, *first.size)) for one in film)
    whole = chain([first], same)
    with replacing(path) as file:
        if path.suffix.lower() == ".gif":
            # dots that dithering sprinkles would change with every picture
            octree, plain = Image.Quantize.FASTOCTREE, Image.Dither.NONE
            start, *rest = (one.quantize(method=octree, dither=plain) for one in whole)
            start.save(file, "GIF", append_images=rest, duration=1000 / rate, loop=0, save_all=True)
            return
        import imageio_ffmpeg

        options = ["-preset", "ultrafast", "-threads", "1", "-f", "mp4"]
        writer = imageio_ffmpeg.write_frames(
            file.name, first.size, fps=rate, macro_block_size=1, output_params=options
        )
        writer.send(None)
        for one in whole:
            writer.send(one.tobytes())
        writer.close()
