"""Reads ``api.txt``: one line for each public name of the contract, as ``test_api_snapshot.py`` writes it."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from pml_hookspecs import replace

CLASS = re.compile(r"(\S+): class(\(.*?\))?((?: @.*)?)")
FUNCTION = re.compile(r"\S+[^:] (@|async \(|\()")
SIGNATURE = re.compile(r" (?=\(|async \()")
EXPORT = "pml_hookspecs exports "
DEPRECATED = "__deprecated__"
UNSEEN = frozenset({"deprecated", "quick"})
"""Decorators that change nothing for whoever uses what has them."""


@dataclass(frozen=True)
class Parameter:
    """One of a function's."""

    kind: str
    """``positional``, ``keyword``, ``*`` or ``**``."""
    annotation: str | None
    default: str | None


@dataclass(frozen=True)
class Entry:
    """One line."""

    path: str
    line: str
    node: ast.stmt | None
    """None for an export."""

    @property
    def owner(self) -> str:
        return self.path.rpartition(".")[0]

    @property
    def own(self) -> str:
        """The last part of its path."""
        return self.path.rpartition(".")[2]

    @property
    def name(self) -> str:
        """How people call it: without the package and the module."""
        return self.path if self.node is None else self.path.split(".", 2)[2]

    @property
    def module(self) -> str:
        """Where its line says that it stands; ``""`` for an export."""
        return "" if self.node is None else self.line.split(".")[1]

    @property
    def private(self) -> bool:
        """In a module that is nobody's business; what of it is exported is told by its export."""
        return self.node is not None and self.path.split(".")[1].startswith("_")

    @property
    def kind(self) -> str:
        """``class``, ``function``, ``async function``, ``value`` or ``export``."""
        kinds = {"ClassDef": "class", "FunctionDef": "function", "AsyncFunctionDef": "async function"}
        return "export" if self.node is None else kinds.get(type(self.node).__name__, "value")

    @cached_property
    def decorators(self) -> list[str]:
        return [ast.unparse(one) for one in getattr(self.node, "decorator_list", [])]

    @property
    def lasting(self) -> list[str]:
        """Its decorators, but for those that nobody sees and for the advice not to use it any more."""
        made = []
        for one in getattr(self.node, "decorator_list", []):
            name, words = _called(one)
            words = {word: value for word, value in words.items() if not word.startswith("warn_on_impl")}
            if name not in UNSEEN:
                made.append(f"{name} {words}")
        return made

    @property
    def bases(self) -> list[str]:
        return [ast.unparse(base).partition("[")[0] for base in getattr(self.node, "bases", [])]

    @property
    def hook(self) -> bool:
        return any(one.partition("(")[0] == "hookspec" for one in self.decorators)

    @property
    def constructor(self) -> str:
        """``keywords``, ``positions`` or ``""``: how objects of a class without ``__init__`` of its own are made."""
        if "NamedTuple" in self.bases:
            return "positions"
        if "kw_only" in {word.arg for word in getattr(self.node, "keywords", [])}:
            return "keywords"
        made = [one for one in self.decorators if one.startswith("dataclass")]
        return "" if not made else "keywords" if "kw_only=True" in made[0] else "positions"

    @property
    def annotation(self) -> str | None:
        return ast.unparse(self.node.annotation) if isinstance(self.node, ast.AnnAssign) else None

    @property
    def returns(self) -> str | None:
        given = getattr(self.node, "returns", None)
        return None if given is None else ast.unparse(given)

    @property
    def value(self) -> str | None:
        """What a constant or a field is, if it says so."""
        given = self.node.value if isinstance(self.node, ast.AnnAssign | ast.Assign) else None
        return None if given is None else ast.unparse(given)

    @property
    def required(self) -> bool:
        """Whether a field has to be given."""
        given = self.node.value if isinstance(self.node, ast.AnnAssign) else None
        if isinstance(given, ast.Call) and ast.unparse(given.func) == "field":
            return not {"default", "default_factory"} & {word.arg for word in given.keywords}
        return given is None

    @property
    def field(self) -> bool:
        """Whether it is one, of a class that has fields."""
        return self.annotation is not None and not self.annotation.startswith("ClassVar")

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """In order, without ``self`` and ``cls``."""
        if not isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef):
            return {}
        return {name: one for name, one in _parameters(self.node.args) if name not in ("self", "cls")}


def _called(decorator: ast.expr) -> tuple[str, dict[str, str]]:
    """Its name and what it is called with."""
    if not isinstance(decorator, ast.Call):
        return ast.unparse(decorator), {}
    words = {str(number): ast.unparse(one) for number, one in enumerate(decorator.args)}
    words |= {word.arg or "**": ast.unparse(word.value) for word in decorator.keywords}
    return ast.unparse(decorator.func), words


def _parameters(given: ast.arguments) -> Iterator[tuple[str, Parameter]]:
    def made(one: ast.arg, kind: str, default: ast.expr | None = None) -> tuple[str, Parameter]:
        texts = [None if part is None else ast.unparse(part) for part in (one.annotation, default)]
        return one.arg, Parameter(kind, *texts)

    named = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(named) - len(given.defaults)) + list(given.defaults)
    yield from (made(one, "positional", default) for one, default in zip(named, defaults, strict=True))
    if given.vararg:
        yield made(given.vararg, "*")
    yield from (made(one, "keyword", value) for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True))
    if given.kwarg:
        yield made(given.kwarg, "**")


def _marks(text: str) -> str:
    """`` @a @b`` as lines above a definition."""
    return "".join(f"@{mark}\n" for mark in text.strip().removeprefix("@").split(" @") if mark)


def _sources(line: str) -> Iterator[str]:
    """The line as Python; more than one where its decorators could be read in more than one way."""
    if found := CLASS.fullmatch(line):
        yield f"{_marks(found[3])}class X{found[2] or ''}: ..."
    elif FUNCTION.match(line):
        rest = line[line.index(" ") :]
        for start in SIGNATURE.finditer(rest):
            wait = "async " if rest.startswith("async ", start.end()) else ""
            yield f"{_marks(rest[: start.start()])}{wait}def x{rest[start.end() + len(wait) :]}: ..."
    else:
        yield line


def entry(line: str) -> Entry:
    """What a line says.

    Raises:
        ValueError: It is none of an ``api.txt``.
    """
    if line.startswith(EXPORT):
        return Entry(line.removeprefix(EXPORT), line, None)
    for source in _sources(line):
        try:
            (node,) = ast.parse(source).body
        except (SyntaxError, ValueError):
            continue
        return Entry(re.split(r":? ", line, maxsplit=1)[0], line, node)
    raise ValueError(f"not a line of api.txt: {line!r}")


EXPORTED = "pml_hookspecs.exported."
"""In place of the module of what the package exports: which one that is in is nobody's business."""


def exports(text: str) -> frozenset[str]:
    """Names that the package exports."""
    lines = text.splitlines()
    told = {line.removeprefix(EXPORT) for line in lines if line.startswith(EXPORT)}
    return frozenset(told | {name for line in lines if (name := _without_module(line).partition(".")[0])})


def _without_module(line: str) -> str:
    """The path of what the package exports, as it is told since 0.2: no module stands before it. ``""`` for others."""
    _, _, name = re.split(r":? ", line, maxsplit=1)[0].partition(".")
    return name if "." not in name or name[0].isupper() else ""


def read(text: str, exported: Collection[str] = ()) -> dict[str, Entry]:
    """By path; an export's is the bare name. What is ``exported`` may stand in any module.

    Classes have what those have that they inherit from.
    """
    found = {name: Entry(name, EXPORT + name, None) for name in exports(text)}
    for one in (entry(line) for line in text.splitlines() if line):
        if one.private or one.node is None:
            continue
        name = _without_module(one.line) or one.name
        path = EXPORTED + name if name.partition(".")[0] in exported else one.path
        found[path] = replace(one, path=path)
    return {**_inherited(found), **found}


def _inherited(found: Mapping[str, Entry]) -> dict[str, Entry]:
    """Members of bases, under the classes that have those, however far up they stand."""
    classes = {one.own: one for one in found.values() if one.kind == "class"}
    made: dict[str, Entry] = {}
    for one in classes.values():
        left = [classes[base] for base in one.bases if base in classes]
        while left:
            base = left.pop()
            left += [classes[above] for above in base.bases if above in classes]
            members = [member for member in found.values() if member.owner == base.path]
            made |= {(path := f"{one.path}.{member.own}"): replace(member, path=path) for member in members}
    return made
