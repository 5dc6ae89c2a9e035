"""Jupyter's ``.ipynb`` (nbformat 4), for notebooks in Python. Outputs are neither read nor written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .errors import NotebookError
from .markdown import heading_says, problem_with_markdown, with_other_headings
from .notebook import (
    MOST_TITLE,
    Cell,
    Notebook,
    check,
    free_filename,
    is_cell_id,
    language_of,
    new_code,
    new_markdown,
    new_title,
    random_id,
)
from .srcmd import fenced

OURS = "pml"
"""Member of ``metadata`` with what only we know."""
_FORMAT, _MINOR = 4, 5


def encode(notebook: Notebook) -> str:
    """The notebook as nbformat 4.5.

    Raises:
        NotebookError: It has a cell that is not Python, or cannot be read.
    """
    cells = []
    for cell in notebook.cells:
        if cell.problem:
            raise NotebookError(cell.problem)
        if cell.kind == "package.json" or cell.language not in (None, "python"):
            raise NotebookError(
                f"{cell.filename} is no Python, and .ipynb files are written for Python only; export a .src.md file"
            )
        cells.append(_encode_cell(cell))
    about = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    whole = {"cells": cells, "metadata": about, "nbformat": _FORMAT, "nbformat_minor": _MINOR}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def _encode_cell(cell: Cell) -> dict[str, Any]:
    text = f"# {cell.text}" if cell.kind == "title" else cell.text
    # As nbformat splits it: an empty text has no lines, and a line feed ends one.
    source = [line for line in re.split(r"(?<=\n)", text) if line]
    common = {"id": cell.id, "metadata": {}, "source": source}
    if cell.kind != "code":
        return {"cell_type": "markdown", **common}
    own: dict[str, Any] = {"metadata": {OURS: {"filename": cell.filename}}, "execution_count": None, "outputs": []}
    return {"cell_type": "code", **common, **own}


def decode(text: str, stem: str) -> tuple[Notebook, Sequence[str]]:
    """The notebook in ``text``, and what had to be changed in it, as sentences.

    Args:
        text: Content of an ``.ipynb`` file.
        stem: The title when the notebook does not begin with one.

    Raises:
        NotebookError: It is none, or not Python.
    """
    try:
        whole = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as exc:
        raise NotebookError(f"this is no .ipynb file: it is not JSON: {exc}") from exc
    if not isinstance(whole, Mapping) or not isinstance(whole.get("cells"), list):
        raise NotebookError(
            "this is no .ipynb file of format 4, which has an array of cells; older ones are converted by "
            "jupyter nbconvert --to notebook"
        )
    if whole.get("nbformat") != _FORMAT:
        raise NotebookError(f"the notebook has format {whole.get('nbformat')}, and only format {_FORMAT} can be read")
    _check_language(whole.get("metadata"))
    cells = list(_cells(whole["cells"]))
    title, cells = _title(cells, stem)
    notes: list[str] = []
    cells = list(_fitting(cells, notes))
    notebook = Notebook(language="python", cells=(title, *cells))
    check(notebook)
    return notebook, notes


def _check_language(about: object) -> None:
    """See that it is Python, or does not say."""
    about = about if isinstance(about, Mapping) else {}
    for place, key in (("language_info", "name"), ("kernelspec", "language")):
        told = about.get(place)
        language = told.get(key) if isinstance(told, Mapping) else None
        if isinstance(language, str):
            if language.casefold() not in ("python", "ipython"):
                raise NotebookError(f"the notebook is in {language}, and .ipynb files are read for Python only")
            return


def _cells(plain: Sequence[object]) -> Iterator[Cell]:
    """Cells as they come; ids that are missing, wrong or there twice are made up."""
    ids: set[str] = set()
    names: list[str] = []
    for number, told in enumerate(plain, 1):
        if not isinstance(told, Mapping):
            raise NotebookError(f"cell {number} is no object")
        text = _text(told.get("source", ""), number)
        if told.get("cell_type") == "code":
            cell = new_code(_filename(told.get("metadata"), names), text)
            names.append(cell.filename)
        elif told.get("cell_type") in ("markdown", "raw"):
            cell = Cell(id=random_id(), kind="markdown", text=text)
        else:
            raise NotebookError(f"cell {number} has the type {told.get('cell_type')!r}; known are code, markdown, raw")
        id = told.get("id")
        if isinstance(id, str) and is_cell_id(id) and id not in ids:
            cell = replace(cell, id=id)
        ids.add(cell.id)
        yield cell


def _text(source: object, number: int) -> str:
    if isinstance(source, str):
        return source
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        return "".join(source)
    raise NotebookError(f"cell {number}: its source is neither a string nor an array of strings")


def _filename(about: object, taken: Sequence[str]) -> str:
    """The name that the cell had here before, or a new one."""
    ours = about.get(OURS) if isinstance(about, Mapping) else None
    name = ours.get("filename") if isinstance(ours, Mapping) else None
    known = {other.casefold() for other in taken}
    if isinstance(name, str) and name.casefold() not in known:
        try:
            if language_of(name) == "python":
                return name
        except NotebookError:
            pass
    return free_filename("python", taken)


def _title(cells: list[Cell], stem: str) -> tuple[Cell, list[Cell]]:
    """The title, taken out of the Markdown that begins the notebook, and the cells without it."""
    if cells and cells[0].kind == "markdown":
        head, _, rest = cells[0].text.lstrip("\n").partition("\n")
        text = head.removeprefix("# ").strip()
        if head.startswith("# ") and 0 < len(text) <= MOST_TITLE and heading_says(text):
            title = replace(new_title(text), id=cells[0].id)
            # One cell becomes two: the id goes with the title.
            others = [replace(cells[0], id=random_id(), text=rest.strip("\n"))] if rest.strip() else []
            return title, [*others, *cells[1:]]
    name = " ".join(stem.split())[:MOST_TITLE]
    return new_title(name if name and heading_says(name) else "Notebook"), cells


def _fitting(cells: Sequence[Cell], notes: list[str]) -> Iterator[Cell]:
    """Markdown as it can be in a file with other cells."""
    changed = quoted = 0
    for cell in cells:
        if cell.kind != "markdown":
            yield cell
            continue
        if not cell.text.strip():
            continue
        text, headings = with_other_headings(cell.text)
        changed += headings
        if problem_with_markdown(text):
            quoted += 1
            text = fenced(text, "markdown")
        yield replace(new_markdown(text), id=cell.id)
    if changed:
        notes.append(f"{changed} headings are one level lower: levels 1 and 6 mean titles and files here")
    if quoted:
        notes.append(f"{quoted} Markdown cells left something open, and are shown as text")
