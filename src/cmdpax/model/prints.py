"""How a table looks as text and in a notebook: rows of cells, the first cell is the row's name."""

from collections.abc import Sequence
from html import escape

Rows = Sequence[Sequence[str]]


def as_text(rows: Rows) -> str:
    """Left-aligned first column, the others right-aligned; a row of two cells is a line of text."""
    columns = max((len(row) for row in rows), default=0)
    table = [row for row in rows if len(row) == columns > 2]
    widths = [max((len(row[k]) for row in table), default=0) for k in range(columns)]
    names = max((len(row[0]) for row in rows), default=0)
    lines = []
    for row in rows:
        if len(row) == columns > 2:
            cells = [f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:])]
            lines.append("  ".join([f"{row[0]:<{names}}", *cells]).rstrip())
        else:
            lines.append("  ".join([f"{row[0]:<{names}}", *row[1:]]).rstrip())
    return "\n".join(lines)


def as_html(title: str, rows: Rows) -> str:
    """The same rows as an HTML table with a caption."""
    columns = max((len(row) for row in rows), default=1)
    body = "".join(
        f"<tr><th style='text-align:left'>{escape(row[0])}</th>"
        + "".join(
            f"<td style='text-align:left' colspan='{columns - len(row) + 1 if last else 1}'>"
            f"{escape(cell)}</td>"
            for last, cell in ((k == len(row) - 2, cell) for k, cell in enumerate(row[1:]))
        )
        + "</tr>"
        for row in rows
    )
    return f"<table><caption>{escape(title)}</caption><tbody>{body}</tbody></table>"
