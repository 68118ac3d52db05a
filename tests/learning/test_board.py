"""TensorBoard reads what is written; a disk that says no costs a warning, and no run."""

import struct
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.record_writer import RecordWriter

from cmdpax.learning.board import Board

ROW = {"samples": 100, "return": 1.5, "cost": {"heat": 2.0, "noise": 3}, "method": "cpo"}


def events(folder):
    """Every event of the only file: length, checksum, event, checksum."""
    (file,) = folder.iterdir()
    data, place = file.read_bytes(), 0
    while place < len(data):
        (length,) = struct.unpack_from("<Q", data, place)
        yield Event.FromString(data[place + 12 : place + 12 + length])
        place += 12 + length + 4


def test_numbers_of_rows_are_there_at_once_under_flat_names(tmp_path):
    board = Board(tmp_path / "tensorboard")
    board.show(ROW)
    first, *shown = events(tmp_path / "tensorboard")
    assert first.file_version == "brain.Event:2"
    numbers = {value.tag: value.simple_value for one in shown for value in one.summary.value}
    assert numbers == {"samples": 100, "return": 1.5, "cost/heat": 2.0, "cost/noise": 3}
    assert {one.step for one in shown} == {100}


def test_tensorboards_own_checksums_are_right(tmp_path):
    """Byte for byte as tensorboardX itself writes the same event."""
    Board(tmp_path / "tensorboard").show(ROW)
    (file,) = (tmp_path / "tensorboard").iterdir()
    other = RecordWriter(str(tmp_path / "other"))
    for event in events(tmp_path / "tensorboard"):
        other.write(event.SerializeToString())
    other.close()
    assert file.read_bytes() == (tmp_path / "other").read_bytes()


def show_often(folder):
    board = Board(folder)
    for _ in range(100):  # more than any queue holds
        board.show(ROW)


def test_a_package_that_cannot_be_loaded_is_one_warning(tmp_path, monkeypatch):
    """As where its version of protobuf is another's."""
    monkeypatch.setitem(sys.modules, "tensorboardX.proto.event_pb2", None)
    with pytest.warns(UserWarning, match=r"Error.*TensorBoard sees no more") as said:
        show_often(tmp_path / "tensorboard")
    assert len(said) == 1


def test_a_folder_that_cannot_be_made_is_one_warning(tmp_path):
    (tmp_path / "tensorboard").write_text("a file")
    with pytest.warns(UserWarning, match="cannot be written .*TensorBoard sees no more") as said:
        show_often(tmp_path / "tensorboard")
    assert len(said) == 1


FULL = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from learning.test_board import show_often
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
show_often(Path(sys.argv[2]))
"""


def test_a_file_that_may_not_grow_is_one_warning(tmp_path):
    tests, folder = str(Path(__file__).parents[1]), str(tmp_path / "tensorboard")
    command = [sys.executable, "-c", FULL, tests, folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.count("cannot be written (File too large)") == 1
    assert "ignored" not in done.stderr and "Traceback" not in done.stderr
