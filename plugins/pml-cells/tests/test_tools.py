from __future__ import annotations

import re
from typing import Any

import pytest

from pml_cells.plugin import Settings, pml_meta_tools
from pml_hookspecs import InvalidArguments
from pml_testing.fakes import FakeRun, FakeServices

pytestmark = pytest.mark.anyio


@pytest.fixture
def call(tmp_path):
    settings = Settings(folder=str(tmp_path / "notebooks"), max_cell_bytes=2000)
    tools = {tool.definition["name"]: tool for tool in pml_meta_tools(FakeServices("cells", settings=settings))}

    async def called(name: str, **arguments: Any) -> Any:
        return await tools[name].call(arguments, FakeRun())

    called.tools = tools
    return called


async def refusal(called: Any) -> str:
    with pytest.raises(InvalidArguments) as caught:
        await called
    return str(caught.value)


async def test_the_tools_are_unlisted_unless_the_settings_say_so(call) -> None:
    assert list(call.tools) == ["cell_execute", "notebook_create", "cell_create", "cell_update", "notebook_get"]
    assert not any(tool.listed for tool in call.tools.values())
    listed = pml_meta_tools(FakeServices("cells", settings=Settings(listed=True)))
    assert all(tool.listed for tool in listed)


async def test_a_notebook_is_made_filled_changed_and_shown(call) -> None:
    made = await call("notebook_create", title="Prices", tools=["fs:*"])
    id_ = made["sessionId"]
    assert {**made, "cells": [cell["type"] for cell in made["cells"]]} == {
        "sessionId": id_,
        "title": "Prices",
        "language": "typescript",
        "tools": ["fs:*"],
        "cells": ["title", "package.json"],
    }
    code = (await call("cell_create", sessionId=id_, source="let a"))["cell"]
    assert {**code, "id": ""} == {
        "id": "",
        "type": "code",
        "filename": "cell_1.ts",
        "language": "typescript",
        "source": "let a",
    }
    text = (await call("cell_create", sessionId=id_, text="## Words", index=2))["cell"]
    assert (await call("cell_create", sessionId=id_, source="", language="python"))["cell"]["filename"] == "cell_1.py"
    assert (await call("cell_create", sessionId=id_, source="", filename="x.mjs"))["cell"]["language"] == "javascript"
    await call("cell_update", sessionId=id_, cellId=text["id"], text="Other words")
    await call("cell_update", sessionId=id_, cellId=code["id"], filename="first.js", source="1")
    await call("cell_update", sessionId=id_, cellId=made["cells"][0]["id"], text="New title")
    await call("cell_update", sessionId=id_, cellId=made["cells"][1]["id"], source="{}")
    told = await call("notebook_get", sessionId=id_)
    assert told["title"] == "New title"
    assert [(c["type"], c.get("filename"), c.get("source", c.get("text"))) for c in told["cells"]] == [
        ("title", None, "New title"),
        ("package.json", "package.json", "{}"),
        ("markdown", None, "Other words"),
        ("code", "first.js", "1"),
        ("code", "cell_1.py", ""),
        ("code", "x.mjs", ""),
    ]
    assert [c["id"] for c in told["cells"]][:4] == [*(c["id"] for c in made["cells"]), text["id"], code["id"]]


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("notebook_create", {}, "notebook_create: 'title' is missing."),
        ("notebook_create", {"title": "a\nb"}, "a title is one line"),
        (
            "notebook_create",
            {"title": "T", "language": "ruby"},
            "'language' must be one of typescript, javascript, python",
        ),
        ("notebook_create", {"title": "T", "tools": "fs:*"}, "'tools' must be an array of strings, not 'fs:\\*'"),
        ("notebook_create", {"title": "T", "tools": [""]}, "'tools' must be an array of strings"),
        (
            "notebook_create",
            {"title": 1, "langage": "x"},
            "unknown parameter 'langage'; .*; 'title' must be a string",
        ),
        ("notebook_get", {"sessionId": "nope"}, r"^Error: SESSION_NOT_FOUND - there is no session 'nope'"),
        ("cell_create", {"sessionId": "nope", "source": ""}, "^Error: SESSION_NOT_FOUND"),
        ("cell_update", {"sessionId": "nope", "cellId": "x"}, "^Error: SESSION_NOT_FOUND"),
    ],
)
async def test_bad_arguments_are_told(call, tool: str, arguments: dict[str, Any], says: str) -> None:
    assert re.search(says, await refusal(call(tool, **arguments)))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "give source for a code cell, or text for a Markdown cell"),
        ({"source": "1", "text": "a"}, "give source for a code cell, or text"),
        ({"text": "a", "filename": "a.ts"}, "a Markdown cell has no filename"),
        ({"text": "# a"}, "line 1 is a heading of level 1"),
        ({"source": "1", "filename": "../a.ts"}, "'../a.ts' is no name for the file of a cell"),
        ({"source": "1", "filename": "a.b.ts"}, "is no name for the file"),
        ({"source": "1", "filename": ".ts"}, "is no name for the file"),
        ({"source": "1", "filename": "a.ts", "language": "javascript"}, "the ending of a.ts means typescript"),
        ({"source": "1", "index": 1}, "'index' must be from 2 to 2, not 1"),
        ({"source": "1", "index": 9}, "'index' must be from 2 to 2, not 9"),
        ({"source": "1", "index": 0}, "'index' must be 1 or more"),
        ({"source": "1", "index": True}, "'index' must be a whole number"),
        ({"source": "x" * 2001}, "cell_1.ts has 2001 bytes; a cell has at most 2000"),
        ({"source": "\ud800"}, "the text of cell_1.ts is no Unicode text"),
    ],
)
async def test_cells_that_cannot_be_are_refused(call, arguments: dict[str, Any], says: str) -> None:
    made = await call("notebook_create", title="T")
    assert says in await refusal(call("cell_create", sessionId=made["sessionId"], **arguments))
    assert (await call("notebook_get", sessionId=made["sessionId"])) == made


async def test_changes_that_cannot_be_are_refused(call) -> None:
    made = await call("notebook_create", title="T")
    id_, (title, package) = made["sessionId"], (cell["id"] for cell in made["cells"])
    code = (await call("cell_create", sessionId=id_, source="1", filename="a.ts"))["cell"]["id"]
    await call("cell_create", sessionId=id_, source="1", filename="b.ts")
    for cell, changes, says in (
        ("nope", {"source": ""}, "Error: CELL_NOT_FOUND - "),
        (code, {}, "give what is to change"),
        (code, {"text": "a"}, "a.ts has a source and no text"),
        (code, {"filename": "B.ts"}, "two cells have the file name b.ts"),
        (code, {"filename": "package.json"}, "is no name for the file"),
        (package, {"filename": "a.json"}, "package.json cannot be renamed"),
        (title, {"source": "a"}, "a title cell has a text and nothing else"),
        (title, {"text": ""}, "a title is one line"),
    ):
        assert says in await refusal(call("cell_update", sessionId=id_, cellId=cell, **changes))
