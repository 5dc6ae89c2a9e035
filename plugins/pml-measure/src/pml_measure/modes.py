"""What clients would be shown: every exposure mode as the presets and the user's configuration set it up."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from pml_hookspecs import ExposureMode, InvalidArguments, Session
from pml_hookspecs.exposure_mode import GROUP

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CatalogEntry, Services, Store

    from .configured import Configured
    from .counting import Counter

CONFIGURED = "as configured"
READ_BY_MODELS = ("name", "description", "inputSchema")
"""Members of a tool that clients hand to their models."""


@dataclass(frozen=True, slots=True)
class Variant:
    """An exposure mode with settings."""

    name: str
    """A preset's, a mode's, or :data:`CONFIGURED`."""
    mode: str
    driver: ExposureMode
    intent: str = ""
    """The hint that all its clients have."""

    async def listed(self, services: Services, intent: str = "") -> list[CatalogEntry]:
        """What a client with this hint is shown, in order."""
        catalog = services.catalog
        session = Session(key=f"measure\n{intent or self.intent}", intent=intent or self.intent)
        found = (catalog.get(tool) for tool in (await self.driver.select(catalog, session)).tools)
        return [entry for entry in found if entry is not None and catalog.allows(entry, session)]


def variants(configured: Configured, services: Services) -> list[Variant]:
    """Modes as configured, then by preset, then those without a preset.

    Raises:
        InvalidArguments: The configured mode is not installed, or cannot be made.
    """
    points = {point.name: point for point in entry_points(group=GROUP)}
    if configured.mode not in points:
        raise InvalidArguments(
            f"the exposure mode {configured.mode!r} is not installed; there are: {', '.join(sorted(points)) or 'none'}."
        )
    tables = configured.tables
    made = [_made(CONFIGURED, points[configured.mode], tables, services, configured.intent)]
    for name, values in configured.presets.items():
        mode = values.get(("gateway", "tools_exposure"), configured.mode)
        if mode in points:
            made.append(_made(name, points[mode], _with(tables, values), services, ""))
    covered = {variant.mode for variant in made[1:]}
    made += [_made(name, point, tables, services, "") for name, point in sorted(points.items()) if name not in covered]
    return made


def _with(tables: Mapping[str, Mapping[str, Any]], values: Mapping[tuple[str, ...], Any]) -> dict[str, dict[str, Any]]:
    merged = {name: dict(table) for name, table in tables.items()}
    for path, value in values.items():
        if path[0] == "plugins":
            merged.setdefault(path[1], {})[".".join(path[2:])] = value
    return merged


def _made(
    name: str, point: EntryPoint, tables: Mapping[str, Mapping[str, Any]], services: Services, intent: str
) -> Variant:
    try:
        cls = point.load()
        settings_type = getattr(cls, "settings_type", None)
        fallback = tables.get(getattr(cls, "settings_fallback", ""), {})
        settings = None if settings_type is None else _settings(settings_type, fallback, tables.get(point.name, {}))
        return Variant(name, point.name, cls(settings, Aside(services, settings)), intent)
    except Exception as exc:
        raise InvalidArguments(
            f"the exposure mode {point.name!r} cannot be made: {exc!r}; see pml plugins doctor."
        ) from exc


def _settings(settings_type: type[Any], fallback: Mapping[str, Any], table: Mapping[str, Any]) -> Any:
    """Settings from values that ``pml config`` has checked; environment variables are still text."""
    values = {}
    for field in fields(settings_type):
        if field.name in table or field.name in fallback:
            value = table.get(field.name, fallback.get(field.name))
            default = field.default_factory() if field.default_factory is not MISSING else field.default
            values[field.name] = json.loads(value) if isinstance(value, str) and not isinstance(default, str) else value
    return settings_type(**values)


def text_of(entry: CatalogEntry, services: Services) -> str:
    """What a model reads of a tool: the compact JSON of its name as shown, its description and its parameters."""
    shown = {**entry.definition, "name": services.catalog.exposed_name(entry.id)}
    read = {key: shown[key] for key in READ_BY_MODELS if key in shown}
    return json.dumps(read, ensure_ascii=False, separators=(",", ":"))


class Aside:
    """Services of a mode that is only looked at: it says nothing, and does nothing in the background."""

    def __init__(self, services: Services, settings: Any) -> None:
        self._services, self.settings = services, settings
        self.plugin, self.log = services.plugin, Silence()

    @property
    def catalog(self) -> Catalog:
        """The catalog."""
        return self._services.catalog

    @property
    def store(self) -> Store:
        """The store."""
        return self._services.store

    def spawn(self, func: Callable[..., Awaitable[None]], *args: Any, name: str) -> None:
        """Leave it."""


class Silence:
    """A log that keeps nothing."""

    def __getattr__(self, _level: str) -> Callable[..., Any]:
        return lambda *_args, **_fields: self


class Sizes:
    """Tokens of tools, each counted once."""

    def __init__(self, services: Services, counter: Counter) -> None:
        self._services, self._counter = services, counter
        self._known: dict[str, int] = {}

    def of(self, entry: CatalogEntry) -> int:
        """Tokens of one tool."""
        if entry.id not in self._known:
            self._known[entry.id] = self._counter.count(text_of(entry, self._services))
        return self._known[entry.id]

    def all(self, entries: list[CatalogEntry]) -> int:
        """Tokens of several."""
        return sum(map(self.of, entries))
