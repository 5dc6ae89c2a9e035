"""The hook plugin ``argument_validation``: lets servers judge, and says beside their errors what the schema forbids."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Failure, Outcome, Phase, RawObject, Status, ToolCall, encode, hookimpl
from pml_kit.mcp.tool_schemas import input_schema
from pml_kit.offers.presentation import served

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, CatalogEntry, Run, Services, Task, Wrapper
    from pml_kit.schema.validation import Validator

    from .problems import Problem

CODE = "arguments.invalid"
SERVERS_OWN = frozenset({"tool.failed", "tool.refused"})
"""Codes of what a server itself answered: a result with ``isError``, a JSON-RPC error."""
MOST_JUDGED = 16_384
"""Tools of which it is kept whose word counts."""
settings_type = Settings
MOST_VALIDATORS = 4096
"""Compiled schemas kept; the ones not used for longest go first."""


class NoObjectError(ValueError):
    """Arguments are no JSON object; the message says what they are."""


class ArgumentValidation:
    """Checks the arguments of tool calls, those of workflows' tasks and of code included.

    Servers know best what they take: calls of their tools go out as they came, and only when the server has answered
    with an error is what the schema forbids added to it. Refused before anything runs are calls of the gateway's own
    tools, which nobody else judges, those that the settings name, and those of rehearsals, where no server is asked.

    JSON Schema, draft 2020-12 unless ``$schema`` names another, which is how MCP reads ``inputSchema``. A schema that
    cannot be used is not the caller's fault: it is logged once, and the server has to judge for itself. The same holds
    for a schema that is over the bounds of :mod:`pml_kit.schema.bounds`, and for arguments that would take more steps
    to check than are taken for one call.
    """

    phase = Phase.VALIDATE

    def __init__(self, services: Services) -> None:
        settings: Settings = services.settings or Settings()
        self._catalog, self._log, self._refuse = services.catalog, services.log, settings.refuse
        self._validators: OrderedDict[str, Validator | None] = OrderedDict()
        self._judged: dict[str, bool] = {}

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Let the task pass, or say everything that is wrong with its arguments."""
        if not isinstance(task, ToolCall):
            return call_next(task, run)
        entry = self._catalog.get(task.tool)
        if entry is None:
            return call_next(task, run)
        if not (run.dry_run or self.judges(entry)):
            return self._hinted(entry, task, run, call_next)
        failure = self._failure(entry, task, run)
        return call_next(task, run) if failure is None else _refused(task, failure)

    def judges(self, entry: CatalogEntry) -> bool:
        """Whether calls that do not fit are refused; False where the tool's server judges them."""
        known = self._judged.get(entry.id)
        if known is None:
            # A server that no configuration names runs in a plugin.
            if entry.own or not any(status.name == entry.server for status in self._catalog.servers()):
                return True
            if len(self._judged) >= MOST_JUDGED:
                self._judged.clear()
            known = self._judged[entry.id] = any(fnmatchcase(entry.id, pattern) for pattern in self._refuse)
        return known

    async def _hinted(self, entry: CatalogEntry, task: ToolCall, run: Run, call_next: CallNext) -> Outcome:
        outcome = await call_next(task, run)
        if outcome.failure is None or outcome.failure.code not in SERVERS_OWN:
            return outcome
        from .hint import hint, with_hint

        try:
            return with_hint(outcome, text) if (text := hint(entry.id, self._misfits(entry, task))) else outcome
        except Exception as exc:  # what the server said counts more than what can be said beside it
            self._log.warning("what a schema forbids cannot be told", tool=entry.id, problem=type(exc).__name__)
            return outcome

    def _failure(self, entry: CatalogEntry, task: ToolCall, run: Run) -> Failure | None:
        try:
            told = self._problems(served(entry), task, _made_up(task, run), values=True)
        except NoObjectError as exc:
            return Failure(CODE, f"Not run: the arguments for {entry.id} are not a JSON object: {exc}")
        return _explained(entry, told) if told else None

    def _misfits(self, entry: CatalogEntry, task: ToolCall) -> Sequence[Problem]:
        """As :meth:`_problems`, by places and rules alone; nothing of what is no JSON object."""
        try:
            return self._problems(served(entry), task, (), values=False)
        except NoObjectError:
            return ()

    def _problems(
        self, entry: CatalogEntry, task: ToolCall, simulated: Sequence[str], *, values: bool
    ) -> Sequence[Problem]:
        """What does not fit; nothing where that cannot be told, or not in a moment.

        ``entry`` is as the tool's server has it: what is sent is judged by that, whatever clients are shown.

        Raises:
            NoObjectError: The arguments are no JSON object.
        """
        validator = self._validator(entry)
        if validator is None:
            return ()
        arguments = task.arguments
        try:
            value = arguments.value if isinstance(arguments, RawObject) else arguments
            if not _short(arguments, validator.most_bytes) and not validator.admits(value):
                self._log.warning("arguments are not checked: they are more than is checked in a moment", tool=entry.id)
                return ()
            if validator.is_valid(value):
                return ()
        except ValueError:
            # Mappings of other types than dict, a lone surrogate, or bytes that are no JSON.
            return self._problems_of_odd(entry, task, validator, values=values)
        return _told(entry, value, validator, simulated, values=values)

    def _problems_of_odd(
        self, entry: CatalogEntry, task: ToolCall, validator: Validator, *, values: bool
    ) -> Sequence[Problem]:
        try:
            value = json.loads(encode(task.arguments))
            if not isinstance(value, dict):
                raise TypeError(f"found {type(value).__name__}")
        except (RecursionError, TypeError, ValueError) as exc:
            raise NoObjectError(str(exc)) from exc
        try:
            if not validator.admits(value) or validator.is_valid(value):
                return ()
            return _told(entry, value, validator, (), values=values)
        except ValueError:
            self._log.debug("arguments cannot be checked", tool=entry.id)
            return ()

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
        schema = input_schema(entry)
        if schema is None:
            return None
        from pml_kit.schema.validation import Validator

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


def _told(
    entry: CatalogEntry, value: Mapping[str, Any], validator: Validator, simulated: Sequence[str], *, values: bool
) -> Sequence[Problem]:
    from .problems import Problem, problems, relevant

    try:
        return problems(relevant(validator.iter_errors(value), simulated), input_schema(entry) or {}, values=values)
    except ValueError as exc:
        # The validator judges a value of any depth but cannot describe every one.
        return [Problem("$", f"does not fit; where cannot be told{f': {exc}' if values else ''}")]


def _explained(entry: CatalogEntry, told: Sequence[Problem]) -> Failure:
    from .signature import signature

    lines = "".join(f"\n- {problem.path}: {problem.message}" for problem in told)
    parameters = signature(input_schema(entry) or {})
    message = f"Not run: the arguments do not fit {entry.id}.{lines}\nParameters: {parameters}"
    return Failure(CODE, message, details={"problems": [problem._asdict() for problem in told]})


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    """The wrapper."""
    return [ArgumentValidation(services)]
