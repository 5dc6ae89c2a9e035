"""The reference server that does everything, visited directly and through the gateway: nothing is lost on the way."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from contextlib import suppress
from functools import partial

import anyio
import pytest
from mcp import types
from mcp.types import ElicitResult, ListRootsResult, Root, TextContent
from pydantic import ValidationError

from .visit import Server, directly, through

pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
DOCUMENT = "demo://resource/static/document/startup.md"
TEXTS, BLOBS = "demo://resource/dynamic/text/{resourceId}", "demo://resource/dynamic/blob/{resourceId}"
TIME = re.compile(r"\d{1,2}:\d\d:\d\d [AP]M")
ROOTS = [Root(uri="file:///srv/tides", name="tides"), Root(uri="file:///srv/moon", name="moon")]
FILLED_IN = {"name": "Ada", "check": True, "integer": 7, "number": 2.5, "untitledMultipleSelectEnum": ["Bass"]}
LISTED_S = 120.0
FOR_ABLE_CLIENTS = {
    "get-roots-list",
    "simulate-research-query",
    "trigger-elicitation-request",
    "trigger-sampling-request",
    "trigger-url-elicitation",
}


class Human:
    """Answers what servers ask; forms and addresses are accepted, declined and cancelled in turn."""

    def __init__(self):
        self._asked = 0

    async def sample(self, context, params):
        text = f"{params.messages[0].content.text[-4:]}, at most {params.max_tokens}"
        content = TextContent(type="text", text=text)
        return types.CreateMessageResult(role="assistant", content=content, model="a-model", stop_reason="endTurn")

    async def fill_in(self, context, params):
        action = ("accept", "decline", "cancel")[self._asked % 3]
        self._asked += 1
        is_form = isinstance(params, types.ElicitRequestFormParams)
        return ElicitResult(action=action, content=FILLED_IN if is_form and action == "accept" else None)

    async def roots(self, context):
        return ListRootsResult(roots=ROOTS)

    @property
    def callbacks(self):
        return {
            "sampling_callback": self.sample,
            "elicitation_callback": self.fill_in,
            "list_roots_callback": self.roots,
            "log_level": "debug",
        }


@pytest.fixture(scope="module", params=["legacy", "auto"])
def mode(request):
    return request.param


@pytest.fixture(scope="module")
def server(node_tools):
    script = node_tools / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    return Server(name="everything", command=[str(node_tools / "node"), str(script), "stdio"])


@pytest.fixture(scope="module")
def twice(server, tmp_path_factory, mode):
    """Makes a visit directly and through the gateway, and gives both visitors."""

    def make(visit, *, able=False, block=()):
        folder = tmp_path_factory.mktemp(f"everything-{mode}")

        async def both():
            direct = await directly(server, folder, mode, visit, **(Human().callbacks if able else {}))
            callbacks = Human().callbacks if able else {}
            return direct, await through(server, folder, mode, visit, block=block, **callbacks)

        return anyio.run(both)

    return make


@pytest.fixture(scope="module")
def visits(twice):
    """A long visit of a client that can do all that a client can."""

    async def visit(v):
        await v.list_tools()
        with anyio.fail_after(LISTED_S):
            while not v.tools.keys() >= FOR_ABLE_CLIENTS:  # some are added soon after the handshake
                await anyio.sleep(0.05)
                await v.list_tools()
        for chapter in CHAPTERS:
            v.chapter = chapter.__name__
            await chapter(v)

    return twice(visit, able=True)


def heard(visitor, method):
    return visitor.witness.heard(f"notifications/{method}")


async def roots(v):
    if not v.modern:  # the server asks a little after the handshake, and then says that it did
        assert await v.witness.until(lambda: heard(v, "message"))
    await v.call("get-roots-list")


async def lists(v):
    await v.list_features()


async def results(v):
    await v.call("echo", {"message": "grüß dich ✓ \u2028 \x00"})
    await v.call("get-sum", {"a": 0.1, "b": 2})
    for kind in ("error", "success", "debug"):
        await v.call("get-annotated-message", {"messageType": kind, "includeImage": kind == "debug"})
    await v.call("get-structured-content", {"location": "Chicago"})
    await v.call("get-resource-links", {"count": 3})
    await v.call("get-resource-reference", {"resourceType": "Text", "resourceId": 2})
    await v.call("get-tiny-image")
    await v.call("gzip-file-as-resource", {"data": "data:text/plain,tides", "outputType": "resource"})


async def errors(v):
    await v.call("get-resource-reference", {"resourceType": "Blob", "resourceId": -1})
    await v.call("gzip-file-as-resource", {"data": "ftp://example.invalid/"})
    await v.call("simulate-research-query", {"topic": "tides"})  # which only works as a task
    await v.prompt("args-prompt", {})
    await v.prompt("resource-prompt", {"resourceType": "Stone", "resourceId": "3"})
    await v.read("demo://resource/dynamic/text/none")
    await v.read("demo://resource/nothing")


async def resources(v):
    await v.read(DOCUMENT)
    await v.read("demo://resource/dynamic/blob/7")
    await v.call("gzip-file-as-resource", {"name": "new.gz", "data": "data:text/plain,tides"})
    await v.read("demo://resource/session/new.gz")
    await v.list_features()


async def prompts(v):
    await v.prompt("simple-prompt")
    await v.prompt("args-prompt", {"city": "Bergen", "state": "Vestland"})
    await v.prompt("resource-prompt", {"resourceType": "Text", "resourceId": "3"})


async def completions(v):
    await v.complete_prompt("completable-prompt", {"name": "department", "value": "S"})
    await v.complete_prompt("completable-prompt", {"name": "name", "value": ""}, {"department": "Sales"})
    await v.complete_prompt("simple-prompt", {"name": "nothing", "value": ""})
    await v.complete_resource(TEXTS, {"name": "resourceId", "value": "4"})
    await v.complete_resource(BLOBS, {"name": "resourceId", "value": "four"})


async def progress(v):
    told = []

    async def hear(done, total, message):
        told.append((done, total, message))

    await v.call("trigger-long-running-operation", {"duration": 0.3, "steps": 3}, progress_callback=hear)
    v.keep("told", told)


async def sampling(v):
    await v.call("trigger-sampling-request", {"prompt": "what is a tide", "maxTokens": 12})


async def forms(v):
    for _ in range(3):
        await v.call("trigger-elicitation-request")


async def addresses(v):
    where = {"url": "https://example.invalid/log-in", "elicitationId": "one"}
    await v.call("trigger-url-elicitation", where)
    await v.call("trigger-url-elicitation", {**where, "errorPath": True})
    await v.call("trigger-url-elicitation", {**where, "errorPath": True})


async def tasks(v):
    if v.modern:  # that revision has no tasks of this kind
        return
    name = next(t.name for t in (await v.client.list_tools()).tools if t.name.endswith("simulate-research-query"))
    ttl = types.TaskMetadata(ttl=60_000)
    params = types.CallToolRequestParams(name=name, arguments={"topic": "tides"}, task=ttl)
    task = (await raw(v, "tools/call", types.CallToolRequest(params=params)))["result"]["task"]
    watched = types.GetTaskRequest(params=types.GetTaskRequestParams(task_id=task["taskId"]))
    fetched = types.GetTaskPayloadRequest(params=types.GetTaskPayloadRequestParams(task_id=task["taskId"]))
    v.keep("watched", (await raw(v, "tasks/get", watched))["result"]["statusMessage"])
    v.keep("fetched", (await raw(v, "tasks/result", fetched))["result"]["content"])


async def raw(v, method, request):
    """An answer that the SDK's types have no room for."""
    with suppress(ValidationError):
        await v.client.session.send_request(request, types.Result)
    return v.witness.answers[method][-1]


async def updates(v):
    if v.modern:
        async with v.client.listen(resource_subscriptions=[DOCUMENT], resources_list_changed=True):
            await change(v)
    else:
        await v.client.subscribe_resource(DOCUMENT)
        await change(v)
        await v.client.unsubscribe_resource(DOCUMENT)


async def change(v):
    """Have a resource change, and the list of them."""
    before = len(heard(v, "resources/list_changed"))
    await v.call("toggle-subscriber-updates")
    await v.call("gzip-file-as-resource", {"name": "newer.gz", "data": "data:text/plain,tides"})
    assert await v.witness.until(lambda: heard(v, "resources/updated"))
    assert await v.witness.until(lambda: len(heard(v, "resources/list_changed")) > before)


async def logs(v):
    if not v.modern:
        await v.client.set_logging_level("debug")
    before = len(heard(v, "message"))
    await v.call("toggle-simulated-logging")
    assert await v.witness.until(lambda: len(heard(v, "message")) > before)


CHAPTERS = (
    roots,
    lists,
    results,
    errors,
    resources,
    prompts,
    completions,
    progress,
    sampling,
    forms,
    addresses,
    tasks,
    updates,
    logs,
)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.__name__)
def test_every_step_of_a_chapter_ends_the_same(visits, chapter):
    direct, proxied = (timeless(visitor.chapter_of(chapter.__name__)) for visitor in visits)
    if chapter is not tasks or not visits[1].modern:
        assert proxied
        assert proxied == direct


def timeless(outcomes):
    """``outcomes`` without what nobody can foretell: the time of day, and ids that the server makes up."""
    text = TIME.sub("then", re.sub(r'"blob": "([^"]+)"', decoded, json.dumps(outcomes)))
    return json.loads(re.sub(r'("elicitationId": ")[0-9a-f-]{36}"', r'\1made up"', text))


def decoded(blob):
    return '"blob": ' + json.dumps(b64decode(blob[1]).decode("latin-1"))


def test_what_must_fail_does(visits):
    direct, _ = visits
    answers = [answer for _, answer in direct.chapter_of("errors")]
    assert all("error" in answer or answer["result"]["isError"] for answer in answers)
    assert direct.chapter_of("addresses")[1][1]["error"]["code"] == -32042


def test_the_tools_are_the_same_but_for_the_prefix(visits):
    direct, proxied = visits
    assert direct.tools.keys() >= FOR_ABLE_CLIENTS
    assert {n: json.dumps(t) for n, t in proxied.tools.items()} == {n: json.dumps(t) for n, t in direct.tools.items()}


def test_what_a_client_cannot_do_is_not_offered_to_it(twice):
    async def visit(v):
        await v.list_tools()

    direct, proxied = twice(visit)
    assert direct.tools.keys() & FOR_ABLE_CLIENTS == {"simulate-research-query"}
    assert proxied.tools == direct.tools


def test_what_another_client_was_offered_is_taken_back_from_one_that_cannot_do_it(server, mode, tmp_path):
    # The server adds some tools soon after the handshake, maybe after it was first listed, and tells of it.
    def until(is_right):
        async def visit(v):
            if v.modern:
                async with v.client.listen(tools_list_changed=True):
                    await until_right(v)
            else:
                await until_right(v)

        async def until_right(v):
            told = 0
            while True:
                await v.list_tools()
                if is_right(v.tools.keys() & FOR_ABLE_CLIENTS):
                    return
                told += 1
                assert await v.witness.until(partial(was_told, v, told))

        return visit

    def was_told(v, times):
        return len(heard(v, "tools/list_changed")) >= times

    async def one_after_another():
        await through(server, tmp_path, mode, until(FOR_ABLE_CLIENTS.__eq__), **Human().callbacks)
        await through(server, tmp_path, mode, until({"simulate-research-query"}.__eq__))

    anyio.run(one_after_another)


@pytest.mark.parametrize("method", ["sampling/createMessage", "elicitation/create"])
def test_the_client_is_asked_the_same(visits, method):
    direct, proxied = ([params for name, params in visitor.witness.questions if name == method] for visitor in visits)
    assert direct
    assert [without_meta(p) for p in proxied] == [without_meta(p) for p in direct]


def without_meta(params):
    return {name: value for name, value in params.items() if name != "_meta"}


def test_progress_is_told_as_the_server_tells_it(visits):
    direct, proxied = (
        [{k: v for k, v in without_meta(params).items() if k != "progressToken"} for params in heard(v, "progress")]
        for v in visits
    )
    assert direct == [{"progress": step, "total": 3} for step in (1, 2, 3)]
    assert proxied == direct


def test_changed_resources_are_told_to_those_who_asked(visits):
    direct, proxied = ([without_meta(params) for params in heard(v, "resources/updated")] for v in visits)
    assert direct == [{"uri": DOCUMENT}]
    assert proxied == direct


def test_log_messages_come_as_the_server_sends_them(visits):
    direct, proxied = ([without_meta(params) for params in heard(v, "message")] for v in visits)
    if visits[1].modern:
        # Where there is no session, only what a request makes a server say belongs to it. When the gateway takes its
        # subscription back, after the client's stream has ended, the server says so to whoever it works for then.
        proxied = [params for params in proxied if "Unsubscribe" not in params["data"]]
    else:
        assert proxied[:-1] == direct[:-1]
    assert proxied[-1].keys() == direct[-1].keys() == {"level", "data"}  # and at random which
    assert proxied[-1]["data"].lower().startswith(proxied[-1]["level"])


NOTE = "Note by the gateway: "


def without_note(answer):
    """The server's own error; it has to have a note of the gateway's."""
    if "error" in answer:
        message, _, note = answer["error"]["message"].partition(f"\n{NOTE}")
        assert note
        return {"error": {**answer["error"], "message": message}}
    *content, last = answer["result"]["content"]
    assert last["text"].startswith(NOTE)
    return {"result": {**answer["result"], "content": content}}


def test_bad_arguments_are_refused_by_the_server_in_its_own_words(twice):
    async def visit(v):
        await v.call("echo", {})
        await v.call("get-sum", {"a": "one", "b": 2})
        await v.call("get-structured-content", {"location": "Atlantis"})

    direct, proxied = twice(visit)
    assert [(label, without_note(answer)) for label, answer in proxied.outcomes] == direct.outcomes
