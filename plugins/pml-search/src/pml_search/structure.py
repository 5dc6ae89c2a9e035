"""What a tool does and takes, apart from its wording: kind of action, effect, shapes of input and output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pml_kit.schema.members import parameters

from .tool_text import DEEPEST, MOST_PARAMETERS, text_of
from .words import split, stem

Effect = Literal["read", "write"]

ACTIONS: dict[str, str] = {
    "get": "get read fetch retrieve show view display describe inspect print obtain load what see tell give",
    "list": "list enumerate all browse which",
    "search": "search find query lookup look discover locate seek where",
    "create": "create add make new insert generate open register build compose draft append start",
    "update": "update edit modify change patch set rename adjust replace alter revise",
    "delete": "delete remove drop clear erase destroy purge trash discard wipe",
    "send": "send post publish notify share reply submit write forward",
    "convert": "convert translate transform encode decode format parse export import",
    "compute": "calculate compute count estimate solve evaluate analyze sum",
    "check": "check validate verify test is exists",
    "move": "move copy transfer merge",
    "control": "run execute stop cancel close enable disable turn toggle start",
}
"""Kinds of action and the verbs that name them; a verb may be of several."""
KINDS = tuple(ACTIONS)
READING, WRITING = (
    ("get", "list", "search", "compute", "check"),
    ("create", "update", "delete", "send", "move", "control"),
)
_OF_VERB: dict[str, frozenset[str]] = {}
for _kind, _verbs in ACTIONS.items():
    for _verb in _verbs.split():
        _OF_VERB[stem(_verb)] = _OF_VERB.get(stem(_verb), frozenset()) | {_kind}

SHAPES: dict[str, str] = {
    "path": "path paths file filename filepath filenames files folder directory dir",
    "url": "url urls uri link href website webpage",
    "text": "text string content contents body message markdown prompt sentence words transcript summary",
    "number": "number amount count integer float value price total sum score distance",
    "date": "date time datetime timestamp day start end since until timezone",
    "image": "image picture photo screenshot png jpeg thumbnail",
    "audio": "audio sound speech voice mp3",
    "video": "video clip",
    "list": "list array items results entries rows records",
    "object": "json object dict metadata info information details",
    "id": "id ids identifier uuid gid key",
    "query": "query search keyword keywords term q sql expression",
    "location": "location address city place latitude longitude lat lon coordinates country",
    "email": "email mail recipient to",
    "code": "code script snippet source program",
    "boolean": "boolean bool flag whether true",
}
"""Shapes that values have, and words that name them in parameters, descriptions and queries."""
SHAPE_BITS = {name: 1 << bit for bit, name in enumerate(SHAPES)}
_OF_WORD: dict[str, int] = {}
for _shape, _words in SHAPES.items():
    for _word in _words.split():
        _OF_WORD[_word] = _OF_WORD.get(_word, 0) | SHAPE_BITS[_shape]
OF_TYPE = {"number": "number", "integer": "number", "array": "list", "object": "object", "boolean": "boolean"}
TAKES = re.compile(
    r"\b(?:takes?|taking|given|accepts?|accepting|inputs?|needs?|from|with)\b\s*:?\s*([^,.;]*)", re.IGNORECASE
)
RETURNS = re.compile(
    r"\b(?:returns?|returning|gives?|giving|outputs?|outputting|produces?|yields?|gets?|->|→)\s*:?\s*([^,.;]*)",
    re.IGNORECASE,
)
SHAPE_REQUEST = re.compile(
    r"\b(?:takes?|accepts?|given|inputs?)\b.*\b(?:returns?|gives?|outputs?|produces?|yields?)\b|->|→", re.IGNORECASE
)
FILE_ENDINGS = "txt|md|pdf|docx?|xlsx?|csv|json|ya?ml|png|jpe?g|py|js|ts|html?|zip|log"
WEB_ADDRESS = re.compile(r"https?://\S+|www\.\S+", re.IGNORECASE)
VALUES = (
    (WEB_ADDRESS, "url"),
    (re.compile(r"[\w.+-]{1,64}@[\w-]+\.[\w.]+"), "email"),
    (re.compile(r"(?:^|[\s'\"])(?:~|\.{0,2})/[\w.-]+|\b\w:\\"), "path"),
    (re.compile(rf"\b[\w-]{{1,64}}\.(?:{FILE_ENDINGS})\b", re.IGNORECASE), "path"),
    (re.compile(r"\b\d{4}-\d{2}-\d{2}\b|\b\d{1,2}:\d{2}\b"), "date"),
    (re.compile(r"-?\d{1,3}\.\d{2,}\s*,\s*-?\d{1,3}\.\d{2,}"), "location"),
)
"""Values that stand in queries, and the shape of the parameter that would take them."""

MADE_FROM = {
    "write file": "md markdown txt text json yaml yml csv tsv xml html css py js ts sh sql log ini toml",
    "create word document": "doc docx odt rtf",
    "write excel spreadsheet": "xls xlsx ods",
    "create presentation save": "ppt pptx odp",
    "create pdf": "pdf",
}
"""What makes a file, by the ending of its name."""
_MAKES = {ending: making for making, endings in MADE_FROM.items() for ending in endings.split()}
NAMED_FILE = re.compile(
    r"(?:(?<![\w/:])(?:~|\.{0,2})/(?:[\w.-]{1,64}/){0,20})?\b[\w-]{1,64}\.([a-z]{2,8})\b(?![\w/])", re.IGNORECASE
)
MAKING = re.compile(
    r"\b(?:saved?|writ(?:e|ten)|export(?:ed)?|stored?|creat(?:e|ed)|generat(?:e|ed)|make|produce|output|report|document|"
    r"in|to|into|as|called|named)\b[^.]*$",
    re.IGNORECASE,
)
TAKING = re.compile(
    r"\b(?:read|open|load|from|of|show|parse|extract|convert|delete|view|see|analy[sz]e|summari[sz]e|edit|at|is in|"
    r"inside)\s+(?:the\s+|my\s+|this\s+)?(?:file\s+|document\s+)?[\"'`]?$",
    re.IGNORECASE,
)
BEFORE = 60
"""How far before the name of a file there is word of it being made [characters]."""


def file_to_make(query: str) -> str:
    """What would make the file that a query wants its result in; ``""`` when there is none.

    ``Summarize the page and save it to /tmp/page.md`` needs a tool that writes files, which it does not name.
    """
    query = WEB_ADDRESS.sub(" ", query)
    for named in NAMED_FILE.finditer(query):
        before = query[max(0, named.start() - BEFORE) : named.start()]
        making = _MAKES.get(named[1].lower(), "")
        if making and MAKING.search(before) and not TAKING.search(before):
            return making
    return ""


def actions(words: Iterable[str]) -> frozenset[str]:
    """Kinds of action that the words name."""
    return frozenset().union(*(_OF_VERB.get(stem(word), frozenset()) for word in words))


def action_bits(words: Iterable[str]) -> int:
    """As :func:`actions`, as a number with one bit for each of :data:`KINDS`."""
    found = actions(words)
    return sum(1 << bit for bit, kind in enumerate(KINDS) if kind in found)


def effect(definition: Mapping[str, Any]) -> Effect:
    """Whether a tool changes anything: by its annotations, without them by the verb in its name or description.

    What says nothing counts as ``"write"``: MCP's default for ``readOnlyHint`` is false.
    """
    annotations = definition.get("annotations")
    hints = annotations if isinstance(annotations, Mapping) else {}
    if isinstance(hints.get("readOnlyHint"), bool):
        return "read" if hints["readOnlyHint"] else "write"
    if hints.get("destructiveHint") is True:
        return "write"
    name = split(text_of(definition.get("name")))
    for words in (name, split(text_of(definition.get("description"))[:200])[:1]):
        for word in words:
            kinds = _OF_VERB.get(stem(word), frozenset())
            if kinds & set(WRITING):
                return "write"
            if kinds & set(READING):
                return "read"
    return "write"


def shapes(words: Iterable[str]) -> int:
    """Shapes that the words name, one bit each."""
    bits = 0
    for word in words:
        bits |= _OF_WORD.get(word, 0)
    return bits


def input_shapes(definition: Mapping[str, Any]) -> int:
    """Shapes of what a tool takes: by the names, types and formats of its parameters."""
    return _shapes_of(definition.get("inputSchema"))


def output_shapes(definition: Mapping[str, Any]) -> int:
    """Shapes of what a tool gives: by its output schema and by what its description says that it returns."""
    described = text_of(definition.get("description"))[:1000]
    said = [word for part in RETURNS.findall(described) for word in split(part)[:8]]
    return _shapes_of(definition.get("outputSchema")) | shapes(said)


def _shapes_of(schema: Any) -> int:
    bits = 0
    for name, inner in parameters(schema, deepest=DEEPEST, most=MOST_PARAMETERS):
        bits |= shapes(split(name))
        kind, form = inner.get("type"), inner.get("format")
        bits |= SHAPE_BITS.get(OF_TYPE.get(kind, ""), 0) if isinstance(kind, str) else 0
        bits |= shapes((form.partition("-")[0],)) if isinstance(form, str) else 0
    return bits


def asked_shapes(query: str) -> tuple[int, int]:
    """Shapes of input and output that a query asks for in so many words ("takes a path, returns text"); else zeros."""
    if not SHAPE_REQUEST.search(query):
        return 0, 0
    if arrow := re.search(r"->|→", query):
        return shapes(split(query[: arrow.start()])), shapes(split(query[arrow.end() :]))
    taken = [word for part in TAKES.findall(query) for word in split(RETURNS.split(part)[0])[:8]]
    given = [word for part in RETURNS.findall(query) for word in split(TAKES.split(part)[0])[:8]]
    return shapes(taken), shapes(given)


def given_shapes(query: str) -> int:
    """Shapes of the values that stand in a query: addresses, paths, dates."""
    bits = 0
    for pattern, shape in VALUES:
        if pattern.search(query):
            bits |= SHAPE_BITS[shape]
    return bits
