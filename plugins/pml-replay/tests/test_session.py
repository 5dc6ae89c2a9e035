"""What a file tells, and what becomes of files that tell nothing one can use."""

from __future__ import annotations

import json

import pytest

from pml_replay.session import SessionError, UnmatchedError, load

HEADER = {"pml_recordings": 1}
GOOD = {"tool": "s:t", "arguments": {}, "kind": "result", "answer": {"content": []}}


def test_answers_come_in_their_order_and_byte_by_byte(written):
    session = load(written())
    texts = [session.answer("files:read", {"path": "a"}).answer["content"][0]["text"] for _ in range(4)]
    assert texts == ["first", "second", "second", "second"]
    odd = session.answer("files:read", {"n": 1.0, "path": "b"})
    assert odd.answer.raw == b'{ "content":[{"type":"text","text":"\\u0041 1.0"}],"structuredContent":{"n":1.0} }'
    assert {one.arguments.get("path") for one in session.unused} == {"gone", "x", None}


def test_a_call_more_often_than_recorded_can_be_refused(written):
    session = load(written())
    session.answer("git.hub:list", {}, after_last="refuse")
    with pytest.raises(UnmatchedError, match="recorded 1 times, not more"):
        session.answer("git.hub:list", {}, after_last="refuse")


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("files:read", {"path": "c"}, 'nearest recording has {"path":"a"}: path differs'),
        ("files:read", {"path": "b", "n": 2}, 'nearest recording has {"n":1,"path":"b"}: n differs'),
        ("files:read", {"path": "a", "z": 1}, 'nearest recording has {"path":"a"}: z is not in it'),
        ("files:read", {"n": 1}, 'nearest recording has {"n":1,"path":"b"}: path is missing'),
        ("files:write", {}, "Recorded tools: files:read, git.hub:list"),
    ],
)
def test_what_is_not_recorded_is_said_with_what_is_nearest(written, tool, arguments, said):
    session = load(written())
    with pytest.raises(UnmatchedError) as caught:
        session.answer(tool, arguments)
    assert said in str(caught.value)
    assert session.unmatched == [str(caught.value)]


def test_a_tool_whose_definition_is_not_in_the_file_is_listed_all_the_same(written):
    session = load(written())
    assert session.servers == ["files", "git.hub"]
    assert [tool["name"] for tool in session.tools("files")] == ["read"]
    assert session.tools("git.hub") == [{"name": "list", "inputSchema": {"type": "object"}}]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([""], "is empty"),
        ([HEADER], "has no recordings"),
        ([{"hello": 1}], "is no file of recordings"),
        ([{"pml_recordings": True}], "is no file of recordings"),
        ([{"pml_recordings": 2}], "is of version 2; this pml-replay reads up to 1"),
        ([{"pml_recordings": 0}], "which there never was"),
        ([HEADER, "{"], "line 2: is damaged"),
        ([HEADER, "[]"], "line 2: is damaged: it is no JSON object"),
        ([HEADER, {"other": 1}], "line 2: is damaged: it has neither"),
        ([HEADER, {"definition": {}, "tool": "s:t"}], "line 2: is damaged: a definition"),
        ([HEADER, {"definition": {"name": "t"}}], "line 2: is damaged: tool is None"),
        ([HEADER, {"recording": {**GOOD, "redacted": True}}], "line 2: the answer of s:t had secrets"),
        ([HEADER, "", {"recording": {**GOOD, "times": 0}}], "line 3: is damaged"),
        ([HEADER, {"recording": {**GOOD, "kind": "guess"}}], "line 2: is damaged"),
        ([HEADER, {"recording": {**GOOD, "arguments": []}}], "line 2: is damaged"),
        ([HEADER, {"recording": {**GOOD, "answer": "text"}}], "line 2: is damaged: answer"),
        ([HEADER, {"recording": {**GOOD, "answer_text": "{"}}], "line 2: is damaged"),
        ([HEADER, {"recording": {**GOOD, "kind": "refusal"}}], "line 2: is damaged: a refusal"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(written, lines, said):
    with pytest.raises(SessionError) as caught:
        load(written(lines))
    assert said in str(caught.value)
    assert "session.jsonl" in str(caught.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(SessionError, match="cannot be read: No such file"):
        load(tmp_path / "none.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(json.dumps(HEADER).encode() + b"\xff")
    with pytest.raises(SessionError, match="not UTF-8"):
        load(tmp_path / "latin.jsonl")
