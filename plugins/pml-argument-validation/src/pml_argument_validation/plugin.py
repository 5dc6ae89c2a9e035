"""The hook plugin ``argument_validation``: refuses calls whose arguments do not fit, before anything runs."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Awaitable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Failure, Outcome, Phase, RawObject, Status, ToolCall, encode, hookimpl

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, CatalogEntry, Run, Services, Task, Wrapper

    from .validator import Validator

CODE = "arguments.invalid"
MOST_VALIDATORS = 4096
"""Compiled schemas kept; the ones not used for longest go first."""


class ArgumentValidation:
    """Checks the arguments of every tool call, those of workflows' tasks included.

    JSON Schema, draft 2020-12 unless ``$schema`` names another, which is how MCP reads ``inputSchema``. A schema that
    cannot be used is not the caller's fault: it is logged once, and the server has to judge for itself. The same holds
    for a schema that is over the bounds of :mod:`pml_hookspecs.schemas`, and for arguments that would take more steps
    to check than are taken for one call.
    """

    phase = Phase.VALIDATE

    def __init__(self, services: Services) -> None:
        self._catalog, self._log = services.catalog, services.log
        self._validators: OrderedDict[str, Validator | None] = OrderedDict()

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Let the task pass, or say everything that is wrong with its arguments."""
        if not isinstance(task, ToolCall):
            return call_next(task, run)
        entry = self._catalog.get(task.tool)
        failure = None if entry is None else self._failure(entry, task, run)
        return call_next(task, run) if failure is None else _refused(task, failure)

    def _failure(self, entry: CatalogEntry, task: ToolCall, run: Run) -> Failure | None:
        validator = self._validator(entry)
        if validator is None:
            return None
        arguments = task.arguments
        try:
            value = arguments.value if isinstance(arguments, RawObject) else arguments
            if not _short(arguments, validator.most_bytes) and not validator.admits(value):
                self._log.warning("arguments are not checked: they are more than is checked in a moment", tool=entry.id)
                return None
            if validator.is_valid(value):
                return None
        except ValueError:
            # Mappings of other types than dict, a lone surrogate, or bytes that are no JSON.
            return self._failure_of_odd(entry, task, validator)
        return _explained(entry, value, validator, _made_up(task, run))

    def _failure_of_odd(self, entry: CatalogEntry, task: ToolCall, validator: Validator) -> Failure | None:
        try:
            value = json.loads(encode(task.arguments))
            if not isinstance(value, dict):
                raise TypeError(f"found {type(value).__name__}")
        except (RecursionError, TypeError, ValueError) as exc:
            return Failure(CODE, f"Not run: the arguments for {entry.id} are not a JSON object: {exc}")
        try:
            if not validator.admits(value) or validator.is_valid(value):
                return None
            return _explained(entry, value, validator, ())
        except ValueError:
            self._log.debug("arguments cannot be checked", tool=entry.id)
            return None

    def _validator(self, entry: CatalogEntry) -> Validator | None:
        """The compiled schema; None when there is none to check against."""
        digest = entry.digest
        if digest in self._validators:
            self._validators.move_to_end(digest)
            return self._validators[digest]
        validator = self._compiled(entry)
        if digest:
            self._validators[digest] = validator
            if len(self._validators) > MOST_VALIDATORS:
                self._validators.popitem(last=False)
        return validator

    def _compiled(self, entry: CatalogEntry) -> Validator | None:
        schema = entry.input_schema
        if schema is None:
            return None
        from .validator import Validator

        try:
            return Validator(schema)
        except ValueError as exc:
            problem = str(exc).partition("\n")[0][:500]
            self._log.warning("input schema cannot be used; arguments are not checked", tool=entry.id, problem=problem)
            return None


def _short(arguments: Mapping[str, Any], most_bytes: int) -> bool:
    try:
        return len(encode(arguments)) <= most_bytes
    except (RecursionError, TypeError, ValueError):
        return False


async def _refused(task: Task, failure: Failure) -> Outcome:
    now = datetime.now(UTC)
    return Outcome(task_id=task.id, status=Status.ERROR, started_at=now, duration_ms=0, failure=failure)


def _made_up(task: ToolCall, run: Run) -> tuple[str, ...]:
    """JSON Pointers of arguments that a rehearsed workflow took from simulated results."""
    if not run.dry_run:
        return ()
    about: Any = task.extra
    for key in ("_meta", "pml/simulated", "arguments"):
        about = about.get(key) if isinstance(about, Mapping) else None
    return tuple(pointer for pointer in about if isinstance(pointer, str)) if isinstance(about, (list, tuple)) else ()


def _explained(
    entry: CatalogEntry, value: Mapping[str, Any], validator: Validator, made_up: tuple[str, ...]
) -> Failure | None:
    from .problems import Problem, problems, relevant
    from .signature import signature

    schema = entry.input_schema or {}
    try:
        errors = relevant(validator.iter_errors(value), made_up)
        if not errors:
            return None
        told = problems(errors, schema)
    except ValueError as exc:
        # The validator judges a value of any depth but cannot describe every one.
        told = [Problem("$", f"does not fit; where cannot be told: {exc}")]
    lines = "".join(f"\n- {problem.path}: {problem.message}" for problem in told)
    message = f"Not run: the arguments do not fit {entry.id}.{lines}\nParameters: {signature(schema)}"
    return Failure(CODE, message, details={"problems": [problem._asdict() for problem in told]})


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    """The wrapper; it has no settings."""
    return [ArgumentValidation(services)]
