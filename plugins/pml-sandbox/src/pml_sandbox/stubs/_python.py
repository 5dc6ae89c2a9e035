"""Types as Python writes them. A tool takes its arguments by keyword, or as one dictionary."""

from __future__ import annotations

import keyword
from collections.abc import Iterable

from pml_hookspecs import CatalogEntry
from pml_kit.mcp.tool_schemas import input_schema, output_schema
from pml_kit.offers.presentation import shown_name
from pml_kit.schema.type_tree import Array, Const, Member, Object, Type, Union, read
from pml_sandbox.calls import identifier

from ._lenient import loosened

HEAD = "from typing import Any, Literal, NotRequired, TypedDict\n"
LENIENT_HEAD = "from typing import Any, Literal, NotRequired, TypedDict, overload\n"

ANYTHING = "    async def __call__(self, *args: Any, **more: Any) -> Any: ...\n"
"""A tool can also be called by its name."""
UNKNOWN = "    def __getattr__(self, name: str) -> Any: ...\n"
_SIMPLE = {"any": "Any", "string": "str", "number": "float", "integer": "int", "boolean": "bool", "null": "None"}


def written(type_: Type, name: str, made: list[str]) -> str:
    """``type_`` in Python; objects become classes called after ``name``, put into ``made``."""
    match type_:
        case str():
            return _SIMPLE[type_]
        case Const(value=value):
            return "float" if isinstance(value, float) else f"Literal[{value!r}]"
        case Array(items=items):
            return f"list[{written(items, f'{name}Item', made)}]"
        case Union(members=members):
            return " | ".join(dict.fromkeys(written(m, f"{name}{i}", made) for i, m in enumerate(members)))
        case Object():
            return _object(type_, name, made)


def _object(type_: Object, name: str, made: list[str]) -> str:
    if not type_.members:
        rest = "Any" if type_.rest is None else written(type_.rest, f"{name}Value", made)
        return f"dict[str, {rest}]"
    fields = []
    for member in type_.members:
        of = written(member.type, f"{name}{_camel(member.name)}", made)
        fields.append(f"{member.name!r}: {of if member.required else f'NotRequired[{of}]'}")
    made.append(f"{name} = TypedDict({name!r}, {{{', '.join(fields)}}})\n")
    return name


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in identifier(name).split("_"))


def method(entry: CatalogEntry, description: str, made: list[str]) -> str:
    """One tool as a method of its server's class."""
    base = _camel(entry.server) + _camel(entry.name)
    arguments, output = read(input_schema(entry)), output_schema(entry)
    result = "Any" if output is None else written(read(output), f"{base}Result", made)
    head = f"    async def {identifier(shown_name(entry))}(self{_parameters(arguments, base, made)}) -> {result}:"
    return f"{head}\n        {description!r}\n        ...\n" if description else f"{head} ...\n"


def lenient_method(entry: CatalogEntry, made: list[str]) -> str:
    """One tool as a method to check calls with: what the schema does not rule out passes."""
    base = _camel(entry.server) + _camel(entry.name)
    schema, output = input_schema(entry), output_schema(entry)
    result = "Any" if output is None else written(read(output), f"{base}Result", made)
    arguments = read(schema)
    members = arguments.members if isinstance(arguments, Object) and not arguments.open else ()
    if not all(m.name.isidentifier() and not keyword.iskeyword(m.name) for m in members):
        members = ()
    told = [_parameter(Member(m.name, loosened(m.type), m.required), base, made) for m in members]
    # Names that are not declared are warned of elsewhere.
    parameters = "".join(f", {one}" for one in (*(["*"] if told else []), *told, "**more: Any"))
    name = identifier(shown_name(entry))
    return (
        f"    @overload\n    async def {name}(self{parameters}) -> {result}: ...\n"
        f"    @overload\n    async def {name}(self, args: dict[str, Any], /) -> {result}: ...\n"
    )


def _parameters(arguments: Type, base: str, made: list[str]) -> str:
    if not isinstance(arguments, Object) or arguments.open:
        return ", args: dict[str, Any] = ..., /, **more: Any"
    if not all(m.name.isidentifier() and not keyword.iskeyword(m.name) for m in arguments.members):
        return f", args: {written(arguments, f'{base}Args', made)}, /"
    members = sorted(arguments.members, key=lambda m: not m.required)
    told = "".join(f", {_parameter(m, base, made)}" for m in members)
    return f", *{told}" if told else ""


def _parameter(member: Member, base: str, made: list[str]) -> str:
    of = written(member.type, f"{base}{_camel(member.name)}", made)
    return f"{member.name}: {of}{'' if member.required else ' = ...'}"


def whole(servers: dict[str, list[str]], made: Iterable[str], *, lenient: bool = False) -> str:
    """The stub of ``tools``; for no tools, of one on which everything may be called.

    With ``lenient``, whatever is not known may be called, too: a tool can be named in several ways.
    """
    if not servers:
        return f"{HEAD}\ntools: Any\n"
    rest = ANYTHING + UNKNOWN if lenient else ""
    classes = "".join(f"class {_camel(name)}Tools:\n{''.join(methods)}{rest}\n" for name, methods in servers.items())
    members = "".join(f"    {identifier(name)}: {_camel(name)}Tools\n" for name in servers) + rest
    return f"{LENIENT_HEAD if lenient else HEAD}\n{''.join(made)}\n{classes}class Tools:\n{members}\ntools: Tools\n"
