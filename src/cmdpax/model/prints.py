"""How a table looks as text and in a notebook: rows of cells, the first cell is the row's name."""

from collections.abc import Sequence
from html import escape
from typing import Protocol

Rows = Sequence[Sequence[str]]
MODEL = "constrained Markov decision process"  # its title


class Printed(Protocol):
    """What prints as a table of rows, with a title in a notebook."""

    @property
    def _title(self) -> str: ...

    def _rows(self) -> Rows: ...

    def __str__(self) -> str:
        return as_text(self._rows())

    def _repr_html_(self) -> str:
        return as_html(self._title, self._rows())


def as_text(rows: Rows) -> str:
    """Left-aligned first column, the others right-aligned; a row of two cells is a line of text."""
    columns = max((len(row) for row in rows), default=0)
    names = max((len(row[0]) for row in rows), default=0)
    table = [row for row in rows if len(row) == columns > 2]
    widths = [max(len(row[k]) for row in table) for k in range(1, columns) if table]
    lines = []
    for row in rows:
        cells = row[1:]
        if len(row) == columns > 2:
            cells = [f"{cell:>{width}}" for cell, width in zip(cells, widths)]
        lines.append("  ".join([f"{row[0]:<{names}}", *cells]).rstrip())
    return "\n".join(lines)


def as_html(title: str, rows: Rows) -> str:
    """The same rows as an HTML table with a caption."""
    columns, style = max((len(row) for row in rows), default=1), "style='text-align:left'"
    lines = []
    for name, *cells in rows:
        both = zip(cells, [1] * (len(cells) - 1) + [columns - len(cells)])
        inside = "".join(f"<td {style} colspan='{n}'>{escape(cell)}</td>" for cell, n in both)
        lines.append(f"<tr><th {style}>{escape(name)}</th>{inside}</tr>")
    return f"<table><caption>{escape(title)}</caption><tbody>{''.join(lines)}</tbody></table>"
