"""What the blocks of a Markdown text are, and which text can be a cell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


METADATA = re.compile(r"<!--\s*srcbook:(.+?)\s*-->")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of Markdown that stands in no other."""

    type: str
    first: int
    """Line, from 0."""
    end: int
    """Line after the last."""
    content: str
    tag: str


def heading_says(title: str) -> bool:
    """Whether a first-level heading with this text comes back as it is."""
    blocks = list(blocks_of(f"# {title}\n"))
    return len(blocks) == 1 and (blocks[0].tag, blocks[0].content) == ("h1", title)


def problem_with_markdown(text: str) -> str:
    """What keeps ``text`` from being a cell among others; ``""`` for nothing."""
    if not text.strip():
        return "it is empty"
    blocks = list(blocks_of(f"{text}\n\n# end\n"))
    if not blocks or (blocks[-1].tag, blocks[-1].content) != ("h1", "end"):
        return "something in it stays open, such as a code block or a comment, and would take in what follows; close it"
    for block in blocks[:-1]:
        if block.tag in ("h1", "h6"):
            return (
                f"line {block.first + 1} is a heading of level {block.tag[1]}; level 1 is for the title and level 6 "
                "for the names of files. Use levels 2 to 5"
            )
        if block.type == "html_block" and METADATA.fullmatch(block.content.strip()):
            return f"line {block.first + 1} is the comment that begins a notebook"
    return ""


def with_other_headings(text: str) -> tuple[str, int]:
    """``text`` with headings of levels 1 and 6 as levels 2 and 5, and how many there were."""
    lines, changed = text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 0
    for block in blocks_of("\n".join(lines)):
        if block.tag not in ("h1", "h6"):
            continue
        changed += 1
        if lines[block.first].lstrip().startswith("#"):
            marks = ("#", "##") if block.tag == "h1" else ("######", "#####")
            lines[block.first] = lines[block.first].replace(*marks, 1)
        else:
            lines[block.end - 1] = lines[block.end - 1].replace("=", "-")
    return "\n".join(lines), changed


_parser: MarkdownIt | None = None


def blocks_of(text: str) -> Iterator[Block]:
    """Blocks that stand in no other, in order."""
    global _parser  # noqa: PLW0603 - made when it is first used, because it takes long to import
    if _parser is None:
        from markdown_it import MarkdownIt

        made = MarkdownIt("commonmark").enable("table")
        made.core.ruler.enableOnly(["normalize", "block"])
        _parser = made
    tokens: Sequence[Token] = _parser.parse(text)
    for number, token in enumerate(tokens):
        if token.level == 0 and token.nesting >= 0 and token.map is not None:
            after = tokens[number + 1 : number + 2]
            inner = after[0] if after and after[0].type == "inline" else token
            yield Block(token.type, token.map[0], token.map[1], inner.content, token.tag)
