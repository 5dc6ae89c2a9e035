"""Who comes with which access token. Implements :class:`pml_kit.offers.Identities`, and can be asked again."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from pml_hookspecs import UnauthenticatedError

from .fetch import FetchError
from .issuer import Issuer
from .logins import KEY_PREFIX, Login, login_of
from .tokens import EXPIRED, IntrospectedTokens, SignedTokens

if TYPE_CHECKING:
    from pml_hookspecs import Identity, Scope, Services, Session

    from .fetch import Fetcher
    from .resource import Resource
    from .settings import Settings
    from .tokens import Verifier

LOGINS = "oauth.logins"
"""What other gateways with this store know a login by, for work that they go on with."""
REQUIRED = "An access token or an API key is needed"
OTHER_AUDIENCE = "The access token is for another server"
MOST_REMEMBERED = 4096


class TokenIdentities:
    """Knows the access tokens of one authorization server."""

    def __init__(self, services: Services, settings: Settings, fetcher: Fetcher, resource: Resource) -> None:
        self._services, self._settings, self._resource = services, settings, resource
        issuer = Issuer(settings.issuer, fetcher)
        self._verifier: Verifier = (
            IntrospectedTokens(issuer, settings, fetcher) if settings.introspection else SignedTokens(issuer, settings)
        )
        self._tokens: OrderedDict[str, tuple[float, str]] = OrderedDict()
        """The token of each login that counts for longest, and until when."""

    async def identify(self, token: str | None) -> Identity | None:
        """Whose access token it is; None for what is none.

        Raises:
            UnauthenticatedError: It does not count, or is for another server; or there is none, and one is required.
            FetchError: It cannot be known now.
        """
        if not token:
            if self._settings.required:
                raise UnauthenticatedError(REQUIRED)
            return None
        try:
            claims = await self._verifier.claims(token)
            if claims is None:
                return None
            login = login_of(claims, self._settings)
            if not self._resource.takes(login.audiences):
                raise UnauthenticatedError(OTHER_AUDIENCE)
        except UnauthenticatedError as exc:
            self._services.log.info("an access token was refused", problem=str(exc))
            raise
        except FetchError as exc:
            self._services.log.warning("an access token cannot be verified now", problem=str(exc))
            raise
        self._note(login, token, float(claims["exp"]))
        return login.identity(self._settings)

    async def current(self, session: Session) -> Identity | None:
        """What the login of ``session`` may do now; None for what is none.

        The token itself is asked for again where this gateway has it; elsewhere its login counts until its end.

        Raises:
            UnauthenticatedError: It has ended.
            FetchError: It cannot be known now.
        """
        key = session.access_key
        if not key.startswith(KEY_PREFIX):
            return None
        if key in self._tokens:
            return await self.identify(self._tokens[key][1])
        document = await self._services.store.documents.get(LOGINS, key)
        if document is None:
            raise UnauthenticatedError("There is no such login any more")
        about: dict[str, Any] = dict(document.value)
        if about.pop("expires_at") + self._settings.leeway_s <= time.time():
            raise UnauthenticatedError(EXPIRED)
        about |= {name: tuple(about[name]) for name in ("values", "audiences")}
        login = Login(**about)
        if login.issuer != self._settings.issuer or not self._resource.takes(login.audiences):
            raise UnauthenticatedError("The login is from another authorization server, or for another gateway")
        return login.identity(self._settings)

    async def scope(self, session: Session, *, results: bool) -> Scope | None:
        """None: a login sees its principal's executions, as everybody does of whom no more is known."""
        return None

    def _note(self, login: Login, token: str, expires_at: float) -> None:
        key = login.key
        self._resource.note(key, login)
        if expires_at > self._tokens.get(key, (0.0, ""))[0]:
            self._tokens[key] = expires_at, token
            about = {name: getattr(login, name) for name in ("issuer", "principal", "client", "values", "audiences")}
            self._services.store.documents.put_soon(LOGINS, key, {**about, "expires_at": expires_at})
        self._tokens.move_to_end(key)
        if len(self._tokens) > MOST_REMEMBERED:
            self._tokens.popitem(last=False)
