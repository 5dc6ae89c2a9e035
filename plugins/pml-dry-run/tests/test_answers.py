"""Where a simulated answer comes from, in order, and that it says so."""

from __future__ import annotations

import json

import jsonschema_rs
import pytest

from pml_hookspecs import Failure, Status, encode
from pml_testing.fakes import entry

pytestmark = pytest.mark.anyio

USER = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}, "email": {"type": "string"}},
    "required": ["id", "name"],
    "additionalProperties": False,
}
TOOL = entry("crm:get_user", outputSchema=USER)
PLAIN = entry("crm:status")


def structured(**value):
    return {"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": value}


def text(value):
    return {"content": [{"type": "text", "text": value}]}


async def test_a_recorded_answer_comes_back_byte_by_byte_and_says_so(kit):
    raw = b'{ "structuredContent": {"id": 1.0, "name": "\\u00c4da"},\n "content": [] }'
    async with kit([TOOL]) as made:
        await made.real("crm:get_user", raw, {"id": 1})
        ended = await made.rehearse("crm:get_user", {"id": 1})
    assert ended.status is Status.SIMULATED
    label = ended.output["_meta"]["pml/simulated"]
    assert (label["source"], label["mocked"]) == ("recorded", False)
    meta, rest = ended.output.raw.split(b"}},", 1)
    assert meta.startswith(b'{"_meta":{"pml/simulated":{')
    assert b"{" + rest == raw.replace(b"{ ", b"{", 1)


async def test_arguments_are_compared_by_value_and_what_changes_from_call_to_call_is_not(kit):
    async with kit([TOOL]) as made:
        await made.real("crm:get_user", structured(id=1, name="Ada"), {"id": 1, "o": {"a": 1, "b": 2}}, _meta={"n": 1})
        same, _ = await made.label("crm:get_user", {"o": {"b": 2.0, "a": 1}, "id": 1}, extra={"_meta": {"n": 2}})
        other, _ = await made.label("crm:get_user", {"id": True, "o": {"a": 1, "b": 2}})
    assert (same["source"], other["source"]) == ("recorded", "example")


async def test_of_several_answers_to_a_call_the_last_counts_as_the_real_run_left_it(kit):
    async with kit([PLAIN]) as made:
        for state in ("pending", "pending", "done"):
            await made.real("crm:status", text(state))
        seen = [(await made.label("crm:status"))[1]["content"][0]["text"] for _ in range(2)]
    assert seen == ["done", "done"]


async def test_errors_are_replayed_as_errors(kit):
    async with kit([TOOL, PLAIN]) as made:
        bad = {**text("no such user"), "isError": True}
        await made.real("crm:get_user", bad, {"id": 9}, failure=Failure("tool.failed", "no such user"))
        rpc = {"code": -32050, "message": "out of order", "data": [1]}
        await made.real("crm:status", None, failure=Failure("tool.refused", "out of order", details={"rpc": rpc}))
        failed = await made.rehearse("crm:get_user", {"id": 9})
        refused = await made.rehearse("crm:status")
    assert (failed.status, failed.failure.code) == (Status.ERROR, "tool.failed")
    assert failed.failure.message.startswith("As recorded at 2026-01-01")
    assert failed.output["isError"] is True
    assert failed.output["_meta"]["pml/simulated"]["source"] == "recorded"
    error = refused.failure.details["rpc"]
    assert (error["code"], error["message"], error["data"]["data"]) == (-32050, "out of order", [1])
    assert error["data"]["pml/simulated"]["source"] == "recorded"


async def test_what_went_wrong_on_the_way_is_no_recording(kit):
    async with kit([PLAIN]) as made:
        await made.real("crm:status", None, failure=Failure("tool.not_connected", "down"))
        await made.real("crm:status", {"resultType": "input_required", "inputRequests": {}})
        label, _ = await made.label("crm:status")
    assert label["source"] == "placeholder"


async def test_another_calls_answer_is_an_example_that_repeats_these_arguments(kit):
    async with kit([TOOL]) as made:
        await made.real("crm:get_user", structured(id=1, name="Ada"), {"id": 1})
        label, result = await made.label("crm:get_user", {"id": 7})
    assert (label["source"], label["recorded_with"], label["values"]) == ("example", {"id": 1}, {"/id": "argument"})
    assert result["structuredContent"] == {"id": 7, "name": "Ada"}
    said, spelled = [block["text"] for block in result["content"]]
    assert said == "Simulated execution of crm:get_user (example)"
    assert json.loads(spelled) == result["structuredContent"]


async def test_an_example_of_a_text_that_spells_json_stays_one_text(kit):
    async with kit([PLAIN]) as made:
        await made.real("crm:status", text('[{"id": 1}]'), {"page": 1})
        label, result = await made.label("crm:status", {"page": 2})
    assert label["source"] == "example"
    assert [json.loads(block["text"]) for block in result["content"]] == [[{"id": 1}]]


async def test_an_example_that_does_not_fit_the_declared_schema_is_not_shown(kit):
    async with kit([TOOL]) as made:
        await made.real("crm:get_user", structured(id="old", name="Ada"), {"id": 1})
        label, result = await made.label("crm:get_user", {"id": 7})
    assert label["source"] == "schema"
    assert result["structuredContent"]["id"] == 7


async def test_without_recordings_the_declared_schema_tells_and_arguments_come_back(kit):
    async with kit([TOOL]) as made:
        label, result = await made.label("crm:get_user", {"id": 42})
        same = (await made.label("crm:get_user", {"id": 42}))[1]
        other = (await made.label("crm:get_user", {"id": 43}))[1]
    value = result["structuredContent"]
    assert label["source"] == "schema"
    assert (value["id"], label["values"]) == (42, {"/id": "argument"})
    assert "@example.com" in value["email"]
    jsonschema_rs.validate(USER, value)
    assert same == result
    assert other["structuredContent"]["name"] != value["name"]


async def test_without_a_usable_recording_the_inferred_schema_tells(kit):
    async with kit([PLAIN]) as made:
        for n in (1, 2):
            await made.real("crm:status", structured(count=n, owner="hunter2", tags=["x"]), {"n": n})
        label, result = await made.label("crm:status", {"n": 3})
        past = await made.recordings.about("local", PLAIN)
    assert (label["source"], label["samples"]) == ("inferred", 2)
    assert result["structuredContent"].keys() == {"count", "owner", "tags"}
    assert "hunter2" not in str(result)
    assert past.shape.source == "inferred"


async def test_a_recording_that_lost_its_secrets_is_refused_with_the_reason(kit):
    async with kit([PLAIN]) as made:
        await made.real("crm:status", text("token: hunter2"))
        label, _ = await made.label("crm:status")
        ((recording,), _) = await made.recordings.all()
    assert label["source"] == "inferred"
    assert "secrets" in label["notes"][0]
    assert "hunter2" not in str(recording.to_value())


async def test_a_changed_definition_makes_recordings_void(kit):
    async with kit([PLAIN]) as made:
        await made.real("crm:status", text("up"))
        store = made.store
    async with kit([entry("crm:status", "now with a description")], store) as made:
        assert (await made.label("crm:status"))[0]["source"] == "placeholder"
    async with kit([PLAIN], store) as made:
        assert (await made.label("crm:status"))[0]["source"] == "recorded"


async def test_callers_do_not_see_what_others_were_answered_unless_they_share(kit):
    for share, source in ((False, "placeholder"), (True, "recorded")):
        async with kit([PLAIN], share=share) as made:
            await made.real("crm:status", text("for Alice"), principal="alice")
            assert (await made.label("crm:status", principal="bob"))[0]["source"] == source


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 2}, "of version 2"),
        ({"version": None}, "damaged"),
        ({"answer": "{"}, "answer is no JSON"),
        ({"answer": "[]"}, "no JSON object"),
        ({"kind": "guess"}, "kind is 'guess'"),
        ({"times": "many"}, "times is 'many'"),
        ({"surprise": 1}, "surprise"),
        ({"recorded_at": "yesterday"}, "recorded_at"),
    ],
    ids=str,
)
async def test_recordings_that_are_damaged_or_newer_are_refused_with_the_reason(kit, change, reason):
    async with kit([PLAIN]) as made:
        await made.real("crm:status", text("up"))
        await made.recorder.written()
        documents = made.store.documents
        (document,) = (await documents.find("dry_run.recordings")).items
        value = {**document.value, **change}
        await documents.put("dry_run.recordings", document.key, value, marks=document.marks)
        label, _ = await made.label("crm:status")
    assert label["source"] == "placeholder"
    assert reason in label["notes"][0]


async def test_the_label_survives_a_server_that_writes_its_own(kit):
    async with kit([PLAIN]) as made:
        for n, key in enumerate((b'"_meta"', b'"\\u005fmeta"')):
            await made.real("crm:status", b"{" + key + b': {"own": 1, "pml/simulated": "no"}, "content": []}', {"n": n})
            ended = await made.rehearse("crm:status", {"n": n})
            meta = json.loads(encode(ended.output))["_meta"]
            assert (meta["own"], meta["pml/simulated"]["source"]) == (1, "recorded")
