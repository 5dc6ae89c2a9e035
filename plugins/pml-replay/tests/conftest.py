"""A file with a recorded session."""

from __future__ import annotations

import json

import pytest

READ = {
    "name": "read",
    "description": "Reads",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
ODD = '{ "content":[{"type":"text","text":"\\u0041 1.0"}],"structuredContent":{"n":1.0} }'


def answer(text, **more):
    return {"content": [{"type": "text", "text": text}], **more}


def recording(tool, arguments, kind="result", **more):
    about = {"recorded_at": "2026-01-01T00:00:00+00:00", "duration_ms": 3, "digest": "d"}
    return {"recording": {"tool": tool, "arguments": arguments, "kind": kind, **about, **more}}


LINES = [
    {"pml_recordings": 1, "exported_at": "2026-01-01T00:00:00+00:00"},
    {"definition": READ, "digest": "d", "tool": "files:read"},
    recording("files:read", {"path": "a"}, answer=answer("first")),
    recording("files:read", {"path": "a"}, answer=answer("second"), times=2),
    recording("files:read", {"path": "b", "n": 1}, answer_text=ODD),
    recording("files:read", {"path": "gone"}, "error", answer=answer("no such file", isError=True)),
    recording("files:read", {"path": "x"}, "refusal", answer={"code": -32050, "message": "no", "data": {"a": 1}}),
    recording("git.hub:list", {}, answer=answer("none")),
]


@pytest.fixture
def written(tmp_path):
    """Writes lines to a file; the default ones if none are given."""

    def write(lines=None, name="session.jsonl"):
        path = tmp_path / name
        text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines or LINES)
        path.write_text(text, encoding="utf-8")
        return path

    return write
