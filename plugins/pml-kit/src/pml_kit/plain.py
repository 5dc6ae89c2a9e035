"""Tasks, outcomes and sessions as plain JSON and back, for those who keep them or send them elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pml_hookspecs import (
    CapabilityRun,
    CodeRun,
    Failure,
    Outcome,
    PluginTask,
    Retry,
    ServerRequest,
    Session,
    Status,
    Step,
    Task,
    ToolCall,
    Workflow,
    defaults,
)

KINDS: Mapping[str, type[Any]] = {
    "tool": ToolCall,
    "code": CodeRun,
    "capability": CapabilityRun,
    "plugin": PluginTask,
    "workflow": Workflow,
}
"""Types of the tasks that may be part of a plan, by the name of their kind."""
_NAMES: Mapping[type[Any], str] = {**{kind: name for name, kind in KINDS.items()}, ServerRequest: "request"}


def parsed(value: Any) -> Any:
    """``value``, or the object or array that it spells: models sometimes write JSON into a string."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def kind_of(task: Task) -> str:
    """``"tool"``, ``"code"``, ``"capability"``, ``"workflow"``, ``"request"``, or the type of a plugin's task."""
    return task.type if isinstance(task, PluginTask) else _NAMES[type(task)]


def to_plain(value: Any) -> Any:
    """``value`` as JSON: objects, arrays, texts, numbers.

    Args:
        value: A task, an outcome, a session, a failure, or what they are made of. Members that have their default are
            left out; a task says its ``kind``.
    """
    if isinstance(value, tuple(KINDS.values())):
        return {"kind": _NAMES[type(value)], **_members(value)}
    if isinstance(value, (Step, Retry, Outcome, Failure, Session)):
        return _members(value)
    if isinstance(value, Mapping):
        return {str(key): to_plain(member) for key, member in value.items()}
    if isinstance(value, (list, tuple, frozenset)):
        members = sorted(value) if isinstance(value, frozenset) else value
        return [to_plain(member) for member in members]
    return value.isoformat() if isinstance(value, datetime) else value


def _members(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, default in defaults(type(value)).items():
        member = getattr(value, name)
        if member != default:
            found[name] = to_plain(member)
    return found


def task_from(plain: Mapping[str, Any]) -> Task:
    """The task that :func:`to_plain` wrote.

    Raises:
        ValueError: It is none.
    """
    try:
        members = dict(plain)
        made: Task = KINDS[members.pop("kind")](**_with_types(members))
    except (KeyError, TypeError, AttributeError) as exc:
        raise ValueError(f"not a task: {exc}") from exc
    return made


def _with_types(members: dict[str, Any]) -> dict[str, Any]:
    depends_on = members.pop("needs", ())  # as 0.1 wrote it
    members["depends_on"] = tuple(members.get("depends_on", depends_on))
    if "tasks" in members:
        members["tasks"] = tuple(task_from(task) for task in members["tasks"])
    if "known" in members:
        members["known"] = {name: outcome_from(outcome) for name, outcome in members["known"].items()}
    if "step" in members:
        members["step"] = _step_from(dict(members["step"]))
    if members.get("tools") is not None:
        members["tools"] = tuple(members["tools"])
    return members


def _step_from(members: dict[str, Any]) -> Step:
    if "retry" in members:
        members["retry"] = Retry(**members["retry"])
    if members.get("compensate") is not None:
        members["compensate"] = task_from(members["compensate"])
    return Step(**members)


def outcome_from(plain: Mapping[str, Any]) -> Outcome:
    """The outcome that :func:`to_plain` wrote.

    Raises:
        ValueError: It is none.
    """
    try:
        members = dict(plain)
        members["status"] = Status(members["status"])
        members["started_at"] = datetime.fromisoformat(members["started_at"])
        if members.get("failure") is not None:
            members["failure"] = Failure(**members["failure"])
        return Outcome(**members)
    except (KeyError, TypeError, AttributeError) as exc:
        raise ValueError(f"not an outcome: {exc}") from exc


def session_from(plain: Mapping[str, Any]) -> Session:
    """The session that :func:`to_plain` wrote.

    Raises:
        ValueError: It is none.
    """
    try:
        members = dict(plain)
        if members.get("allow") is not None:
            members["allow"] = tuple(members["allow"])
        scopes, deny = frozenset(members.pop("scopes", ())), tuple(members.pop("deny", ()))
        return Session(**members, scopes=scopes, deny=deny)
    except (TypeError, AttributeError) as exc:
        raise ValueError(f"not a session: {exc}") from exc
