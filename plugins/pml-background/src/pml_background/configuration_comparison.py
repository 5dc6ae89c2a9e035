"""Says when gateways on one store are configured differently: each reads files of its own, and nobody else looks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from pml_kit.identifiers import gateway_name

if TYPE_CHECKING:
    from pml_hookspecs import Documents

CONFIGURATIONS = "core.configurations"
"""Collection of documents: digests of each gateway's configuration, section by section."""
KEPT = timedelta(seconds=60)
AGAIN = timedelta(seconds=20)
SECRET = frozenset({"tokens", "token", "bearer", "headers", "env", "url", "password", "key", "secret", "oauth"})
"""Settings of which only names are compared: a digest of what is short could be guessed."""
OWN = frozenset({"peer_url", "path", "log_level", "log_format", "args", "cwd"})
"""Settings that may differ from machine to machine."""


class Configuration(Protocol):
    """What is compared."""

    @property
    def tables(self) -> Mapping[str, Mapping[str, Any]]:
        """Of plugins."""
        ...

    @property
    def servers(self) -> Mapping[str, Any]:
        """By name."""
        ...

    @property
    def gateway(self) -> Any:
        """Of the gateway itself."""
        ...


class ConfigurationComparison:
    """What this gateway has, beside what the others on the store have."""

    def __init__(self, documents: Documents, log: Any) -> None:
        self._documents, self._log = documents, log
        self._written: tuple[Mapping[str, str], datetime] | None = None
        self._told: object = None

    async def look(self, configuration: Configuration) -> None:
        """Write this gateway's down, and log in which sections others differ, whenever that changes.

        Raises:
            Exception: The store's.
        """
        mine, now = sections_of(configuration), datetime.now(UTC)
        if self._written is None or self._written[0] != mine or now - self._written[1] > AGAIN:
            value = {"sections": mine}
            await self._documents.put(CONFIGURATIONS, gateway_name(), value, expires_at=now + KEPT)
            self._written = mine, now
        page = await self._documents.find(CONFIGURATIONS)
        others = [one.value["sections"] for one in page.items if one.key != gateway_name()]
        differing = sorted({name for theirs in others for name in _differing(mine, theirs)})
        alone = bool(others) and _counts_alone(configuration)
        if (told := (differing, alone)) == self._told or (self._told is None and not differing and not alone):
            return
        self._told = told
        if differing:
            self._log.warning(
                "gateways on this store are configured differently; what one refuses another may allow",
                sections=differing,
            )
        else:
            self._log.info("gateways on this store are configured alike")
        if alone:
            self._log.warning(
                "each gateway on this store counts limits by itself; shared = true in [plugins.limits] counts together",
                gateways=len(others) + 1,
            )


def sections_of(configuration: Configuration) -> dict[str, str]:
    """A digest of each section that says something, by its name as files have it; no secret is in one."""
    said = {
        "gateway": msgspec.to_builtins(configuration.gateway, enc_hook=repr),
        **{f"servers.{name}": msgspec.to_builtins(one, enc_hook=repr) for name, one in configuration.servers.items()},
        **{f"plugins.{name}": table for name, table in configuration.tables.items() if table},
    }
    return {name: _digest(_comparable(value)) for name, value in said.items()}


def _comparable(value: Any, *, secret: bool = False) -> Any:
    if isinstance(value, Mapping):
        named = {str(name): one for name, one in value.items() if name not in OWN}
        return {name: _comparable(one, secret=secret or name in SECRET) for name, one in sorted(named.items())}
    if secret:
        return bool(value)
    return [_comparable(one) for one in value] if isinstance(value, (list, tuple)) else value


def _digest(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(value, enc_hook=repr)).hexdigest()[:16]


def _differing(mine: Mapping[str, str], theirs: Mapping[str, str]) -> set[str]:
    return {name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name)}


def _counts_alone(configuration: Configuration) -> bool:
    limits = configuration.tables.get("limits") or {}
    return bool(limits.get("rules")) and not limits.get("shared")
