"""Hook plugin ``approvals``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pml_hookspecs import MetaTool, Offer, SharedRoute, hookimpl
from pml_kit.errors import is_missing
from pml_kit.offers import API_DESCRIPTIONS

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services, Wrapper
    from pml_kit.offers import ApiDescription

settings_type = Settings


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    """The wrapper that holds tasks back."""
    from .wrapper import Approvals

    return [Approvals(services, services.settings or Settings())]


@hookimpl
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:
    """``answer_approval`` and ``list_approvals``, for callers with the scope ``approve``."""
    from .tool import DEFINITION, LIST_DEFINITION, AnswerApproval, ListApprovals

    return [
        MetaTool(definition=DEFINITION, call=AnswerApproval(services), listed=False),
        MetaTool(definition=LIST_DEFINITION, call=ListApprovals(services), listed=False, recorded=False),
    ]


@hookimpl
def pml_routes(services: Services) -> Iterable[SharedRoute]:
    """``/api/approvals``; nothing where Starlette, which the HTTP transport brings, is not installed."""
    try:
        from .api import routes
    except ModuleNotFoundError as exc:
        if not is_missing(exc, "starlette"):
            raise
        return ()
    return map(SharedRoute, routes(services))


@hookimpl
def pml_offers() -> Iterable[Offer[Any]]:
    """What the document of the routes says of them."""
    return [Offer(API_DESCRIPTIONS, _described)]


def _described() -> ApiDescription:
    from .openapi import description

    return description()


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml approvals``."""
    from .command import add

    add(subcommands)
