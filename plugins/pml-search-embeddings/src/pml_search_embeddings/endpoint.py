"""An OpenAI-compatible endpoint: ``POST <url>/embeddings``."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from .answers import retry_after_s, said_by, vectors
from .errors import EmbeddingError, RefusedError

if TYPE_CHECKING:
    import httpx2

    from .settings import Settings

TRY_AGAIN = frozenset((408, 425, 429, 500, 502, 503, 504))
FIRST_DELAY_S, MOST_DELAY_S = 0.5, 60.0


class Endpoint:
    """Asks a service for vectors. Implements :class:`pml_kit.offers.Embedder`.

    After a failure nothing is asked for a while, so that searches do not wait for a service that is down. The
    connections are kept until the plugin goes down.
    """

    def __init__(self, settings: Settings, spawn: Callable[..., None]) -> None:
        """``spawn`` is :meth:`pml_hookspecs.Services.spawn`."""
        self._settings, self._spawn = settings, spawn
        self._url = address(settings.url)
        self._client: asyncio.Future[httpx2.AsyncClient] | None = None
        self._size: int | None = None
        self._paused_until, self._why = 0.0, ""

    @cached_property
    def name(self) -> str:
        """Address, model, and a digest of all else that changes the vectors."""
        chosen = self._settings
        about = (self._url, chosen.dimensions, chosen.query_prefix, chosen.document_prefix, chosen.most_characters)
        return f"{urlsplit(self._url).netloc}:{chosen.model}:{hashlib.sha256(repr(about).encode()).hexdigest()[:16]}"

    async def embed(self, texts: Sequence[str], *, query: bool) -> Any:
        """One ``array`` of 32-bit numbers and of unit length for each text, in order.

        Raises:
            EmbeddingError: The service cannot be reached, refuses, or answers something else than vectors.
        """
        if time.monotonic() < self._paused_until:
            left = self._paused_until - time.monotonic()
            raise EmbeddingError(f"{self._why}; not asked again for another {left:.0f} s")
        chosen = self._settings
        prefix = chosen.query_prefix if query else chosen.document_prefix
        cut = [prefix + text[: chosen.most_characters] for text in texts]
        batches = [cut[start : start + chosen.batch] for start in range(0, len(cut), chosen.batch)]
        try:
            async with asyncio.timeout(chosen.query_timeout_s if query else None):
                found = await self._all(batches)
        except TimeoutError:
            late = f"{self._url} gave no vector within {chosen.query_timeout_s:g} s (query_timeout_s)"
            raise self._pause(EmbeddingError(late)) from None
        except EmbeddingError as exc:
            raise self._pause(exc) from None
        return [vector for batch in found for vector in batch]

    def _pause(self, exc: EmbeddingError) -> EmbeddingError:
        self._paused_until, self._why = time.monotonic() + self._settings.pause_s, str(exc)
        return exc

    async def _all(self, batches: Sequence[list[str]]) -> list[Any]:
        """The vectors of each batch, a few requests at a time; the first failure ends all."""
        client = await self._connected()
        turns = asyncio.Semaphore(self._settings.parallel)

        async def one(batch: list[str]) -> Any:
            async with turns:
                return await self._asked(client, batch)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(batch)) for batch in batches]
        except* EmbeddingError as failures:
            raise failures.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _asked(self, client: httpx2.AsyncClient, batch: list[str]) -> Any:
        for attempt in range(1, self._settings.attempts + 1):
            try:
                return await self._once(client, batch)
            except RefusedError:
                raise
            except _RetryableError as exc:
                if attempt == self._settings.attempts:
                    raise EmbeddingError(f"{exc}, {attempt} times; see [plugins.embeddings]") from None
                usual = FIRST_DELAY_S * 2 ** (attempt - 1) * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
                await asyncio.sleep(min(exc.delay_s if exc.delay_s is not None else usual, MOST_DELAY_S))
        raise AssertionError("attempts is 1 or more")

    async def _once(self, client: httpx2.AsyncClient, batch: list[str]) -> Any:
        import httpx2

        body: dict[str, Any] = {"model": self._settings.model, "input": batch, "encoding_format": "float"}
        if self._settings.dimensions:
            body["dimensions"] = self._settings.dimensions
        try:
            response = await client.post(self._url, json=body)
        except httpx2.TimeoutException:
            raise _RetryableError(f"{self._url} did not answer within {self._settings.timeout_s:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            raise _RetryableError(f"{self._url} cannot be reached: {exc or type(exc).__name__}") from None
        if response.is_success:
            found = vectors(response.content, len(batch), self._size, self._url)
            self._size = len(found[0])
            return found
        said = f"{self._url} answers {response.status_code}: {said_by(response.text, self._secrets())}"
        if response.status_code in TRY_AGAIN:
            raise _RetryableError(said, retry_after_s(response.headers.get("retry-after")))
        raise RefusedError(f"{said}; {_remedy(response.status_code)}")

    def _secrets(self) -> list[str]:
        return [self._settings.api_key, *self._settings.headers.values()]

    async def _connected(self) -> httpx2.AsyncClient:
        """The client, which a background task of the plugin keeps open."""
        if self._client is None:
            self._client = asyncio.get_running_loop().create_future()
            self._spawn(self._keep_open, self._client, name="connections to the embeddings endpoint")
        return await asyncio.shield(self._client)

    async def _keep_open(self, opened: asyncio.Future[httpx2.AsyncClient]) -> None:
        try:
            client = client_for(self._settings)
        except Exception as exc:
            opened.set_exception(EmbeddingError(f"{self._url} cannot be asked: {type(exc).__name__}: {exc}"))
            return
        async with client:
            opened.set_result(client)
            await asyncio.Event().wait()


class _RetryableError(EmbeddingError):
    """Asking again may help, after so long if the service says so [s]."""

    def __init__(self, message: str, delay_s: float | None = None) -> None:
        super().__init__(message)
        self.delay_s = delay_s


def address(url: str) -> str:
    """Where to post to: ``/v1/embeddings`` on a bare host, ``/embeddings`` below any other path."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    if not path.endswith("/embeddings"):
        path = f"{path or '/v1'}/embeddings"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def client_for(settings: Settings) -> httpx2.AsyncClient:
    """A client with the key and the time-outs of the settings."""
    import httpx2

    headers = {"User-Agent": "pml-search-embeddings", **settings.headers}
    if settings.api_key:
        headers["Authorization"] = f"Bearer {settings.api_key}"
    return httpx2.AsyncClient(headers=headers, timeout=settings.timeout_s, follow_redirects=False)


def _remedy(status: int) -> str:
    if status in (401, 403):
        return "check api_key"
    if status in (404, 405):
        return "check url and model"
    if status in (400, 413, 422):
        return "check model and dimensions, or lower batch and most_characters"
    return "check url"
