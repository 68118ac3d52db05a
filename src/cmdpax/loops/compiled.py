"""The threads that large models and batches of simulators share: as many as numba may use.

`NUMBA_NUM_THREADS` says how many; without it, all processors that this process may run on. Whoever
uses them gives every thread work of its own, so that no number depends on how many there are.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache


@cache
def shared() -> ThreadPoolExecutor | None:
    """The threads; None if there is to be one only, or no numba."""
    try:
        from numba import get_num_threads
    except ImportError:
        return None
    count = get_num_threads()
    return ThreadPoolExecutor(count, thread_name_prefix="cmdpax") if count > 1 else None


def count() -> int:
    """How many there are."""
    threads = shared()
    return 1 if threads is None else threads._max_workers


if hasattr(
    os, "register_at_fork"
):  # not on Windows; a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=shared.cache_clear)
