"""Settings of the HTTP transport: of its client, and of its listener."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from pml_hookspecs import setting

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One of ``tokens`` that says more than who it stands for."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    token: str = setting("", "What clients present; there is no key without one.", secret=True)
    principal: str = setting("", "Whom it stands for; the key's name if empty. Several keys may stand for one.")
    tools_exposure: str = setting("", "Exposure mode of its clients; the endpoint's if empty.")
    intent: str = setting("", "Hint at what its clients do, for modes that select by it; the endpoint's if empty.")
    execution_mode: Literal["", "real", "dry_run"] = setting(
        "", "What its clients' calls do that do not say themselves; as at the endpoint if empty."
    )
    dry_run_only: bool = setting(False, "Rehearse everything that comes with it: no call or plan can ask for more.")
    scopes: tuple[str, ...] = setting((), "What plugins may tell its clients apart by.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``[plugins.http]``."""

    # The client: servers that the gateway uses.
    connect_timeout_s: float = setting(
        10.0, "Longest for opening a connection to a server; a request's own time limit counts as well [s].", ge=0.1
    )
    max_connections: int = setting(
        256, "Most requests on their way to one server at a time; further ones wait in order.", ge=4
    )
    max_message_bytes: int = setting(
        256 * MIB, "Longest message taken from a server; a longer one fails its request [bytes].", ge=MIB
    )
    keyring: bool = setting(
        True,
        "Keep the key that logins are encrypted with in the system's keyring, where there is one (extra `keyring`).",
        project="never",
    )

    key_file: str = setting(
        "",
        "File with the keys that logins are encrypted with, for nobody else to read. Empty: the system's "
        "keyring where there is one (see `keyring`), or else login.key in the folder PML_HOME, or in ~/.pml.",
        project="never",
    )

    # The listener: clients that use the gateway.
    public_url: str = setting(
        "",
        "Address at which people's browsers reach the listener, such as `https://gateway.example`, for pages at which "
        "they log in to servers; the bound address if empty.",
        project="never",
    )
    tokens: dict[str, str | Key] = setting(
        dict,
        "Bearer tokens that clients may present, by the principal each stands for; or tables with more about each.",
        secret=True,
        project="never",
    )
    allowed_hosts: tuple[str, ...] = setting(
        (),
        "Host headers to accept besides those of the bound address, such as `gateway.example:8808`.",
        project="never",
    )
    allowed_origins: tuple[str, ...] = setting(
        (), "Origins of web pages that may call the gateway, such as `https://app.example`.", project="never"
    )
    peer_url: str = setting(
        "",
        "Where other gateways on the store reach this one, `http://HOST:PORT`; the bound address if empty, and for "
        "`0.0.0.0` the machine's own.",
        project="never",
    )
    session_idle_s: float = setting(
        1800.0, "Time after which a session without requests and streams is ended [s].", ge=1
    )
    max_sessions: int = setting(
        1000, "Most sessions at a time; above it, one that is idle makes way, of the same principal first.", ge=1
    )
    max_sessions_per_principal: int = setting(
        100,
        "Most of one principal, or of an address where nobody needs a key; its own that are idle make way for more.",
        ge=1,
    )
    max_requests_per_principal: int = setting(
        256, "Most requests and streams of one principal at a time; further ones are refused with 429.", ge=1
    )
    max_body_bytes_per_principal: int = setting(
        256 * MIB, "Most that the bodies of one principal's requests take until they are answered [bytes].", ge=1024
    )
    replay_bytes: int = setting(
        4 * MIB,
        "Events kept for each session, for a client that lost its connection; the newest one always is [bytes].",
        ge=0,
    )
    max_body_bytes: int = setting(64 * MIB, "Longest request body taken from a client [bytes].", ge=1024)
    body_timeout_s: float = setting(
        30.0,
        "Longest for a request's body to arrive; each 16 KiB of it give another second, up to this from then on [s].",
        ge=0.1,
    )
    max_header_bytes: int = setting(
        64 * 1024, "Longest head of a request taken from a client: its target and all headers [bytes].", ge=1024
    )
    max_headers: int = setting(256, "Most headers of a request taken from a client.", ge=8)
    header_timeout_s: float = setting(
        10.0, "Longest for a request's head to arrive, from its first byte, or from the connection on [s].", ge=0.1
    )
    max_client_connections: int = setting(
        1000,
        "Most connections of clients; never more than three quarters of the files that the process may open.",
        ge=1,
    )
    max_client_connections_per_address: int = setting(
        500, "Most of them from one address (IPv6: network of 64 bits); `trusted_proxies` may have all.", ge=1
    )
    trusted_proxies: tuple[str, ...] = setting(
        (),
        "Addresses and networks of reverse proxies: their X-Forwarded-For is believed to name the client.",
    )
    keep_alive_s: float = setting(
        620.0,
        "How long a connection is kept for the next request; longer than the load balancer's and clients' own [s].",
        ge=1,
    )
    metrics_networks: tuple[str, ...] = setting(
        (),
        "Addresses and networks that may read /metrics without a key; never a reverse proxy's.",
        project="never",
    )
    drain_s: float = setting(5.0, "Time that requests get to end when the gateway stops [s].", ge=0)
