"""What is legal in a configuration, but hardly meant: in general, and by what plugins say of their settings."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pml_clients.client_configs import references
from pml_clients.client_server import is_of_kind
from pml_kit.offers import View

from .config import DEFAULT_ENDPOINT, Config


@runtime_checkable
class SettingsWarnings(Protocol):
    """A driver's class, or a hook plugin, that says what is hardly meant in its settings."""

    def settings_warnings(self, settings: Any, views: Sequence[View], servers: Collection[str]) -> Iterable[str]:
        """One sentence each, with the path of the setting before it and what to do at its end.

        Args:
            settings: The plugin's, which fit.
            views: What each endpoint shows, the default one first.
            servers: Names of those that are configured and enabled.
        """
        ...


class NamedPlugin(Protocol):
    """Which plugin something is, as a record of what is installed tells."""

    name: str
    dist: str
    guard: bool

    @property
    def label(self) -> str:
        """How messages call it."""
        ...


def config_warnings(config: Config, plugins: Iterable[tuple[NamedPlugin, Any]], views: Sequence[View]) -> list[str]:
    """One sentence each, with what to do; empty when all looks meant.

    Args:
        config: One that fits.
        plugins: Those that may have something to say, loaded.
        views: What each endpoint shows, the default one first.
    """
    servers = {name for name, server in config.servers.items() if server.enabled}
    found = [] if servers else [
        "No servers are configured, or all are disabled: clients find no tools. pml import takes over a client's."
    ]  # fmt: skip
    found += _of_secrets(config)
    for record, plugin in plugins:
        blocked = not {record.name, record.dist}.isdisjoint(config.gateway.block)
        if not blocked and isinstance(plugin, SettingsWarnings):
            found += _of_plugin(config, record, plugin, views, servers)
    return list(dict.fromkeys(found))


def warnings_of_mode(config: Config, plugins: Iterable[tuple[NamedPlugin, Any]], mode: str) -> list[str]:
    """What is doubtful about ``mode`` as that of all clients, with what else is configured."""
    found = config_warnings(config, plugins, [View(DEFAULT_ENDPOINT, mode, config.gateway.intent)])
    return [line for line in found if line.startswith("gateway.")]


def _of_secrets(config: Config) -> Iterator[str]:
    """What of secrets others can see: files that they may read, and what stands in the list of processes."""
    named = {name for source in config.sources for name in references(source.tree) if name.startswith("file:")}
    paths = {str(Path(name.removeprefix("file:")).expanduser()) for name in named}
    for path in sorted(paths | {server.env_file for server in config.servers.values()} - {""}):
        try:
            mode = stat.S_IMODE(Path(path).stat().st_mode)
        except (OSError, ValueError):  # it is told when something is to be read there
            continue
        if os.name == "posix" and mode & (stat.S_IRGRP | stat.S_IROTH):
            yield f"{path} has secrets and other users may read it (mode {mode:04o}): chmod 600 {path}"
    for name, server in config.servers.items():
        if seen := sorted(set(filter(is_of_kind, references([server.command, server.args])))):
            yield (
                f"servers.{name}.args: everybody on this machine sees in the list of processes what "
                f"{', '.join(seen)} stands for; give it to the program in env"
            )


def _of_plugin(
    config: Config, record: NamedPlugin, plugin: SettingsWarnings, views: Sequence[View], servers: Collection[str]
) -> list[str]:
    settings_type, fallback = getattr(plugin, "settings_type", None), getattr(plugin, "settings_fallback", "")
    settings = config.plugin(record.name, settings_type, fallback, guard=record.guard)
    try:
        return [str(line) for line in plugin.settings_warnings(settings, views, servers)]
    except Exception as exc:
        return [f"{record.label} cannot say what is doubtful in its settings: {type(exc).__name__}: {exc}"]
