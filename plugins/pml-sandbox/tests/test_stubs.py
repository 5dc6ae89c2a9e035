"""Typed stubs of tools."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pml_kit.offers import ToolNote
from pml_sandbox.stubs import PythonStubs, TypeScriptStubs
from pml_testing.fakes import entry

ITEM = {"type": "object", "properties": {"n": {"type": ["integer", "null"]}, "next": {"$ref": "#/$defs/Item"}}}
READ = entry(
    "my-fs:read-file",
    "Reads\n a file */ whole",
    input_schema={
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "where"},
            "mode": {"enum": ["a", 1, None]},
            "head": {"type": "integer"},
        },
        "required": ["path"],
    },
    outputSchema={
        "type": "object",
        "properties": {"lines": {"type": "array", "items": {"$ref": "#/$defs/Item"}}},
        "required": ["lines"],
        "$defs": {"Item": ITEM},
    },
)
PING = entry("gh:ping")
ODD = entry("gh:search.code", input_schema={"type": "object", "properties": {"max-results": {"type": "number"}}})


def test_typescript_declares_tools_by_server_with_types_from_both_schemas() -> None:
    text = TypeScriptStubs().write([READ, PING, ODD])
    assert '"read-file"(args: { path: string; mode?: "a" | 1 | null; head?: number }): Promise<{ lines: Array<{' in text
    assert "/** Reads a file * / whole | arguments: path: where; */" in text
    assert "ping(args?: Record<string, any>): Promise<any>;" in text
    assert '"search.code"(args?: { "max-results"?: number }): Promise<any>;' in text
    assert text.index("gh: {") < text.index('"my-fs": {')


def test_python_declares_tools_with_names_spelt_as_identifiers() -> None:
    text = PythonStubs().write([READ, PING, ODD])
    tree = ast.parse(text)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    assert set(classes) == {"GhTools", "MyFsTools", "Tools"}
    read = classes["MyFsTools"].body[0]
    assert isinstance(read, ast.AsyncFunctionDef)
    assert [argument.arg for argument in read.args.kwonlyargs] == ["path", "mode", "head"]
    assert [default is None for default in read.args.kw_defaults] == [True, False, False]
    assert "MyFsReadFileResult = TypedDict('MyFsReadFileResult', {'lines': list[MyFsReadFileResultLinesItem]})" in text
    assert "def search_code(self, args: GhSearchCodeArgs, /) -> Any" in text


@pytest.mark.parametrize(
    ("schema", "typescript", "python"),
    [
        ({"type": "array", "items": {"type": "boolean"}}, "Array<boolean>", "list[bool]"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null", "str | None"),
        ({"const": 'a"b'}, '"a\\"b"', "Literal['a\"b']"),
        (
            {"type": "object", "additionalProperties": {"type": "number"}},
            "{ [name: string]: number }",
            "dict[str, float]",
        ),
        ({"type": "object", "additionalProperties": False}, "Record<string, never>", "dict[str, Any]"),
        ({"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}]}, "{ a: string }", "TResult"),
        ({"$ref": "#/nowhere"}, "any", "Any"),
        ({"$ref": "#"}, "any", "Any"),
        ({"enum": []}, "any", "Any"),
        ({"enum": list(range(100))}, "any", "Any"),
        (True, "any", "Any"),
        ({"type": "strange"}, "any", "Any"),
    ],
)
def test_schemas_become_types(schema: object, typescript: str, python: str) -> None:
    tool = entry("s:t", outputSchema=schema)
    assert f"Promise<{typescript}>;" in TypeScriptStubs().write([tool])
    assert f"-> {'ST' + python[1:] if python == 'TResult' else python}:" in PythonStubs().write([tool])


def test_no_tools_at_all_may_all_be_called() -> None:
    assert TypeScriptStubs().write([]) == "declare const tools: Record<string, any>;\n"
    assert "tools: Any" in PythonStubs().write([])


def test_what_has_not_changed_is_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stubs, made = TypeScriptStubs(), []
    make = stubs._make
    monkeypatch.setattr(stubs, "_make", lambda tool: made.append(tool.id) or make(tool))
    first = stubs.write([READ, PING])
    assert stubs.write([READ, PING]) == first
    stubs.write([READ, entry("gh:ping", "changed")])
    assert made == ["gh:ping", "my-fs:read-file", "gh:ping"]


SCHEMAS = st.recursive(
    st.none() | st.booleans() | st.text() | st.sampled_from([{"type": "string"}, {"enum": [1, "a"]}, {"$ref": "#"}]),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string", ["object", "null"], 3]),
            "properties": st.dictionaries(st.text(max_size=8), inner, max_size=3),
            "required": st.lists(st.text(max_size=8)) | st.integers(),
            "items": inner,
            "anyOf": st.lists(inner, max_size=3),
            "additionalProperties": inner,
            "description": st.text(),
        },
    ),
    max_leaves=12,
)


@given(SCHEMAS, SCHEMAS, st.text(min_size=1, max_size=8), st.text())
@settings(max_examples=60, deadline=None)
def test_whatever_a_server_says_python_stubs_can_be_compiled(given_, result, name: str, text: str) -> None:
    tool = entry(f"s:{name}", text, outputSchema=result)
    tool.definition["inputSchema"] = given_
    TypeScriptStubs().write([tool])
    ast.parse(PythonStubs().write([tool]))


def test_stubs_to_check_code_with_let_pass_what_may_be_right() -> None:
    members = {"path": {"type": "string"}, "state": {"enum": ["open", "closed"]}, "who": {"type": "object"}}
    schema = {"type": "object", "properties": members, "required": ["path"], "additionalProperties": False}
    tool = entry("s:read", input_schema=schema)
    python = PythonStubs(lenient=True).write([tool])
    assert "path: str, state: str = ..., who: dict[str, Any] = ..., **more: Any) -> Any: ..." in python
    assert "async def read(self, args: dict[str, Any], /) -> Any: ..." in python
    assert python.count("def __getattr__") == 2
    typescript = TypeScriptStubs(lenient=True).write([tool])
    assert 'state?: "open" | "closed"' in typescript
    assert typescript.count("[name: string]: any;") == 2
    assert "[name: string]: any;" not in TypeScriptStubs().write([tool])


NOTE = ToolNote(returns="{id: number}[]", arguments={"n": 3}, advice="with 'n'")


def test_what_calls_have_shown_is_said_and_is_not_kept_for_others() -> None:
    typescript, python = TypeScriptStubs(), PythonStubs()
    plain = typescript.write([PING, READ]), python.write([PING, READ])
    told = typescript.write([PING, READ], lambda of: NOTE if of is PING else None)
    assert "/** seen, not declared: with 'n'; the result; worked with {\"n\": 3} */" in told
    assert "Promise<{id: number}[]>;" in told
    told = python.write([PING, READ], lambda of: NOTE if of is PING else None)
    assert ast.parse(told)
    assert "returns {id: number}[]" in told
    assert (typescript.write([PING, READ]), python.write([PING, READ])) == plain


def test_what_is_declared_is_the_type_whatever_was_seen() -> None:
    told = TypeScriptStubs().write([READ], lambda _of: NOTE)
    assert "Promise<{ lines: Array<{" in told
