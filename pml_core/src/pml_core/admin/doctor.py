"""``pml plugins doctor``: import everything, check everything, say what to do."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, TypeAlias

from pml_core import systems
from pml_core.catalog.bm25 import Bm25Index
from pml_core.catalog.definitions import COLLECTION, Definitions, key_of
from pml_core.catalog.live import LiveCatalog
from pml_core.errors import OperatorError
from pml_core.kernel.chain import HOOK, Wrapped
from pml_core.logs import Logs
from pml_core.plugins import health, local_plugins, registry
from pml_core.plugins.assembly import Assembly, named_drivers, unknown_tables
from pml_core.plugins.health import Ailment
from pml_core.plugins.nulls import MemoryStore
from pml_core.plugins.registry import Record, State
from pml_core.servers import Server
from pml_core.servers.connection.starts import Starts
from pml_core.settings.config import Config
from pml_core.settings.endpoints import endpoint_of, scheme_of
from pml_core.settings.redaction import Redactor
from pml_hookspecs import CatalogEntry, Check, ServerStatus, Store, TransportError
from pml_kit import waits
from pml_kit.order import in_order, near, unchosen
from pml_kit.shapes import ShapeError, item_problem

Statuses: TypeAlias = Callable[[], Sequence[ServerStatus]]


@dataclass(frozen=True, slots=True)
class Line:
    """One finding."""

    subject: str
    ok: bool
    detail: str = ""
    remedy: str = ""

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {"subject": self.subject, "ok": self.ok, "detail": self.detail, "remedy": self.remedy}


@dataclass(slots=True)
class OpenStore:
    """The configured store, as long as it is open."""

    store: Store | None = None


class Offline:
    """Services for a gateway that does not run: settings and log, an empty catalog, no background tasks.

    The store is there for what the doctor awaits.
    """

    def __init__(self, plugin: str, settings: Any, log: Any, open_store: OpenStore) -> None:
        self.plugin, self.settings, self.log = plugin, settings, log.bind(plugin=plugin)
        self.catalog = LiveCatalog(log, Bm25Index())
        self._open_store = open_store

    @property
    def store(self) -> Store:
        """While it is open.

        Raises:
            RuntimeError: It is not.
        """
        if self._open_store.store is None:
            raise RuntimeError("the gateway is not running, so there is no store")
        return self._open_store.store

    def __getattr__(self, name: str) -> Any:
        """Whatever else a gateway does for its plugins."""
        raise RuntimeError(f"the gateway is not running, so there is no {name}")

    def spawn(self, func: Any, *args: Any, name: str) -> None:
        """Nothing runs in the background of a check."""


def _assembly(config: Config, open_store: OpenStore, *, thorough: bool) -> Assembly:
    log = Logs("error").get()
    records = local_plugins.found(config, thorough=thorough)
    return Assembly(config, records, lambda name, settings: Offline(name, settings, log, open_store), log)


def chain_of(config: Config) -> tuple[list[Wrapped], list[str]]:
    """The wrappers as a gateway with this configuration would fold them, and what is wrong with their order."""
    assembly = _assembly(config, OpenStore(), thorough=False)
    assembly.load_hooks(lambda *_fault: None)
    return _order(assembly)


def _order(assembly: Assembly) -> tuple[list[Wrapped], list[str]]:
    from pml_core.kernel.admission import Admission, Filters

    log = Logs("error").get()
    core = Wrapped("core", Admission(LiveCatalog(log, Bm25Index()), Filters((), log)))
    return in_order([core, *(Wrapped(*one) for one in assembly.gather(HOOK, lambda *_fault: None))])


async def examine(
    config: Config, *, connect: bool = False, watch: Callable[[Statuses], Awaitable[None]] | None = None
) -> list[Line]:
    """Every finding: plugins, their own checks, settings, servers.

    Args:
        connect: Start every server and list its tools, too, each within its own time.
        watch: Looks on while they are tried.
    """
    open_store = OpenStore()
    assembly = _assembly(config, open_store, thorough=True)
    lines = [*_system(), *_slow_imports(assembly.records), *_settings_and_imports(assembly)]
    async with AsyncExitStack() as stack:
        with suppress(Exception):  # the lines of the store say why
            open_store.store = await _store(assembly, config, stack, lines)
        lines += await _own_checks(assembly, open_store)
        wrappers, problems = _order(assembly)
        for one in wrappers:
            lines += _blocking(f"wrapper of {one.plugin}", await waits.call_s(one.wrapper), waits.CALL_S)
        lines += [Line("order of wrappers", ok=False, detail=one, remedy="See pml plugins chain.") for one in problems]
        known, ill = await _last_reports(assembly, open_store.store)
        changed = await _changed(config, open_store.store)
        open_store.store = None
    lines += [
        Line(f"settings {problem.partition(' ')[0]}", ok=False, detail=problem)
        for problem in unknown_tables(config, assembly.records)
    ]
    lines += _chosen(assembly, config)
    for problem in unchosen(lambda hook: assembly.gather(hook, lambda *_fault: None), config.gateway.providers):
        lines.append(Line("providers", ok=False, detail=problem, remedy="Choose one, or block the others."))
    lines += [_was_ill(one) for one in ill]
    probed = await _probed(config, assembly, watch) if connect else {}
    for name, settings in config.servers.items():
        if not settings.enabled:
            lines.append(Line(f"server {name}", ok=True, detail="disabled"))
        elif connect:
            lines.append(probed[name])
        else:
            lines.append(_server(name, config, assembly, known.get(name, "")))
        lines += changed.get(name, ())
    return lines


def _system() -> Iterator[Line]:
    """One line where no gateway runs, none elsewhere."""
    if not systems.gateway_runs_here():
        yield Line("system Windows", ok=False, detail=systems.SUPPORTED, remedy=systems.REMEDY)


def _settings_and_imports(assembly: Assembly) -> Iterator[Line]:
    """Load every driver and hook plugin that was found."""
    with suppress(OperatorError):  # each record tells of itself below
        assembly.load_hooks(lambda *_fault: None)
    for record in assembly.records:
        detail, remedy = record.problem, record.remedy
        if record.group != registry.HOOK_GROUP and record.state is State.FOUND:
            try:
                assembly.driver(record.kind, record.name)
            except OperatorError as exc:
                detail, remedy = record.problem or exc.message, exc.remedy
                record.fail(State.FAILED, exc.message, exc.remedy)
        ok = record.state in (State.LOADED, State.BLOCKED)
        yield Line(f"{record.kind} {record.name}", ok=ok, detail=_about(record, detail), remedy=remedy)


def _about(record: Record, problem: str) -> str:
    told = "; ".join(filter(None, (problem, *record.deprecated)))
    return f"{record.origin}: {told}" if told else record.origin


async def _own_checks(assembly: Assembly, open_store: OpenStore) -> list[Line]:
    faults: list[tuple[str, str, Exception]] = []
    lines = []
    store, open_store.store = open_store.store, None  # a line that needs it is awaited, and says so by that
    found = assembly.gather("pml_checks", lambda *one: faults.append(one))
    open_store.store = store
    for plugin, check in found:
        try:
            one: Check = await check if isawaitable(check) else check
        except Exception as exc:
            faults.append((plugin, "pml_checks", exc))
            continue
        if problem := item_problem("pml_checks", one):
            faults.append((plugin, "pml_checks", ShapeError(problem)))
        else:
            lines.append(Line(f"{plugin}: {one.title}", ok=one.ok, detail=one.detail, remedy=one.remedy))
    for plugin, hook, fault in faults:
        wrong = isinstance(fault, ShapeError)
        detail = str(fault) if wrong else f"{hook} raised {type(fault).__name__}: {fault}"
        lines.append(Line(f"hooks {plugin}", ok=False, detail=detail, remedy=f"Mend or block {plugin}."))
    return lines


def _chosen(assembly: Assembly, config: Config) -> Iterator[Line]:
    """Drivers that the configuration names are there."""
    for kind, path, name in named_drivers(config):
        # A default that is not installed is done without; only what was asked for has to be there.
        source = config.says(path)
        names = [r.name for r in assembly.records if r.kind == kind]
        if source is not None and name not in names:
            where = ".".join(path)
            detail = f"{where} ({source}): {name!r} is configured and not installed; {near(name, names)}"
            remedy = f"Install the distribution that brings it, or give {where} another name."
            yield Line(f"{kind} {name}", ok=False, detail=detail, remedy=remedy)


async def _store(assembly: Assembly, config: Config, stack: AsyncExitStack, lines: list[Line]) -> Store:
    """The store that a gateway would have; a line is added where opening it keeps the event loop."""
    name = config.gateway.store
    if name not in assembly.installed("store") and config.says("gateway.store") is None:
        return MemoryStore()
    store: Store = assembly.driver("store", name)
    opening = waits.LoopTimer(store.__aenter__())
    await opening
    stack.push_async_exit(store)
    assembly.check_driver("store", name, store, "open store")
    kept_s = max(opening.longest_s, await waits.read_s(store))
    lines += _blocking(f"store {name} in use", kept_s, waits.STORE_S)
    return store


def _slow_imports(records: Sequence[Record]) -> Iterator[Line]:
    for record in records:
        took_s = 0.0 if record.file or record.state is not State.FOUND else waits.import_s(record.entry_point)
        if took_s > waits.IMPORT_S:
            detail = f"takes {took_s:.1f} s, for which every start waits"
            yield Line(f"import of {record.name}", ok=False, detail=detail, remedy="Import in functions what is heavy.")


def _blocking(subject: str, kept_s: float, most_s: float) -> Iterator[Line]:
    if kept_s > most_s:
        detail = f"keeps the event loop for {kept_s:.1f} s, in which nobody else is served"
        remedy = "Await what takes long, or run it by asyncio.to_thread."
        yield Line(subject, ok=False, detail=detail, remedy=remedy)


async def _last_reports(assembly: Assembly, store: Store | None) -> tuple[dict[str, str], Sequence[Ailment]]:
    """Why each server was down when the gateway last knew, and which plugins were not well; empty without a store."""
    if store is None:
        return {}, ()
    try:
        down = {s.name: s.reason for s in await store.catalog.statuses() if s.state == "down"}
        return down, await health.last(store, [r for r in assembly.records if r.state is State.LOADED])
    except Exception:
        return {}, ()


async def _changed(config: Config, store: Store | None) -> dict[str, list[Line]]:
    """By server, what nobody has accepted of its tools; nothing where that cannot be read."""
    found: dict[str, list[Line]] = {}
    for name, settings in config.servers.items() if store is not None else ():
        with suppress(Exception):  # the lines of the store say why
            kept = None if store is None else await store.documents.get(COLLECTION, key_of(name, settings))
            changes = Definitions.of(None if kept is None else kept.value, holds=True).changes.values()
            if not changes:
                continue
            held = settings.on_change == "hold"
            tools = "; ".join(f"{one.tool} ({', '.join(one.fields)}, {one.seen_at})" for one in changes)
            detail = f"{'held' if held else 'used as they are now'}: {tools}"
            remedy = f"Look at it and accept it: pml servers accept {name}"
            found[name] = [Line(f"definitions of {name}", ok=not held, detail=detail, remedy=remedy)]
    return found


def _was_ill(one: Ailment) -> Line:
    detail = f"when the gateway last ran, {one.seen_at}: {one.problem}"
    return Line(
        f"last run of {one.plugin}", ok=False, detail=detail, remedy="See the gateway's log, and start it again."
    )


def _server(name: str, config: Config, assembly: Assembly, last: str) -> Line:
    """What can be said of a server without starting it."""
    subject, settings = f"server {name}", config.servers[name]
    try:
        endpoint = endpoint_of(name, settings, os.environ)
        transport = assembly.driver("transport", scheme_of(endpoint.address))
        transport.connect(endpoint, _Deaf())
    except (TransportError, OperatorError, ValueError) as exc:
        return Line(subject, ok=False, detail=str(exc), remedy=f"Correct [servers.{name}].")
    if settings.command:
        command = shlex.split(endpoint.address.partition(":")[2])[0]
        if shutil.which(command, path=endpoint.env.get("PATH")) is None:
            return Line(
                subject,
                ok=False,
                detail=f"command {command!r} is not on PATH",
                remedy="Install it, or give its full path.",
            )
    if last:
        return Line(
            subject, ok=False, detail=f"when last started: {last}", remedy="Try it: pml plugins doctor --connect"
        )
    return Line(subject, ok=True, detail="not started; try it with --connect")


class _Deaf:
    """A handler for links that are never opened."""

    async def request(self, method: str, params: Any, origin: Any) -> Any:
        """Never called."""

    def notification(self, method: str, params: Any) -> None:
        """Never called."""

    def closed(self, error: Any) -> None:
        """Never called."""


async def _probed(
    config: Config, assembly: Assembly, watch: Callable[[Statuses], Awaitable[None]] | None
) -> dict[str, Line]:
    """Start every enabled server in its turn, list its tools, stop it."""
    log, redactor = Logs("error").get(), Redactor()
    redactor.learn(config.secrets())
    catalog, starts = LiveCatalog(log, Bm25Index()), Starts()

    def transport(scheme: str) -> Any:
        try:
            return assembly.driver("transport", scheme)
        except OperatorError as exc:
            raise TransportError(str(exc), retryable=False) from exc

    servers = [
        Server(
            name, settings, transport, catalog, log,
            start_timeout_s=config.gateway.start_timeout_s, call_timeout_s=config.gateway.call_timeout_s,
            redact=redactor.text, learn_secrets=redactor.learn, starts=starts,
        )
        for name, settings in config.servers.items() if settings.enabled
    ]  # fmt: skip
    watching = asyncio.ensure_future(watch(catalog.servers)) if watch is not None else None
    try:
        lines = await asyncio.gather(*map(_probe, servers))
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    return {server.name: line for server, line in zip(servers, lines, strict=True)}


async def _probe(server: Server) -> Line:
    listed: list[CatalogEntry] = []
    server.on_listed = lambda _server, entries: listed.extend(entries)
    keeper = asyncio.get_running_loop().create_task(server.run())
    server.remember(())  # nothing is known of it, so that it starts even if it would wait for a call
    await server.tried()
    status = server.status
    keeper.cancel()
    await asyncio.gather(keeper, return_exceptions=True)
    if status.state == "up":
        return Line(f"server {server.name}", ok=True, detail=f"up, {len(listed)} tools")
    remedy = f"Correct [servers.{server.name}], or the server itself."
    return Line(f"server {server.name}", ok=False, detail=status.reason, remedy=remedy)
