"""What PML's own plugins, and its core, offer one another: protocols, values, and the key of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pml_hookspecs import Key, Services, Session

from .access import (
    ACCESS,
    ACCESS_WATCHERS,
    IDENTITIES,
    PROTECTED_RESOURCE,
    Access,
    AccessEvent,
    AccessWatcher,
    CurrentKeys,
    Identities,
    KnownKeys,
    MissingScopeError,
    OpenRoute,
    ProtectedResource,
)
from .answers import (
    ANSWERS,
    RESOURCE_TOOLS,
    RESULT_VALUES,
    SELECTORS,
    AnswerFilter,
    AnswerSelector,
    ResourceTool,
    ResultValues,
    stored_values,
)
from .guides import API_DESCRIPTIONS, GUIDES, ApiDescriber, ApiDescription, Guide
from .indirect_calls import INDIRECT_CALLS, IndirectCalls
from .plans import SUGGESTER, Suggester, Suggestion
from .presentation import (
    DEFINITIONS,
    PHRASES,
    PRESENTATION,
    DefinitionFilter,
    PhraseSource,
    Presentation,
    PresentedTool,
    WordFilter,
)
from .recorded_answers import RECORDED_ANSWERS, RecordedAnswers, RecordedTool
from .search import EMBEDDER, SEARCH, Embedder, ScoreExplainer, SearchIndex
from .static_checks import FLOWS, STATIC_CHECKS, Asker, Checker, Flows, Judge, StaticChecks, Verdict
from .telemetry import (
    LOG_EXPORT,
    METRICS_PAGE,
    READINESS,
    READINESS_CHECKS,
    LogExport,
    LogRecord,
    MetricsPage,
    Readiness,
    ReadinessCheck,
    ReadinessPart,
)
from .tool_names import TOOL_NAMES, NamedTools, ToolNames
from .tool_notes import TOOL_NOTES, ToolNote, ToolNotes, note_of
from .views import (
    CONNECTIONS,
    REVIEW,
    VIEWS,
    ClientConnection,
    Connections,
    HeldDefinition,
    Listing,
    Review,
    View,
    Views,
    Words,
)

T = TypeVar("T")
OF_PLUGINS: frozenset[Key[Any]] = frozenset(
    {
        ACCESS_WATCHERS,
        ANSWERS,
        API_DESCRIPTIONS,
        DEFINITIONS,
        EMBEDDER,
        FLOWS,
        GUIDES,
        IDENTITIES,
        INDIRECT_CALLS,
        LOG_EXPORT,
        METRICS_PAGE,
        PHRASES,
        PRESENTATION,
        PROTECTED_RESOURCE,
        READINESS_CHECKS,
        RECORDED_ANSWERS,
        RESOURCE_TOOLS,
        RESULT_VALUES,
        SEARCH,
        SELECTORS,
        SUGGESTER,
        TOOL_NAMES,
        TOOL_NOTES,
    }
)
"""What plugins offer: a choice between those who offer one is known even where nobody does."""


def required(services: Services, key: Key[T]) -> T:
    """What is offered under ``key``, which the gateway itself offers wherever plugins run.

    Raises:
        LookupError: It is not there, or several plugins offer one and none is chosen.
    """
    found = services.find(key)
    if found is None:
        raise LookupError(f"there is no {key.name!r} for plugin {services.plugin!r}; see [gateway.providers]")
    return found


async def report_change(
    services: Services, target: str, code: str, details: Mapping[str, Any], session: Session | None = None
) -> None:
    """Tell whoever watches access that something is about to be changed, or was.

    Args:
        services: Of the plugin that changes it.
        target: What is changed, such as ``schedules``.
        code: Which change it is, such as ``schedule.removed``: an audit lists it under this word.
        details: More about it, as JSON; no secret.
        session: Who asked for it; None for whoever runs this process.
    """
    event = AccessEvent(kind="change", target=target, session=session, code=code, details=details)
    await required(services, ACCESS).report(event)


__all__ = [
    "ACCESS",
    "ACCESS_WATCHERS",
    "ANSWERS",
    "API_DESCRIPTIONS",
    "CONNECTIONS",
    "DEFINITIONS",
    "EMBEDDER",
    "FLOWS",
    "GUIDES",
    "IDENTITIES",
    "INDIRECT_CALLS",
    "LOG_EXPORT",
    "METRICS_PAGE",
    "OF_PLUGINS",
    "PHRASES",
    "PRESENTATION",
    "PROTECTED_RESOURCE",
    "READINESS",
    "READINESS_CHECKS",
    "RECORDED_ANSWERS",
    "RESOURCE_TOOLS",
    "RESULT_VALUES",
    "REVIEW",
    "SEARCH",
    "SELECTORS",
    "STATIC_CHECKS",
    "SUGGESTER",
    "TOOL_NAMES",
    "TOOL_NOTES",
    "VIEWS",
    "Access",
    "AccessEvent",
    "AccessWatcher",
    "AnswerFilter",
    "AnswerSelector",
    "ApiDescriber",
    "ApiDescription",
    "Asker",
    "Checker",
    "ClientConnection",
    "Connections",
    "CurrentKeys",
    "DefinitionFilter",
    "Embedder",
    "Flows",
    "Guide",
    "HeldDefinition",
    "Identities",
    "IndirectCalls",
    "Judge",
    "KnownKeys",
    "Listing",
    "LogExport",
    "LogRecord",
    "MetricsPage",
    "MissingScopeError",
    "NamedTools",
    "OpenRoute",
    "PhraseSource",
    "Presentation",
    "PresentedTool",
    "ProtectedResource",
    "Readiness",
    "ReadinessCheck",
    "ReadinessPart",
    "RecordedAnswers",
    "RecordedTool",
    "ResourceTool",
    "ResultValues",
    "Review",
    "ScoreExplainer",
    "SearchIndex",
    "StaticChecks",
    "Suggester",
    "Suggestion",
    "ToolNames",
    "ToolNote",
    "ToolNotes",
    "Verdict",
    "View",
    "Views",
    "WordFilter",
    "Words",
    "note_of",
    "report_change",
    "required",
    "stored_values",
]
