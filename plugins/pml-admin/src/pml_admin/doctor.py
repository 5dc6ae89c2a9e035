"""``pml plugins doctor``: import everything, check everything, say what to do."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from pml_catalog.definitions import blocked_tools, stored_changes
from pml_hookspecs import Check, Store, TransportError
from pml_kit import waits
from pml_kit.command_line import plugin_health, systems
from pml_kit.errors import OperatorError
from pml_kit.order import near, unchosen
from pml_kit.shapes import ShapeError, item_problem
from pml_kit.system.redaction import Redactor
from pml_mcp.wire.schemes import scheme_of
from pml_settings.endpoints import endpoint_of
from pml_settings.installation import BLOCKED, FOUND, HOOKS, LOADED
from pml_stores.memory import MemoryStore

from .finding import Finding
from .offline import OpenStore, assembly_of
from .server_probe import probe

if TYPE_CHECKING:
    from pml_kit.command_line.plugin_health import PluginProblem
    from pml_settings.config import Config
    from pml_settings.installation import Installation, PluginAssembly, PluginRecord, Statuses


async def examine(
    installation: Installation, *, connect: bool = False, watch: Callable[[Statuses], Awaitable[None]] | None = None
) -> list[Finding]:
    """Every finding: plugins, their own checks, settings, servers.

    Args:
        connect: Start every server and list its tools, too, each within its own time.
        watch: Looks on while they are tried.
    """
    config, open_store = installation.config, OpenStore()
    assembly = assembly_of(installation, open_store, thorough=True)
    lines = [*_system(), *_slow_imports(assembly.records), *_settings_and_imports(assembly)]
    async with AsyncExitStack() as stack:
        with suppress(Exception):  # the lines of the store say why
            open_store.store = await _store(assembly, config, stack, lines)
        lines += await _own_checks(assembly, open_store)
        wrappers, problems = installation.in_order(assembly)
        for one in wrappers:
            lines += _blocking(f"wrapper of {one.plugin}", await waits.call_s(one.wrapper), waits.CALL_S)
        order = "order of wrappers"
        lines += [Finding(order, ok=False, detail=one, remedy="See pml plugins chain.") for one in problems]
        known, ill = await _last_reports(assembly, open_store.store)
        changed = await _changed(config, open_store.store)
        open_store.store = None
    lines += [
        Finding(f"settings {problem.partition(' ')[0]}", ok=False, detail=problem)
        for problem in config.unknown_tables({record.name for record in assembly.records})
    ]
    lines += _chosen(assembly, config)
    for problem in unchosen(assembly.gather("pml_offers", lambda *_fault: None), config.gateway.providers):
        lines.append(Finding("providers", ok=False, detail=problem, remedy="Choose one, or block the others."))
    lines += [_was_ill(one) for one in ill]
    probed = await _probed(config, assembly, watch) if connect else {}
    for name, settings in config.servers.items():
        if not settings.enabled:
            lines.append(Finding(f"server {name}", ok=True, detail="disabled"))
        elif connect:
            lines.append(probed[name])
        else:
            lines.append(_server(name, config, assembly, known.get(name, "")))
        lines += changed.get(name, ())
    return lines


def _system() -> Iterator[Finding]:
    """One line where no gateway runs, none elsewhere."""
    if not systems.gateway_runs_here():
        yield Finding("system Windows", ok=False, detail=systems.SUPPORTED, remedy=systems.REMEDY)


def _settings_and_imports(assembly: PluginAssembly) -> Iterator[Finding]:
    """Load every driver and hook plugin that was found."""
    with suppress(OperatorError):  # each record tells of itself below
        assembly.load_hooks(lambda *_fault: None)
    for record in assembly.records:
        detail, remedy, failed = record.problem, record.remedy, False
        if record.kind != HOOKS and record.state == FOUND:
            try:
                assembly.driver(record.kind, record.name)
            except OperatorError as exc:
                detail, remedy, failed = record.problem or exc.message, exc.remedy, True
        ok = not failed and record.state in (LOADED, BLOCKED)
        yield Finding(f"{record.kind} {record.name}", ok=ok, detail=_about(record, detail), remedy=remedy)


def _about(record: PluginRecord, problem: str) -> str:
    told = "; ".join(filter(None, (problem, *record.deprecated)))
    return f"{record.origin}: {told}" if told else record.origin


async def _own_checks(assembly: PluginAssembly, open_store: OpenStore) -> list[Finding]:
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
            lines.append(Finding(f"{plugin}: {one.title}", ok=one.ok, detail=one.detail, remedy=one.remedy))
    for plugin, hook, fault in faults:
        wrong = isinstance(fault, ShapeError)
        detail = str(fault) if wrong else f"{hook} raised {type(fault).__name__}: {fault}"
        lines.append(Finding(f"hooks {plugin}", ok=False, detail=detail, remedy=f"Mend or block {plugin}."))
    return lines


def _chosen(assembly: PluginAssembly, config: Config) -> Iterator[Finding]:
    """Drivers that the configuration names are there."""
    for kind, path, name in config.named_drivers():
        # A default that is not installed is done without; only what was asked for has to be there.
        source = config.says(path)
        names = [r.name for r in assembly.records if r.kind == kind]
        if source is not None and name not in names:
            where = ".".join(path)
            detail = f"{where} ({source}): {name!r} is configured and not installed; {near(name, names)}"
            remedy = f"Install the distribution that brings it, or give {where} another name."
            yield Finding(f"{kind} {name}", ok=False, detail=detail, remedy=remedy)


async def _store(assembly: PluginAssembly, config: Config, stack: AsyncExitStack, lines: list[Finding]) -> Store:
    """The store that a gateway would have; a line is added where opening it keeps the event loop."""
    name = config.gateway.store
    if not name or (name not in assembly.installed("store") and config.says("gateway.store") is None):
        return MemoryStore()
    store: Store = assembly.driver("store", name)
    opening = waits.LoopTimer(store.__aenter__())
    await opening
    stack.push_async_exit(store)
    assembly.check_driver("store", name, store, "open store")
    kept_s = max(opening.longest_s, await waits.read_s(store))
    lines += _blocking(f"store {name} in use", kept_s, waits.STORE_S)
    return store


def _slow_imports(records: Sequence[PluginRecord]) -> Iterator[Finding]:
    for record in records:
        took_s = 0.0 if record.file or record.state != FOUND else waits.import_s(record.entry_point)
        if took_s > waits.IMPORT_S:
            detail = f"takes {took_s:.1f} s, for which every start waits"
            yield Finding(
                f"import of {record.name}", ok=False, detail=detail, remedy="Import in functions what is heavy."
            )


def _blocking(subject: str, kept_s: float, most_s: float) -> Iterator[Finding]:
    if kept_s > most_s:
        detail = f"keeps the event loop for {kept_s:.1f} s, in which nobody else is served"
        remedy = "Await what takes long, or run it by asyncio.to_thread."
        yield Finding(subject, ok=False, detail=detail, remedy=remedy)


async def _last_reports(
    assembly: PluginAssembly, store: Store | None
) -> tuple[dict[str, str], Sequence[PluginProblem]]:
    """Why each server was down when the gateway last knew, and which plugins were not well; empty without a store."""
    if store is None:
        return {}, ()
    try:
        down = {s.name: s.reason for s in await store.catalog.statuses() if s.state == "down"}
        return down, await plugin_health.last(store, [r for r in assembly.records if r.state == LOADED])
    except Exception:
        return {}, ()


async def _changed(config: Config, store: Store | None) -> dict[str, list[Finding]]:
    """By server, what nobody has accepted of its tools; nothing where that cannot be read."""
    found: dict[str, list[Finding]] = {}
    if store is None:
        return found
    for name, settings in config.servers.items():
        with suppress(Exception):  # the lines of the store say why
            if tools := await blocked_tools(store.documents, name, settings):
                remedy = "Look at what has changed, and take it: pml lock review"
                found[name] = [Finding(f"lock of {name}", ok=False, detail=f"blocked: {tools}", remedy=remedy)]
            changes = (await stored_changes(store.documents, name, settings))[0].values()
            if not changes:
                continue
            held = settings.on_change == "hold"
            tools = "; ".join(f"{one.tool} ({', '.join(one.fields)}, {one.seen_at})" for one in changes)
            detail = f"{'held' if held else 'used as they are now'}: {tools}"
            remedy = f"Look at it and accept it: pml servers accept {name}"
            found.setdefault(name, []).append(
                Finding(f"definitions of {name}", ok=not held, detail=detail, remedy=remedy)
            )
    return found


def _was_ill(one: PluginProblem) -> Finding:
    detail = f"when the gateway last ran, {one.seen_at}: {one.problem}"
    return Finding(
        f"last run of {one.plugin}", ok=False, detail=detail, remedy="See the gateway's log, and start it again."
    )


def _server(name: str, config: Config, assembly: PluginAssembly, last: str) -> Finding:
    """What can be said of a server without starting it."""
    subject, settings, redactor = f"server {name}", config.servers[name], Redactor()
    redactor.learn(config.secrets())
    try:
        endpoint = endpoint_of(name, settings, os.environ, redactor.learn)
        transport = assembly.driver("transport", scheme_of(endpoint.address))
        made = transport.connect(endpoint, _UnusedHandler())
        isolation = f"; {made.isolation()}" if hasattr(made, "isolation") else ""
    except (TransportError, OperatorError, ValueError) as exc:
        return Finding(subject, ok=False, detail=redactor.text(str(exc)), remedy=f"Correct [servers.{name}].")
    if settings.command:
        command = shlex.split(endpoint.address.partition(":")[2])[0]
        if shutil.which(command, path=endpoint.env.get("PATH")) is None:
            return Finding(
                subject,
                ok=False,
                detail=f"command {command!r} is not on PATH",
                remedy="Install it, or give its full path.",
            )
    if last:
        return Finding(
            subject, ok=False, detail=f"when last started: {last}", remedy="Try it: pml plugins doctor --connect"
        )
    return Finding(subject, ok=True, detail=f"not started; try it with --connect{isolation}")


class _UnusedHandler:
    """A handler for links that are never opened."""

    async def request(self, method: str, params: Any, origin: Any) -> Any:
        """Never called."""

    def notification(self, method: str, params: Any) -> None:
        """Never called."""

    def closed(self, error: Any) -> None:
        """Never called."""


async def _probed(
    config: Config, assembly: PluginAssembly, watch: Callable[[Statuses], Awaitable[None]] | None
) -> Mapping[str, Finding]:
    """What comes of starting every enabled server, by its name."""
    lines = {}
    for name, found in (await probe(config, partial(assembly.driver, "transport"), watch)).items():
        if (status := found.status).state == "up":
            lines[name] = Finding(f"server {name}", ok=True, detail=f"up, {len(found.entries)} tools")
        else:
            remedy = f"Correct [servers.{name}], or the server itself."
            lines[name] = Finding(f"server {name}", ok=False, detail=status.reason, remedy=remedy)
    return lines
