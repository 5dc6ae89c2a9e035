"""``[plugins.oauth]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias
from urllib.parse import urlsplit

from pml_hookspecs import setting

Algorithm: TypeAlias = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signatures that are made with a key that only the authorization server has; none is made with a shared secret."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What a value of the claim stands for. Of several that a token has, what is allowed and what is denied adds up."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    allow: tuple[str, ...] = setting((), "Patterns of tools that it allows, as of keys; none if empty.")
    deny: tuple[str, ...] = setting((), "Patterns of tools that it denies, whatever is allowed.")
    scopes: tuple[str, ...] = setting((), "Scopes of the gateway that it gives, such as `approve` or `system`.")
    tools_exposure: str = setting("", "Exposure mode; the endpoint's if empty. The first that says one counts.")
    intent: str = setting("", "Hint at what its holders do; the endpoint's if empty. The first that says one counts.")
    execution_mode: Literal["", "real", "dry_run"] = setting(
        "", "What calls do that do not say themselves; as at the endpoint if empty. The first that says one counts."
    )
    dry_run_only: bool = setting(False, "Rehearse everything, whatever else the token has.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Whose tokens count, and for what."""

    issuer: str = setting(
        "",
        "The authorization server, as its tokens and its metadata name it; without one nothing is on.",
        project="never",
    )
    url: str = setting(
        "", "How clients reach the gateway, without a path, such as `https://gateway.example`.", project="never"
    )
    audiences: tuple[str, ...] = setting(
        (), "Audiences to accept besides the gateway's own addresses, for all endpoints.", project="never"
    )
    claim: str = setting(
        "scope", "The claim that rights follow from: `scope`, `groups`, `realm_access.roles`.", project="never"
    )
    principal_claim: str = setting(
        "sub", "The claim that says who it is; has to be unique and lasting.", project="never"
    )
    rights: dict[str, Rights] = setting(
        dict, "What each value of the claim allows; values that are not named here allow nothing.", project="never"
    )
    scopes: tuple[str, ...] = setting((), "Scopes that clients are told to ask for when they log in.", project="never")
    required: bool = setting(True, "Let nobody in without a token or a key, on stdio either.", project="never")
    algorithms: tuple[Algorithm, ...] = setting(
        ("RS256", "PS256", "ES256", "EdDSA"), "Signatures to accept.", project="never"
    )
    leeway_s: float = setting(
        30.0, "How far the authorization server's clock may be off [s].", ge=0, le=300, project="never"
    )
    introspection: bool = setting(
        False, "Ask the authorization server about each token, instead of verifying its signature.", project="never"
    )
    client_id: str = setting("", "Whom the gateway is known as there, to ask about tokens.", project="never")
    client_secret: str = setting("", "With what it proves that.", secret=True, project="never")

    def __post_init__(self) -> None:
        """Refuse what is not complete, or not safe.

        Raises:
            ValueError: It says what is wrong.
        """
        if not self.issuer:
            return
        check_url(self.issuer, "issuer")
        check_url(self.url, "url")
        if urlsplit(self.url).path.strip("/"):
            raise ValueError(
                f"url has no path, such as https://gateway.example, not {self.url!r}; MCP is at /mcp there"
            )
        if not self.algorithms:
            raise ValueError("algorithms has to name one, such as RS256")
        if self.introspection and not (self.client_id and self.client_secret):
            raise ValueError("introspection needs client_id and client_secret: the gateway's own at the issuer")

    @property
    def base(self) -> str:
        """The gateway's address, without a slash at its end."""
        return self.url.rstrip("/")


def check_url(url: str, name: str) -> None:
    """See that what is fetched from ``url`` comes from whom it names.

    Raises:
        ValueError: It is no address, or somebody on the way could change what comes from there.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    if not host or parts.query or parts.fragment or parts.username is not None:
        raise ValueError(f"{name} has to be an address such as https://login.example, not {url!r}")
    if parts.scheme != "https" and not (parts.scheme == "http" and host in LOOPBACK):
        raise ValueError(f"{name} has to begin with https://, not {url!r}; http:// only on this machine")
