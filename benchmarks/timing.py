"""Seconds of a call, the best of several rounds: other work on the machine only adds to them."""

import time
from collections.abc import Callable

import numpy as np


def best_seconds(
    *calls: Callable[[], object],
    rounds: int,
    times: int = 1,
    clock: Callable[[], float] = time.process_time,
) -> list[float]:
    """Seconds of one call of each, `times` of them in a row; in every round all take turns."""
    seconds = np.full((rounds, len(calls)), np.inf)
    for row in seconds:
        for place, call in enumerate(calls):
            started = clock()
            for _ in range(times):
                call()
            row[place] = (clock() - started) / times
    return seconds.min(0).tolist()
