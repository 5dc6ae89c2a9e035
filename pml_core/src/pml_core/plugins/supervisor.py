"""Lifetimes: what is entered, in which order, who failed, and what runs in the background."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from pml_kit.errors import OperatorError
from pml_kit.shapes import ShapeError

CLOSING_S = 5.0
"""Longest that one plugin's closing may take."""


class Supervisor:
    """Enters and leaves everything from one task, keeps background tasks, and knows each plugin's health."""

    def __init__(self, log: Any, *, strict: bool) -> None:
        """``strict`` turns a plugin's failure into a refusal to start."""
        self._log, self._strict = log, strict
        self._stack = AsyncExitStack()
        self._tasks: dict[str, set[asyncio.Task[None]]] = {}
        self._entered: set[str] = set()
        self._things: dict[int, _BoundedExit] = {}
        """What was entered and is left before the end, if it is, by identity."""
        self.health: dict[str, str] = {}
        """Plugin name to ``"up"`` or what is wrong."""
        self.failed: dict[str, str] = {}
        """Plugins that were left out, and why."""
        self.guards: frozenset[str] = frozenset()
        """Names of the plugins without which nothing may run."""
        self.closed: dict[str, str] = {}
        """Those of them that failed, and why; while there is one, every task is refused."""

    async def enter(self, plugin: str, thing: Any, *, required: bool) -> bool:
        """Enter ``thing`` if it is an async context manager; whether the plugin is up.

        Raises:
            OperatorError: It cannot be entered, and it is required or the gateway is strict.
        """
        if not hasattr(thing, "__aenter__"):
            self._is_up(plugin)
            return True
        self._stack.push_async_callback(self._stop_tasks, plugin)
        self._entered.add(plugin)
        bounded = self._things[id(thing)] = _BoundedExit(plugin, thing, self._log)
        try:
            await self._stack.enter_async_context(bounded)
        except Exception as exc:
            if required:
                raise OperatorError(f"{plugin}: {exc}" if str(exc) else f"{plugin}: {exc!r}") from exc
            self.fault(plugin, "start", exc)
            return False
        self._is_up(plugin)
        return True

    def _is_up(self, plugin: str) -> None:
        """Of a plugin of which another part was left out, that is what is to be known."""
        if plugin not in self.failed:
            self.health[plugin] = "up"

    def running(self, plugin: str) -> AbstractSet[asyncio.Task[None]]:
        """The background tasks of a plugin as of now."""
        return frozenset(self._tasks.get(plugin, ()))

    async def leave(self, thing: Any, tasks: AbstractSet[asyncio.Task[None]]) -> None:
        """Leave what another has taken the place of, with the background tasks that it had begun."""
        await _stop(tasks)
        if (bounded := self._things.pop(id(thing), None)) is not None:
            await bounded.leave()

    def fault(self, plugin: str, where: str, exc: Exception) -> None:
        """A plugin failed and is left out; when it is a guard, so is everything that it would have judged.

        Raises:
            OperatorError: The gateway is strict.
        """
        said = str(exc) if isinstance(exc, ShapeError) else f"{type(exc).__name__}: {exc}"
        problem = exc.message if isinstance(exc, OperatorError) else said
        if self._strict:
            raise OperatorError(
                f"plugin {plugin!r} failed in {where}: {problem}", "Mend it, block it, or unset strict."
            ) from exc
        self.health[plugin], self.failed[plugin] = f"quarantined: {problem}", problem
        if plugin in self.guards:
            self.closed[plugin] = problem
            self._log.error("a guard failed; every call is refused", plugin=plugin, where=where, problem=problem)
        else:
            self._log.warning("plugin quarantined", plugin=plugin, where=where, problem=problem)

    def spawn(self, plugin: str, func: Callable[..., Awaitable[None]], args: tuple[Any, ...], name: str) -> None:
        """Run a background task for ``plugin``; its failure is noted and reaches nobody else."""

        async def guarded() -> None:
            try:
                await func(*args)
            except Exception as exc:
                self.health[plugin] = f"background task {name!r} failed: {exc!r}"
                self._log.exception("background task failed", plugin=plugin, task=name)

        task = asyncio.get_running_loop().create_task(guarded(), name=f"{plugin}:{name}")
        mine = self._tasks.setdefault(plugin, set())
        mine.add(task)
        task.add_done_callback(mine.discard)

    async def _stop_tasks(self, plugin: str) -> None:
        await _stop(self.running(plugin))

    def on_close(self, func: Callable[..., Awaitable[object]], *args: Any) -> None:
        """Have ``func`` awaited on the way out, within a bound, before everything entered earlier is left."""

        async def bounded() -> None:
            async with _bounded(getattr(func, "__qualname__", repr(func)), self._log):
                await func(*args)

        self._stack.push_async_callback(bounded)

    async def close(self) -> None:
        """Leave everything in reverse order, each within its bound, each with its own background tasks."""
        for plugin in set(self._tasks) - self._entered:
            await self._stop_tasks(plugin)
        await self._stack.aclose()


class _BoundedExit(AbstractAsyncContextManager[None]):
    """Leaves ``thing`` within a bound, and logs what it raises instead of letting it stop the others."""

    def __init__(self, plugin: str, thing: Any, log: Any) -> None:
        self._plugin, self._thing, self._log = plugin, thing, log
        self._left = False

    async def __aenter__(self) -> None:
        await self._thing.__aenter__()

    async def __aexit__(self, *exc: object) -> None:
        await self.leave()

    async def leave(self) -> None:
        """Once; the second time nothing is left to do."""
        if self._left:
            return
        self._left = True
        async with _bounded(self._plugin, self._log):
            await self._thing.__aexit__(None, None, None)


async def _stop(tasks: AbstractSet[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CLOSING_S)


@asynccontextmanager
async def _bounded(plugin: str, log: Any) -> AsyncIterator[None]:
    """Give up what takes too long to close, and log what it raises instead of letting it stop the others."""
    try:
        async with asyncio.timeout(CLOSING_S):
            yield
    except TimeoutError:
        log.error("plugin did not close in time", plugin=plugin, limit_s=CLOSING_S)  # noqa: TRY400 - the limit says it all
    except Exception:
        log.exception("plugin failed to close", plugin=plugin)
