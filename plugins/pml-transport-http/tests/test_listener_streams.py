"""Server-sent events: what is sent beside answers, and streams that break."""

from __future__ import annotations

import asyncio
import json

import pytest
from listening import PROGRESS, Script, events, listening, messages, text, until

from pml_hookspecs import TransportError
from pml_testing.transport_ends import SOON_S
from pml_transport_http.server import handshake, streams

pytestmark = pytest.mark.anyio
LOG = "notifications/message"
CHANGED = "notifications/tools/list_changed"


# The stream of an answer.


async def test_an_answer_without_more_is_json(services):
    async with listening(services) as listener, listener.client() as client:
        await client.initialize()
        response = await client.post(client.calling("echo"))
        assert response.headers["content-type"] == "application/json"


async def test_a_stream_begins_with_an_id_to_come_back_with(services):
    async def tell(params, origin):
        origin.link.notify(LOG, {"level": "info", "data": "line\nbreak"})
        return text("done")

    async with listening(services, Script(tell=tell)) as listener, listener.client() as client:
        await client.initialize()
        async with client.stream(client.calling("tell")) as response:
            assert response.headers["content-type"] == "text/event-stream"
            assert response.headers["cache-control"] == "no-cache, no-transform"
            raw = await response.aread()
        assert raw.startswith(b"id: 1-0\nretry: 1000\ndata: \n\nid: 1-1\nevent: message\ndata: {")
        found = [(id, message) async for id, message in events(response)]
        assert [id for id, _ in found] == ["1-0", "1-1", "1-2"]
        assert found[1][1]["params"]["data"] == "line\nbreak"
        assert found[2][1]["result"] == text("done")


async def test_older_clients_get_no_event_without_data(services):
    async def tell(params, origin):
        origin.link.notify(LOG, {"level": "info", "data": "x"})
        return text("done")

    async with listening(services, Script(tell=tell)) as listener, listener.client() as client:
        await client.initialize(revision="2025-06-18")
        async with client.stream(client.calling("tell")) as response:
            found = [id async for id, _ in events(response)]
        assert found == ["1-1", "1-2"]


async def test_a_silent_request_becomes_a_stream_with_comments(services, monkeypatch):
    monkeypatch.setattr(handshake, "SILENCE_S", 0.02)
    monkeypatch.setattr(streams, "PING_S", 0.02)
    go_on = asyncio.Event()

    async def slow(params, origin):
        await go_on.wait()
        return text("late")

    async with listening(services, Script(slow=slow)) as listener, listener.client() as client:
        await client.initialize()
        lines = []
        async with client.stream(client.calling("slow")) as response:
            async for line in response.aiter_lines():
                lines.append(line)
                if lines.count(": ping") == 2:
                    go_on.set()
        assert lines[:3] == ["id: 1-0", "retry: 1000", "data: "]
        assert "late" in lines[-2]


async def test_streams_of_several_requests_are_apart(services):
    everybody = asyncio.Barrier(3)

    async def tell(params, origin):
        await everybody.wait()
        origin.link.notify(LOG, {"level": "info", "data": params["arguments"]["n"]})
        await everybody.wait()
        return text(str(params["arguments"]["n"]))

    async def follow(client, n):
        async with client.stream(client.calling("tell", {"n": n})) as response:
            return [message async for _, message in events(response) if message]

    async with listening(services, Script(tell=tell)) as listener, listener.client() as client:
        await client.initialize()
        found = await asyncio.gather(*(follow(client, n) for n in range(3)))
        assert [note["params"]["data"] for note, _ in found] == [0, 1, 2]
        assert [answer["result"] for _, answer in found] == [text("0"), text("1"), text("2")]


async def test_what_comes_after_the_answer_goes_to_the_standing_stream(services):
    kept = []

    async def keep(params, origin):
        kept.append(origin.link)
        return text("kept")

    async with listening(services, Script(keep=keep)) as listener, listener.client() as client:
        await client.initialize()
        await client.post(client.calling("keep"))
        kept[0].notify(LOG, {"data": "afterwards"})
        async with client.listen() as standing:
            assert (await messages(standing, 1))[0]["params"] == {"data": "afterwards"}


async def test_what_cannot_be_sent_is_left_out(services):
    async def tell(params, origin):
        origin.link.notify(LOG, {"data": object()})
        with pytest.raises(TypeError):
            await origin.link.request("roots/list", {"data": object()}, timeout_s=SOON_S)
        origin.link.notify(LOG, {"data": float("inf")})
        return text("done")

    async with listening(services, Script(tell=tell)) as listener, listener.client() as client:
        await client.initialize()
        async with client.stream(client.calling("tell")) as response:
            assert len(await messages(response, 2)) == 2
    assert ("error", "http.unsendable_notification") in [(level, event) for level, event, _ in services.log.lines]


# The stream that belongs to no request.


async def test_messages_wait_for_the_standing_stream(services):
    async with listening(services) as listener, listener.client() as client:
        await client.initialize()
        link = listener.links[0]
        asking = asyncio.ensure_future(link.request("roots/list", {}, timeout_s=SOON_S))
        await asyncio.sleep(0)
        for n in range(3):
            link.notify(PROGRESS, {"progressToken": "a", "progress": n})
            link.notify(PROGRESS, {"progressToken": 1, "progress": n})
            link.notify(CHANGED, {})
            link.notify("notifications/resources/updated", {"uri": f"test://{n % 2}"})
        async with client.listen() as standing:
            found = await messages(standing, 6)
            assert [(m["method"], m.get("params", {})) for m in found] == [
                ("roots/list", {}),
                (CHANGED, {}),
                ("notifications/resources/updated", {"uri": "test://0"}),
                ("notifications/resources/updated", {"uri": "test://1"}),
                (PROGRESS, {"progressToken": "a", "progress": 2}),
                (PROGRESS, {"progressToken": 1, "progress": 2}),
            ]
            assert link.counters["coalesced"] == 4
            await client.post({"jsonrpc": "2.0", "id": found[0]["id"], "result": {"roots": []}})
            assert await asking == {"roots": []}


async def test_a_question_withdrawn_before_it_was_read_is_not_asked(services):
    async with listening(services) as listener, listener.client() as client:
        await client.initialize()
        link = listener.links[0]
        asking = asyncio.ensure_future(link.request("roots/list", {}, timeout_s=SOON_S))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        link.notify(CHANGED, {})
        async with client.listen() as standing:
            assert [m["method"] for m in await messages(standing, 1)] == [CHANGED]


async def test_what_waits_is_bounded_and_changes_are_never_lost(services):
    async with listening(services) as listener, listener.client() as client:
        await client.initialize()
        link = listener.links[0]
        for n in range(streams.WAITING_MESSAGES + 10):
            link.notify(LOG, {"data": n})
        link.notify(CHANGED, {})
        with pytest.raises(TransportError, match="does not read"):
            await link.request("roots/list", {}, timeout_s=SOON_S)
        assert link.counters["dropped"] == 10
        async with client.listen() as standing:
            found = await messages(standing, streams.WAITING_MESSAGES + 1)
        assert [m["params"]["data"] for m in found[:-1]] == list(range(streams.WAITING_MESSAGES))
        assert found[-1]["method"] == CHANGED


async def test_there_is_one_standing_stream_at_a_time(services):
    async with listening(services) as listener, listener.client() as client:
        await client.initialize()
        async with client.listen() as first:
            assert first.status_code == 200
            async with client.listen() as second:
                assert second.status_code == 409
        await until(lambda: listener.links[0].standing.reader is None)
        async with client.listen() as third:
            assert third.status_code == 200


async def test_a_standing_stream_needs_a_client_that_takes_events(services):
    async with listening(services) as listener, listener.client() as client:
        await client.initialize()
        async with client.listen(accept="application/json") as response:
            assert response.status_code == 406


async def test_a_standing_stream_that_broke_is_taken_up(services):
    async with listening(services) as listener, listener.client() as client:
        await client.initialize()
        link = listener.links[0]
        async with client.listen() as standing:
            async for id, message in events(standing):
                if message is None:
                    link.notify(LOG, {"data": 1})
                    link.notify(LOG, {"data": 2})
                elif message["params"]["data"] == 1:
                    seen = id
                    break
        await until(lambda: link.standing.reader is None)
        link.notify(LOG, {"data": 3})
        async with client.listen(last_event_id=seen) as standing:
            reading = events(standing)
            assert [(await anext(reading))[1]["params"]["data"] for _ in range(2)] == [2, 3]
            # A client whose connection is dead without anybody knowing takes over from itself.
            async with client.listen(last_event_id="0-2") as again:
                link.notify(LOG, {"data": 4})
                assert [m["params"]["data"] for m in await messages(again, 2)] == [3, 4]
                assert [message async for _, message in reading] == []


# Streams of answers that break.


class Steps:
    """A tool that says something, waits to be let go on, says something more, and ends."""

    def __init__(self):
        self.go_on, self.done = asyncio.Event(), asyncio.Event()

    async def __call__(self, params, origin):
        origin.link.notify(LOG, {"data": "before"})
        await self.go_on.wait()
        origin.link.notify(LOG, {"data": "after"})
        self.done.set()
        return text("the end")


async def break_off(client, message):
    """Read one message of its stream and leave; the id of its event."""
    async with client.stream(message) as response:
        reading = events(response)
        while (event := await anext(reading))[1] is None:
            pass
        return event[0]


async def test_a_stream_that_broke_goes_on_where_it_was(services):
    steps = Steps()
    async with listening(services, Script(steps=steps)) as listener, listener.client() as client:
        await client.initialize()
        message = client.calling("steps")
        seen = await break_off(client, message)
        async with client.listen(last_event_id=seen) as resumed:
            steps.go_on.set()
            found = [said async for _, said in events(resumed)]
        assert found[0]["params"] == {"data": "after"}
        assert (found[1]["id"], found[1]["result"]) == (message["id"], text("the end"))


async def test_an_answer_waits_for_a_client_that_comes_back(services):
    steps = Steps()
    async with listening(services, Script(steps=steps)) as listener, listener.client() as client:
        await client.initialize()
        seen = await break_off(client, client.calling("steps"))
        steps.go_on.set()
        await steps.done.wait()
        assert (await client.post(client.calling("echo"))).status_code == 200
        for _ in range(2):
            async with client.listen(last_event_id=seen) as resumed:
                found = [said async for _, said in events(resumed)]
            assert [said.get("result", {}) for said in found] == [{}, text("the end")]


@pytest.mark.attack("HTTP has limits", "come back with a Last-Event-ID of 5,000 digits")
async def test_a_stream_that_nobody_knows_cannot_be_taken_up(services):
    async with listening(services) as listener, listener.client() as client:
        await client.initialize()
        for id in ("5-1", "nonsense", "1-", "-1", "1-x", "0-" + "9" * 5000):
            async with client.listen(last_event_id=id) as response:
                assert response.status_code == 400, id
                assert "Last-Event-ID" in json.loads(await response.aread())["error"]["message"]


async def test_what_is_kept_for_clients_that_come_back_is_bounded(services):
    release = asyncio.Event()

    async def big(params, origin):
        origin.link.notify(LOG, {"data": "x"})
        await release.wait()
        return text(params["arguments"]["n"] * 1000)

    async with listening(services, Script(big=big), replay_bytes=1500) as listener, listener.client() as client:
        await client.initialize()
        seen = [await break_off(client, client.calling("big", {"n": n})) for n in ("a", "b")]
        release.set()
        await until(lambda: not listener.links[0].active_requests)
        async with client.listen(last_event_id=seen[0]) as response:
            assert response.status_code == 400
        async with client.listen(last_event_id=seen[1]) as response:
            (answer,) = await messages(response, 1)
            assert answer["result"] == text("b" * 1000)


async def test_a_client_that_does_not_read_costs_bounded_memory(services):
    sent = asyncio.Event()

    async def flood(params, origin):
        for _ in range(1000):
            origin.link.notify(LOG, {"data": "x" * 50_000})
            await asyncio.sleep(0)
        sent.set()
        return text("the end")

    async with listening(services, Script(flood=flood)) as listener, listener.client() as client:
        await client.initialize()
        async with client.stream(client.calling("flood")) as response:
            await sent.wait()
            link = listener.links[0]
            assert link.counters["dropped"] > 500
            assert link._replay._size < 5 << 20
            last = [message async for _, message in events(response)][-1]
            assert last["result"] == text("the end")
