"""How objects are called: whether one has the members of a protocol, and takes and gives what those do."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

Problem = Callable[[Any], str]
"""What is wrong with an object, as a clause, and what to do; ``""`` for nothing."""
AWAITABLE = "Awaitable"
"""What a function of a protocol says that it returns where it need not be a coroutine function."""
MAYBE_AWAITABLE = re.compile(r"Awaitable|Coroutine|Future|asyncio\.Task|\bAny\b|\bobject\b|Never|NoReturn")
"""What a function says that it returns where that can be awaited."""


def function_problem(given: Any, wanted: Any, name: str) -> str:
    """Why ``given`` cannot be called as ``wanted`` is, a function of a protocol; ``""`` when it can."""
    if not callable(given):
        return f"{name!r} is a {type(given).__name__}; make it a function"
    called = _code_of(given)
    returns = str(getattr(wanted, "__annotations__", {}).get("return", ""))
    is_async = inspect.iscoroutinefunction(wanted)
    if inspect.isasyncgenfunction(called) or inspect.isgeneratorfunction(called):
        managed = ", or put @asynccontextmanager on it" if "ContextManager" in returns else ""
        return f"{name!r} is no plain function but a generator; return its result instead of yielding it{managed}"
    if is_async or AWAITABLE in returns:
        if not inspect.iscoroutinefunction(given) and not _may_be_awaited(called, unsaid=not is_async):
            return f"{name!r} is no coroutine function; write: async def {name}{_parameters(wanted)}"
    elif inspect.iscoroutinefunction(called):
        return f"{name!r} is no plain function but async, and is called without await; write: def {name}"
    return _arity(given, wanted, name)


def _code_of(given: Any) -> Any:
    """The function that a call of ``given`` runs."""
    while isinstance(given, functools.partial):
        given = given.func
    if inspect.isroutine(given):
        return getattr(given, "__func__", given)
    return getattr(type(given).__call__, "__func__", type(given).__call__)


def _may_be_awaited(function: Any, *, unsaid: bool) -> bool:
    """Whether what a function returns can be awaited; ``unsaid`` where it says nothing of what it returns."""
    inner = inspect.unwrap(function)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(inner) or not inspect.isfunction(inner):
        return True
    if inspect.isgeneratorfunction(inner):
        return False
    returns = inner.__annotations__.get("return", inspect.Signature.empty)
    return unsaid if returns is inspect.Signature.empty else bool(MAYBE_AWAITABLE.search(str(returns)))


@functools.cache
def _call_of(wanted: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of what the gateway gives a function of a protocol by position, and by name."""
    parameters = [p for p in inspect.signature(wanted).parameters.values() if p.name != "self"]
    by_position = [
        name
        for p in parameters
        if p.kind is not p.KEYWORD_ONLY
        for name in (("type", "value", "traceback") if p.kind is p.VAR_POSITIONAL else (p.name,))
    ]
    return tuple(by_position), tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def _parameters(wanted: Any) -> str:
    by_position, by_name = _call_of(wanted)
    return f"({', '.join(('self', *by_position, *(('*', *by_name) if by_name else ())))})"


def _arity(given: Any, wanted: Any, name: str) -> str:
    by_position, by_name = _call_of(wanted)
    try:
        signature = inspect.signature(given)
    except (TypeError, ValueError):  # of what is not written in Python nothing can be told
        return ""
    try:
        signature.bind(*by_position, **dict.fromkeys(by_name))
    except TypeError as exc:
        return f"{name!r} takes {signature} ({exc}); it has to take {_parameters(wanted).replace('self, ', '')}"
    return ""


def _members(protocol: type[Any]) -> dict[str, Any]:
    """The members of a protocol: its functions, properties, and None for what is only declared."""
    found: dict[str, Any] = {}
    for one in reversed(protocol.__mro__):
        if getattr(one, "_is_protocol", False):
            found |= dict.fromkeys(getattr(one, "__annotations__", ()))
            found |= {n: m for n, m in vars(one).items() if inspect.isfunction(m) or isinstance(m, property)}
    return {name: member for name, member in found.items() if not name.startswith("_") or name == "__call__"}


def fits(protocol: type[Any], *, optional: Iterable[str] = ()) -> Problem:
    """Sees that an object has the members of a protocol; what is ``optional`` only has to be right if it is there."""
    members = _members(protocol)

    def problem(item: Any) -> str:
        if inspect.isclass(item):
            return f"it is the class itself; make an instance: {item.__name__}(...)"
        for name, wanted in members.items():
            if name == "__call__" and not callable(item):
                return f"it is no plain function, and cannot be called; write: {_signature(wanted)}"
            try:
                given = item if name == "__call__" else getattr(item, name)
            except AttributeError:
                if name in optional:
                    continue
                what = f"write: {_signature(wanted)}" if inspect.isfunction(wanted) else f"give it one: {name} = ..."
                return f"it has no {name!r}; {what}"
            except Exception as exc:
                return f"its {name!r} raises {type(exc).__name__}: {exc}; mend it"
            if inspect.isfunction(wanted) and (found := function_problem(given, wanted, name)):
                return found
        return ""

    return problem


def _signature(wanted: Any) -> str:
    return f"{'async ' if inspect.iscoroutinefunction(wanted) else ''}def {wanted.__name__}{_parameters(wanted)}"
