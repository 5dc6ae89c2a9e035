from __future__ import annotations

import json

import pytest

from pml_agents.answers import Json, StreamJson, Text, UnreadableError, shortened
from pml_agents.settings import Fields

NONE = Fields()


def taken(reader, data, size):
    for start in range(0, len(data), size):
        reader.take(data[start : start + size])
    return reader.answer()


@pytest.mark.parametrize("size", [1, 7, 1000, 100_000])
def test_text_of_any_length_keeps_its_beginning_and_its_end(size):
    data = b"begin" + bytes(range(97, 123)) * 1000 + b"end"
    answer = taken(Text(1000, NONE), data, size)
    assert answer.response.startswith("beginabc")
    assert answer.response.endswith("zend")
    assert f"[… {len(data) - 1000} bytes left out …]" in answer.response
    assert taken(Text(len(data), NONE), data, size).response == data.decode()


@pytest.mark.parametrize("size", [1, 5, 10_000])
def test_lines_may_come_in_any_pieces(size):
    lines = [{"type": "assistant", "message": {"content": [{"type": "text", "text": "ä"}]}}, {"result": "ß"}]
    lines.append({"type": "result", "result": "grün", "usage": None, "modelUsage": {}})
    data = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines).encode()
    told = []
    answer = taken(StreamJson(10_000, NONE, lambda count, text: told.append((count, text))), data, size)
    assert answer.response == "grün"
    assert told == [(1, "ä"), (2, ""), (3, "result")]
    assert (answer.tokens_in, answer.context_max, answer.context_used) == (None, None, None)


def test_a_stream_of_any_length_keeps_its_beginning_its_end_and_the_result():
    reader = StreamJson(2000, NONE)
    for number in range(1000):
        reader.take(json.dumps({"type": "tick", "number": number}).encode() + b"\n")
    reader.take(b'{"type": "big", "x": "' + b"y" * 5000 + b'"}\n')
    reader.take(b'{"type": "result", "result": "done"}')
    answer = reader.answer()
    assert answer.response == "done"
    assert answer.transcript[0]["number"] == 0
    assert answer.transcript[-1]["type"] == "result"
    assert len(json.dumps(answer.transcript)) < 3000
    assert "events were left out" in answer.remarks[0]


@pytest.mark.parametrize(
    "value",
    [
        {"result": "x", "total_cost_usd": "free", "usage": {"input_tokens": -1}},
        {"result": "x", "total_cost_usd": True, "usage": []},
        {"result": "x", "total_cost_usd": None, "usage": {"input_tokens": "many"}, "modelUsage": 3},
        {"result": "x", "total_cost_usd": 1e13, "usage": {"input_tokens": 2**63 - 1}},
        {"result": "x", "total_cost_usd": 10**400, "usage": {"input_tokens": 10**400}},
        {"result": "x", "total_cost_usd": float("inf"), "usage": {"input_tokens": float("nan")}},
    ],
)
def test_numbers_that_are_none_are_left_out(value):
    answer = taken(Json(10_000, NONE), json.dumps(value).encode(), 100)
    assert (answer.response, answer.cost_usd, answer.tokens_in) == ("x", None, None)


def test_an_answer_that_is_no_text_is_shown_as_json():
    answer = taken(Json(10_000, NONE), b'{"result": {"a": [1, "\xc3\xa4"]}}', 100)
    assert answer.response == '{"a": [1, "ä"]}'


@pytest.mark.parametrize("text", ["", "nothing", "[]", "3", '"x"', "null", "{}", '{"a": 1}', "[" * 100_000])
def test_output_without_an_answer_is_unreadable(text):
    with pytest.raises(UnreadableError):
        taken(Json(1_000_000, NONE), text.encode(), 1000)
    with pytest.raises(UnreadableError):
        taken(StreamJson(1_000_000, NONE), text.encode(), 1000)


def test_the_array_of_all_events_is_read_by_its_last():
    answer = taken(Json(10_000, NONE), b'[{"type":"system"},{"type":"result","result":"x","is_error":false}]', 100)
    assert (answer.response, answer.error) == ("x", "")


def test_long_transcripts_lose_their_middle():
    lines = [{"n": n} for n in range(1000)]
    kept = shortened(lines, 1000)
    assert kept[0] == {"n": 0}
    assert kept[-1] == {"n": 999}
    (mark,) = [line for line in kept if "lines" in line]
    assert mark["lines"] + len(kept) - 1 == 1000
    assert shortened(lines, 1_000_000) is lines
    assert shortened([{"n": "x" * 2000}], 1000) == [{"type": "left_out", "lines": 1}]


@pytest.mark.parametrize(
    ("value", "response"),
    [
        ({"content": [{"type": "thinking"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab"),
        ({"content": "c", "error": None}, "c"),
        ({"message": "m", "is_error": False}, "m"),
        ({"choices": [{"message": {"content": "d"}}]}, "d"),
    ],
)
def test_usual_shapes_of_answers_are_known(value, response):
    answer = taken(Json(10_000, NONE), json.dumps(value).encode(), 100)
    assert (answer.response, answer.error) == (response, "")


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"error": {"message": "no", "code": 3}}, "no"),
        ({"error": "no", "result": "half"}, "no"),
        ({"is_error": True, "subtype": "error_max_turns"}, "error_max_turns"),
        ({"is_error": True}, "it says that it failed"),
    ],
)
def test_usual_shapes_of_errors_are_known(value, error):
    assert taken(Json(10_000, NONE), json.dumps(value).encode(), 100).error == error
