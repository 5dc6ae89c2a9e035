"""Words of others on a terminal: shown, never obeyed."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def printable(text: str, *, keep: str = "") -> str:
    r"""``text`` with escapes, such as ``\x1b``, for what a terminal would obey or nobody would see.

    That is every character that :meth:`str.isprintable` denies, those that turn the direction of reading among them.
    Line feeds and tabs as well: who wants them to stay names them in ``keep``.
    """
    return "".join(char if char.isprintable() or char in keep else repr(char)[1:-1] for char in text)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, whole: Collection[str] = ()) -> None:
    """A table on standard output, as wide as the terminal.

    Args:
        columns: Their names.
        rows: Cells, as others wrote them; nothing in them is taken for markup.
        whole: Columns that people copy from: they stay on one line and are never cut, the others make room.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for number, name in enumerate(columns):
        width = max((len(printable(row[number])) for row in rows), default=0) if name in whole else None
        table.add_column(
            name, no_wrap=width is not None, overflow="fold" if width is None else "ignore", min_width=width
        )
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console().print(table)
