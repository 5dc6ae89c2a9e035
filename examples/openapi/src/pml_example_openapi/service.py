"""An HTTP service: its document, and calls of its operations."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from pml_hookspecs import RpcError, TransportError
from pml_hookspecs.protocol import INVALID_PARAMS

from .operations import operations_of


class Service:
    """What a document tells of, at an address."""

    def __init__(self, peer: str, client: httpx2.AsyncClient, document: Mapping[str, Any], base: httpx2.URL) -> None:
        """``peer`` is what messages call it."""
        self._peer, self._client, self._base = peer, client, str(base).rstrip("/")
        self.title, self.version = str(document["info"]["title"]), str(document["info"]["version"])
        self.operations = operations_of(document)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """A ``CallToolResult``; an answer that is no success is an error of the tool's."""
        if (operation := self.operations.get(name)) is None:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {name}")
        try:
            made = operation.request(self._base, arguments)
            answer = await self._client.request(**made)
        except (ValueError, httpx2.InvalidURL) as exc:
            raise RpcError(INVALID_PARAMS, str(exc)) from exc
        except httpx2.HTTPError as exc:
            raise TransportError(f"{self._peer} did not answer: {exc!r}", retryable=True) from exc
        failed = not answer.is_success
        text = f"{answer.status_code} {answer.reason_phrase}: {answer.text}" if failed else answer.text
        result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
        if failed:
            return {**result, "isError": True}
        try:
            value = answer.json()
        except ValueError:
            value = None
        return {**result, "structuredContent": value} if isinstance(value, dict) else result


def _read(path: str) -> str:
    return Path(path).expanduser().read_text(encoding="utf-8")


@asynccontextmanager
async def opened(peer: str, where: str, options: Mapping[str, Any]) -> AsyncIterator[Service]:
    """The service whose document is at the URL or in the file ``where``.

    Raises:
        TransportError: It cannot be read or used.
    """
    remote = "://" in where
    # No time limit: whoever asks has one, and takes the request back then. No redirects: headers may be secrets.
    async with httpx2.AsyncClient(headers=options.get("headers"), timeout=None, follow_redirects=False) as client:
        try:
            text = (await client.get(where)).raise_for_status().text if remote else _read(where)
            document = json.loads(text)
            told = str(options.get("base_url") or (document.get("servers") or [{"url": "/"}])[0]["url"])
            base = httpx2.URL(where).join(told) if remote else httpx2.URL(told)
            service = Service(peer, client, document, base)
        except (OSError, httpx2.HTTPError) as exc:
            raise TransportError(f"{peer}: its OpenAPI document cannot be read: {exc}", retryable=remote) from exc
        except (ValueError, LookupError, TypeError, AttributeError, httpx2.InvalidURL) as exc:
            raise TransportError(f"{peer}: {where} is no OpenAPI document in JSON: {exc!r}", retryable=False) from exc
        if base.is_relative_url:
            raise TransportError(f"{peer}: {where} does not say where the service is: set base_url", retryable=False)
        asked = [(url.scheme, url.host, url.port) for url in ((httpx2.URL(where), base) if remote else ())]
        if len(set(asked)) > 1 and not options.get("base_url"):
            raise TransportError(f"{peer}: {where} leads to {base}: set base_url if you trust it", retryable=False)
        yield service
