"""One turn as a plan, as a plan with ``select``, and as code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .flow import IDENTIFIER, Flow, Reference, Result, Steps, short

SCALAR = (str, int, float, bool)


def request(flow: Flow, results: list[Result], *, select: bool) -> tuple[str, dict[str, Any]]:
    """What is called, and with what: a plan, but where there is one call only."""
    if len(flow.turn.calls) > 1:
        return "execute_workflow", plan(flow, results, select=select)
    call = flow.turn.calls[0]
    arguments: dict[str, Any] = {"name": call.name, "arguments": call.arguments}
    asked = [(key, _steps(ref.path, _member).lstrip(".")) for key, ref in _asked(flow, results) if ref.path]
    if select and asked:
        several = ", ".join(f"{key}: {path}" for key, path in asked)
        arguments["select"] = asked[0][1] if len(asked) == 1 else f"{{{several}}}"
    return "call_tool", arguments


def plan(flow: Flow, results: list[Result], *, select: bool) -> dict[str, Any]:
    """The arguments of ``execute_workflow``."""
    tasks = []
    for number, call in enumerate(flow.turn.calls):
        task: dict[str, Any] = {"id": _id(number), "tool": call.name}
        if arguments := _json(flow.arguments[number]):
            task["arguments"] = arguments
        if after := sorted(flow.after[number]):
            task["depends_on"] = [_id(need) for need in after]
        if number in flow.failing:
            task["on_error"] = "continue"
        tasks.append(task)
    workflow: dict[str, Any] = {"tasks": tasks}
    if flow.ordered and len(tasks) > 1:
        workflow["max_parallel"] = 1
    if select:
        workflow["select"] = _select(flow, results)
    elif more := {asked.call for asked in flow.asked} - set(flow.last):
        workflow["return"] = [_id(number) for number in sorted(more | set(flow.last))]
    return {"workflow": workflow}


def code(flow: Flow, results: list[Result]) -> dict[str, Any]:
    """The arguments of ``run_code``."""
    used = {ref.call for ref in flow.asked} | set(flow.last)
    used |= {need for number in range(len(flow.turn.calls)) for need in _referred(flow.arguments[number])}
    lines = []
    for number, call in enumerate(flow.turn.calls):
        given = ", ".join(_word(name, value) for name, value in flow.arguments[number].items())
        plain = all(IDENTIFIER.fullmatch(name) for name in flow.arguments[number])
        words = given if plain else _python(flow.arguments[number])
        line = f"await tools.{call.server}.{call.tool}({words})"
        if number in flow.failing:
            # In the code that is measured: the gold action is one that its tool refuses, and the next ones go on.
            lines += ["try:", f"  {line}", "except Exception: pass"]
        else:
            lines.append(f"{_id(number)} = {line}" if number in used else line)
    parts = [f"{json.dumps(key)}: {_expression(ref)}" for key, ref in _asked(flow, results)]
    lines.append(f"return {{{', '.join(parts)}}}")
    return {"language": "python", "code": "\n".join(lines)}


def _id(number: int) -> str:
    return f"t{number + 1}"


def _asked(flow: Flow, results: list[Result]) -> list[tuple[str, Reference]]:
    """What is answered of a turn by itself: what is to be told, and how the last calls ended."""
    found = [(f"a{number + 1}", ref) for number, ref in enumerate(flow.asked)]
    for number in flow.last:
        if number in flow.failing or any(ref.call == number for ref in flow.asked):
            continue
        names = short(results[number].value)
        for name in names or [None]:
            key = _id(number) if name is None or len(names or ()) == 1 else f"{_id(number)}_{name}"
            key = key if IDENTIFIER.fullmatch(key) else f"{_id(number)}_{len(found)}"
            found.append((key, Reference(number, () if name is None else (name,))))
    return found


def _select(flow: Flow, results: list[Result]) -> str:
    parts = [f"{key}: {_jmespath(ref)}" for key, ref in _asked(flow, results)]
    return f"{{{', '.join(parts)}}}" if parts else "`null`"


def _jmespath(ref: Reference) -> str:
    return _id(ref.call) + _steps(ref.path, _member)


def _member(name: str) -> str:
    return name if IDENTIFIER.fullmatch(name) else json.dumps(name)


def _steps(path: Steps, spelt) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{spelt(step)}" for step in path)


def _expression(ref: Reference) -> str:
    return _id(ref.call) + "".join(f"[{json.dumps(step)}]" for step in ref.path)


def _json(value: Any) -> Any:
    """Arguments with references as plans spell them."""
    if isinstance(value, Reference):
        return f"{{{{{_id(value.call)}{_steps(value.path, str)}}}}}"
    if isinstance(value, Mapping):
        return {name: _json(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_json(item) for item in value]
    # A brace of the benchmark's own is none of a plan's.
    return value.replace("{{", "\\{{") if isinstance(value, str) else value


def _python(value: Any) -> str:
    if isinstance(value, Reference):
        return _expression(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name!r}: {_python(member)}" for name, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_python, value)) + "]"
    return repr(value)


def _word(name: str, value: Any) -> str:
    return f"{name}={_python(value)}"


def _referred(value: Any) -> set[int]:
    from .flow import references

    return {ref.call for ref in references(value)}
