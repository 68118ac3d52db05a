"""How is a loop compiled, and shared among threads? The only file that imports numba.

On a new machine a loop runs as Python at first, and is compiled where that pays; its machine code
is cached on disk. It looks at no bounds: whoever calls it checks the arguments. Arrays that a loop
only reads come through `readable`, indices through `unsigned`, so that each loop is compiled for
one kind of array alone.

Large models are worked on by all threads that numba may use: `NUMBA_NUM_THREADS`, or else all
processors that this process may run on. Every thread has blocks of states of its own, so that no
number depends on how many threads there are.
"""

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from types import CodeType, FunctionType
from typing import Any

import numpy as np

# numba unpickles its cache: a .numba_config.yaml in the current folder must not say where that is
for _name in ("NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES"):
    os.environ.setdefault(_name, "")

from llvmlite import binding, ir  # noqa: E402
from numba import carray, get_num_threads, njit, types  # noqa: E402
from numba.extending import intrinsic, lower_builtin, overload, type_callable  # noqa: E402

Array = np.ndarray
BLOCK = 1 << 16  # states that one thread treats at a time; models of fewer stay on one thread
CONSTANTS = (bool, int, float, str, tuple, np.generic)  # numba takes them for what they are now
FOREIGN = ("numba", "numpy", "llvmlite")  # whose versions numba and `pip` look after
PATIENCE = 2e-4  # seconds of Python for each byte of code: a third of what compiling it takes
LARGE = 1 << 19  # numbers in arrays; loops over more are compiled at once
_sources: dict[Any, Any] = {}  # what `inlined` compiles in place of functions


class _Turn(threading.local):
    """Of one thread: how many loops it is inside of as Python, and its seconds of compiling."""

    depth, compiling = 0, 0.0


_turn = _Turn()


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Decorator: `function` as machine code, once that pays (`_wait`); the numbers are the same.

    `options` are further ones of `numba.njit`.
    """
    loop = at_once(function, **options)
    _wait(loop, is_part="inline" in options)
    return loop


def at_once(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Decorator: `function` as machine code, which runs without Python's lock.

    Where no folder can be written, nothing is cached; where cached files are damaged, or of another
    source, the loop is compiled again.
    """
    options = {"nogil": True, "error_model": "numpy", **options}
    try:
        loop: Any = njit(function, cache=True, **options)
    except RuntimeError:  # numba found no folder for its cache
        return njit(function, **options)
    _mend_cache(loop)
    return loop


def _wait(loop: Any, is_part: bool) -> None:
    """Run a loop as Python until that has taken `PATIENCE` for each byte of its code; then compile.

    Whatever it calls does the same: what takes longest is compiled first. A loop is compiled at
    once where its machine code is in the cache, or its arrays are large. is_part: whether it is
    put in the place of its calls, and compiled with them.
    """
    machine_code, spent, length = loop._compile_for_args, 0.0, -1

    def entry(*arguments: Any) -> Callable[..., Any]:  # numba asks for it, and calls it
        nonlocal length
        if length < 0:
            length = 0 if _is_cached(loop) else _length(loop)
        is_due = spent >= PATIENCE * length and not (is_part and _turn.depth)
        if not is_due and (_turn.depth or _size(arguments) <= LARGE):
            return python
        start = time.thread_time()
        code: Callable[..., Any] = machine_code(*arguments)
        _turn.compiling += time.thread_time() - start
        return code

    def python(*arguments: Any) -> Any:
        nonlocal spent
        start, compiling = time.thread_time(), _turn.compiling
        _turn.depth += 1
        try:
            with np.errstate(all="ignore"):  # as machine code does
                return loop.py_func(*arguments)
        finally:
            _turn.depth -= 1
            spent += time.thread_time() - start - (_turn.compiling - compiling)

    loop._compile_for_args = entry


def _length(loop: Any) -> int:
    """Bytes of Python's code in a loop and in whatever it calls."""
    return sum(len(code.co_code) for _, codes in _reached(loop) for code in codes)


def _size(arguments: Any) -> int:
    """Numbers in all arrays among arguments."""
    if isinstance(arguments, tuple):
        return sum(map(_size, arguments))
    return arguments.size if isinstance(arguments, Array) else 0


def _mend_cache(loop: Any) -> None:
    """Let no damaged file and no full disk stop a loop: numba's cache then has nothing for it.

    Numba itself looks whether the loop's own file has changed, but not at others that it calls.
    """
    cache = loop._cache
    load, save = cache.load_overload, cache.save_overload

    def load_or_none(*arguments: Any) -> Any:
        cache._cache_file._source_stamp = digest(loop)  # not earlier: now all it calls is there
        try:
            return load(*arguments)
        except Exception:  # whatever reading of half a file raises
            with suppress(OSError):
                cache.flush()
            return None

    def save_if_possible(*arguments: Any) -> None:
        with suppress(OSError):
            save(*arguments)

    cache.load_overload, cache.save_overload = load_or_none, save_if_possible


def digest(loop: Any) -> str:
    """A digest of all that decides about machine code: the loop and whatever it calls of ours."""
    texts = []
    for one, codes in _reached(loop):
        if isinstance(one, CONSTANTS):
            texts.append(repr(one))
            continue
        texts.append(repr(sorted(getattr(one, "targetoptions", {}).items())))
        for code in codes:
            texts.append(repr((code.co_code, code.co_names, code.co_varnames)))
            texts += [repr(value) for value in code.co_consts if type(value) is not CodeType]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _reached(loop: Any) -> Iterator[tuple[Any, list[CodeType]]]:
    """The loop, whatever it calls of ours, each with its bytecode, and constants that they name."""
    reached, ahead = set(), [loop]
    while ahead:
        one = ahead.pop()
        function = getattr(one, "_defn", getattr(one, "py_func", one))  # of intrinsics; of loops
        if isinstance(function, CONSTANTS):
            yield function, []
        is_ours = getattr(function, "__module__", "").partition(".")[0] not in FOREIGN
        if isinstance(function, FunctionType) and is_ours and function not in reached:
            reached.add(function)
            codes = list(_codes(function.__code__))
            yield one, codes
            for code in codes:
                ahead += [function.__globals__.get(name) for name in code.co_names]
            ahead.append(_sources.get(function))


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Bytecode, and that of functions within."""
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _codes(value)


def _is_cached(loop: Any) -> bool:
    """Whether machine code of the loop, as it is now, lies on the disk for this processor."""
    with suppress(Exception):  # no folder, or whatever reading of half a file raises
        cache = loop._cache._cache_file
        cache._source_stamp = digest(loop)
        names = cache._load_index()
        return bool(names) and any(loop.targetctx.codegen().magic_tuple() in key for key in names)
    return False


def contracted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: as `at_once`, but `a * b + c` may be rounded once instead of twice."""
    return at_once(function, fastmath={"contract"})


def spliced(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: as `compiled`, but put in the place of each call."""
    return compiled(function, inline="always")


def piece(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: what `contracted` loops call, compiled into each of them and not cached by itself.

    Where machine code calls other machine code, a process that compiles both may take another copy
    of it than one that loads them, and copies may be rounded differently: no run would be resumed
    bit for bit.
    """
    return njit(function, forceinline=True, error_model="numpy", fastmath={"contract"})


def inlined(function: Callable[..., Any], source: Callable[..., Any]) -> None:
    """Let compiled loops call the plain `function`: `source` is compiled in its place."""
    _sources[function] = source
    overload(function, inline="always", strict=False)(lambda *_: source)


def readable(array: Array) -> Array:
    """A contiguous read-only view."""
    view = np.ascontiguousarray(array).view()
    view.setflags(write=False)
    return view


def unsigned(indices: Array) -> Array:
    """int32 indices as a read-only uint32 view: numba need not test for negative ones."""
    return readable(indices).view(np.uint32)


def _call_at(_typing: Any, address: Any, first: Any, second: Any) -> Any:
    """In compiled loops: call the C function `void f(void *, void *)` at an address."""

    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [word, word]).as_pointer()
        builder.call(builder.inttoptr(arguments[0], kind), arguments[1:])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), code


def _at(_typing: Any, address: Any) -> Any:
    """In compiled loops: a pointer to the float64 numbers at an address."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.float64)(types.int64), code


def frozen(array: Array) -> Array:
    """In loops: the same array, as one that is only read."""
    return readable(array)


def _keep(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """The code of `frozen`."""
    context.nrt.incref(builder, *signature.args, *arguments)
    return arguments[0]


type_callable(frozen)(lambda _: lambda array: array.copy(readonly=True))
lower_builtin(frozen, types.Array)(_keep)
call_at: Any = intrinsic(_call_at)
_pointer: Any = intrinsic(_at)


@at_once
def memory_at(address, size):  # type: ignore[no-untyped-def]
    """In compiled loops: the float64 array `[size]` that lies at an address."""
    return carray(_pointer(address), size)


def processor() -> tuple[str, str]:
    """Name and abilities of the processor for which code is compiled."""
    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


@cache
def shared_threads() -> ThreadPoolExecutor | None:
    """The threads that loops share; None if there is only one."""
    count = get_num_threads()
    return ThreadPoolExecutor(count, thread_name_prefix="cmdpax") if count > 1 else None


def thread_count() -> int:
    """How many threads loops may use."""
    threads = shared_threads()
    return 1 if threads is None else threads._max_workers


def is_shared(states: int) -> bool:
    """Whether a loop over so many states is shared among threads."""
    return states > BLOCK and shared_threads() is not None


def over_blocks(loop: Callable[..., Any], states: int, *arguments: object) -> list[Any]:
    """What `loop(first, last, *arguments)` returns for each block of `states`, on all threads."""
    blocks = [(first, min(first + BLOCK, states)) for first in range(0, states, BLOCK)]
    threads = shared_threads() if states > BLOCK else None
    run = map if threads is None else threads.map
    return list(run(lambda block: loop(*block, *arguments), blocks))


if hasattr(os, "register_at_fork"):  # not on Windows; a forked process has none of these threads
    os.register_at_fork(after_in_child=shared_threads.cache_clear)
