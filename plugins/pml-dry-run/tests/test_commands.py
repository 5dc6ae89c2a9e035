"""``pml recordings``, on a store in a file, and the file that it writes."""

from __future__ import annotations

import argparse
import json

import pytest

from pml_dry_run import plugin, session_file
from pml_dry_run.recording import RecordingError
from pml_hookspecs import Failure, InvalidArguments
from pml_testing.fakes import entry

pytestmark = pytest.mark.anyio

ENTRIES = [entry("fs:read", "Reads"), entry("git:list")]
ODD = b'{ "content":[{"type":"text","text":"\\u0041"}] }'


def text(value):
    return {"content": [{"type": "text", "text": value}]}


async def run(made, capsys, *words):
    """The exit status, and what was printed."""
    parser = argparse.ArgumentParser()
    plugin.pml_commands(parser.add_subparsers())
    arguments = parser.parse_args(["recordings", *map(str, words)])
    capsys.readouterr()
    assert await arguments.run_with(arguments, made.services) == 0
    return capsys.readouterr()


@pytest.fixture
async def made(kit):
    async with kit(ENTRIES) as made:
        await made.real("fs:read", text("one"), {"path": "\x1b[31m/a"})
        await made.real("fs:read", text("one"), {"path": "\x1b[31m/a"})
        await made.real("fs:read", text("two"), {"path": "\x1b[31m/a"})
        await made.real("fs:read", ODD, {"path": "/odd"}, principal="bob")
        rpc = {"code": 1, "message": "no"}
        await made.real("git:list", None, failure=Failure("tool.refused", "no", details={"rpc": rpc}))
        await made.real("git:list", text("hunter2"), {"secret": True})
        await made.recorder.written()
        yield made


async def test_a_table_shows_what_is_recorded_and_obeys_no_server(made, capsys):
    told = (await run(made, capsys, "list")).out
    assert "\x1b" not in told
    lines = told.splitlines()
    assert lines[0].split() == ["ID", "TOOL", "ARGUMENTS", "KIND", "STATE", "TIMES", "MS", "RECORDED", "AT"]
    assert len(lines) == 6
    assert sum("current, redacted" in line for line in lines) == 1
    assert "refusal" in told
    few = (await run(made, capsys, "list", "--tool", "fs:*", "--limit", "2")).out
    assert len(few.splitlines()) == 3


async def test_json_is_for_programs(made, capsys):
    told = json.loads((await run(made, capsys, "list", "--json", "--principal", "bob")).out)
    assert [one["arguments"] for one in told] == [{"path": "/odd"}]
    shown = json.loads((await run(made, capsys, "show", told[0]["id"])).out)
    assert shown["answer"] == json.loads(ODD)


async def test_what_was_written_to_a_file_comes_back_byte_by_byte(made, capsys, kit, tmp_path):
    file = tmp_path / "session.jsonl"
    told = (await run(made, capsys, "export", file)).out
    assert told == f"Wrote 4 recordings to {file}. 1 had secrets and were left out.\n"
    header, *rest = [json.loads(line) for line in file.read_text().splitlines()]
    assert header["pml_recordings"] == 1
    assert [one["definition"]["name"] for one in rest if "definition" in one] == ["read", "list"]
    assert (await run(made, capsys, "export", "-")).out.splitlines()[1:] == file.read_text().splitlines()[1:]
    async with kit(ENTRIES) as other:
        told = (await run(other, capsys, "import", file)).out
        assert told == f"Took 4 recordings from {file}.\n"
        seen = [(await other.label("fs:read", {"path": "\x1b[31m/a"}))[1] for _ in range(1)]
        odd = await other.rehearse("fs:read", {"path": "/odd"})
        refused = await other.rehearse("git:list")
        (again, _) = await other.recordings.all()
        definition = await other.recordings.definition(ENTRIES[0].digest)
    assert seen == [text("two")]
    assert odd.output.raw.endswith(ODD[2:])
    assert refused.failure.details["rpc"]["code"] == 1
    assert {r.answer for r in again} >= {ODD.decode()}
    assert definition["description"] == "Reads"


async def test_repeats_keep_their_order_over_a_file(made, capsys, kit, tmp_path):
    file = tmp_path / "session.jsonl"
    await run(made, capsys, "export", file, "--tool", "fs:*")
    recordings, _ = session_file.read(file.read_text().splitlines(), owner="local")
    of_one = sorted((r for r in recordings if r.given["path"] != "/odd"), key=lambda r: r.number)
    assert [(r.number, r.times, r.result["content"][0]["text"]) for r in of_one] == [(0, 2, "one"), (1, 1, "two")]


async def test_recordings_of_tools_that_have_changed_are_told_and_pruned(made, capsys, kit):
    async with kit([entry("fs:read", "Changed")], made.store) as later:
        states = {one["tool"]: one["state"] for one in json.loads((await run(later, capsys, "list", "--json")).out)}
        assert states == {"fs:read": "stale", "git:list": "unknown"}
        assert (await run(later, capsys, "prune", "--stale")).out == "Forgot 3 recordings.\n"
        assert {r.tool for r in (await later.recordings.all())[0]} == {"git:list"}
        assert (await run(later, capsys, "prune", "--keep", "1", "--json")).out == '{"forgotten": 1, "outputs": 0}\n'
        assert (await run(later, capsys, "prune", "--yes")).out == "Forgot 1 recordings.\n"
        assert (await run(later, capsys, "list")).out.startswith("Nothing is recorded yet")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("prune",), "say --yes"),
        (("list", "--limit", "0"), "1 or more"),
        (("show", "rec-"), "recordings begin so"),
        (("show", "nothing"), "no recording begins so"),
        (("export", "/nonexistent/x"), "cannot be written"),
        (("export", "x", "--tool", "none:*"), "nothing to export"),
        (("import", "/nonexistent/x"), "cannot be read"),
    ],
)
async def test_mistakes_are_said(made, capsys, words, said):
    with pytest.raises(InvalidArguments, match=said):
        await run(made, capsys, *words)


async def test_a_store_without_documents_is_said(capsys, kit):
    async with kit(ENTRIES, record=False) as made:
        made.services._store = object()
        with pytest.raises(InvalidArguments, match="keeps no documents"):
            await run(made, capsys, "list")


async def test_a_damaged_recording_in_the_store_is_told_on_the_side(made, capsys):
    await made.store.documents.put("dry_run.recordings", "rec-bad", {"version": 9})
    told = await run(made, capsys, "list", "--json")
    assert len(json.loads(told.out)) == 5
    assert "rec-bad is of version 9" in told.err


GOOD = {
    "tool": "s:t",
    "digest": "d",
    "arguments": {},
    "kind": "result",
    "answer": {"content": []},
    "recorded_at": "2026-01-01T00:00:00+00:00",
    "duration_ms": 1,
}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "is empty"),
        ([{"a": 1}], "no file of recordings"),
        ([{"pml_recordings": 2}], "version 2; this pml-dry-run reads up to 1"),
        ([{"pml_recordings": -1}], "never was"),
        (["{"], "line 1 is damaged"),
        ([{"pml_recordings": 1}, {"recording": {**GOOD, "redacted": True}}], "line 2: the answer of s:t had secrets"),
        ([{"pml_recordings": 1}, {"recording": {**GOOD, "arguments": 3}}], "line 2 is damaged"),
        ([{"pml_recordings": 1}, {"recording": {**GOOD, "answer": []}}], "line 2: "),
        ([{"pml_recordings": 1}, {"recording": {**GOOD, "recorded_at": 5}}], "line 2: "),
        ([{"pml_recordings": 1}, {"recording": {**GOOD, "tool": None}}], "line 2: "),
        ([{"pml_recordings": 1}, {"recording": "x"}], "line 2 is damaged"),
        ([{"pml_recordings": 1}, {"definition": {}}], "line 2 is damaged"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_files_that_cannot_be_used_are_refused_whole(capsys, kit, tmp_path, lines, said):
    file = tmp_path / "bad.jsonl"
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    async with kit(ENTRIES) as made:
        with pytest.raises(InvalidArguments, match=said):
            await run(made, capsys, "import", file)
        assert (await made.recordings.all())[0] == []


def test_a_good_file_is_read():
    lines = [json.dumps(line) for line in ({"pml_recordings": 1}, {"recording": GOOD}, {"recording": GOOD})]
    recordings, _ = session_file.read(lines, owner="")
    assert [r.number for r in recordings] == [0, 1]
    with pytest.raises(RecordingError):
        session_file.read(lines[1:], owner="")
