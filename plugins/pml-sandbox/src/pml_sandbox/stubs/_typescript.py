"""Types as TypeScript writes them."""

from __future__ import annotations

import json
import re
from typing import Any

from pml_hookspecs import CatalogEntry
from pml_kit.mcp.tool_schemas import input_schema, output_schema
from pml_kit.offers.presentation import shown_name
from pml_kit.schema.type_tree import Array, Const, Object, Type, Union, read

_SIMPLE = {
    "any": "any",
    "string": "string",
    "number": "number",
    "integer": "number",
    "boolean": "boolean",
    "null": "null",
}
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


def key(name: str) -> str:
    """``name`` as the key of an object type."""
    return name if _NAME.fullmatch(name) else json.dumps(name)


def comment(text: str, indent: str) -> str:
    """A documentation comment on a line of its own; ``""`` for no text."""
    return f"{indent}/** {text.replace('*/', '* /')} */\n" if text else ""


def written(type_: Type) -> str:
    """``type_`` in TypeScript."""
    match type_:
        case str():
            return _SIMPLE[type_]
        case Const(value=value):
            return _value(value)
        case Array(items=items):
            return f"Array<{written(items)}>"
        case Union(members=members):
            return " | ".join(written(member) for member in members)
        case Object():
            return _object(type_)


def _value(value: Any) -> str:
    return json.dumps(value) if value is None or isinstance(value, (bool, str)) else f"{value}"


def _object(type_: Object) -> str:
    if type_.open:
        return "Record<string, any>"
    members = [f"{key(m.name)}{'' if m.required else '?'}: {written(m.type)}" for m in type_.members]
    if type_.rest is not None:
        members.append(f"[name: string]: {written(type_.rest) if not type_.members else 'any'}")
    return f"{{ {'; '.join(members)} }}" if members else "Record<string, never>"


def method(entry: CatalogEntry, description: str, seen: str = "") -> str:
    """One tool as a member of its server; ``seen`` is the type of its result, if it declares none."""
    arguments = read(input_schema(entry))
    output = output_schema(entry)
    result = written(read(output)) if output is not None else seen or "any"
    members = arguments.members if isinstance(arguments, Object) else ()
    notes = "".join(f" {m.name}: {m.description};" for m in members if m.description)
    optional = not any(member.required for member in members)
    told = description + (f" | arguments:{notes}" if notes else "")
    return (
        comment(told, "    ")
        + f"    {key(shown_name(entry))}(args{'?' if optional else ''}: {written(arguments)}): Promise<{result}>;\n"
    )


def whole(servers: dict[str, list[str]], *, lenient: bool = False) -> str:
    """The declaration of ``tools``; for no tools, of one on which everything may be called.

    With ``lenient``, whatever is not known may be called, too: a tool can be named in several ways.
    """
    if not servers:
        return "declare const tools: Record<string, any>;\n"
    rest = "[name: string]: any;\n" if lenient else ""
    others = [f"    {rest}", f"  {rest}"] if lenient else ["", ""]
    parts = "".join(f"  {key(name)}: {{\n{''.join(methods)}{others[0]}  }};\n" for name, methods in servers.items())
    return f"declare const tools: {{\n{parts}{others[1]}}};\n"
