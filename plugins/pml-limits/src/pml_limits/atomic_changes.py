"""Changes of documents that several gateways change: each is made to what is there, and none is lost."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from pml_hookspecs import encode

if TYPE_CHECKING:
    from pml_hookspecs import Services

T = TypeVar("T")
Change = Callable[[dict[str, Any]], Any]
ATTEMPTS = 60
"""How often others may be faster before the store is taken for out of order."""
LONGEST_WAIT_S = 0.05
"""Between two attempts [s]."""


class ContentionError(Exception):
    """Other gateways changed the document at each attempt."""


class Changes:
    """Changes of the documents of one collection. What is asked for while one is being written goes along next time.

    So however many calls there are at a time, one document is written by this gateway once at a time.
    """

    def __init__(self, services: Services, collection: str) -> None:
        self._services, self._collection = services, collection
        self._waiting: dict[str, list[tuple[Change, asyncio.Future[Any]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def change(self, key: str, change: Callable[[dict[str, Any]], T], *, keep_s: float) -> T:
        """What ``change`` returns, once what it did to the document's value is durable.

        Args:
            key: Which document; it has an empty value when there is none.
            change: Changes the value in place. May be called several times, each time with what is there then.
            keep_s: The document is forgotten when it was not changed for so long [s]. The same for all of a key.

        Raises:
            Exception: The store cannot be read or written.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if key in self._waiting:
            self._waiting[key].append((change, future))
        else:
            self._waiting[key] = [(change, future)]
            task = loop.create_task(self._work(key, keep_s), name=f"{self._collection}:{key}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def settle(self) -> None:
        """Wait for all changes under way."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _work(self, key: str, keep_s: float) -> None:
        while batch := self._waiting[key]:
            self._waiting[key] = []
            try:
                results = await self._write(key, [change for change, _ in batch], keep_s)
            except Exception as exc:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(exc)
                continue
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)
        del self._waiting[key]

    async def _write(self, key: str, changes: list[Change], keep_s: float) -> list[Any]:
        documents = self._services.store.documents
        for attempt in range(ATTEMPTS):
            found = await documents.get(self._collection, key)
            before = b"{}" if found is None else encode(found.value)
            value: dict[str, Any] = json.loads(before)
            results = [change(value) for change in changes]
            after = encode(value)
            if after == encode(json.loads(before)):
                return results
            version = await documents.put(
                self._collection,
                key,
                value,
                expires_at=datetime.now(UTC) + timedelta(seconds=keep_s),
                if_version=0 if found is None else found.version,
            )
            if version is not None:
                return results
            await asyncio.sleep(random.uniform(0, min(LONGEST_WAIT_S, 0.001 * 2**attempt)))  # noqa: S311 - no secret
        raise ContentionError(f"{self._collection} {key}: {ATTEMPTS} times another gateway was faster")
