"""One request for a page, by somebody who is logged in, and what all pages share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, Response

from pml_kit.shared.lease import Leases

from .insight.list_tokens import TokenSizes
from .sessions import Sessions
from .templates import Templates

if TYPE_CHECKING:
    from starlette.requests import Request

    from pml_hookspecs import Services, Session

    from .history import History
    from .sessions import BrowserSession
    from .settings import Settings

FORM_BYTES = 1_000_000
CLIENT = "console"
"""Whom the history names for what people do here."""
SYSTEM, OPERATE = "system", "operate"
"""Scopes of keys: to see everything, and to change what operators change."""


@dataclass(slots=True)
class Site:
    """What is there once for all pages of a gateway."""

    services: Services
    settings: Settings
    sessions: Sessions = field(init=False)
    templates: Templates = field(default_factory=Templates)
    sizes: TokenSizes = field(default_factory=TokenSizes)
    leases: Leases = field(default_factory=Leases)
    """Of the other gateways on this store."""

    def __post_init__(self) -> None:
        self.sessions = Sessions(self.settings)

    def page(self, name: str, status: int = 200, **values: Any) -> Response:
        """A page for somebody who is not logged in."""
        return HTMLResponse(self.templates.render(name, **values), status)


@dataclass(frozen=True, slots=True)
class Visit:
    """One request for a page, by somebody who is logged in."""

    site: Site
    request: Request
    session: Session
    browser: BrowserSession
    history: History
    form: Mapping[str, str]
    """What was sent with it; empty unless it is a POST."""

    @property
    def sees_everything(self) -> bool:
        """Whether nothing is kept from the reader."""
        return SYSTEM in self.session.scopes

    @property
    def operates(self) -> bool:
        """Whether the reader may change what operators change."""
        return OPERATE in self.session.scopes

    def page(self, name: str, status: int = 200, **values: Any) -> Response:
        """The page made of a template."""
        return HTMLResponse(self.render(name, **values), status)

    def render(self, name: str, **values: Any) -> str:
        """A template with what all pages share."""
        shared = {"principal": self.session.principal, "form_token": self.browser.form_token}
        return self.site.templates.render(name, **shared, **values)


def is_too_long(request: Request) -> bool:
    """Whether a form is longer than :data:`FORM_BYTES`, or does not say how long it is."""
    if request.method != "POST":
        return False
    length = request.headers.get("content-length", "")
    return not length.isdecimal() or len(length) > len(str(FORM_BYTES)) or int(length) > FORM_BYTES


async def form_of(request: Request) -> Mapping[str, str]:
    """The texts of a form; empty where there is none, or it is too long to be one."""
    if request.method != "POST" or is_too_long(request):
        return {}
    form = await request.form(max_files=0)
    return {name: value for name, value in form.items() if isinstance(value, str)}
