"""The rows of a training for TensorBoard: for the eye only, so that no fault of it stops a run.

Events are written at once by this thread. The usual writer of tensorboardX has a thread of its own
and a queue to it, which is full for ever once that thread has died of a full disk.
"""

import time
import warnings
from pathlib import Path
from typing import Any

from cmdpax.files import Row


class Board:
    """A file of events in `folder`; after the first error of the disk, nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.writer = folder, None
        try:
            self.writer = _writer(folder)
        except OSError as error:
            self._drop(error)

    def __enter__(self) -> "Board":
        return self

    def __exit__(self, *_: object) -> None:
        if self.writer is not None:
            try:
                self.writer.close()
            except OSError as error:
                self._drop(error)

    def show(self, row: Row) -> None:
        """Numbers of a row with flat names, `cost/heat` for nested ones."""
        if self.writer is None:
            return
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.summary import scalar

        try:
            for name, value in row.items():
                for part, number in value.items() if isinstance(value, dict) else [("", value)]:
                    if isinstance(number, int | float):
                        summary = scalar(f"{name}/{part}" if part else name, number)
                        event = Event(wall_time=time.time(), step=row["samples"], summary=summary)
                        self.writer.write_event(event)
            self.writer.flush()
        except OSError as error:
            self._drop(error)

    def _drop(self, error: OSError) -> None:
        self.writer = None
        what = f"{self.folder} cannot be written ({error.strerror})"
        warnings.warn(f"{what}: TensorBoard sees no more of this run.", stacklevel=2)


def _writer(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tensorboardX.event_file_writer import EventsWriter
    folder.mkdir(exist_ok=True)
    return EventsWriter(str(folder / "events"))
