"""The hook side: pluggy, made strict and safe for an async host. The only module that imports pluggy."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import pluggy

from pml_hookspecs import PROJECT, hooks
from pml_kit.errors import OperatorError
from pml_kit.shapes import ShapeError, items_of

from .registry import HOOK_GROUP, Advice, Record, State, cause

Fault = Callable[[str, str, Exception], None]
"""Called with the plugin's name, the hook's name and what it raised."""


class HookManager(pluggy.PluginManager):
    """Registers hook plugins one by one, refuses what cannot work, and asks each by itself."""

    def __init__(self) -> None:
        super().__init__(PROJECT)
        self.add_hookspecs(hooks.Hooks)

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        """Look only at what can be a hook: pluggy before 1.7 evaluates properties here."""
        return super().parse_hookimpl_opts(plugin, name) if name.startswith("pml_") else None

    def add(self, plugin: object, name: str) -> None:
        """Register ``plugin``, or leave no trace of it.

        Raises:
            Exception: It is no plugin: it has an async, unknown or unmarked hook, none at all, or other arguments.
        """
        if self.has_plugin(name) or self.is_registered(plugin):
            raise ValueError(f"{name!r} is loaded already")
        try:
            with warnings.catch_warnings():
                for advice in self._advice:
                    warnings.filterwarnings("ignore", re.escape(str(advice)))  # pluggy's, which names no plugin
                self.register(plugin, name)
            callers = self.get_hookcallers(plugin) or ()
            for caller in callers:
                self._check(caller, plugin)
            self._check_marks(plugin, {caller.name for caller in callers})
        except Exception:
            if self.has_plugin(name):
                self.unregister(name=name)
            raise

    @property
    def _advice(self) -> Iterator[Warning]:
        """What the specs say of deprecated hooks and arguments."""
        for caller in vars(self.hook).values():
            if isinstance(caller, pluggy.HookCaller) and caller.spec is not None:
                yield from filter(None, (caller.spec.warn_on_impl, *(caller.spec.warn_on_impl_args or {}).values()))

    def deprecated(self, name: str) -> Iterator[Advice]:
        """The deprecated hooks, and arguments of hooks, that a plugin has."""
        plugin = self.get_plugin(name)
        for caller in self.get_hookcallers(plugin) or ():
            for impl in caller.get_hookimpls():
                if impl.plugin is plugin and caller.spec is not None:
                    where = inspect.unwrap(impl.function).__code__
                    place = (where.co_filename, where.co_firstlineno)
                    if caller.spec.warn_on_impl:
                        yield (caller.name, str(caller.spec.warn_on_impl), *place)
                    arguments = caller.spec.warn_on_impl_args or {}
                    for given in sorted(set(arguments) & {*impl.argnames, *impl.kwargnames}):
                        yield (f"{given} of {caller.name}", str(arguments[given]), *place)

    def _check(self, caller: Any, plugin: object) -> None:
        if not caller.has_spec():
            raise pluggy.PluginValidationError(plugin, f"unknown hook {caller.name!r}")
        for impl in caller.get_hookimpls():
            function = impl.function
            if impl.plugin is plugin and (
                inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
            ):
                message = f"{caller.name} is async; hooks are plain functions that return async objects"
                raise pluggy.PluginValidationError(plugin, message)

    def _check_marks(self, plugin: object, marked: Collection[str]) -> None:
        for name in vars(self.hook):
            given = inspect.getattr_static(plugin, name, None)
            if name not in marked and inspect.isfunction(given):
                raise ShapeError(f"{name} is not marked, so that nobody calls it; put @hookimpl on it")
            if name in marked and inspect.isclass(plugin) and inspect.isfunction(given):
                raise ShapeError(f"{plugin.__name__!r} is a class; have the entry point name an instance of it")
        if not marked:
            raise ShapeError("it has no hooks; mark a function, such as pml_wrap_executor, with @hookimpl")

    def load(self, records: Sequence[Record]) -> None:
        """Register every healthy record of the hook group, in name order; mark the ones that fail."""
        for record in records:
            if record.group != HOOK_GROUP or record.state is not State.FOUND:
                continue
            try:
                plugin = record.provided or record.entry_point.load()
            except OperatorError as exc:
                record.fail(State.FAILED, exc.message, exc.remedy, exc)
                continue
            except (Exception, SystemExit) as exc:  # SystemExit: a module that calls sys.exit() on import
                record.fail(State.FAILED, cause(exc, record.file), record.mend, exc)
                continue
            try:
                self.add(plugin, record.name)
            except Exception as exc:
                problem = " ".join(str(exc).split())  # pluggy says it in several lines
                said = problem if isinstance(exc, ShapeError) else f"{type(exc).__name__}: {problem}"
                record.fail(State.FAILED, said, record.mend, exc)
            else:
                record.state = State.LOADED
                record.advise(self.deprecated(record.name))

    def hooks_of(self, name: str) -> set[str]:
        """Names of the hooks that a plugin has."""
        plugin = self.get_plugin(name)
        return set() if plugin is None else {caller.name for caller in self.get_hookcallers(plugin) or ()}

    def gather(
        self,
        hook: str,
        arguments: Callable[[str], dict[str, Any]],
        on_fault: Fault,
        among: Collection[str] | None = None,
    ) -> list[tuple[str, Any]]:
        """Call ``hook`` on each plugin by itself; ``(plugin name, item)`` pairs in name order.

        One plugin's exception does not stop the others, and each gets its own arguments. ``among`` are the plugins to
        ask; None for all.
        """
        found: list[tuple[str, Any]] = []
        caller = getattr(self.hook, hook)
        for name, plugin in sorted(self.list_name_plugin()):
            if among is not None and name not in among:
                continue
            for impl in caller.get_hookimpls():
                if impl.plugin is not plugin:
                    continue
                try:
                    given = arguments(name)
                    returned = impl.function(**{a: given[a] for a in impl.argnames})
                    found += [(name, item) for item in items_of(hook, returned)]
                except SystemExit as exc:
                    on_fault(name, hook, ShapeError(f"{hook} ends the process ({exc!r}); raise what is wrong instead"))
                except Exception as exc:
                    on_fault(name, hook, exc)
        return found
