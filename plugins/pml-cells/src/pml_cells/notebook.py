"""Notebooks and their cells, and what may be in them."""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal, TypeAlias, cast

from .errors import NotebookError, shown
from .markdown import heading_says, problem_with_markdown

Kind: TypeAlias = Literal["title", "markdown", "package.json", "code"]
Language: TypeAlias = Literal["typescript", "javascript", "python"]

PACKAGE_JSON = "package.json"
LANGUAGES: Mapping[Language, tuple[str, ...]] = {
    "typescript": (".ts", ".mts", ".cts"),
    "javascript": (".js", ".mjs", ".cjs"),
    "python": (".py",),
}
"""Endings of the files of each language, the usual one first."""
SPOKEN: Mapping[str, str] = {"typescript": "TypeScript", "javascript": "JavaScript", "python": "Python"}
MOST_TITLE = 200
"""Characters of a title."""
_BY_ENDING: Mapping[str, Language] = {ending: language for language, endings in LANGUAGES.items() for ending in endings}
_FILENAME = re.compile(r"[A-Za-z0-9_-]{1,100}\.[a-z]{2,3}")
_CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell."""

    id: str
    kind: Kind
    text: str
    """Source of code and of package.json; Markdown; the words of the title."""
    filename: str = ""
    """Of code, and of package.json; else ``""``."""
    language: Language | None = None
    """Language of a code cell, from its metadata."""
    problem: str = ""
    """Why the text cannot be had; ``""`` when it can."""

    def plain(self) -> dict[str, Any]:
        """As clients see it, with the members that Srcbook gives its cells."""
        shown: dict[str, Any] = {"id": self.id, "type": self.kind}
        if self.kind in ("title", "markdown"):
            return {**shown, "text": self.text}
        shown |= {"filename": self.filename}
        if self.language is not None:
            shown["language"] = self.language
        return {**shown, "problem": self.problem} if self.problem else {**shown, "source": self.text}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notebook:
    """A title and what follows it, wherever it is kept."""

    language: Language
    """Language of cells that name none."""
    cells: tuple[Cell, ...]
    """The title first, then package.json if there is one."""
    tsconfig: str = ""
    """Content of ``tsconfig.json``; ``""`` for none."""

    @property
    def title(self) -> str:
        """The text of the first cell."""
        return self.cells[0].text


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A notebook with a folder of its own."""

    id: str
    owner: str
    """The principal whose it is."""
    notebook: Notebook
    tools: tuple[str, ...] = ()
    """Patterns of tools that its cells may call (``files:*``); empty for none."""
    created_at: str = ""
    """UTC, ISO 8601."""
    changed_at: str = field(default="")
    """UTC, ISO 8601; of the structure, not of files that somebody edited."""


def random_id() -> str:
    """26 letters and digits that nobody guesses, as Srcbook makes them."""
    return base64.b32hexencode(secrets.token_bytes(16)).decode().rstrip("=").lower()


def is_cell_id(id: str) -> bool:
    """Whether ``id`` can be one: also Jupyter's are."""
    return _CELL_ID.fullmatch(id) is not None


def language_of(filename: str) -> Language:
    """The language that the ending of a valid file name means.

    Raises:
        NotebookError: It is no name that a cell's file may have.
    """
    language = _BY_ENDING.get(PurePosixPath(filename).suffix)
    if language is None or _FILENAME.fullmatch(filename) is None:
        endings = " ".join(_BY_ENDING)
        raise NotebookError(
            f"{shown(filename)} is no name for the file of a cell: letters, digits, - and _, then one of {endings}"
        )
    return language


def detect_language(language: str | None, filename: str | None) -> Language:
    """What to run a cell as: its metadata, then its file's name, then TypeScript."""
    if language in LANGUAGES:
        return cast("Language", language)
    if filename and filename.endswith(".js"):
        return "javascript"
    if filename and filename.endswith(".py"):
        return "python"
    return "typescript"


def free_filename(language: Language, taken: Sequence[str]) -> str:
    """A name for the next cell's file; what Python imports must be an identifier."""
    known, number = {name.casefold() for name in taken}, 1
    while (name := f"cell_{number}{LANGUAGES[language][0]}") in known:
        number += 1
    return name


def new_title(text: str) -> Cell:
    """A title cell.

    Raises:
        NotebookError: No Markdown heading can say it.
    """
    if not text.strip() or len(text) > MOST_TITLE or not heading_says(text):
        raise NotebookError(
            f"a title is one line of 1 to {MOST_TITLE} characters that a Markdown heading can say, not {shown(text)}"
        )
    return Cell(id=random_id(), kind="title", text=text)


def new_markdown(text: str) -> Cell:
    """A Markdown cell.

    Raises:
        NotebookError: In a file with other cells it would mean something else.
    """
    if problem := problem_with_markdown(text):
        raise NotebookError(f"this cannot be a Markdown cell: {problem}")
    return Cell(id=random_id(), kind="markdown", text=text)


def new_code(filename: str, source: str) -> Cell:
    """A code cell.

    Raises:
        NotebookError: The file name is none.
    """
    return Cell(id=random_id(), kind="code", text=source, filename=filename, language=language_of(filename))


def new_package_json(source: str) -> Cell:
    """The cell of ``package.json``."""
    return Cell(id=random_id(), kind="package.json", text=source, filename=PACKAGE_JSON)


def new_notebook(title: str, language: Language) -> Notebook:
    """A notebook with a title only, and what its language needs beside it.

    Raises:
        NotebookError: The title cannot be one.
    """
    cells = [new_title(title)]
    if language != "python":
        cells.append(new_package_json('{\n  "type": "module",\n  "dependencies": {}\n}\n'))
    return Notebook(language=language, cells=tuple(cells), tsconfig=TSCONFIG if language == "typescript" else "")


def check(notebook: Notebook) -> None:
    """See that the cells fit together.

    Raises:
        NotebookError: A file name or an id is there twice, or the title is not where it must be.
    """
    kinds = [cell.kind for cell in notebook.cells]
    if kinds[:1] != ["title"] or kinds.count("title") != 1:
        raise NotebookError("a notebook has exactly one title, and it comes first")
    if kinds.count("package.json") > 1:
        raise NotebookError("a notebook has at most one package.json")
    names = [cell.filename for cell in notebook.cells if cell.filename]
    if again := _twice([name.casefold() for name in names]):
        raise NotebookError(f"two cells have the file name {again}; rename one of them")
    if again := _twice([cell.id for cell in notebook.cells]):
        raise NotebookError(f"two cells have the id {again}")


def _twice(values: Sequence[str]) -> str:
    known: set[str] = set()
    for value in values:
        if value in known:
            return value
        known.add(value)
    return ""


TSCONFIG = """{
  "compilerOptions": {
    "target": "es2022",
    "module": "nodenext",
    "moduleResolution": "nodenext",
    "allowImportingTsExtensions": true,
    "resolveJsonModule": true,
    "noEmit": true
  },
  "include": ["src/**/*"]
}
"""
"""``tsconfig.json`` of a new TypeScript notebook: an editor needs it to follow imports between cells."""
