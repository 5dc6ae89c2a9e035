"""Srcbook's ``.src.md``: a notebook as one Markdown file.

The file begins with a comment that tells the language. The one first-level heading is the title; a sixth-level heading
with a code block, or with a link, after it is a file; all between those is Markdown. The ending of a file's name tells
its language, the word after the fence does not. The format has no ids, and no border between two Markdown cells.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from .errors import NotebookError, shown
from .markdown import METADATA, Block, blocks_of
from .notebook import (
    LANGUAGES,
    PACKAGE_JSON,
    Cell,
    Language,
    Notebook,
    check,
    new_code,
    new_package_json,
    random_id,
)

_LINK = re.compile(r"\[([^\[\]]+)\]\([^()\s]*\)")
_TICKS = re.compile(r"^[ \t]*(`{3,})", re.MULTILINE)

ReadFile = Callable[[str], str]
"""Gives the content of a file that the notebook links to, by its name."""


def encode(notebook: Notebook, *, inline: bool = True) -> str:
    """The notebook as ``.src.md``, which ends with one line feed.

    Args:
        notebook: What to write.
        inline: Whether the files are in the text; else it links to them, as Srcbook's own folders do.
    """
    about: dict[str, str] = {"language": notebook.language}
    if inline and notebook.tsconfig:
        about["tsconfig.json"] = notebook.tsconfig
    # The comment must not end before it ends.
    told = json.dumps(about, ensure_ascii=False, separators=(",", ":")).replace(">", "\\u003e")
    blocks = [f"<!-- srcbook:{told} -->", *(_encode_cell(cell, inline=inline) for cell in notebook.cells)]
    return "\n\n".join(blocks).rstrip("\n") + "\n"


def _encode_cell(cell: Cell, *, inline: bool) -> str:
    if cell.kind == "title":
        return f"# {cell.text}"
    if cell.kind == "markdown":
        return cell.text.strip("\n")
    head = f"###### {cell.filename}\n\n"
    if not inline:
        place = "./" if cell.kind == "package.json" else "./src/"
        return f"{head}[{cell.filename}]({place}{cell.filename})"
    return head + fenced(cell.text, "json" if cell.language is None else cell.language)


def fenced(text: str, language: str) -> str:
    """``text`` as a code block that nothing in it ends."""
    longest = max((len(found[1]) for found in _TICKS.finditer(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def decode(text: str, read: ReadFile | None = None) -> Notebook:
    """The notebook that is written in ``text``.

    Args:
        text: Content of a ``.src.md`` file, or of the ``README.md`` of a folder.
        read: Gives the files that the text links to; None where there can be none.

    Raises:
        NotebookError: It is none; the message says everything that is wrong.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    blocks = list(blocks_of(text))
    language, tsconfig = _metadata(blocks)
    problems: list[str] = []
    cells = list(_cells(text.split("\n"), blocks, read, problems))
    titles = sum(cell.kind == "title" for cell in cells)
    if titles != 1 or cells[0].kind != "title":
        problems.append(f"it must begin with its one first-level heading, the title; it has {titles} of them")
    if sum(cell.kind == "package.json" for cell in cells) > 1:
        problems.append("it has more than one package.json")
    if problems:
        raise NotebookError("this is no notebook: " + "; ".join(problems))
    package = [cell for cell in cells if cell.kind == "package.json"]
    others = [cell for cell in cells[1:] if cell.kind != "package.json"]
    notebook = Notebook(language=language, cells=(cells[0], *package, *others), tsconfig=tsconfig)
    check(notebook)
    return notebook


def _metadata(blocks: Sequence[Block]) -> tuple[Language, str]:
    for block in blocks:
        if block.type == "html_block" and (found := METADATA.fullmatch(block.content.strip())):
            return _about(found[1])
    raise NotebookError(
        'this is no notebook: it has no line <!-- srcbook:{"language":"typescript"} --> that says so. Add it at the top'
    )


def _about(told: str) -> tuple[Language, str]:
    try:
        about = json.loads(told)
    except (ValueError, RecursionError) as exc:
        raise NotebookError(f"what follows srcbook: in the first comment is not JSON: {exc}") from exc
    language = about.get("language") if isinstance(about, dict) else None
    tsconfig = about.get("tsconfig.json", "") if isinstance(about, dict) else ""
    if language not in LANGUAGES or not isinstance(tsconfig, str):
        known = ", ".join(LANGUAGES)
        raise NotebookError(f"the first comment must give a language, one of {known}, not {shown(language)}")
    return cast("Language", language), tsconfig


def _cells(lines: Sequence[str], blocks: Sequence[Block], read: ReadFile | None, problems: list[str]) -> Iterator[Cell]:
    """Cells in order. What is wrong goes to ``problems``."""
    border, since, index = 0, 0, 0
    while index < len(blocks):
        block, taken = blocks[index], 1
        made: Cell | None = None
        if block.type == "html_block" and METADATA.fullmatch(block.content.strip()):
            pass
        elif block.tag == "h1":
            made = Cell(id=random_id(), kind="title", text=block.content)
        elif block.tag == "h6":
            made, taken = _file(block, blocks[index + 1 : index + 2], lines, read, problems)
        else:
            index += 1
            continue
        yield from _markdown(lines, blocks[since:index], border, block.first)
        if made is not None:
            yield made
        index += taken
        border, since = blocks[index - 1].end, index
    yield from _markdown(lines, blocks[since:], border, len(lines))


def _file(
    head: Block, following: Sequence[Block], lines: Sequence[str], read: ReadFile | None, problems: list[str]
) -> tuple[Cell | None, int]:
    """The cell of a file, and how many blocks it takes."""
    body = following[0] if following else None
    name = head.content
    if body is None or "".join(lines[head.end : body.first]).strip() or not _holds_file(body):
        problems.append(f"line {head.first + 1}: a heading of level 6 names a file, and no code follows {name!r}")
        return None, 1
    try:
        if body.type != "paragraph_open":
            source = body.content.removesuffix("\n")
        elif read is None:
            raise NotebookError(f"{name} is only a link; import the folder that has the file")
        else:
            source = read(name)
        return (new_package_json(source) if name == PACKAGE_JSON else new_code(name, source)), 2
    except NotebookError as exc:
        problems.append(f"line {head.first + 1}: {exc}")
        return None, 2


def _holds_file(block: Block) -> bool:
    if block.type == "paragraph_open":
        return _LINK.fullmatch(block.content.strip()) is not None
    return block.type in ("fence", "code_block")


def _markdown(lines: Sequence[str], blocks: Sequence[Block], first: int, end: int) -> Iterator[Cell]:
    """The Markdown cell between two lines, if there is any; ``blocks`` are those between them."""
    kept: list[str] = []
    taken = first
    for block in blocks:
        if block.type in ("fence", "code_block"):
            # Blank lines of code mean something.
            kept += [*_without_gaps(lines[taken : block.first]), *lines[block.first : block.end]]
            taken = block.end
    text = "\n".join([*kept, *_without_gaps(lines[taken:end])]).strip("\n")
    if text.strip():
        yield Cell(id=random_id(), kind="markdown", text=text)


def _without_gaps(lines: Sequence[str]) -> Iterator[str]:
    """``lines``, of blank ones that follow one another the first only."""
    last = None
    for line in lines:
        if line or last != "":
            yield line
        last = line
