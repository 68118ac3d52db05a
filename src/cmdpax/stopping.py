"""May a solve go on? A time limit and Ctrl-C are one question, asked between two evaluations."""

import signal
import threading
import time
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

Stop = Callable[[], bool]


def never() -> bool:
    """For what runs to its end."""
    return False


class Stopper:
    """`with Stopper(seconds) as stop:` `stop()` is True once the time is up, or after a Ctrl-C.

    The first Ctrl-C within only asks to stop, and says so; the second interrupts as usual, and what
    was found is lost. Within another Stopper both see it. Elsewhere than in the main thread, or
    where somebody else handles Ctrl-C, only time counts.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.end = None if seconds is None else time.perf_counter() + seconds
        self.interrupted = False
        self.outer: Stopper | None = None
        self._before: Any = None

    def __call__(self) -> bool:
        """Whether to stop now."""
        asked = self.interrupted or (self.outer is not None and self.outer())
        return asked or (self.end is not None and time.perf_counter() > self.end)

    def __enter__(self) -> "Stopper":
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            owner = getattr(before, "__self__", None)
            if isinstance(owner, Stopper):
                self.outer = owner
            elif before is signal.default_int_handler:
                self._before = before
                signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True
        warnings.warn(
            "stopping with the best policy so far; Ctrl-C again stops at once, without it.",
            stacklevel=2,
        )
