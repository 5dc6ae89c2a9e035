"""Hook plugin ``results``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import GATEWAY_SERVER, MetaTool, Offer, Run, ToolId, hookimpl
from pml_kit.offers import ANSWERS, RESOURCE_TOOLS, RESULT_VALUES, ResourceTool

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Json, Services, Session
    from pml_kit.references import Reference

    from .storage import StoredResults

settings_type = Settings


def _stored(services: Services) -> StoredResults:
    from .storage import StoredResults

    settings: Settings = services.settings or Settings()
    return StoredResults(
        services.store.documents,
        lambda text: str(services.redact(text)),
        services.catalog,
        keep_hours=settings.keep_hours,
        keep_bytes=settings.keep_bytes,
    )


class StoredValues:
    """Parts of stored results, for arguments of tasks."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def value(self, reference: Reference, session: Session) -> Json:
        """See :class:`pml_kit.offers.ResultValues`; of a text, all of it."""
        from .tool import value_of

        return await value_of(reference, session, _stored(self._services))


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    """What makes previews of large answers, and what gives stored ones to plans and as resources."""
    from .definition import RESOURCE, TEMPLATE
    from .filter import ResultBudget

    settings: Settings = services.settings or Settings()
    budget = ResultBudget(services, settings, lambda: _stored(services))
    tool = ToolId(f"{GATEWAY_SERVER}:{RESOURCE}")
    resources = ResourceTool(template=TEMPLATE, tool=tool, listed=settings.bounds)
    return [
        Offer(ANSWERS, budget),
        Offer(RESULT_VALUES, StoredValues(services)),
        Offer(RESOURCE_TOOLS, resources),
    ]


@hookimpl
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:
    """``read_result``, and what reads resources.

    They are not listed, so that lists stay as they are; a preview says how the first is called.
    """
    from .definition import DEFINITION, RESOURCE_DEFINITION

    settings: Settings = services.settings or Settings()

    async def read(arguments: Mapping[str, Any], run: Run) -> str:
        from .tool import ReadResult

        return await ReadResult(services, settings, _stored(services))(arguments, run)

    async def whole(arguments: Mapping[str, Any], run: Run) -> str:
        from .tool import resource

        return await resource(arguments, run, _stored(services))

    return [
        MetaTool(definition=DEFINITION, call=read, listed=settings.listed, recorded=False),
        MetaTool(definition=RESOURCE_DEFINITION, call=whole, listed=False, recorded=False),
    ]
