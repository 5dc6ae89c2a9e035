"""Notebooks from elsewhere, and for elsewhere. Blocks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from . import ipynb, srcmd
from .errors import NotebookError
from .files import Folder
from .notebook import PACKAGE_JSON, Notebook, language_of
from .sessions import README, SOURCES, TSCONFIG

MOST_BYTES = 64 << 20
"""Size of a file that is read [bytes]."""
_SRCMD = (".src.md", ".srcmd", ".md")
_IPYNB = ".ipynb"


def read(path: Path) -> tuple[Notebook, Sequence[str]]:
    """The notebook in a ``.src.md`` or ``.ipynb`` file, or in a folder of Srcbook's; and what was changed in it.

    Raises:
        NotebookError: There is none, or it is broken. The message names the file.
    """
    try:
        if path.is_dir():
            return _folder(path), ()
        text = _text(path)
        if path.name.endswith(_IPYNB):
            return ipynb.decode(text, path.name.removesuffix(_IPYNB))
        if path.name.endswith(_SRCMD):
            return srcmd.decode(text), ()
    except NotebookError as exc:
        raise NotebookError(f"{path}: {exc}") from exc
    except OSError as exc:
        raise NotebookError(f"{path}: cannot be read: {exc.strerror or exc}") from exc
    raise NotebookError(f"{path}: is no .src.md and no .ipynb file, and no folder with a {README}")


def _text(path: Path) -> str:
    if path.stat().st_size > MOST_BYTES:
        raise NotebookError(f"is larger than {MOST_BYTES} bytes")
    return _decoded(path.read_bytes())


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise NotebookError(f"is not UTF-8: byte {exc.start} cannot be read") from exc


def _folder(path: Path) -> Notebook:
    """What Srcbook keeps: links in ``README.md``, sources in ``src``, and ``tsconfig.json`` beside them."""
    folder = Folder(path.resolve())

    def linked(name: str) -> str:
        place = name if name == PACKAGE_JSON else f"{SOURCES}/{name}"
        if name != PACKAGE_JSON:
            language_of(name)
        try:
            return _decoded(folder.read(place, MOST_BYTES))
        except OSError as exc:
            raise NotebookError(f"{place} cannot be read: {exc.strerror or exc}") from exc

    notebook = srcmd.decode(_decoded(folder.read(README, MOST_BYTES)), linked)
    try:
        tsconfig = _decoded(folder.read(TSCONFIG, MOST_BYTES))
    except FileNotFoundError:
        return notebook
    return Notebook(language=notebook.language, cells=notebook.cells, tsconfig=tsconfig)


def written(notebook: Notebook, format: str) -> str:
    """The notebook as ``src.md`` or ``ipynb``.

    Raises:
        NotebookError: The format cannot hold it, or the source of a cell cannot be read.
    """
    if format == "ipynb":
        return ipynb.encode(notebook)
    for cell in notebook.cells:
        if cell.problem:
            raise NotebookError(cell.problem)
    return srcmd.encode(notebook)


def format_of(path: Path | None) -> str:
    """What the ending of a file's name asks for; ``src.md`` without any.

    Raises:
        NotebookError: It asks for something else.
    """
    if path is None or path.name.endswith(_SRCMD):
        return "src.md"
    if path.name.endswith(_IPYNB):
        return "ipynb"
    raise NotebookError(f"{path}: the name must end with .src.md or .ipynb")
