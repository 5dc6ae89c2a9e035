"""An OpenAI-compatible endpoint, over real HTTP: what is asked, and what becomes of each kind of failure."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_search_embeddings import answers, endpoint
from pml_search_embeddings.endpoint import Endpoint, address
from pml_search_embeddings.errors import EmbeddingError, RefusedError
from pml_search_embeddings.settings import Settings

pytestmark = pytest.mark.anyio


@pytest.fixture
def made(service: Any, services: Any) -> Callable[..., Endpoint]:
    def make(**given: Any) -> Endpoint:
        return Endpoint(Settings(**{"url": service.url, "model": "m", **given}), services.spawn)

    return make


def refusing(status: int, body: Any = None, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _service, _body: (status, named, body if body is not None else {"error": {"message": "not now"}})


async def test_each_text_gets_its_vector_of_unit_length_in_any_order_of_the_answer(made: Any, service: Any) -> None:
    texts = ["a", "bb", "ccc", ""]
    found = np.asarray(await made().embed(texts, query=False))
    wanted = np.array([service.vector_of(text) for text in texts])
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    assert found.dtype == np.float32
    assert np.allclose(found, wanted, atol=1e-6)


async def test_texts_are_sent_in_batches_a_few_at_a_time_over_kept_connections(made: Any, service: Any) -> None:
    texts = [f"text {n}" for n in range(50)]
    service.may_answer.clear()
    asking = made(batch=5, parallel=3)
    import asyncio

    task = asyncio.ensure_future(asking.embed(texts, query=False))
    async with asyncio.timeout(30):
        while len(service.asked) < 3:  # noqa: ASYNC110 - a thread tells nobody
            await asyncio.sleep(0.005)
    service.may_answer.set()
    found = np.asarray(await task)
    assert found.shape == (50, 3)
    assert [len(body["input"]) for body in service.asked] == [5] * 10
    assert service.most_at_once == 3
    assert {text for body in service.asked for text in body["input"]} == set(texts)


async def test_what_is_configured_is_what_is_sent(made: Any, service: Any) -> None:
    asking = made(
        api_key="k-123",
        headers={"X-Team": "tools"},
        dimensions=256,
        query_prefix="query: ",
        document_prefix="passage: ",
        most_characters=20,
    )
    await asking.embed(["find " + "x" * 100], query=True)
    await asking.embed(["list"], query=False)
    first, second = service.asked
    assert first["input"] == ["query: find " + "x" * 15]
    assert second["input"] == ["passage: list"]
    assert (first["model"], first["dimensions"], first["encoding_format"]) == ("m", 256, "float")
    assert service.paths == ["/v1/embeddings"] * 2
    assert (service.headers[0]["authorization"], service.headers[0]["x-team"]) == ("Bearer k-123", "tools")


async def test_no_texts_ask_nobody(made: Any, service: Any) -> None:
    assert list(await made().embed([], query=False)) == []
    assert service.asked == []


async def test_a_service_that_has_too_much_to_do_is_asked_again_when_it_says(made: Any, service: Any) -> None:
    service.replies = [refusing(429, Retry_After="0.3"), refusing(503, Retry_After="0")]
    began = time.monotonic()
    assert len(await made().embed(["a"], query=False)) == 1
    assert time.monotonic() - began >= 0.3
    assert len(service.asked) == 3


async def test_a_service_that_keeps_failing_is_named_with_what_it_says_and_then_left_alone(
    made: Any, service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "FIRST_DELAY_S", 0.001)
    service.replies = [refusing(500, {"error": {"message": "out of\nmemory"}})] * 3
    asking = made(attempts=3)
    with pytest.raises(EmbeddingError, match=r"/v1/embeddings answers 500: out of memory, 3 times"):
        await asking.embed(["a"], query=False)
    with pytest.raises(EmbeddingError, match=r"answers 500.*not asked again for another \d+ s"):
        await asking.embed(["a"], query=True)
    assert len(service.asked) == 3


async def test_after_the_pause_it_is_asked_again(made: Any, service: Any) -> None:
    service.replies = [refusing(500)]
    asking = made(attempts=1, pause_s=0)
    with pytest.raises(EmbeddingError):
        await asking.embed(["a"], query=False)
    assert len(await asking.embed(["a"], query=False)) == 1


@pytest.mark.parametrize(
    ("status", "remedy"),
    [(401, "check api_key"), (404, "check url and model"), (413, "lower batch"), (302, "check url")],
)
async def test_a_refusal_is_not_repeated_and_says_what_to_check_but_not_the_key(
    made: Any, service: Any, status: int, remedy: str
) -> None:
    service.replies = [refusing(status, {"error": {"message": "no: key k-secret is not good"}})]
    with pytest.raises(RefusedError) as caught:
        await made(api_key="k-secret").embed(["a"], query=False)
    assert f"answers {status}" in str(caught.value)
    assert remedy in str(caught.value)
    assert "k-secret" not in str(caught.value)
    assert len(service.asked) == 1


def rows(*vectors: Any) -> dict[str, Any]:
    return {"data": [{"index": n, "embedding": vector} for n, vector in enumerate(vectors)]}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (rows([1, 2]), "1 vectors for 2 texts"),
        (rows([1, 2], [1, 2], [1, 2]), "3 vectors for 2 texts"),
        ({"data": [{"index": 0, "embedding": [1]}] * 2}, "2 vectors for 2 texts"),
        (rows([1, 2], [1, 2, 3]), r"different sizes \(2, 3\)"),
        (rows([], []), "different sizes"),
        (rows([1, 2], [1, float("nan")]), "something else than vectors"),
        (rows([1, 2], [1, "x"]), "something else than vectors"),
        (rows([1, 2], "AAAA"), "something else than vectors"),
        (rows([1e308, 1e308], [1, 2]), "something else than vectors"),
        ({"data": None}, "something else than vectors"),
        ({"embeddings": []}, "something else than vectors"),
        ([], "something else than vectors"),
        (b"<html>", "something else than vectors"),
        (b"\xff\xfe", "something else than vectors"),
    ],
)
async def test_an_answer_without_the_right_vectors_is_refused(made: Any, service: Any, answer: Any, said: str) -> None:
    service.replies = [refusing(200, answer)]
    with pytest.raises(EmbeddingError, match=said):
        await made().embed(["a", "b"], query=False)


async def test_vectors_of_another_size_than_before_are_refused(made: Any, service: Any) -> None:
    asking = made()
    await asking.embed(["a"], query=False)
    service.replies = [refusing(200, rows([1.0, 2.0]))]
    with pytest.raises(EmbeddingError, match=r"different sizes \(2, 3\)"):
        await asking.embed(["b"], query=True)


async def test_a_search_waits_no_longer_than_it_may(made: Any, service: Any) -> None:
    service.may_answer.clear()
    with pytest.raises(EmbeddingError, match=r"gave no vector within 0.2 s \(query_timeout_s\)"):
        await made(query_timeout_s=0.2, timeout_s=60.0).embed(["a"], query=True)


async def test_an_answer_that_comes_too_late_is_said_to(made: Any, service: Any) -> None:
    service.may_answer.clear()
    with pytest.raises(EmbeddingError, match=r"did not answer within 0.1 s, 1 times"):
        await made(timeout_s=0.1, attempts=1).embed(["a"], query=False)


async def test_a_service_that_is_not_there_is_said_to_be(services: Any) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        asking = Endpoint(Settings(url=url, model="m", attempts=1), services.spawn)
        with pytest.raises(EmbeddingError, match=r"/v1/embeddings cannot be reached"):
            await asking.embed(["a"], query=False)


async def test_one_failed_batch_ends_the_others(made: Any, service: Any) -> None:
    service.replies = [service.good, refusing(400)]
    with pytest.raises(RefusedError, match="answers 400"):
        await made(batch=1, parallel=1).embed([str(n) for n in range(50)], query=False)
    assert len(service.asked) <= 3


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("http://h:1", "http://h:1/v1/embeddings"),
        ("http://h:1/", "http://h:1/v1/embeddings"),
        ("https://h/v1/", "https://h/v1/embeddings"),
        ("https://h/api/v1/embeddings", "https://h/api/v1/embeddings"),
        ("https://h/openai/v1?api-version=2", "https://h/openai/v1/embeddings?api-version=2"),
    ],
)
def test_the_address_is_completed(given: str, wanted: str) -> None:
    assert address(given) == wanted


@pytest.mark.parametrize("changed", [{"model": "n"}, {"dimensions": 8}, {"query_prefix": "q"}, {"most_characters": 99}])
async def test_the_name_changes_with_what_changes_the_vectors(made: Any, changed: Any) -> None:
    assert made(api_key="secret").name == made().name
    assert made(**changed).name != made().name
    assert "secret" not in made(api_key="secret").name


def test_how_long_to_wait_is_read_as_seconds_or_as_a_date() -> None:
    assert answers.retry_after_s("2") == 2
    assert answers.retry_after_s("-1") == 0
    in_a_minute = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert 55 < (answers.retry_after_s(in_a_minute) or 0) <= 60
    assert [answers.retry_after_s(value) for value in (None, "soon", "nan", "inf")] == [None] * 4


@given(st.binary(max_size=200))
def test_no_answer_breaks_the_reader(content: bytes) -> None:
    with pytest.raises(RefusedError):
        answers.vectors(content, 1, None, "http://x")


@given(st.text(max_size=500), st.text(min_size=4, max_size=20))
def test_a_quote_is_one_short_line_without_the_secret(text: str, secret: str) -> None:
    said = answers.said_by(f"{text}{secret}", [secret])
    assert len(said) <= answers.LONGEST_QUOTE + 1
    assert "\n" not in said
    if not set(secret) & {"*", " "} and secret.isprintable():
        assert secret not in said


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_vectors_are_of_unit_length_or_nothing(numbers: list[float]) -> None:
    import json

    (vector,) = answers.vectors(json.dumps(rows(numbers)).encode(), 1, None, "u")
    length = math.sqrt(math.fsum(number * number for number in vector))
    assert length == pytest.approx(1, abs=1e-3) or not any(numbers) or max(map(abs, numbers)) < 1e-30
