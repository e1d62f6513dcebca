"""Tables of aligned columns for a terminal."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from durable.core.showing import display_width, fit, one_line

GAP = "  "
NARROWEST = 24


def plain(text: str) -> str:
    """Leave a text as it is."""
    return text


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and how it is coloured; the colour takes no room."""

    text: str
    style: Callable[[str], str] = plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A heading; numbers stand at the right."""

    title: str
    right: bool = False


def terminal_width(stream: object) -> int | None:
    """Return the width of a terminal, or ``None`` for a file or a pipe, where nothing needs to be cut."""
    isatty = getattr(stream, "isatty", None)
    return shutil.get_terminal_size().columns if isatty is not None and isatty() else None


def render_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell | str]],
    *,
    heading: Callable[[str], str] = plain,
    width: int | None = None,
) -> list[str]:
    """Return the lines of a table. Columns without a value in any row are left out.

    Args:
        columns: The headings.
        rows: A cell for each column.
        heading: How the headings are coloured.
        width: Of the terminal: the last column is cut there, or put on lines of its own; ``None`` cuts nothing.
    """
    cells = [[_cell(each) for each in row] for row in rows]
    used = [index for index in range(len(columns)) if any(row[index].text for row in cells)]
    shown = [columns[index] for index in used]
    body = [[row[index] for index in used] for row in cells]
    head = [Cell(column.title.upper(), heading) for column in shown]
    widths = [max(display_width(row[index].text) for row in [head, *body]) for index in range(len(shown))]
    last = len(shown) - 1
    if width is None or not shown or shown[last].right:
        return [_line(row, shown, widths) for row in [head, *body]]
    room = width - sum(widths[:last]) - len(GAP) * last
    if room >= min(NARROWEST, widths[last]):
        widths[last] = min(widths[last], room)
        return [_line(row, shown, widths) for row in [head, *body]]
    return list(_folded([head, *body], shown, widths, width))


def _folded(
    rows: Sequence[Sequence[Cell]], columns: Sequence[Column], widths: Sequence[int], width: int
) -> Iterator[str]:
    """Put the last column on a line of its own, below the others."""
    for number, row in enumerate(rows):
        *others, last = row
        yield _line(others, columns[:-1], widths[:-1])
        if last.text and number:
            yield GAP * 2 + last.style(fit(last.text, width - 2 * len(GAP)))


def render_facts(facts: Sequence[tuple[str, Cell | str]], *, label: Callable[[str], str] = plain) -> list[str]:
    """Return lines of a label and a value; facts without a value are left out."""
    told = [(name, cell) for name, value in facts if (cell := _cell(value)).text]
    indent = max((display_width(name) for name, _ in told), default=0) + len(GAP)
    return [f"{label(name)}{' ' * (indent - display_width(name))}{cell.style(cell.text)}" for name, cell in told]


def _cell(value: Cell | str) -> Cell:
    cell = Cell(value) if isinstance(value, str) else value
    return Cell(one_line(cell.text), cell.style)


def _line(row: Sequence[Cell], columns: Sequence[Column], widths: Sequence[int]) -> str:
    parts = []
    for cell, column, width in zip(row, columns, widths, strict=True):
        text = fit(cell.text, width)
        space = " " * (width - display_width(text))
        parts.append(space + cell.style(text) if column.right else cell.style(text) + space)
    return GAP.join(parts).rstrip()
