"""The executor ``capabilities``: runs learned code, or the code given in its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from pml_hookspecs import CapabilityRun, CodeRun, Failure, Outcome, Status, replace
from pml_kit.offers import Verdict
from pml_kit.schema.members import properties

from .inputs import defaults, name_problems, problems
from .library import Library, library_of
from .settings import Settings
from .tools import staleness, takes

if TYPE_CHECKING:
    from pml_hookspecs import Run, Services, Session, Task

    from .capability import Capability

NO_STORE, NOT_FOUND, RETIRED = "capability.no_store", "capability.not_found", "capability.retired"
DISABLED, INVALID_INPUTS = "capability.disabled", "capability.invalid_inputs"
"""Codes of failures that are not the code's own."""
_SPECIAL = re.compile(r"([*?\[])")
CODE_ID = "code"
"""Name of the code's own task below that of the capability."""


class Capabilities:
    """Runs capabilities as code, through the whole chain, as a child of the capability's own execution.

    Code of the store may call only the tools that it is known to use, so that what its annotations promise holds.
    Counting how it does is the wrapper's work.
    """

    settings_type = Settings
    handles: ClassVar[frozenset[type]] = frozenset({CapabilityRun})

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """Without ``services`` it has no store and runs inline code only."""
        self._settings, self._services = settings or Settings(), services

    async def execute(self, task: Task, run: Run) -> Outcome:
        """Run a capability to its end."""
        if not isinstance(task, CapabilityRun):
            raise TypeError(f"{type(task).__name__} is not a capability")
        started_at = datetime.now(UTC)
        code = await self._code(task, run.session)
        if isinstance(code, Failure):
            return _ended(
                task,
                started_at,
                Outcome(task_id=task.id, status=Status.ERROR, started_at=started_at, duration_ms=0, failure=code),
            )
        return _ended(task, started_at, await run.dispatch(code))

    async def check(self, task: Task, session: Session, *, within_s: float) -> Verdict:
        """The code that a capability comes to, or why there is none."""
        if not isinstance(task, CapabilityRun):
            return Verdict()
        code = await self._code(task, session, running=False)
        return Verdict(problems=(code,)) if isinstance(code, Failure) else Verdict(becomes=code)

    async def _code(self, task: CapabilityRun, session: Session, *, running: bool = True) -> CodeRun | Failure:
        """What to run. Inline code wins. When ``running``, kinds count, and what is stale is marked."""
        if task.source:
            return CodeRun(id=CODE_ID, language=task.language, source=task.source, inputs=task.inputs)
        library = None if self._services is None else library_of(self._services)
        if library is None:
            return Failure(NO_STORE, f"Capability task {task.id} has no code and CapabilityStore is not configured.")
        capability = await library.get(id_of(task.capability_id, self._services, self._settings))
        if capability is None or not capability.visible(session.principal, self._settings):
            return Failure(NOT_FOUND, f"Capability {task.capability_id} not found in CapabilityStore")
        why_not = await self._why_not(capability, library, running=running) or _wrong(capability, task, values=running)
        if why_not is not None:
            return why_not
        return CodeRun(
            id=CODE_ID,
            language=capability.language,
            source=capability.code,
            program=capability.program,
            inputs={**defaults(capability.inputs), **_taken(capability, task)},
            # Escaped: a tool whose name is a pattern must not open others.
            tools=tuple(_SPECIAL.sub(r"[\1]", tool) for tool in sorted(capability.tools)),
        )

    async def _why_not(self, capability: Capability, library: Library, *, running: bool) -> Failure | None:
        """Why it is run with no inputs whatever; None when it may be."""
        id = capability.id
        if capability.disabled:
            return Failure(
                DISABLED, f"Capability {id} is switched off; `pml capabilities enable {id}` allows it again."
            )
        if why := capability.retired or await self._stale(capability, library, retire=running):
            return Failure(
                RETIRED,
                f"Capability {id} is retired: {why}. Write the code again for the tools as they are now; "
                "when it ends well, it is learned anew.",
            )
        return None

    async def _stale(self, capability: Capability, library: Library, *, retire: bool) -> str:
        if self._services is None:
            return ""
        why = staleness(capability, self._services.catalog)
        if why and retire:
            try:
                await library.change(capability.id, lambda known: replace(known, retired=known.retired or why))
            except Exception:  # it is not run either way, and found out again the next time
                self._services.log.exception("capability could not be retired", capability=capability.id)
        return why


def id_of(given: str, services: Services | None, settings: Settings) -> str:
    """The id of the capability, also of one that is given by the name that clients see or search finds."""
    entry = None if services is None else services.catalog.resolve(given)
    if entry is None or entry.server != settings.server:
        return given
    from .publisher import META

    meta = entry.definition.get("_meta")
    about = meta.get(META) if isinstance(meta, Mapping) else None
    return str(about["id"]) if isinstance(about, Mapping) and "id" in about else given


def _wrong(capability: Capability, task: CapabilityRun, *, values: bool) -> Failure | None:
    """What is wrong with the inputs of ``task``; with ``values`` also with their kinds.

    Results of tasks that it waits for are handed over, too: it need not take them.
    """
    given = _taken(capability, task)
    if values:
        wrong = problems(capability.inputs, given)
    else:
        wrong = name_problems(capability.inputs, {**given, **dict.fromkeys(_known(capability, task.depends_on))})
    if not wrong:
        return None
    return Failure(
        INVALID_INPUTS, f"Capability {capability.name}: {'; '.join(wrong)}. It takes: {takes(capability)}. Nothing ran."
    )


def _known(capability: Capability, names: Iterable[str]) -> list[str]:
    return [name for name in names if name in properties(capability.inputs)]


def _taken(capability: Capability, task: CapabilityRun) -> dict[str, Any]:
    known = _known(capability, task.inputs)
    return {name: value for name, value in task.inputs.items() if name in known or name not in task.depends_on}


def _ended(task: CapabilityRun, started_at: datetime, code: Outcome) -> Outcome:
    duration_ms = round((datetime.now(UTC) - started_at).total_seconds() * 1000)
    return replace(code, task_id=task.id, started_at=started_at, duration_ms=max(0, duration_ms))
