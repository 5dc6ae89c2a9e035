"""What servers send that they should not, and what becomes of it."""

from __future__ import annotations

import asyncio
import math
import time

import pytest

from pml_hookspecs import RpcError, TransportError
from pml_testing.transport import AT_ONCE_S, LONG_S, SHORT_S, SOON_S, Recorder
from pml_transport_stdio import Settings

pytestmark = pytest.mark.anyio
MIB = 1 << 20
ENDLESS = 100_000_000
"""More notifications than can be sent while a test runs."""


async def say(link, text):
    """Ask for a text to be written, where the request's id replaces %ID%; it must be an answer, and at once."""
    line = text if isinstance(text, bytes) else text.encode()
    async with asyncio.timeout(AT_ONCE_S):
        return await link.request("say", {"text": line.decode("latin-1")}, timeout_s=LONG_S)


async def assert_alive(link):
    assert await link.request("echo", {"still": "here"}, timeout_s=SOON_S) == {"still": "here"}


ANSWERS = {
    "as it should be": ('{"jsonrpc":"2.0","id":%ID%,"result":{"a":1}}\n', {"a": 1}),
    "CRLF": ('{"jsonrpc":"2.0","id":%ID%,"result":{"a":1}}\r\n', {"a": 1}),
    "white space": (' \t{ "id" : %ID% , "result" : { "a" : 1 } } \n', {"a": 1}),
    "byte order mark": ('\ufeff{"id":%ID%,"result":{"a":1}}\n', {"a": 1}),
    "no jsonrpc": ('{"id":%ID%,"result":{"a":1}}\n', {"a": 1}),
    "unknown members": ('{"id":%ID%,"x":[{}],"result":{"a":1},"y":"\\u0000"}\n', {"a": 1}),
    "id after the result": ('{"result":{"id":77,"a":1},"id":%ID%}\n', {"id": 77, "a": 1}),
    "id as text": ('{"id":"%ID%","result":{"a":1}}\n', {"a": 1}),
    "id as float": ('{"id":%ID%.0,"result":{"a":1}}\n', {"a": 1}),
    "error null beside a result": ('{"id":%ID%,"error":null,"result":{"a":1}}\n', {"a": 1}),
    "a batch": ('[{"id":%ID%,"result":{"a":1}}]\n', {"a": 1}),
    "line separators in text": ('{"id":%ID%,"result":{"a":"x\u2028\u2029\u0085y"}}\n', {"a": "x\u2028\u2029\u0085y"}),
    "control characters in text": ('{"id":%ID%,"result":{"a":"x\ty"}}\n', {"a": "x\ty"}),
    "infinity": ('{"id":%ID%,"result":{"a":-Infinity}}\n', {"a": -math.inf}),
    "a big integer": (
        '{"id":%ID%,"result":{"a":123456789012345678901234567890}}\n',
        {"a": 123456789012345678901234567890},
    ),
    "a lone surrogate": ('{"id":%ID%,"result":{"a":"x\\ud800y"}}\n', {"a": "x\ud800y"}),
    "a member twice": ('{"id":%ID%,"result":{"a":0},"result":{"a":1}}\n', {"a": 1}),
    "blank lines": ('\n\r\n  \n{"id":%ID%,"result":{"a":1}}\n', {"a": 1}),
    "an answer to nobody first": ('{"id":4711,"result":{}}\n{"id":%ID%,"result":{"a":1}}\n', {"a": 1}),
    "the answer twice": ('{"id":%ID%,"result":{"a":1}}\n{"id":%ID%,"result":{"a":2}}\n', {"a": 1}),
}


@pytest.mark.parametrize(("text", "result"), ANSWERS.values(), ids=ANSWERS)
async def test_an_odd_answer_is_understood(connect, text, result):
    async with connect() as link:
        assert await say(link, text) == result
        await assert_alive(link)


async def test_not_a_number_is_passed_on(connect):
    async with connect() as link:
        answer = await say(link, '{"id":%ID%,"result":{"a":NaN}}\n')
        assert math.isnan(answer["a"])
        assert answer.raw == b'{"a":NaN}'


async def test_bytes_that_are_no_text_are_replaced(connect):
    async with connect() as link:
        answer = await say(link, b'{"id":%ID%,"result":{"a":"x\xff\xe2\x82y"}}\n')
        assert answer == {"a": "x\ufffd\ufffdy"}
        answer.raw.decode()
        await assert_alive(link)


async def test_a_result_is_handed_on_byte_for_byte(connect):
    raw = '{"b": 1.0, "a" :[1e400, -0.0, 12345678901234567890123, "\\u00e9\u00e9"]}'
    async with connect() as link:
        assert (await say(link, f'{{"id":%ID%,"result":{raw}}}\n')).raw == raw.encode()


REFUSED = {
    "null": ('{"id":%ID%,"result":null}\n', "a result that is not an object: null"),
    "a list": ('{"id":%ID%,"result":[1]}\n', r"a result that is not an object: \[1\]"),
    "a text": ('{"id":%ID%,"result":"done"}\n', 'a result that is not an object: "done"'),
    "nothing": ('{"id":%ID%}\n', "an answer without result or error"),
    "no error either": ('{"id":%ID%,"error":null}\n', "an answer without result or error"),
    "an answer cut off": ('{"jsonrpc":"2.0","id":%ID%,"result":{"a":\n', "an answer that is not JSON"),
    "an answer cut off behind its id": ('{"id":%ID%\n', "an answer that is not JSON"),
    "a trailing comma": ('{"jsonrpc":"2.0","id":%ID%,"result":{"a":1,}}\n', "an answer that is not JSON"),
    "a wrong literal": ('{"result":{"a":None},"id":%ID%}\n', "an answer that is not JSON"),
    "a print in front": ('Loading...{"jsonrpc":"2.0","id":%ID%,"result":{}}\n', "an answer that is not JSON"),
}


@pytest.mark.parametrize(("text", "problem"), REFUSED.values(), ids=REFUSED)
async def test_an_answer_of_no_use_fails_its_request_at_once(connect, text, problem):
    async with connect() as link:
        with pytest.raises(TransportError, match=f"^server 'git' answered say with {problem}") as caught:
            await say(link, text)
        assert not caught.value.retryable
        await assert_alive(link)


ERRORS = {
    "complete": ('{"code":-7,"message":"no","data":{"x":1}}', (-7, "no", {"x": 1})),
    "no code": ('{"message":"no"}', (-32603, "no", None)),
    "the code as text": ('{"code":"E1","message":"no"}', (-32603, "no", None)),
    "the code a boolean": ('{"code":true,"message":"no"}', (-32603, "no", None)),
    "no message": ('{"code":-7}', (-7, '{"code":-7}', None)),
    "a text": ('"no"', (-32603, "no", None)),
    "a list": ("[1]", (-32603, "[1]", None)),
}


@pytest.mark.parametrize(("error", "expected"), ERRORS.values(), ids=ERRORS)
async def test_an_odd_error_is_an_error(connect, error, expected):
    async with connect() as link:
        with pytest.raises(RpcError) as caught:
            await say(link, f'{{"id":%ID%,"error":{error}}}\n')
        assert (caught.value.code, caught.value.message, caught.value.data) == expected


JUNK = {
    "words": ("Server ready on stdio\n", "junk"),
    "half an object": ('{"a":\n', "junk"),
    "null": ("null\n", "junk"),
    "a number": ("5\n", "junk"),
    "an empty batch": ("[]\n", "junk"),
    "no message": ('{"level":"info"}\n', "junk"),
    "a method that is no text": ('{"method":5}\n', "junk"),
    "an id that is a list": ('{"id":[1],"result":{}}\n', "junk"),
    "an id that is true": ('{"id":true,"result":{}}\n', "junk"),
    "nested without end": ("[" * 100_000 + "\n", "junk"),
    "bytes": ("\xff\xfe\x00\n", "junk"),
    "pretty JSON": ('{\n  "jsonrpc": "2.0",\n  "id": 1,\n  "result": {}\n}\n', "junk"),
    "an id of ours deep inside": ('{"log": {"x": {"id": 1, "y": nonsense\n', "junk"),
    "a broken request": ('{"jsonrpc":"2.0","id":1,"method":"x","params":{]}\n', "junk"),
    "a broken request, id last": ('{"method":"x","params":{],"id":1}\n', "junk"),
    "an error without an id": ('{"id":null,"error":{"code":1,"message":"parse error"}}\n', "unknown"),
    "an unknown id": ('{"id":4711,"result":{}}\n', "unknown"),
    "an unknown id as text": ('{"id":"x7","result":{}}\n', "unknown"),
    "half an id": ('{"id":1.5,"result":{}}\n', "unknown"),
    "a negative id": ('{"id":-1,"result":{}}\n', "unknown"),
}


@pytest.mark.parametrize(("text", "counter"), JUNK.values(), ids=JUNK)
async def test_junk_is_skipped_and_counted(connect, text, counter):
    async with connect() as link:
        waiting = [
            asyncio.ensure_future(link.request("hold", {}, timeout_s=LONG_S)),
            asyncio.ensure_future(link.request("say", {"text": text}, timeout_s=LONG_S)),
        ]
        await asyncio.sleep(0)
        await assert_alive(link)
        assert not any(request.done() for request in waiting)
        assert link.counters[counter] > 0
    assert [type(end) for end in await asyncio.gather(*waiting, return_exceptions=True)] == [TransportError] * 2


async def test_junk_is_warned_of_once_and_logged_with_its_head_only(connect, log):
    async with connect() as link:
        with pytest.raises(TimeoutError):
            await link.request("say", {"text": ("x" * 10_000 + "\n") * 3}, timeout_s=SHORT_S)
    logged = [(level, fields) for level, event, fields in log.lines if event == "jsonrpc.junk"]
    assert [level for level, _ in logged] == ["warning", "debug", "debug"]
    for _, fields in logged:
        assert (fields["peer"], fields["bytes"]) == ("server 'git'", 10_000)
        assert 100 < len(fields["head"]) < 300


async def test_an_answer_after_its_time_is_counted_as_late(connect):
    async with connect() as link:
        with pytest.raises(TimeoutError):
            await link.request("hold", {}, timeout_s=SHORT_S)
        await link.request("release", {}, timeout_s=SOON_S)
        assert {name: count for name, count in link.counters.items() if count} == {"late": 1}


async def test_the_last_line_needs_no_line_feed(connect):
    async with connect() as link:
        asked = asyncio.ensure_future(link.request("say", {"text": '{"id":%ID%,"result":{"a":1}}'}, timeout_s=LONG_S))
        left = asyncio.ensure_future(link.request("leave", {"code": 0}, timeout_s=LONG_S))
        assert await asked == {"a": 1}
        with pytest.raises(TransportError):
            await left


async def test_an_answer_counts_once_and_only_while_it_is_waited_for(connect):
    async with connect() as link:
        line = '{"id":%ID%,"result":{"a":1}}\n'
        assert await say(link, 3 * line) == {"a": 1}
        await assert_alive(link)
        assert {name: count for name, count in link.counters.items() if count} == {"unknown": 2}
        assert link.pending == 0


async def test_initialize_is_never_taken_back(connect):
    async with connect() as link:
        with pytest.raises(TimeoutError):
            await link.request("initialize", {}, timeout_s=SHORT_S)
        seen = (await link.request("seen", {}, timeout_s=SOON_S))["messages"]
        assert [message["method"] for message in seen] == ["initialize", "seen"]


async def test_an_oversized_line_is_skipped_and_its_request_failed(connect):
    async with connect(settings=Settings(max_message_bytes=MIB)) as link:
        with pytest.raises(TransportError, match=r"answered big with an answer of \d+ bytes; the limit is max_message"):
            await link.request("big", {"bytes": 2 * MIB}, timeout_s=LONG_S)
        assert link.counters["oversized"] == 1
        await assert_alive(link)


async def test_fifty_megabytes_take_linear_time(connect):
    async with connect() as link:
        await link.request("big", {"bytes": 1}, timeout_s=SOON_S)
        took = []
        for size in (5 * MIB, 50 * MIB):
            start = time.process_time()
            answer = await link.request("big", {"bytes": size}, timeout_s=LONG_S)
            took.append(time.process_time() - start)
            assert len(answer.raw) > size
    assert took[1] < 40 * took[0] + 1


async def test_a_flood_on_stderr_blocks_nobody(connect, log):
    async with connect() as link:
        await link.request("complain", {"bytes": 5_000_000}, timeout_s=LONG_S)
        with pytest.raises(TransportError) as caught:
            await link.request("leave", {"code": 9, "words": "the very last words"}, timeout_s=LONG_S)
    assert "exited with code 9" in str(caught.value)
    assert str(caught.value).endswith("the very last words")
    assert len(str(caught.value)) < 9000
    lines = [fields["line"] for _, event, fields in log.lines if event == "stdio.stderr"]
    assert len(lines) > 50_000


async def test_a_line_without_end_on_stderr_is_logged_in_pieces(connect, log):
    async with connect() as link:
        await link.request("complain", {"bytes": 500_000, "endless": True}, timeout_s=LONG_S)
        with pytest.raises(TransportError):
            await link.request("leave", {"code": 0}, timeout_s=LONG_S)
    lines = [fields["line"] for _, event, fields in log.lines if event == "stdio.stderr"]
    assert len(lines) > 1
    assert max(map(len, lines)) <= 8192


async def test_an_exit_with_50_pending_fails_them_all_at_once(connect):
    handler = Recorder()
    async with connect(handler=handler) as link:
        waiting = [asyncio.ensure_future(link.request("hold", {}, timeout_s=LONG_S)) for _ in range(49)]
        await link.request("echo", {}, timeout_s=SOON_S)
        waiting.append(asyncio.ensure_future(link.request("leave", {"code": 3, "words": "boom"}, timeout_s=LONG_S)))
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(0)
        assert all(request.done() for request in waiting)
        failures = await asyncio.gather(*waiting, return_exceptions=True)
        assert len(set(map(id, failures))) == 50
        assert {str(failure) for failure in failures} == {"server 'git' exited with code 3; its last words: boom"}
        assert link.pending == 0
    assert [str(error) for error in handler.closings] == [str(failures[0])]


async def test_a_server_that_closes_its_output_is_gone(connect):
    async with connect() as link:
        with pytest.raises(TransportError, match=r"^server 'git' closed its output$"):
            await link.request("close_output", {}, timeout_s=LONG_S)


async def test_a_server_that_closes_its_input_is_gone(connect):
    async with connect(settings=Settings(close_grace_s=0.1)) as link:
        await link.request("close_input", {}, timeout_s=LONG_S)
        async with asyncio.timeout(AT_ONCE_S):
            with pytest.raises(TransportError, match=r"^server 'git' closed its input$"):
                await link.request("echo", {}, timeout_s=LONG_S)


async def test_a_killed_server_is_said_to_have_been_killed(connect):
    async with connect() as link:
        with pytest.raises(TransportError, match=r"^server 'git' was ended by SIGKILL$"):
            await link.request("kill", {}, timeout_s=LONG_S)


async def test_a_dead_server_whose_child_holds_its_pipes_is_gone(connect):
    async with connect(settings=Settings(close_grace_s=0.1)) as link:
        await link.request("spawn", {}, timeout_s=SOON_S)
        async with asyncio.timeout(AT_ONCE_S):
            with pytest.raises(TransportError, match="exited with code 4"):
                await link.request("leave", {"code": 4}, timeout_s=LONG_S)


async def test_a_server_that_does_not_read_lets_deadlines_pass_on_time(connect):
    loop = asyncio.get_running_loop()
    async with connect(settings=Settings(write_buffer_bytes=8 * MIB, close_grace_s=0.1)) as link:
        await link.request("deafen", {}, timeout_s=SOON_S)
        start = loop.time()
        calls = [link.request("echo", {"text": "x" * 300_000}, timeout_s=SHORT_S) for _ in range(10)]
        failures = await asyncio.gather(*calls, return_exceptions=True)
        took = loop.time() - start
        assert [type(failure) for failure in failures] == [TimeoutError] * 10
        assert SHORT_S <= took < LONG_S


async def test_a_server_that_does_not_read_holds_up_no_other(connect):
    async with connect(settings=Settings(close_grace_s=0.1)) as deaf, connect(name="fast") as fast:
        await deaf.request("deafen", {}, timeout_s=SOON_S)
        calls = [asyncio.ensure_future(deaf.request("echo", {"x": "x" * MIB}, timeout_s=SOON_S)) for _ in range(20)]
        for n in range(100):
            async with asyncio.timeout(AT_ONCE_S):
                assert await fast.request("echo", {"n": n}, timeout_s=SOON_S) == {"n": n}
        assert not any(call.done() for call in calls)
        for call in calls:
            call.cancel()


async def test_a_server_that_floods_holds_up_no_other(connect):
    noisy_handler, quick = Recorder(), Settings(close_grace_s=0.1)
    async with connect(handler=noisy_handler, settings=quick) as noisy, connect(name="fast") as fast:
        flood = asyncio.ensure_future(noisy.request("tell", {"count": ENDLESS}, timeout_s=math.inf))
        # Or a slow start would be taken for a flood that nobody notices.
        async with asyncio.timeout(SOON_S):
            while not noisy_handler.notifications:  # noqa: ASYNC110 - it says so to nobody
                await asyncio.sleep(0.001)
        for n in range(50):
            assert await fast.request("echo", {"n": n}, timeout_s=math.inf) == {"n": n}
        assert not flood.done(), "the others had to wait for the end of the flood"
        flood.cancel()


async def test_a_server_that_does_not_read_gets_no_more_than_the_buffer_holds(connect):
    async with connect(settings=Settings(write_buffer_bytes=MIB, close_grace_s=0.1)) as link:
        await link.request("deafen", {}, timeout_s=SOON_S)
        full = asyncio.ensure_future(link.request("echo", {"text": "x" * (4 * MIB)}, timeout_s=LONG_S))
        await asyncio.sleep(0)
        for _ in range(3):
            with pytest.raises(TransportError, match=r"^server 'git' is not reading its input") as caught:
                await link.request("echo", {}, timeout_s=LONG_S)
            assert caught.value.retryable
        link.notify("notifications/n", {})
        assert link.counters["dropped"] == 1
        assert not full.done()
        full.cancel()
