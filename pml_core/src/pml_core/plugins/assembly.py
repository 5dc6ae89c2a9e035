"""Turn names in the configuration and installed distributions into live plugin objects."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from pml_kit import shapes
from pml_kit.errors import OperatorError
from pml_settings.config import Config, declared_secrets

from . import drivers
from .hooks import HookManager
from .registry import HOOK_GROUP, NAME, REQUIREMENT_NAME, Record, State, canonical, required_names

MakeServices = Callable[[str, Any], Any]
"""Makes the services of one plugin from its name and settings."""


class Assembly:
    """Loads drivers by name and hook plugins by being installed; keeps the record of how far each got."""

    def __init__(
        self,
        config: Config,
        records: list[Record],
        make_services: MakeServices,
        log: Any,
        learn_secrets: Callable[[Iterable[str]], None] = lambda _values: None,
    ) -> None:
        """``learn_secrets`` is told the values of settings that are declared secret, before anybody can log them."""
        self._config, self.records, self._make_services, self._log = config, records, make_services, log
        self._learn = learn_secrets
        self._hooks = HookManager()
        self._services: dict[str, Any] = {}
        self._unfit: list[OperatorError] = []
        self._told: set[str] = set()

    def under(self, config: Config, make_services: MakeServices | None = None) -> Assembly:
        """The same plugins, under another configuration; drivers get other services if ``make_services`` is given."""
        other = copy.copy(self)
        make = make_services or self._make_services
        vars(other).update(_config=config, _services=dict(self._services), _make_services=make)
        return other

    def check(self, tables: Collection[str]) -> None:
        """See that the settings of the plugins in use fit, of those named or taking settings from one that is.

        Raises:
            OperatorError: They do not.
        """
        for record, plugin in self.in_use():
            if _tables_of(record, plugin) & set(tables):
                self._settings(record, plugin)

    def in_use(self) -> Iterator[tuple[Record, Any]]:
        """Hook plugins and drivers that are loaded; of drivers their classes."""
        for record in self.records:
            if record.state is State.LOADED and record.group == HOOK_GROUP:
                yield record, self._hooks.get_plugin(record.name)
            elif record.state is State.LOADED:
                yield record, drivers.load(self.records, record.group, record.name)

    def needs_restart(self, table: str, hooks: Collection[str]) -> bool:
        """Whether a plugin in use reads a table only once: any but exposure modes, and hooks other than ``hooks``."""
        for record, plugin in self.in_use():
            if table in _tables_of(record, plugin) and not (
                self._hooks.hooks_of(record.name) <= set(hooks)
                if record.group == HOOK_GROUP
                else record.kind == "exposure_mode"
            ):
                return True
        return False

    def installed(self, kind: str) -> list[str]:
        """Names of the usable drivers of a kind."""
        return [r.name for r in self.records if r.kind == kind and r.state in (State.FOUND, State.LOADED)]

    def driver_class(self, kind: str, name: str) -> Any:
        """The class of a driver, not constructed.

        Raises:
            OperatorError: It is missing or broken.
        """
        found = drivers.load(self.records, f"pml.{kind}", name)
        self._hold(kind, name, shapes.class_problem(kind, found))
        return found

    def driver(self, kind: str, name: str) -> Any:
        """A driver, constructed with its settings and services.

        Raises:
            OperatorError: It is missing, broken, none of its kind, or its settings do not fit; says which and what to
                do.
        """
        cls = self.driver_class(kind, name)
        record = next(r for r in self.records if r.kind == kind and r.name == name)
        self._tell_deprecated(record)
        settings = self._settings(record, cls)
        try:
            made = cls(settings, self._make_services(name, settings))
        except (Exception, SystemExit) as exc:
            record.fail(State.FAILED, f"{type(exc).__name__}: {exc}", record.mend, exc)
            raise OperatorError(
                f"{record.label} cannot be constructed: {type(exc).__name__}: {exc}", record.remedy
            ) from exc
        self._hold(kind, name, shapes.driver_problem(kind, made))
        return made

    def check_driver(self, kind: str, name: str, driver: Any, state: str) -> None:
        """See that a driver of ``kind`` is right in another state: an ``open store``, or a transport as ``listener``.

        Raises:
            OperatorError: It is not.
        """
        self._hold(kind, name, shapes.driver_problem(state, driver))

    def _hold(self, kind: str, name: str, problem: str) -> None:
        if problem:
            record = next(r for r in self.records if r.kind == kind and r.name == name)
            record.fail(State.FAILED, problem, record.mend)
            raise OperatorError(f"{record.label}: {problem}", record.mend)

    def load_hooks(self, on_fault: Callable[[str, str, Exception], None]) -> None:
        """Register every hook plugin, and check the settings of each.

        Raises:
            OperatorError: The settings of one do not fit.
        """
        self._hooks.load(self.records)
        for record in self.records:
            if record.group != HOOK_GROUP:
                if record.state is State.INCOMPATIBLE:
                    problem = OperatorError(f"{record.label}: {record.problem}", record.remedy)
                    on_fault(record.name, "discovery", problem)
            elif record.state is State.LOADED:
                self._tell_deprecated(record)
                self._serve(record)
            elif record.state is not State.BLOCKED:
                where = "discovery" if record.error is None else "import"
                problem = OperatorError(f"{record.label}: {record.problem}", record.remedy)
                if record.name in self._config.tables:
                    # Somebody counts on it, on what it forbids perhaps.
                    self._unfit.append(problem)
                on_fault(record.name, where, problem)
        if self._unfit:
            raise self._unfit[0]

    def _tell_deprecated(self, record: Record) -> None:
        """Warn of it once."""
        for sentence in record.deprecated if record.label not in self._told else ():
            self._log.warning(
                "a plugin uses what is deprecated", plugin=record.name, origin=record.origin, what=sentence
            )
        self._told.add(record.label)

    def _serve(self, record: Record) -> None:
        """Give a hook plugin its services; one whose settings do not fit is taken out again."""
        try:
            settings = self._settings(record, self._hooks.get_plugin(record.name))
        except OperatorError as exc:
            record.fail(State.FAILED, exc.message, exc.remedy, exc)
            self._hooks.unregister(name=record.name)
            self._unfit.append(exc)
        else:
            self._services[record.name] = self._make_services(record.name, settings)

    def services(self, plugin: str) -> Any:
        """The services of a hook plugin that was loaded.

        Raises:
            OperatorError: It was not; says why.
        """
        if plugin not in self._services:
            record = next((r for r in self.records if r.name == plugin and r.group == HOOK_GROUP), None)
            problem = "it is not installed" if record is None else record.problem or record.state
            raise OperatorError(f"plugin {plugin!r} cannot be used: {problem}", "See pml plugins doctor.")
        return self._services[plugin]

    def gather(
        self, hook: str, on_fault: Callable[[str, str, Exception], None], among: Collection[str] | None = None
    ) -> list[tuple[str, Any]]:
        """What hook plugins, or those in ``among``, contribute through ``hook`` and is right, with their names."""
        found = self._hooks.gather(hook, lambda name: {"services": self._services[name]}, on_fault, among)
        return shapes.fitting(hook, found, on_fault)

    def gather_again(
        self, hook: str, tables: Collection[str], on_fault: Callable[[str, str, Exception], None]
    ) -> tuple[list[str], list[tuple[str, Any]]]:
        """The plugins that have ``hook`` and read one of ``tables``, and what they contribute with their new settings.

        Raises:
            OperatorError: The settings of one do not fit.
        """
        names = []
        for record, plugin in self.in_use():
            if hook in self._hooks.hooks_of(record.name) and _tables_of(record, plugin) & set(tables):
                self._serve(record)
                names.append(record.name)
        return names, self.gather(hook, on_fault, names)

    def _settings(self, record: Record, plugin: Any) -> Any:
        """The plugin's settings; the secret ones are known before anybody can log them.

        Raises:
            OperatorError: They do not fit; names the plugin, its distribution and every mistake.
        """
        self._hold(record.kind, record.name, shapes.settings_problem(plugin))
        settings_type, fallback = getattr(plugin, "settings_type", None), getattr(plugin, "settings_fallback", "")
        try:
            settings = self._config.plugin(record.name, settings_type, fallback, guard=record.guard)
            if settings_type is not None:
                self._tell_dropped(record, settings_type, fallback)
        except OperatorError as exc:
            remedy = f"{exc.remedy}, or block {record.name if record.file else record.dist}."
            raise OperatorError(f"{record.label}: {exc.message}", remedy) from exc
        self._learn([*declared_secrets(settings), *self._config.values.secrets])
        return settings

    def _tell_dropped(self, record: Record, settings_type: type[Any], fallback: str) -> None:
        """Log what a project's file says of a plugin and may not; once."""
        for line in self._config.dropped(record.name, settings_type, fallback, guard=record.guard):
            if line not in self._told:
                self._log.warning(line)
                self._told.add(line)


def _tables_of(record: Record, plugin: Any) -> set[str]:
    """The tables that a plugin takes its settings from."""
    return {record.name, getattr(plugin, "settings_fallback", "")}


def check_required(required: Iterable[str], records: Iterable[Record], failed: Mapping[str, str]) -> None:
    """See that everything is there that ``[gateway] required`` names.

    Args:
        required: Names of plugins or of distributions.
        records: What is installed.
        failed: Plugins that loaded and failed since, and why.

    Raises:
        OperatorError: Something is not installed, blocked, or failed.
    """
    records = list(records)
    for name in required:
        known = [r for r in records if r.name == name or r.dist == canonical(name)]
        if not known:
            raise OperatorError(
                f"gateway.required: {name!r} is not installed", f"{_install(name)} Or take it out of gateway.required."
            )
        for record in known:
            usable = (State.LOADED,) if record.group == HOOK_GROUP else (State.FOUND, State.LOADED)
            if record.state not in usable or record.name in failed:
                problem = record.problem or failed.get(record.name, record.state)
                raise OperatorError(f"gateway.required: {record.label}: {problem}", record.remedy or record.mend)


def check_owned(config: Config, records: Iterable[Record]) -> None:
    """See that somebody reads each ``[plugins.<name>]``: what nobody reads forbids nothing.

    Raises:
        OperatorError: Nobody does; names the packages that would, by the convention for their names.
    """
    names = {record.name for record in records}
    if problems := config.unknown_tables(names):
        missing = sorted(set(config.tables) - names)
        drivers_named = {name: kind for kind, _, name in config.named_drivers()}
        installs = " ".join(_install(name, drivers_named.get(name, "")) for name in missing)
        remedy = f"{installs} Or remove the tables, or go on without them: pml serve --allow-unknown"
        raise OperatorError("\n".join(problems), remedy)


def _install(name: str, kind: str = "") -> str:
    """What to do about a plugin that is not there; ``kind`` is that of the driver that it is known to be."""
    if not REQUIREMENT_NAME.fullmatch(name):
        return "No plugin can have such a name."
    dashed = canonical(name).removeprefix("pml-")
    # What an installed distribution asks for exists; what only might, anybody could have registered.
    known = [one for one in sorted(required_names()) if re.fullmatch(rf"pml-(.+-)?{re.escape(dashed)}", one)]
    if known:
        return f"Run: pip install {f'pml-{dashed}' if f'pml-{dashed}' in known else ' or '.join(known)}."
    if not NAME.fullmatch(name):
        return f"Run: pip install {name}."
    if kind:
        return f"Run: pip install pml-{kind.removesuffix('_mode')}-{dashed}."
    return f"Run: pip install pml-{dashed} (a driver: pml-exposure-{dashed}, pml-store-{dashed}, ...)."
