"""How does a long table, one row for each successor, become a model?

    P(s' | s, a) = the sum of `probability` over the rows (s, a, s'),
    x(s, a) = sum over the rows of (s, a) of probability * x / sum of probability

The columns are `state`, `action`, `next_state`, `probability`, and one for the reward and for every
quantity that has a limit; others are not looked at. States and actions have names. Names that are
0, 1, ..., n - 1 are numbers: state 3 is number 3. Others are numbered as they come.

A table is a `.csv` or `.parquet` file, or columns in memory: a mapping, a DataFrame. A `.csv` may
begin with lines such as `# limit = cost<=3`, which say what a caller may say too.
"""

import csv
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from reprlib import repr as brief
from typing import Any

import numpy as np

from cmdpax.errors import InputError, check_known, did_you_mean, needing
from cmdpax.files.reading import Row, named, opened
from cmdpax.model.limits import NUMERIC, Limits
from cmdpax.model.numbers import NORMALISE, ROW_SUM_TOLERANCE, refuse_huge
from cmdpax.model.reading import RowLists

NAMES = ("state", "action", "next_state")
SUFFIXES = (".csv", ".parquet")
LARGEST_TABLE, MOST_ROWS = 8_000_000_000, 200_000_000  # bytes and rows that are read
LONGEST_LINE, CHUNK = 1 << 20, 512  # characters of the head; rows parsed at a time
DELIMITERS = ",;\t"
SETTING = re.compile(r"#\s*(\w+)\s*=\s*(.*)")  # in a line above the head
LISTS = {"limit": "limits", "initial": "initial", "goal": "goal"}  # may be said several times
SINGLE = ("discount", "reward", "minimise", "horizon", "criterion", "may_stay")
UNSAID: Mapping[str, Any] = {
    **dict.fromkeys(("horizon", "criterion", "goal")),
    **{"discount": 1.0, "reward": "reward", "minimise": False, "may_stay": False},
}
Array = np.ndarray
Codes = tuple[Array, list[str]]  # numbers of labels, [n], and the labels
Choose = Callable[[Mapping[str, list[str]]], Row]  # what is written in a file -> what is chosen


@dataclass(frozen=True)
class Table:
    """Columns that are needed, and where each row stands."""

    labels: dict[str, Codes]  # of the columns `NAMES`
    numbers: dict[str, Array]  # [n] each
    place: Callable[[int], str]  # "line 7", of a row


def table_fields(table: Any, **said: Any) -> dict[str, Any]:
    """Arguments of `CMDP` for a table; see `CMDP.from_table`. None: as the file says."""
    choose = partial(_chosen, said)
    if not isinstance(table, str | os.PathLike):
        return _fields(*_read_columns(table, choose))
    path = Path(table)
    with named(path):
        suffix = check_known("the ending", path.suffix.lower(), SUFFIXES)
        return _fields(*(_read_csv if suffix == ".csv" else _read_parquet)(path, choose))


def _chosen(said: Row, written: Mapping[str, list[str]]) -> Row:
    """What the caller said and, where that is None, what is written in the file."""
    chosen = {name: value for name, value in said.items() if value is not None}
    for name, words in written.items():
        if name in chosen:
            continue
        chosen[name] = words[0] if name in SINGLE else words
        if name in ("discount", "horizon"):
            chosen[name] = _number(name, words[0])
        elif name in ("minimise", "may_stay"):
            chosen[name] = check_known(name, words[0].lower(), ("true", "false")) == "true"
    needs_discount = "horizon" not in chosen and chosen.get("criterion") != "average"
    for name, example in (("discount", "0.95"), ("initial", "idle")):
        if name not in chosen and (name != "discount" or needs_discount):
            remedy = f"give {name}=, or begin a .csv with a line '# {name} = {example}'"
            raise InputError(f"{name}: nothing says it; {remedy}.")
    return {**UNSAID, **chosen, "limits": Limits.parse(chosen.get("limits", ()))}


def _number(what: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{what}: {brief(text)} is not a number.") from None


# ---- from a table to arrays by choice
def _fields(table: Table, chosen: Row) -> dict[str, Any]:
    """Arguments of `CMDP`: rows by choice, sorted by state and action."""
    if not len(table.numbers["probability"]):
        raise InputError("it has no rows; give one for each successor.")
    names, (s, to) = _merged(table.labels["state"], table.labels["next_state"])
    actions, (a,) = _merged(table.labels["action"])
    S, A, chances, place = len(names), len(actions), table.numbers["probability"], table.place
    for i in np.flatnonzero(~((chances >= 0) & (chances < np.inf)))[:1].tolist():
        raise InputError(f"{place(i)}: probability {chances[i]} is no probability; repair it.")
    order = np.argsort(s.astype(np.int64) * A + a, kind="stable")
    s, a, to, chances = s[order], a[order], to[order], chances[order]
    first_entry = np.flatnonzero(np.append(True, (np.diff(s) != 0) | (np.diff(a) != 0)))
    with np.errstate(over="ignore"):
        sums = np.add.reduceat(chances, first_entry)
    for k in np.flatnonzero(~(np.abs(sums - 1) <= ROW_SUM_TOLERANCE))[:1].tolist():
        row = first_entry[k]
        what = f"state {brief(names[s[row]])}, action {brief(actions[a[row]])}"
        total = f"the probabilities of {what} sum to {sums[k]:.9g}, not 1"
        raise InputError(f"{place(order[row])}: {total}; add what is missing, or {NORMALISE}.")
    owners, choice_actions = s[first_entry], a[first_entry]
    index = {name: i for i, name in enumerate(names)}
    goal = None if chosen["goal"] is None else _mask(chosen["goal"], index)
    _refuse_empty(table, names, np.bincount(owners, minlength=S) + (0 if goal is None else goal))
    limits: Limits = chosen["limits"]
    entries, numbers = np.append(first_entry, len(s)), {}
    for name in (chosen["reward"], *limits.names):
        paid = table.numbers[name][order]
        for i in np.flatnonzero(~np.isfinite(paid))[:1].tolist():
            raise InputError(f"{place(order[i])}: {name} is {paid[i]}; give a finite number.")
        base = paid[first_entry]  # so that what is the same in all rows of a choice stays exact
        rest = chances * (paid - np.repeat(base, np.diff(entries)))
        numbers[name] = base + np.add.reduceat(rest, first_entry) / sums
    fields = {
        "transitions": RowLists(entries, to, chances),
        "first_choice": np.append(0, np.cumsum(np.bincount(owners, minlength=S))),
        "reward": numbers[chosen["reward"]],
        "constraints": np.array([numbers[n] for n in limits.names]).reshape(-1, len(owners)),
        "thresholds": limits.entries,
        "senses": limits.senses,
        "constraint_names": limits.names or None,
        "initial": start_of(chosen["initial"], index),
        "state_names": None if _are_numbers(names) else names,
        "action_names": None if _are_numbers(actions) else actions,
        "discount": chosen["discount"],
        "minimise": chosen["minimise"],
        "horizon": chosen["horizon"],
        "criterion": chosen["criterion"],
        "may_stay": chosen["may_stay"],
    }
    refuse_huge((S, A))
    fields["available"] = np.zeros((S, A), dtype=bool)
    fields["available"][owners, choice_actions] = True
    return fields if goal is None else fields | {"goal": goal}


def _merged(*columns: Codes) -> tuple[list[str], list[Array]]:
    """The labels of several columns together, and the columns as their numbers."""
    names = list(dict.fromkeys(name for _, labels in columns for name in labels))
    if _are_numbers(names):
        names = [str(i) for i in range(len(names))]
    index = {name: i for i, name in enumerate(names)}
    parts = [np.array([index[name] for name in labels], dtype=np.int32) for _, labels in columns]
    return names, [part[codes] for part, (codes, _) in zip(parts, columns)]


def _are_numbers(names: Sequence[str]) -> bool:
    """Whether names are 0, 1, ..., n - 1, in some order."""
    numbers = {name for name in names if name.isascii() and name.isdecimal()}
    return len(numbers) == len(names) and numbers == {str(i) for i in range(len(names))}


def _refuse_empty(table: Table, names: Sequence[str], counts: Array) -> None:
    """Refuse a state that is led to but has no rows."""
    for s in np.flatnonzero(counts == 0)[:1].tolist():
        codes, labels = table.labels["next_state"]
        row = int(np.flatnonzero(codes == labels.index(names[s]))[0])
        remedy = "add rows, or name it as a goal, where the run ends"
        what = f"next state {brief(names[s])} has no rows of its own"
        raise InputError(f"{table.place(row)}: {what}; {remedy}.")


def state_index(what: str, label: Any, index: Mapping[str, int]) -> int:
    """The number of a state, by its name."""
    if str(label) not in index:
        hint = did_you_mean(str(label), index) if len(index) <= 10_000 else ""
        raise InputError(f"{what}: there is no state {brief(str(label))}; {hint}")
    return index[str(label)]


def _mask(goal: Any, index: Mapping[str, int]) -> Array:
    """Goals `[S]` booleans, of a name or several."""
    mask = np.zeros(len(index), dtype=bool)
    for label in [goal] if isinstance(goal, str | int) else goal:
        mask[state_index("goal", label, index)] = True
    return mask


def start_of(initial: Any, index: Mapping[str, int]) -> Array:
    """First states `[S]`, of a name, `{name: probability}`, or texts `name` and `name=0.5`."""
    start = np.zeros(len(index))
    if isinstance(initial, Mapping):
        pairs = list(initial.items())
    else:
        words = [initial] if isinstance(initial, str | int | np.integer) else list(initial)
        pairs = [(word, 1.0) if str(word) in index else _weighed(str(word)) for word in words]
    for label, chance in pairs:
        start[state_index("initial", label, index)] += chance
    return start


def _weighed(word: str) -> tuple[str, float]:
    name, equals, chance = word.rpartition("=")
    return (name, _number(f"initial, state {name}", chance)) if equals else (word, 1.0)


# ---- three kinds of tables
def _wanted(heads: Sequence[str], chosen: Row) -> dict[str, int]:
    """Where the columns stand that are wanted: those of every table, reward and limits."""
    columns: dict[str, int] = {}
    for i, head in enumerate(heads):
        plain = "_".join(head.lower().split())
        name = plain if plain in (*NAMES, "probability") else head.strip()
        if name in columns:
            raise InputError(f"the column {brief(name)} occurs twice; keep one.")
        columns[name] = i
    wanted = dict.fromkeys((*NAMES, "probability", chosen["reward"], *chosen["limits"].names))
    for name in wanted:
        if name not in columns:
            hint = did_you_mean(name, columns) if columns else "it is empty."
            raise InputError(f"there is no column '{name}'; {hint}")
    return {name: columns[name] for name in wanted}


def _read_csv(path: Path, choose: Choose) -> tuple[Table, Row]:
    """A `.csv` file in UTF-8; a comma, a semicolon or a tab stands between fields."""
    with opened(path, LARGEST_TABLE) as file:
        lines = TextIOWrapper(file, encoding="utf-8-sig", newline="")
        try:
            return _parse_csv(lines, choose)
        except UnicodeDecodeError:
            raise InputError("it is not text in UTF-8; save it as UTF-8.") from None


def _parse_csv(lines: TextIOWrapper, choose: Choose) -> tuple[Table, Row]:
    above, written = 1, dict[str, list[str]]()
    while (line := lines.readline(LONGEST_LINE)).startswith("#") or line.isspace():
        _note(above, line.strip(), written)
        above += 1
    chosen, delimiter = choose(written), max(DELIMITERS, key=line.count)
    form: dict[str, Any] = {"delimiter": delimiter, "skipinitialspace": True, "strict": True}
    heads = next(csv.reader([line], **form), [])
    columns, places = _wanted(heads, chosen), Places([])
    index: dict[str, dict[str, int]] = {name: {} for name in NAMES}
    parts: dict[str, list[Array]] = {name: [] for name in columns}
    reader = csv.reader(lines, **form)
    while rows := _chunk(reader, above, len(heads), places):
        texts = list(zip(*rows))
        for name, i in columns.items():
            if name in NAMES:
                own = index[name]
                codes = [own.setdefault(text, len(own)) for text in texts[i]]
                parts[name].append(np.array(codes, dtype=np.int32))
            else:
                parts[name].append(_numbers(name, texts[i], places))
    whole = {name: np.concatenate(part or [np.empty(0)]) for name, part in parts.items()}
    labels = {name: (whole.pop(name), list(index[name])) for name in NAMES}
    return Table(labels, whole, places), chosen


def _note(number: int, line: str, written: dict[str, list[str]]) -> None:
    """Keep a setting such as `# limit = cost<=3`; other lines are comments, or empty."""
    if match := SETTING.fullmatch(line):
        name = check_known(f"line {number}: setting", match[1], (*LISTS, *SINGLE))
        if name in SINGLE and name in written:
            raise InputError(f"line {number}: '{name}' is set twice; keep one.")
        written.setdefault(LISTS.get(name, name), []).append(match[2])


@dataclass(frozen=True)
class Places:
    """Where the rows of a `.csv` stand, chunk by chunk."""

    starts: list[int | None]  # the line of the first row; None: lines are empty, or rows have two

    def __call__(self, i: int) -> str:
        """A row by its line, or by its number."""
        chunk, place = divmod(i, CHUNK)
        start = self.starts[chunk]
        return f"row {i + 1} below the head" if start is None else f"line {start + place}"


def _chunk(reader: Any, above: int, width: int, places: Places) -> list[list[str]]:
    """Some rows; where they begin is noted. above: lines before those of the reader."""
    before = reader.line_num
    try:
        rows = list(islice(filter(None, reader), CHUNK))  # without empty lines
    except csv.Error as error:
        raise InputError(f"line {above + reader.line_num}: {error}; repair it.") from None
    first, is_plain = CHUNK * len(places.starts), reader.line_num - before == len(rows)
    places.starts.append(above + before + 1 if is_plain else None)
    if set(map(len, rows)) - {width}:
        i = next(i for i, row in enumerate(rows) if len(row) != width)
        fields = f"{len(rows[i])} fields where the head has {width}"
        raise InputError(f"{places(first + i)}: {fields}; repair it.")
    if first > MOST_ROWS:
        raise InputError(f"it has more than {MOST_ROWS:,} rows, which is too many.")
    return rows


def _numbers(name: str, texts: Sequence[str], places: Places) -> Array:
    """Texts of the last chunk as numbers."""
    try:
        return np.fromiter(map(float, texts), np.float64, len(texts))
    except ValueError:
        for i, text in enumerate(texts, CHUNK * (len(places.starts) - 1)):
            _number(f"{places(i)}: {name}", text)
        raise


def _read_parquet(path: Path, choose: Choose) -> tuple[Table, Row]:
    """A `.parquet` file: its sizes are looked at before anything is unpacked."""
    with needing("parquet"):
        import pyarrow
        import pyarrow.parquet
    chosen = choose({})
    with opened(path, LARGEST_TABLE) as file:
        try:
            parquet = pyarrow.parquet.ParquetFile(file)
            columns = _wanted(parquet.schema_arrow.names, chosen)
            size = _size_of(parquet.metadata, set(columns.values()))
            if parquet.metadata.num_rows > MOST_ROWS or size > LARGEST_TABLE:
                sizes = f"{parquet.metadata.num_rows:,} rows, {size:,} bytes"
                raise InputError(f"it unpacks to {sizes}, which is too many; split the model.")
            heads = [parquet.schema_arrow.names[i] for i in columns.values()]
            table = parquet.read(columns=heads)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"it is not a Parquet file, or a damaged one ({error}).") from None
    return _read_columns(dict(zip(columns, table.columns)), lambda _: chosen)


def _size_of(metadata: Any, columns: set[int]) -> int:
    """What some columns of a Parquet file claim to unpack to, in bytes."""
    groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
    return sum(group.column(i).total_uncompressed_size for group in groups for i in columns)


def _read_columns(table: Any, choose: Choose) -> tuple[Table, Row]:
    """Columns by name: a mapping of arrays, a DataFrame, or those of pyarrow."""
    chosen = choose({})
    heads = [str(name) for name in getattr(table, "columns", table)]
    columns = _wanted(heads, chosen)
    arrays = {name: _array(name, table[heads[i]]) for name, i in columns.items()}
    if len({len(array) for array in arrays.values()}) > 1:
        sizes = ", ".join(f"{name} {len(array)}" for name, array in arrays.items())
        raise InputError(f"columns have different lengths ({sizes}); give rows of equal length.")
    labels = {name: _codes(name, arrays.pop(name)) for name in NAMES}
    for name, array in arrays.items():
        if array.dtype.kind not in NUMERIC:
            raise InputError(f"column '{name}' holds {array.dtype}; it must hold numbers.")
        arrays[name] = array.astype(np.float64)
    return Table(labels, arrays, lambda i: f"row {i}"), chosen


def _array(name: str, column: Any) -> Array:
    """One axis of numbers or of texts; a column of pyarrow is not seen by NumPy without a copy."""
    if hasattr(column, "null_count") and column.null_count:
        raise InputError(f"column '{name}' has {column.null_count} empty entries; fill them.")
    array = np.asarray(column)
    if array.ndim != 1:
        raise InputError(f"column '{name}' has shape {array.shape}; it must have one axis.")
    return array


def _codes(name: str, array: Array) -> Codes:
    """Numbers of labels, and the labels in the order in which they first occur."""
    if array.dtype.kind not in "iuUOT":
        raise InputError(f"column '{name}' holds {array.dtype}; give names or whole numbers.")
    labels: dict[Any, int] = {}
    codes = np.array([labels.setdefault(one, len(labels)) for one in array.tolist()], np.int32)
    for label in labels:
        if not isinstance(label, str | int):
            raise InputError(f"column '{name}': {brief(label)} is neither a name nor a number.")
    return codes, [str(label) for label in labels]
