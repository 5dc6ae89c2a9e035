"""Changes of documents that several gateways change, those of this gateway together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pml_kit.shared.change import Write, change, plain

if TYPE_CHECKING:
    from pml_hookspecs import Document, Services

T = TypeVar("T")
Change = Callable[[dict[str, Any]], Any]


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
        def edit(found: Document | None) -> tuple[list[Any], Write | None]:
            value = plain(found)
            results = [change(value) for change in changes]
            return results, Write(value, keep_s=keep_s) if value else None

        return await change(self._services.store.documents, self._collection, key, edit)
