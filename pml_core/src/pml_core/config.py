"""The configuration: where it comes from, what it may say, what it came to.

Reading is done here with the standard library. Validation is pydantic's, in :mod:`pml_core.settings`, and is imported
only when a source says something that needs it: a gateway that takes a client's ``mcpServers`` file as it is, with
defaults for the rest, does not pay for it at start-up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from pml_hookspecs import setting

from . import client_configs, project_rules, server_values, trust
from .config_files import SECTIONS, Source, dig, parse_override
from .errors import OperatorError
from .tool_rules import ToolRules

S = TypeVar("S")
ENVIRONMENT_PREFIX = "PML_"
DEFAULT_ENDPOINT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """``[gateway]``."""

    name: str = setting("pml", "What it calls itself to clients that have several servers behind it.")
    tools_exposure: str = setting("meta_only", "Exposure mode: which tools clients see. An installed mode's name.")
    intent: str = setting("", "Hint at what the clients of this gateway do, for modes that select by it.")
    execution_mode: Literal["real", "dry_run"] = setting(
        "real", "What a call does when it does not say itself.", project=("dry_run",)
    )
    dry_run_only: bool = setting(
        default=False,
        description="Rehearse everything: no call, key, plan or schedule can ask for more.",
        project=(True,),
    )
    store: str = setting(
        "sqlite", "Where executions and the catalog are kept. An installed store's name.", project="never"
    )
    tracers: tuple[str, ...] = setting(("log", "store"), "Tracers that watch every call, by name.", project="add")
    executors: dict[str, str] = setting(
        dict,
        "Kind of task (workflow, durable, capability, code, code.<language>, program.<language>) to its executor.",
        project="never",
    )
    block: tuple[str, ...] = setting((), "Plugins or distributions that are not to be loaded.", project="never")
    required: tuple[str, ...] = setting(
        (),
        "Plugins or distributions that the gateway does not start without, whatever else is installed.",
        project="add",
    )
    local: tuple[str, ...] = setting(
        (),
        "Files of Python, each a hook plugin named after it; relative to the configuration that names them.",
        project="add",
    )
    strict: bool = setting(
        default=False, description="Refuse to start when any plugin fails, instead of going without.", project=(True,)
    )
    call_timeout_s: float = setting(
        60.0, "Longest wait for a tool's answer, unless its server says otherwise [s].", ge=0.001
    )
    start_timeout_s: float = setting(30.0, "Longest wait for a server to start and list its tools [s].", ge=0.001)
    list_wait_s: float = setting(10.0, "Longest that tools/list waits for servers never seen before [s].", ge=0)
    page_size: int = setting(0, "Items on one page of a list; 0 for all on one.", ge=0)
    drain_s: float = setting(
        5.0, "Time that work in the background gets to end when the gateway stops; what waits is kept [s].", ge=0
    )
    answer_wait_s: float = setting(
        600.0, "Longest wait for a client's answer to a server's question, where there is no session [s].", ge=1
    )
    record_bytes: int = setting(65536, "Longest request or response kept whole in the history [bytes].", ge=256)
    durability: Literal["soon", "full"] = setting(
        "soon",
        "When a call's row is on disk: within a tenth of a second of its end, or, with full, before it is answered. "
        "Ends of agents, plans and code, and of whatever cost something, are always on disk first.",
        project=("full",),
    )
    max_resumes: int = setting(
        5, "Most attempts to go on with a durable plan whose gateway goes down each time; then it has failed.", ge=1
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "Least severity that is logged.", project="never"
    )
    log_format: Literal["console", "json"] = setting(
        "console", "Log lines for people or for machines.", project="never"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """``[servers.<name>]``. Keys not named here are options of the server's transport, which checks them."""

    command: str = setting("", "Program to start; speaks MCP on standard input and output.")
    args: tuple[str, ...] = setting((), "Its arguments.")
    url: str = setting("", "Address of a server that runs already (https://host/mcp).")
    address: str = setting("", "Instead of command or url: <transport>:<what the transport understands>.")
    env: dict[str, str] = setting(
        dict,
        "Environment variables for the program; ${NAME} is one of the gateway's own, ${keyring:NAME} in the keyring.",
    )
    inherit_env: tuple[str, ...] = setting(
        (),
        "Variables of the gateway's own environment that the program gets besides the usual ones (PATH, HOME, locale, "
        "proxies, folders for temporary files, certificates): names, or beginnings such as 'DOCKER_*'.",
    )
    env_file: str = setting(
        "",
        "File of NAME=VALUE lines, relative to the configuration that names it: variables for the program, which env "
        "overrides, and what ${NAME} in this table refers to first. Its values are secrets. Read at each start.",
    )
    headers: dict[str, str] = setting(dict, "HTTP headers for a url; ${NAME} refers to an environment variable.")
    cwd: str | None = setting(None, "Working directory of the program.")
    timeout_s: float | None = setting(
        None, "Longest wait for an answer; the gateway's call_timeout_s if not set [s].", ge=0.001
    )
    start_timeout_s: float | None = setting(
        None, "Longest wait for it to start and list its tools; the gateway's if not set [s].", ge=0.001
    )
    prefix: str | None = setting(
        None, "What names of its tools and prompts begin with; its name and '__' if not set, nothing if empty."
    )
    enabled: bool = setting(default=True, description="False: neither started nor listed.")
    era: Literal["client", "legacy", "modern"] = setting(
        "client",
        "Revisions to speak with it: as its client does if it can, only with a handshake, only without.",
    )
    sharing: Literal["auto", "shared", "per_client"] = setting(
        "auto", "One for all clients, or one for each; auto: remote servers have a session for each."
    )
    max_clients: int = setting(16, "Clients that have one of their own at a time, when not shared.", ge=1)
    relist_s: float = setting(
        60.0,
        "Its lists are read again when a client asks for one and they were last read this long ago: servers need not "
        "tell of changes. 0 for each time, inf for never [s].",
        ge=0,
    )
    start: Literal["eager", "lazy"] = setting(
        "eager", "Start it with the gateway, or at its first call; what it has besides tools is listed then."
    )
    idle_timeout_s: float | None = setting(None, "Stop it after this long unused; never if not set [s].", ge=0.1)
    max_in_flight: int = setting(1024, "Requests it gets at a time; further ones wait in order.", ge=1)
    max_queued: int = setting(16384, "Requests that wait for it; further ones are refused at once.", ge=0)
    methods: tuple[str, ...] = setting(
        (), "Methods besides MCP's own that clients may send it, by name or pattern, such as 'vendor/*'."
    )
    tools: ToolRules = setting(
        ToolRules(),
        "Which of its tools may be had, in any mode and by anybody: allow = [...], deny = [...], patterns of its own "
        "names for them; deny wins.",
    )
    reset_timeout_on_progress: bool = setting(default=False, description="Progress gives a call all of its time again.")
    on_change: Literal["warn", "hold"] = setting(
        "warn",
        "What happens to a tool whose description, schemas or hints change after they were first seen: it is said, or "
        "the tool is also refused until pml servers accept.",
    )
    options: dict[str, Any] = setting(dict, "Options of the transport; the other keys of the table are added to them.")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """``[endpoints.<name>]``: one more way in, with an exposure mode of its own (over HTTP, ``/mcp/<name>``)."""

    tools_exposure: str = setting("meta_only", "Exposure mode: which tools its clients see.")
    intent: str = setting("", "Hint at what its clients do, for modes that select by it.")
    execution_mode: Literal["", "real", "dry_run"] = setting(
        "", "What a call does when it does not say itself; as in [gateway] if empty."
    )
    dry_run_only: bool = setting(
        default=False, description="Rehearse everything that comes in here: no call, key or plan can ask for more."
    )


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
        table = client_configs.expand_all(table, os.environ, missing)
        if missing:
            where = f"plugins.{name} ({self.says(f'plugins.{name}')})"
            raise OperatorError(server_values.unset(missing, where), "Set it, or write the value itself")
        declared = fields(settings_type)  # type: ignore[arg-type]
        if not table and all(f.default is not MISSING or f.default_factory is not MISSING for f in declared):
            return settings_type()
        from .settings import validate_table

        return validate_table(settings_type, table, name, self.sources)

    def says(self, path: str | Sequence[str]) -> str | None:
        """Label of the source that sets ``path``, dotted or in parts; None when it is a default."""
        parts = path.split(".") if isinstance(path, str) else path
        return next((s.label for s in self.sources if dig(s.tree, parts) is not None), None)

    def secrets(self) -> Iterable[str]:
        """Values that must not be shown: tokens and passwords in servers' tables, and all that a reference stands for.

        What every server's process is given anyway is no secret, whoever refers to it.
        """
        return server_values.secrets_of([source.tree for source in self.sources], self.servers)


def normalise(tree: Mapping[str, Any]) -> dict[str, Any]:
    """``tree`` with ``gateway.<plugin>.*``, the older spelling, moved to ``plugins.<plugin>.*``."""
    gateway = tree.get("gateway")
    if not isinstance(gateway, dict):
        return dict(tree)
    known = {f.name for f in fields(GatewaySettings)}
    moved = {k: v for k, v in gateway.items() if k not in known and isinstance(v, dict)}
    if not moved:
        return dict(tree)
    plugins = tree.get("plugins") or {}
    if not isinstance(plugins, dict) or not all(isinstance(plugins.get(name, {}), dict) for name in moved):
        return dict(tree)  # of the wrong shape, which validation says better
    plugins = {**plugins, **{name: {**table, **plugins.get(name, {})} for name, table in moved.items()}}
    return {**tree, "gateway": {k: v for k, v in gateway.items() if k not in moved}, "plugins": plugins}


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
        return replace(_plain(mode, (*early, *own), notes), ignored=reading.ignored)
    from .settings import merge

    trees = [source.tree for source in own]
    early = [Source(s.label, normalise(s.tree)) for s in early]
    beside = [Source(s.label, project_rules.added(s.tree, trees), is_projects=True) for s in projects]
    gateway, servers, endpoints, tables, sources = merge(early, [*own, *beside])
    made = Config(gateway, servers, tables, sources, tuple(notes), endpoints, reading.ignored, runs=reading.runs)
    return _with_projects(made, projects, trees) if projects else made


def _with_projects(config: Config, projects: Sequence[Source], own: Sequence[Mapping[str, Any]]) -> Config:
    """The user's configuration, whose servers and endpoints are together already, with the rest of trusted projects.

    Raises:
        OperatorError: What these say does not fit.
    """
    from .settings import merge

    # Servers and endpoints are together already; those that do not count need not even fit.
    rest = [replace(s, tree={k: v for k, v in s.tree.items() if k not in project_rules.NAMED}) for s in projects]
    theirs, _, _, tables, _ = merge((), rest, environment=False)
    said = {k for s in config.sources if not s.is_projects for k in dig(s.tree, ("gateway",)) or ()}
    added = {k for s in projects for k in dig(s.tree, ("gateway",)) or ()}
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


MADE: Mapping[str, Callable[[Any], Any]] = {"args": tuple, "inherit_env": tuple, "tools": ToolRules.of}
"""What makes values of other types of those that files have."""


def make_server(table: Mapping[str, Any]) -> ServerSettings:
    """Server settings from values that are known to be of the right types."""
    known = {f.name for f in fields(ServerSettings)} - {"options"}
    given: dict[str, Any] = {k: MADE[k](v) if k in MADE else v for k, v in table.items() if k in known}
    options = {k: v for k, v in table.items() if k not in known and k != "options"}
    return ServerSettings(**given, options={**table.get("options", {}), **options})
