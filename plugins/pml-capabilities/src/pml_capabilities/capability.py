"""What is kept of a piece of code that worked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pml_hookspecs import replace

from .normalization import whole_ms

if TYPE_CHECKING:
    from pml_hookspecs import ToolId

    from .settings import Settings

MOST_INTENTS = 5
MOST_FAILED_WITH = 16
FORGIVEN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessfulRun:
    """One run of code that ended well, to learn from."""

    id: str
    """See :func:`pml_capabilities.normalization.identity`."""
    code: str
    language: str
    program: bool
    intent: str
    principal: str
    duration_ms: int
    tools: Mapping[ToolId, str]
    """The tools it called, each with the digest of its definition at that time."""
    inputs: Mapping[str, Any]
    """Schema of what it was given."""
    owner: str = ""
    """Whose what is learned will be; ``""`` where it is everybody's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """Code that worked, what it was for, what it used, and how it has done since."""

    id: str
    name: str
    """The name of the capability as a tool."""
    code: str
    language: str
    program: bool
    intents: tuple[str, ...]
    """In their callers' words, the first one first."""
    tools: Mapping[ToolId, str]
    """Those used in any run, by the digest of the definition that they had when last used."""
    inputs: Mapping[str, Any]
    """JSON Schema."""
    principals: frozenset[str]
    """The principals whose code it was learned from."""
    successes: int = 1
    failures: int = 0
    total_ms: int = 0
    """Duration of all runs that ended well together [ms]."""
    first: str = ""
    """The code as it was learned first; :attr:`code` has inputs in place of some literals. ``""`` when it has none."""
    lifted: tuple[int, ...] = ()
    """Which of its literals those are, by their order."""
    failed_with: tuple[str, ...] = ()
    """Digests of the inputs with which it failed last."""
    vouched: bool = False
    """Whether an operator took it over as proven."""
    disabled: bool = False
    """Whether an operator switched it off; learning does not change that."""
    source: str = ""
    """Where it was imported from, in words; ``""`` for what was learned here."""
    retired: str = ""
    """Why it is not run any more; ``""`` while it is."""
    version: int = field(default=0, compare=False)
    """Version of the document; 0 before it is stored."""

    @property
    def intent(self) -> str:
        """What it is for."""
        return self.intents[0]

    @property
    def duration_ms(self) -> int:
        """Mean of the runs that ended well, whole [ms]."""
        return whole_ms(self.total_ms / self.successes) if self.successes else 0

    @property
    def owner(self) -> str:
        """Who alone taught it; ``""`` when several did."""
        return next(iter(self.principals)) if len(self.principals) == 1 else ""

    @property
    def runs(self) -> int:
        """All that ended, well or not."""
        return self.successes + self.failures

    def visible(self, principal: str, settings: Settings) -> bool:
        """Whether ``principal`` may know of it; of what several taught while it was shared, no one alone."""
        return settings.shared or (bool(principal) and self.owner == principal)

    def proven(self, settings: Settings) -> bool:
        """Whether it has ended well often enough. One failure takes nothing away: it may be that of an argument."""
        return (
            not self.retired
            and not self.disabled
            and (self.vouched or self.successes >= settings.proven_after)
            and (self.failures <= FORGIVEN or self.successes >= settings.least_success * self.runs)
        )


def learned(before: Capability | None, lesson: SuccessfulRun, name: str) -> Capability:
    """What is known after ``lesson``. With other tools than before, or retired, it has to prove itself again."""
    from .generalization import Generalization, widened

    if before is None or before.retired or _others(before.tools, lesson.tools):
        return Capability(
            id=lesson.id,
            name=name if before is None else before.name,
            code=lesson.code,
            language=lesson.language,
            program=lesson.program,
            intents=_with(() if before is None else before.intents, lesson.intent),
            tools=dict(lesson.tools),
            inputs=lesson.inputs,
            principals=frozenset({lesson.principal}) | (frozenset() if before is None else before.principals),
            total_ms=lesson.duration_ms,
            disabled=before is not None and before.disabled,
        )
    first = before.first or before.code
    general = Generalization(before.code, before.lifted, before.inputs)
    now = widened(before.language, first, general, lesson.code, lesson.inputs)
    return replace(
        before,
        code=now.code,
        first=first if now.lifted else "",
        lifted=now.lifted,
        intents=_with(before.intents, lesson.intent),
        tools={**before.tools, **lesson.tools},
        inputs=now.inputs,
        principals=before.principals | {lesson.principal},
        successes=before.successes + 1,
        total_ms=before.total_ms + lesson.duration_ms,
    )


def _others(before: Mapping[ToolId, str], now: Mapping[ToolId, str]) -> bool:
    """Whether a tool's definition is another than before."""
    return any(before.get(tool, digest) != digest for tool, digest in now.items())


def counted(before: Capability, *, success: bool, duration_ms: int, given: str = "") -> Capability:
    """After one more run. What fails again with what it failed with before, by its digest ``given``, is one failure."""
    if success:
        return replace(before, successes=before.successes + 1, total_ms=before.total_ms + duration_ms)
    if given and given in before.failed_with:
        return before
    failed_with = (*before.failed_with, given)[-MOST_FAILED_WITH:] if given else before.failed_with
    return replace(before, failures=before.failures + 1, failed_with=failed_with)


def _with(intents: tuple[str, ...], intent: str) -> tuple[str, ...]:
    return intents if intent in intents else (*intents, intent)[:MOST_INTENTS]


def to_value(capability: Capability) -> dict[str, Any]:
    """As a document of the store."""
    return {
        "code": capability.code,
        "language": capability.language,
        "program": capability.program,
        "intent": capability.intent,
        "intents": list(capability.intents),
        "name": capability.name,
        "duration_ms": capability.duration_ms,
        "success": True,
        "tools_used": sorted(capability.tools),
        "definitions": dict(capability.tools),
        "inputs": dict(capability.inputs),
        "principals": sorted(capability.principals),
        "successes": capability.successes,
        "failures": capability.failures,
        "total_ms": capability.total_ms,
        "retired": capability.retired,
        "first": capability.first,
        "lifted": list(capability.lifted),
        "failed_with": list(capability.failed_with),
        "vouched": capability.vouched,
        "disabled": capability.disabled,
        "source": capability.source,
    }


def from_value(id: str, value: Mapping[str, Any], version: int = 0) -> Capability:
    """The inverse of :func:`to_value`.

    Raises:
        KeyError: It is not one.
    """
    return Capability(
        id=id,
        name=value["name"],
        code=value["code"],
        language=value["language"],
        program=value["program"],
        intents=tuple(value["intents"]),
        tools=dict(value["definitions"]),
        inputs=value["inputs"],
        principals=frozenset(value["principals"]),
        successes=value["successes"],
        failures=value["failures"],
        total_ms=value["total_ms"],
        retired=value["retired"],
        # Documents of before have none of these.
        first=value.get("first", ""),
        lifted=tuple(value.get("lifted", ())),
        failed_with=tuple(value.get("failed_with", ())),
        vouched=value.get("vouched", False),
        disabled=value.get("disabled", False),
        source=value.get("source", ""),
        version=version,
    )
