"""What the objects of plugins have to look like: one table, for whoever puts a gateway together and for the doctor.

Most of it follows from the protocols of :mod:`pml_hookspecs`: which members there are, how they are called, and which
of them are coroutine functions.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from typing import Any

import pml_hookspecs as specs

from .offers.access import OpenRoute
from .signatures import Problem, fits, function_problem

Fault = Callable[[str, str, Exception], object]
"""Called with the plugin's name, the hook's name and what is wrong."""
TASKS = frozenset({specs.CapabilityRun, specs.CodeRun, specs.PluginTask, specs.Workflow})
"""What executors run."""
_TYPE = re.compile(r"[a-z][a-z0-9_]{0,31}")
_TAKEN = frozenset({"capability", "code", "code_execution", "durable", "program", "request", "tool", "workflow"})
"""What cannot be the type of a plugin's task: names of tasks of the contract, in plans and in settings."""
NOT_FOR_ALL = frozenset({"log_in", "log_out", "serve"})
"""Members that a transport may lack; who needs one asks for it by name."""


class ShapeError(Exception):
    """A plugin gave what the gateway cannot use. The message says what, where, and what to do, in one line."""


# Objects


def _is_a(value_class: type[Any], more: Problem = lambda _item: "") -> Problem:
    """Sees that an object is one of a value class, and what more there is to see."""

    def problem(item: Any) -> str:
        if inspect.isclass(item):
            return f"it is the class itself; make one: {item.__name__}(...)"
        if not isinstance(item, value_class):
            return f"it is a {type(item).__name__}; make it a {value_class.__name__}(...)"
        return more(item)

    return problem


def _or_awaitable(problem: Problem) -> Problem:
    return lambda item: "" if inspect.isawaitable(item) else problem(item)


def _wrapper(item: Any) -> str:
    if problem := fits(specs.Wrapper)(item):
        return problem
    phase = item.phase
    if isinstance(phase, bool) or phase not in set(specs.Phase):
        known = ", ".join(one.name for one in specs.Phase)
        return f"its phase {phase!r} is none; give it one of Phase: {known}"
    for name in ("before", "after"):
        names = getattr(item, name, ())
        if isinstance(names, str) or not all(isinstance(one, str) for one in names):
            return f"its {name!r} is {names!r}; make it a tuple of plugins' names: {name} = (...,)"
    return ""


def _lifespan(item: Any) -> str:
    if inspect.isasyncgen(item):
        return "it is an async generator; put @asynccontextmanager on the function that makes it"
    if inspect.isroutine(item):
        return f"it is the function {item.__name__!r}; call it: {item.__name__}(...)"
    if hasattr(item, "__enter__") and not hasattr(item, "__aenter__"):
        return "it is a context manager that is not async; put @asynccontextmanager on an async function"
    return _enters(item)


def _enters(item: Any) -> str:
    if inspect.isclass(item):
        return f"it is the class itself; make an instance: {item.__name__}(...)"
    if missing := [name for name in ("__aenter__", "__aexit__") if not hasattr(type(item), name)]:
        return f"it has no {missing[0]!r}; make it an async context manager"
    return ""


def _route(item: Any) -> str:
    if isinstance(item, (OpenRoute, specs.SharedRoute)):
        item = item.route
    if inspect.isclass(item) or not all(callable(getattr(item, name, None)) for name in ("matches", "handle")):
        return "it is no route of Starlette; make it a Route(path, endpoint)"
    return ""


def _definition(definition: Any) -> str:
    if not isinstance(definition, Mapping):
        return f"its definition is a {type(definition).__name__}; give it a dict, the tool as MCP has it"
    name, schema = definition.get("name"), definition.get("inputSchema")
    if not isinstance(name, str) or not name:
        return "its definition has no 'name'; give it one"
    if not isinstance(schema, Mapping):
        return f"the definition of {name!r} has no 'inputSchema'; give it one, such as {{'type': 'object'}}"
    try:
        specs.encode(definition)
    except (TypeError, ValueError) as exc:
        return f"the definition of {name!r} is no JSON ({exc}); use dicts, lists, texts, numbers"
    return ""


def _keep(entry: Any, session: Any) -> bool:
    """How a filter is called."""
    return bool(entry and session)


def _tool_filter(item: Any) -> str:
    if inspect.isclass(item):
        return f"it is the class itself; make an instance: {item.__name__}(...)"
    if not callable(item):
        return "it is no plain function, and cannot be called; write: def keep(entry, session)"
    return function_problem(item, _keep, "keep")


async def _answer(arguments: Any, run: Any) -> Mapping[str, Any]:
    """How a meta-tool is called."""
    return {"arguments": arguments, "run": run}


def _task(arguments: Any) -> specs.Task:
    """How a meta-tool that stands for a task is asked for it."""
    raise NotImplementedError(arguments)


def _listed(session: specs.Session) -> bool:
    """How a meta-tool is asked whether a client's list has it."""
    raise NotImplementedError(session)


def _meta_tool(item: Any) -> str:
    if problem := _definition(item.definition):
        return problem
    name = item.definition["name"]
    if (item.call is None) == (item.task is None):
        return f"{name!r} has {'neither' if item.call is None else 'both'} of 'call' and 'task'; give it one"
    if isinstance(item.aliases, str):
        return f"the aliases of {name!r} are a text; write: aliases=({item.aliases!r},)"
    if not isinstance(item.listed, bool) and (problem := function_problem(item.listed, _listed, "listed")):
        return f"of {name!r}, {problem}"
    how, given, wanted = ("call", item.call, _answer) if item.task is None else ("task", item.task, _task)
    problem = function_problem(given, wanted, how)
    return f"of {name!r}, {problem}" if problem else ""


def _of_key(protocol: type[Any]) -> Problem:
    return fits(protocol) if getattr(protocol, "_is_protocol", False) else _is_a(protocol)


def _offer(item: Any) -> str:
    key = item.key
    if not isinstance(key, specs.Key) or not key.name:
        return f"its key is a {type(key).__name__}; give it a Key with a name"
    problem = _of_key(key.protocol)(item.service)
    shown = getattr(item.service, "__name__", type(item.service).__name__)
    return f"as {key.name!r} it offers {shown!r}, which is no {key.protocol.__name__}: {problem}" if problem else ""


HOOKS: Mapping[str, tuple[str, Problem]] = {
    "pml_checks": ("Check", _or_awaitable(_is_a(specs.Check))),
    "pml_filter_tools": ("ToolFilter", _tool_filter),
    "pml_lifespan": ("lifespan", _lifespan),
    "pml_meta_tools": ("MetaTool", _is_a(specs.MetaTool, _meta_tool)),
    "pml_offers": ("Offer", _is_a(specs.Offer, _offer)),
    "pml_routes": ("route", _route),
    "pml_wrap_executor": ("Wrapper", _wrapper),
}
"""What each hook contributes, and how it is seen that one is."""
PARTS: Mapping[str, Any] = {
    "executions": specs.Executions,
    "traces": specs.Traces,
    "catalog": specs.CatalogCache,
    "secrets": specs.Secrets,
    "documents": specs.Documents,
}
"""Of a store that is open."""


def _open_store(item: Any) -> str:
    for name, protocol in PARTS.items():
        try:
            part = getattr(item, name)
        except AttributeError:
            return f"it has no {name!r}; give it one, as Store has it"
        except Exception as exc:
            return f"its {name!r} raises {type(exc).__name__}: {exc}; mend it"
        if problem := fits(protocol)(part):
            return f"its {name!r} will not do: {problem}"
    return (
        function_problem(item.health, specs.Store.health, "health") if hasattr(item, "health") else "it has no 'health'"
    )


def _handles(item: Any) -> str:
    handles = getattr(item, "handles", None)
    known = ", ".join(sorted(task.__name__ for task in TASKS))
    if not isinstance(handles, frozenset | set) or not handles:
        return f"its 'handles' is no set of task types; write: handles = frozenset({{...}}) of {known}"
    if unknown := [one for one in handles if one not in TASKS]:
        return f"it says it runs {getattr(unknown[0], '__name__', unknown[0])}; executors run {known}"
    types: Any = types_of(item)
    if specs.PluginTask in handles and (isinstance(types, str) or not types):
        return "it has no 'types' of tasks; write: types = frozenset({'sql'})"
    if bad := [one for one in types if not (isinstance(one, str) and _TYPE.fullmatch(one)) or one in _TAKEN]:
        return f"{bad[0]!r} cannot be a type of tasks; give it a name of its own in small letters, such as 'sql'"
    languages = getattr(item, "languages", None)
    if languages is not None and (isinstance(languages, str) or not all(isinstance(one, str) for one in languages)):
        return "its 'languages' is no set of names; write: languages = frozenset({'sql'})"
    return ""


def types_of(executor: Any) -> frozenset[str]:
    """Types of plugins' tasks that an executor, or its class, says that it runs."""
    if specs.PluginTask not in getattr(executor, "handles", ()):
        return frozenset()
    types: frozenset[str] = getattr(executor, "types", frozenset())
    return types


def _executor(item: Any) -> str:
    return _handles(item) or fits(specs.Executor)(item)


def _store(item: Any) -> str:
    return _enters(item) or function_problem(item.__aenter__, specs.Store.__aenter__, "__aenter__")


DRIVERS: Mapping[str, Problem] = {
    "executor": _executor,
    "exposure_mode": fits(specs.ExposureMode),
    "store": _store,
    "tracer": fits(specs.Tracer),
    "transport": fits(specs.Transport, optional=NOT_FOR_ALL),
    "open store": _open_store,
    "listener": fits(specs.Transport, optional=NOT_FOR_ALL - {"serve"}),
    "login": fits(specs.Transport, optional={"serve"}),
}
"""How it is seen that a driver is one of its kind; and that a store that is open, or a transport in use, is right."""


# What is asked


def driver_problem(kind: str, driver: Any) -> str:
    """What is wrong with a driver, as a clause with what to do; ``""`` for nothing."""
    problem = DRIVERS[kind](driver)
    return f"{type(driver).__name__} is no {kind.replace('_', ' ')}: {problem}" if problem else ""


def class_problem(kind: str, driver: Any) -> str:
    """What is wrong with what an entry point names, before one is made of it."""
    if not callable(driver):
        return f"the entry point names a {type(driver).__name__}; have it name the class"
    return _handles(driver) if kind == "executor" else ""


def settings_problem(plugin: Any) -> str:
    """What is wrong with the settings class of a plugin; ``""`` for nothing, and where there is none."""
    settings_type, fallback = getattr(plugin, "settings_type", None), getattr(plugin, "settings_fallback", "")
    if not isinstance(fallback, str):
        return f"its settings_fallback is a {type(fallback).__name__}; make it the name of a plugin"
    if settings_type is None:
        return ""
    if not inspect.isclass(settings_type) or not is_dataclass(settings_type):
        what = getattr(settings_type, "__name__", type(settings_type).__name__)
        return f"its settings_type {what!r} is no dataclass; put @dataclass(frozen=True, kw_only=True) on a class"
    return ""


def items_of(hook: str, given: Any) -> Iterator[Any]:
    """What a hook returned, one by one.

    Raises:
        ShapeError: It is no list of things.
    """
    what = HOOKS[hook][0] if hook in HOOKS else "thing"
    if given is None:
        raise ShapeError(f"{hook} returns None; return a list of each {what}, which may be empty")
    if inspect.iscoroutine(given):
        given.close()
    if isinstance(given, str | bytes | Mapping) or inspect.isclass(given) or not isinstance(given, Iterable):
        raise ShapeError(f"{hook} returns a {type(given).__name__}; return a list of each {what}: [...]")
    yield from given


def item_problem(hook: str, item: Any) -> str:
    """What is wrong with one thing that ``hook`` gave; ``""`` for nothing."""
    what, problem_of = HOOKS[hook]
    try:
        problem = problem_of(item)
    except Exception as exc:  # whatever a plugin's object does when it is looked at
        problem = f"looking at it raises {type(exc).__name__}: {exc}; mend it"
    shown = getattr(item, "__name__", type(item).__name__)
    return f"{hook} gives {shown!r}, which is no {what}: {problem}" if problem else ""


def fitting(hook: str, found: Iterable[tuple[str, Any]], on_fault: Fault) -> list[tuple[str, Any]]:
    """What plugins gave that is right; ``on_fault`` is told of each plugin of which something is not."""
    fit: dict[str, list[Any]] = {}
    wrong: dict[str, str] = {}
    for plugin, item in found:
        if problem := item_problem(hook, item):
            wrong.setdefault(plugin, problem)
            with suppress(Exception):
                item.close()
        fit.setdefault(plugin, []).append(item)
    for plugin, problem in wrong.items():
        on_fault(plugin, hook, ShapeError(problem))
    return [(plugin, item) for plugin, items in fit.items() if plugin not in wrong for item in items]
