"""What an access token says, once it is known that the issuer says so."""

from __future__ import annotations

import hashlib
import math
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Protocol

from pml_hookspecs import UnauthenticatedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .fetch import Fetcher
    from .issuer import Issuer
    from .settings import Settings

NOT_VALID = "The access token is not valid"
EXPIRED = "The access token has expired"
OTHER_ISSUER = "The access token is from another authorization server"
UNKNOWN_KEY = "The access token is signed with a key that the authorization server does not have"
BOUND = "The access token is bound to a key of its client's (DPoP or a certificate), which is not supported here"
TYPES = ("at+jwt", "application/at+jwt", "jwt", "")
"""Of tokens for access, by their headers; others, as for a logout, are for something else."""
LONGEST = 16 * 1024
ASKED_S = 10.0
"""How long it is believed what the authorization server said of a token [s]."""
MOST_REMEMBERED = 4096
OWN_KEYS = "pml_"
"""Begins keys of the gateway's own, which nobody else is asked about."""


class Verifier(Protocol):
    """Says what a token says."""

    async def claims(self, token: str) -> Mapping[str, Any] | None:
        """Its claims, which the issuer made, and which count now; None for what is no such token.

        Raises:
            UnauthenticatedError: It does not count. Says why.
            FetchError: It cannot be known now.
        """
        ...


class SignedTokens:
    """Tokens that are JSON Web Tokens (RFC 9068), signed by the issuer."""

    def __init__(self, issuer: Issuer, settings: Settings) -> None:
        self._issuer, self._settings = issuer, settings

    async def claims(self, token: str) -> Mapping[str, Any] | None:
        """As of every verifier; None for what does not have three parts."""
        if token.count(".") != 2 or not token.isascii():  # noqa: PLR2004 - header, claims, signature
            return None
        import jwt

        algorithm, id = self._header(token)
        key = await self._issuer.key(id, algorithm)
        if key is None:
            raise UnauthenticatedError(UNKNOWN_KEY)
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=self._issuer.url,
                leeway=self._settings.leeway_s,
                options={"require": ["exp", "iss", "aud"], "verify_aud": False, "enforce_minimum_key_length": True},
            )
        except jwt.ExpiredSignatureError:
            raise UnauthenticatedError(EXPIRED) from None
        except jwt.InvalidIssuerError:
            raise UnauthenticatedError(OTHER_ISSUER) from None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            raise UnauthenticatedError(NOT_VALID) from None
        if "cnf" in claims:
            raise UnauthenticatedError(BOUND)
        return claims

    def _header(self, token: str) -> tuple[str, str | None]:
        """Algorithm and key id, which nobody has signed yet: they choose among keys of the issuer's alone."""
        import jwt

        try:
            header = jwt.get_unverified_header(token) if len(token) <= LONGEST else {}
        except jwt.PyJWTError:
            raise UnauthenticatedError(NOT_VALID) from None
        algorithm, type = header.get("alg"), header.get("typ", "")
        if algorithm not in self._settings.algorithms or "crit" in header:
            raise UnauthenticatedError(NOT_VALID)
        if not isinstance(type, str) or type.lower() not in TYPES:
            raise UnauthenticatedError(NOT_VALID)
        return algorithm, header.get("kid")


class IntrospectedTokens:
    """Tokens that the issuer is asked about (RFC 7662). Whatever is no key of the gateway's may be one."""

    def __init__(self, issuer: Issuer, settings: Settings, fetcher: Fetcher) -> None:
        self._issuer, self._settings, self._fetcher = issuer, settings, fetcher
        self._said: OrderedDict[bytes, tuple[float, Mapping[str, Any]]] = OrderedDict()
        """By the hash of the token, which nobody is to find in a dump."""

    async def claims(self, token: str) -> Mapping[str, Any] | None:
        """As of every verifier; None for keys of the gateway's own."""
        if token.startswith(OWN_KEYS):
            return None
        if len(token) > LONGEST:
            raise UnauthenticatedError(NOT_VALID)
        said = await self._introspect(token)
        if said.get("active") is not True:
            raise UnauthenticatedError(f"{NOT_VALID} any more, or never was")
        expires_at, starts_at = _number(said.get("exp")), _number(said.get("nbf", 0))
        now = time.time()
        if expires_at + self._settings.leeway_s <= now:
            raise UnauthenticatedError(EXPIRED)
        if starts_at - self._settings.leeway_s > now:
            raise UnauthenticatedError(NOT_VALID)
        if said.get("iss", self._issuer.url) != self._issuer.url:
            raise UnauthenticatedError(OTHER_ISSUER)
        if "cnf" in said:
            raise UnauthenticatedError(BOUND)
        return said

    async def _introspect(self, token: str) -> Mapping[str, Any]:
        key = hashlib.sha256(token.encode(errors="replace")).digest()
        said_at, said = self._said.get(key, (float("-inf"), {}))
        now = time.monotonic()
        if now - said_at < ASKED_S:
            return said
        endpoint = await self._issuer.endpoint("introspection_endpoint")
        form = {"token": token, "token_type_hint": "access_token"}
        client = (self._settings.client_id, self._settings.client_secret)
        said = await self._fetcher.json(endpoint, form, client)
        self._said[key] = now, said
        self._said.move_to_end(key)
        if len(self._said) > MOST_REMEMBERED:
            self._said.popitem(last=False)
        return said


def _number(value: object) -> float:
    if isinstance(value, (int, float)) and math.isfinite(value):
        return float(value)
    raise UnauthenticatedError(NOT_VALID)
