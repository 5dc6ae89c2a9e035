"""Ways to break the code of a correct plan that only who runs such code can see, and steps that policy stops."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from faults import STOPPED, Breaker, kind
from plans import Made, Plan

from pml_hookspecs import CatalogEntry

WRONG = {"string": ("5", "5"), "integer": ("'many'", "'many'"), "boolean": ("'yes'", "'yes'"), "number": ("'a'", "'a'")}
"""By type: what does not fit, in Python and in TypeScript."""


def _code(breaker: Breaker, plan: Plan, *languages: str) -> Made | None:
    found = [one for one in plan.tasks if one.language in languages]
    return breaker.chance.choice(found) if found else None


def _simple(breaker: Breaker, *, output: bool = False) -> tuple[CatalogEntry, Mapping[str, Any]] | None:
    """A tool with identifiers for names, and the required arguments that have one plain type."""
    for _ in range(200):
        entry = breaker.chance.choice(breaker.entries)
        schema, declared = entry.definition["inputSchema"], entry.definition.get("outputSchema")
        if not (entry.server.isidentifier() and entry.name.isidentifier()) or "$defs" in schema:
            continue
        named = schema.get("properties", {})
        wanted = {n: named[n] for n in schema.get("required", ()) if n.isidentifier()}
        plain = all(one.get("type") in WRONG and "enum" not in one for one in wanted.values())
        if wanted and plain and (not output or (declared or {}).get("properties")):
            return entry, wanted
    return None


def _arguments(wanted: Mapping[str, Any], wrong: str, column: int) -> Sequence[tuple[str, str]]:
    fits = {"string": "'x'", "integer": "3", "boolean": "0 == 1" if column else "True", "number": "1.5"}
    return [(n, WRONG[one["type"]][column] if n == wrong else fits[one["type"]]) for n, one in wanted.items()]


def _python_call(entry: CatalogEntry, wanted: Mapping[str, Any], wrong: str = "") -> str:
    given = ", ".join(f"{name}={value}" for name, value in _arguments(wanted, wrong, 0))
    return f"await tools.{entry.server}.{entry.name}({given})"


def _script_call(entry: CatalogEntry, wanted: Mapping[str, Any], wrong: str = "") -> str:
    given = ", ".join(f"{name}: {value}" for name, value in _arguments(wanted, wrong, 1))
    return f"await tools.{entry.server}.{entry.name}({{ {given} }})"


@kind("Python that calls a tool with a wrong type", sandboxes=True)
def _(breaker: Breaker, plan: Plan) -> Any:
    made, found = _code(breaker, plan, "python"), _simple(breaker)
    if made is None or found is None:
        return None
    made.source = f"{_python_call(*found, wrong=breaker.chance.choice(list(found[1])))}\n{made.source}"
    return ["code.type"], [made.id]


@kind("TypeScript that calls a tool with a wrong type", sandboxes=True)
def _(breaker: Breaker, plan: Plan) -> Any:
    made, found = _code(breaker, plan, "typescript"), _simple(breaker)
    if made is None or found is None:
        return None
    made.source = f"{_script_call(*found, wrong=breaker.chance.choice(list(found[1])))};\n{made.source}"
    return ["code.type"], [made.id]


@kind("TypeScript that calls a tool without an argument", sandboxes=True)
def _(breaker: Breaker, plan: Plan) -> Any:
    made, found = _code(breaker, plan, "typescript"), _simple(breaker)
    if made is None or found is None:
        return None
    made.source = f"await tools.{found[0].server}.{found[0].name}({{}});\n{made.source}"
    return ["code.type"], [made.id]


@kind("TypeScript that reads what a result does not have", sandboxes=True)
def _(breaker: Breaker, plan: Plan) -> Any:
    made, found = _code(breaker, plan, "typescript"), _simple(breaker, output=True)
    if made is None or found is None:
        return None
    made.source = f"const got = {_script_call(*found)};\nconst part = got.no_such_member;\n{made.source}"
    return ["code.type"], [made.id]


@kind("Python that reads what a result does not have", sandboxes=True)
def _(breaker: Breaker, plan: Plan) -> Any:
    made, found = _code(breaker, plan, "python"), _simple(breaker, output=True)
    if made is None or found is None:
        return None
    made.source = f"got = {_python_call(*found)}\npart = got['no_such_member']\n{made.source}"
    return ["code.type"], [made.id]


@kind("Python that does not wait for a tool", sandboxes=True)
def _(breaker: Breaker, plan: Plan) -> Any:
    made, found = _code(breaker, plan, "python"), _simple(breaker, output=True)
    if made is None or found is None:
        return None
    made.source = f"got = {_python_call(*found).removeprefix('await ')}\npart = got['id']\n{made.source}"
    return ["code.type"], [made.id]


@kind("Python whose values do not fit together", sandboxes=True)
def _(breaker: Breaker, plan: Plan) -> Any:
    if (made := _code(breaker, plan, "python")) is None:
        return None
    wrong = ["label = 'n: ' + 5", "for one in 7:\n    print(one)", "size = len(3)", "text = 'a'\ntext()"]
    made.source = f"{breaker.chance.choice(wrong)}\n{made.source}"
    return ["code.type"], [made.id]


@kind("TypeScript whose types do not fit together", sandboxes=True)
def _(breaker: Breaker, plan: Plan) -> Any:
    if (made := _code(breaker, plan, "typescript")) is None:
        return None
    wrong = ["const n: number = 'x';", "const s: string[] = [1, 2];", "Math.max('a', 'b');", "'abc'.repeat('2');"]
    made.source = f"{breaker.chance.choice(wrong)}\n{made.source}"
    return ["code.type"], [made.id]


@kind("Python that the sandbox lacks", sandboxes=True)
def _(breaker: Breaker, plan: Plan) -> Any:
    if (made := _code(breaker, plan, "python")) is None:
        return None
    lacking = ["import numpy", "def each():\n    yield 1", "class Mine(dict):\n    pass", "import yaml as y"]
    made.source = f"{breaker.chance.choice(lacking)}\n{made.source}"
    return ["code.unsupported"], [made.id]


@kind("TypeScript with an undefined name", sandboxes=True)
def _(breaker: Breaker, plan: Plan) -> Any:
    if (made := _code(breaker, plan, "typescript")) is None:
        return None
    made.source = f"const first = undefned_thing[0];\n{made.source}"
    return ["code.undefined"], [made.id]


@kind("JavaScript that declares a name twice", sandboxes=True)
def _(breaker: Breaker, plan: Plan) -> Any:
    if (made := _code(breaker, plan, "typescript", "javascript")) is None:
        return None
    made.source = f"let twice = 1;\n{made.source}\nlet twice = 2;"
    return ["code.syntax"], [made.id]


@kind("a step that policy stops", sandboxes=True)
def _(breaker: Breaker, plan: Plan) -> Any:
    destroys = [e for e in breaker.entries if (e.definition.get("annotations") or {}).get("destructiveHint") is True]
    made = breaker.call(plan)
    if made is None or made.entry is None or not destroys:
        return None
    made.entry = breaker.chance.choice(destroys)
    made.tool, made.arguments, made.step = made.entry.id, {}, {}
    return [STOPPED], [made.id]


@kind("code that calls what policy stops", sandboxes=True)
def _(breaker: Breaker, plan: Plan) -> Any:
    destroys = [
        e
        for e in breaker.entries
        if (e.definition.get("annotations") or {}).get("destructiveHint") is True and re.fullmatch(r"\w+:\w+", e.id)
    ]
    made = _code(breaker, plan, "python")
    if made is None or not destroys:
        return None
    entry = breaker.chance.choice(destroys)
    made.source = f"await tools.{entry.server}.{entry.name}(**inputs)\n{made.source}"
    return [STOPPED], [made.id]
