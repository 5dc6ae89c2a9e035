"""The configuration: where it comes from, what it may say, what it came to.

Reading is done here with the standard library. Validation is pydantic's, in :mod:`pml_settings.validation`, and
is imported only when a source says something that needs it: a gateway that takes a client's ``mcpServers`` file as it
is, with defaults for the rest, does not pay for it at start-up.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pml_catalog.exposure import DEFAULT_ENDPOINT
from pml_clients import client_configs
from pml_clients.configuration import trust
from pml_clients.configuration.files import SECTIONS, Source, parse_override
from pml_clients.configuration.view import source_of
from pml_clients.trees import at
from pml_kit.errors import OperatorError
from pml_kit.order import near
from pml_kit.system.redaction import Redactor
from pml_mcp.server_settings import ServerSettings

from . import packs, project_rules, server_values
from .config_tables import (
    ENVIRONMENT_PREFIX,
    EndpointSettings,
    GatewaySettings,
    make_server,
    normalise,
)

if TYPE_CHECKING:
    from pml_catalog.exposure.exposures import ExposureSettings

__all__ = [
    "DEFAULT_ENDPOINT", "ENVIRONMENT_PREFIX", "Config", "EndpointSettings", "GatewaySettings", "ServerSettings",
    "Source", "declared_secrets", "load", "make_server", "normalise",
]  # fmt: skip

S = TypeVar("S")
LOCK = "pml.lock"
"""What people took of servers' tools."""


@dataclass(frozen=True, slots=True)
class Config:
    """What all sources together came to."""

    gateway: GatewaySettings
    servers: Mapping[str, ServerSettings]
    tables: Mapping[str, Mapping[str, Any]]
    """``[plugins.<name>]`` as merged from all sources, not validated yet: that takes the plugin."""
    sources: tuple[Source, ...]
    """First wins."""
    notes: tuple[str, ...] = ()
    """What was ignored, for the log."""
    endpoints: Mapping[str, EndpointSettings] = field(default_factory=dict)
    """Further ways in besides the one that ``[gateway]`` describes, which is called ``default``."""
    ignored: Mapping[Path, str] = field(default_factory=dict)
    """Projects' files that the user has not agreed to, and what to do about each."""
    refused: tuple[str, ...] = ()
    """What trusted projects' files say and may not, outside of the tables of plugins."""
    runs: Mapping[str, str] = field(default_factory=dict)
    """Digests of the files of Python that projects' files name, by absolute path: nothing else is run of them."""

    packs: Mapping[str, str] = field(default_factory=dict)
    """Fields of ``[gateway]`` that no source sets, to the pack whose default they have."""
    values: server_values.Values = field(default_factory=lambda: server_values.Values(os.environ), compare=False)
    """What references in the tables of plugins stand for, each looked for once."""

    def plugin(
        self, name: str, settings_type: type[S] | None, fallback: str = "", *, guard: bool = False
    ) -> S | None:  # fmt: skip
        """The settings of one plugin; None when it has none.

        Args:
            settings_type: A frozen dataclass made with :func:`pml_hookspecs.setting`.
            fallback: Another plugin's table that gives the fields this one does not set.
            guard: It is one: a project's file has no say where a setting does not declare it.

        Raises:
            OperatorError: The table does not fit; every mistake is named with its source.
        """
        if settings_type is None:
            if self.tables.get(name):
                raise OperatorError(
                    f"plugins.{name} ({self.says(f'plugins.{name}')}): this plugin has no settings", "Remove the table"
                )
            return None
        return self._shared(name, settings_type, fallback, guard=guard)[0]

    def dropped(self, name: str, settings_type: type[Any], fallback: str = "", *, guard: bool = False) -> list[str]:
        """One sentence for each setting of a plugin that a project's file sets and that does not count."""
        reasons = self._shared(name, settings_type, fallback, guard=guard)[1]
        return [f"plugins.{name}.{key} of a project's file does not count: {why}" for key, why in reasons.items()]

    def _shared(
        self, name: str, settings_type: type[S], fallback: str, *, guard: bool
    ) -> tuple[S, dict[str, str]]:  # fmt: skip
        known = {f.name for f in fields(settings_type)}  # type: ignore[arg-type]
        own, project = project_rules.shares(self.sources, self.tables, (fallback, name), known)
        settings = self._settings(name, settings_type, own)
        if not project:
            return settings, {}
        theirs = self._settings(name, settings_type, project)
        return project_rules.together(settings, own, theirs, project, guard=guard)

    def _settings(self, name: str, settings_type: type[S], table: Mapping[str, Any]) -> S:
        missing: list[str] = []
        written, table = table, client_configs.expand_all(table, self.values, missing)
        if missing:
            where = f"plugins.{name} ({self.says(f'plugins.{name}')})"
            raise OperatorError(self.values.why_missing(missing, where), "Set it, or write the value itself")
        declared = fields(settings_type)  # type: ignore[arg-type]
        if not table and all(f.default is not MISSING or f.default_factory is not MISSING for f in declared):
            return settings_type()
        from .validation import validate_table

        try:
            return validate_table(settings_type, table, name, self.sources)
        except OperatorError as exc:  # a plugin's own words may quote what is wrong
            redactor = Redactor()
            redactor.learn(self.values[one] for one in client_configs.references(written) if one in self.values)
            raise OperatorError(redactor.text(exc.message), exc.remedy) from exc

    def says(self, path: str | Sequence[str]) -> str | None:
        """Label of the source that sets ``path``, dotted or in parts; None when it is a default."""
        parts = path.split(".") if isinstance(path, str) else path
        return source_of(self.sources, parts)

    def origin(self, path: str | Sequence[str]) -> str:
        """As :meth:`says`; of a default, whose it is."""
        section, _, name = (path if isinstance(path, str) else ".".join(path)).partition(".")
        pack = self.packs.get(name) if section == "gateway" else None
        return self.says(path) or ("default" if pack is None else f"default of {pack}")

    def lock_paths(self) -> dict[str, Path]:
        """By server, the lock beside the file that configures it; beside the first file, where none does.

        Nothing where there is no file.
        """
        files = [(path, one.tree) for one in self.sources if (path := Path(one.label)).suffix and path.is_file()]
        found = {
            name: next((path for path, tree in files if at(tree, ("servers", name)) is not None), files[0][0])
            for name in (self.servers if files else ())
        }
        return {name: path.absolute().parent / LOCK for name, path in found.items()}

    def named_drivers(self) -> Iterator[tuple[str, tuple[str, ...], str]]:
        """Every driver that is named or taken by default: its kind, the path that says so, and its name."""
        gateway = self.gateway
        yield "exposure_mode", ("gateway", "tools_exposure"), gateway.tools_exposure
        for name, endpoint in self.endpoints.items():
            yield "exposure_mode", ("endpoints", name, "tools_exposure"), endpoint.tools_exposure
        if gateway.store:
            yield "store", ("gateway", "store"), gateway.store
        yield from (("tracer", ("gateway", "tracers"), name) for name in gateway.tracers)
        yield from (("executor", ("gateway", "executors"), name) for name in dict.fromkeys(gateway.executors.values()))

    def unknown_tables(self, installed: Collection[str]) -> list[str]:
        """One sentence for each ``[plugins.<name>]`` whose plugin is not among those ``installed``, by name."""
        return [
            f"[plugins.{name}] ({self.says(f'plugins.{name}')}): no such plugin is installed; "
            f"{near(name, installed, 'install it, or remove the table')}"
            for name in self.tables
            if name not in installed
        ]

    def exposure_settings(self) -> ExposureSettings:
        """Each way in with its mode, and what modes are made of."""
        from pml_catalog.exposure.exposures import ExposureSettings
        from pml_kit.offers import View

        gateway = self.gateway
        endpoints = {DEFAULT_ENDPOINT: View(DEFAULT_ENDPOINT, gateway.tools_exposure, gateway.intent)}
        for name, said in self.endpoints.items():
            endpoints[name] = View(name, said.tools_exposure, said.intent, said.execution_mode)
        return ExposureSettings(endpoints, self.tables, gateway.page_size)

    def secrets(self) -> Iterable[str]:
        """Values that must not be shown: tokens and passwords in servers' tables, and all that a reference stands for.

        What every server's process is given anyway is no secret, whoever refers to it.
        """
        return server_values.secrets_of([source.tree for source in self.sources], self.servers)


def declared_secrets(settings: Any) -> list[str]:
    """The values of a plugin's settings that are declared secret."""
    if settings is None:
        return []
    found: list[str] = []
    for one in fields(settings):
        if one.metadata.get("secret"):
            value = getattr(settings, one.name)
            several = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
            for part in several:
                found += declared_secrets(part) if is_dataclass(part) else [str(part)]
    return found


def load(
    config: Path | None = None,
    *,
    overrides: Sequence[str] = (),
    mode: str | None = None,
    project: Path | None = None,
    without: Path | None = None,
) -> Config:
    """Read every source and merge them; first wins: ``--set``, ``--mode``, environment, user's file.

    A trusted project's file adds to these and narrows them.

    Args:
        config: Takes the place of the project's file, and wins over the user's; may be an MCP client's.
        overrides: ``PATH=VALUE`` each.
        mode: Exposure mode.
        without: A file that does not count, as when ``config`` is to take its place.
        project: Folder whose ``pml.toml`` or ``pml.yaml`` counts; the current one if not given.

    Raises:
        OperatorError: A source cannot be read, or what it says does not fit; every mistake is named.
    """
    reading = trust.read(project or Path.cwd(), config, without)
    early = [Source("--set", parse_override(text)) for text in overrides]
    if mode is not None:
        early.append(Source("--mode", {"gateway": {"tools_exposure": mode}}))
    notes: list[str] = []
    own: list[Source] = []
    projects: list[Source] = []
    for file in reading.files:
        if file.is_clients:
            notes += [f"{file.path}: {note}" for note in file.tree.pop("notes")]
        tree = server_values.anchored(normalise(file.tree), trust.place_of(file.path).parent)
        source = Source(str(file.path), tree, file.is_projects)
        (projects if file.is_projects else own).append(source)
    simple = not overrides and not projects and all(file.is_clients for file in reading.files)
    if simple and not any(map(_is_setting, os.environ)):
        return _with_packs(replace(_plain(mode, (*early, *own), notes), ignored=reading.ignored))
    from .validation import merge

    trees = [source.tree for source in own]
    early = [Source(s.label, normalise(s.tree)) for s in early]
    beside = [Source(s.label, project_rules.added(s.tree, trees), is_projects=True) for s in projects]
    gateway, servers, endpoints, tables, sources = merge(early, [*own, *beside])
    made = Config(gateway, servers, tables, sources, tuple(notes), endpoints, reading.ignored, runs=reading.runs)
    made = _with_packs(made)
    return _with_projects(made, projects, trees) if projects else made


def _with_packs(config: Config) -> Config:
    """With the defaults that packs carry, of what no source says; what a project's file says is added to these."""
    found = {name: one for name, one in packs.defaults().items() if config.says(("gateway", name)) is None}
    if not found:
        return config
    values: dict[str, Any] = {name: value for name, (value, _) in found.items()}
    labels = {name: pack for name, (_, pack) in found.items()}
    return replace(config, gateway=replace(config.gateway, **values), packs=labels)


def _with_projects(config: Config, projects: Sequence[Source], own: Sequence[Mapping[str, Any]]) -> Config:
    """The user's configuration, whose servers and endpoints are together already, with the rest of trusted projects.

    Raises:
        OperatorError: What these say does not fit.
    """
    from .validation import merge

    # Servers and endpoints are together already; those that do not count need not even fit.
    rest = [replace(s, tree={k: v for k, v in s.tree.items() if k not in project_rules.NAMED}) for s in projects]
    theirs, _, _, tables, _ = merge((), rest, environment=False)
    said = {k for s in config.sources if not s.is_projects for k in at(s.tree, ("gateway",)) or ()}
    added = {k for s in projects for k in at(s.tree, ("gateway",)) or ()}
    gateway, reasons = project_rules.together(config.gateway, said, theirs, added)
    notes = [note for s in projects for note in project_rules.dropped(s.label, s.tree, own)]
    notes += [f"gateway.{name} of a project's file does not count: {why}" for name, why in reasons.items()]
    merged = {name: {**tables.get(name, {}), **config.tables.get(name, {})} for name in {**tables, **config.tables}}
    shown = [
        replace(s, tree={**s.tree, **project_rules.added(s.tree, own), "gateway": _without(s.tree, reasons)})
        for s in projects
    ]
    sources = (*(s for s in config.sources if not s.is_projects), *shown)
    return replace(config, gateway=gateway, tables=merged, sources=sources, refused=tuple(notes))


def _without(tree: Mapping[str, Any], dropped: Container[str]) -> dict[str, Any]:
    return {name: value for name, value in (tree.get("gateway") or {}).items() if name not in dropped}


def _is_setting(variable: str) -> bool:
    """Whether an environment variable sets something, as pydantic-settings reads it: in any case of letters."""
    prefix, _, rest = variable.upper().partition("_")
    return f"{prefix}_" == ENVIRONMENT_PREFIX and rest.partition("__")[0].lower() in SECTIONS


def _plain(mode: str | None, sources: tuple[Source, ...], notes: list[str]) -> Config:
    """Defaults, and servers that the reader of client files has checked already."""
    gateway = GatewaySettings() if mode is None else GatewaySettings(tools_exposure=mode)
    servers: dict[str, ServerSettings] = {}
    for source in sources:
        for name, table in source.tree.get("servers", {}).items():
            servers.setdefault(name, make_server(table))
    return Config(gateway, servers, {}, sources, tuple(notes))
