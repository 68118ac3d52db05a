"""The rows of a training for TensorBoard: for the eye only, so that no fault of it stops a run.

Rows are written at once, by this thread. tensorboardX's own writer has a thread and a queue to it,
which stays full for ever once a full disk has ended that thread.
"""

import socket
import struct
import time
import warnings
from pathlib import Path
from typing import Any

from cmdpax.files.reading import Row


class Board:
    """A file of events in `folder`, a row at a time; after any error, no more of it."""

    def __init__(self, folder: Path) -> None:
        name = f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}"
        self.path, self.is_dropped = folder / name, False
        self._append(file_version="brain.Event:2")

    def show(self, row: Row) -> None:
        """Write the numbers of a row; those of `cost` are named `cost/heat`."""
        numbers = {}
        for name, value in row.items():
            for part, number in value.items() if isinstance(value, dict) else [("", value)]:
                if isinstance(number, int | float):
                    numbers[f"{name}/{part}" if part else name] = number
        values = [{"tag": name, "simple_value": one} for name, one in numbers.items()]
        self._append(step=row["samples"], summary={"value": values})

    def _append(self, **event: Any) -> None:
        if self.is_dropped:
            return
        try:
            record = _record(**event)
            self.path.parent.mkdir(exist_ok=True)
            with open(self.path, "ab") as file:
                file.write(record)
        except Exception as error:  # of the disk, or of packages that do not fit each other
            self.is_dropped = True
            why = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
            what = f"{self.path.parent} cannot be written ({why})"
            warnings.warn(f"{what}: TensorBoard sees no more of this run.", stacklevel=2)


def _record(**event: Any) -> bytes:
    """An event as a TFRecord: its length, a checksum of that, the event, a checksum of it."""
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import masked_crc32c

    text = Event(wall_time=time.time(), **event).SerializeToString()
    parts = (struct.pack("<Q", len(text)), text)
    return b"".join(part + struct.pack("<I", masked_crc32c(part)) for part in parts)
