"""Validation of the configuration: the only module that imports pydantic-settings."""

from __future__ import annotations

import difflib
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from pml_clients.configuration.files import SECTIONS, Source
from pml_clients.configuration.view import nearest_source as source_of
from pml_clients.trees import at
from pml_kit.errors import OperatorError
from pml_mcp.server_settings import ServerSettings

from .config_tables import (
    ENVIRONMENT_PREFIX,
    EndpointSettings,
    GatewaySettings,
    endpoint_problem,
    make_server,
    normalise,
    server_problems,
)

S = TypeVar("S")
ENVIRONMENT = "environment"
ALTERNATIVES: Mapping[str, str] = {
    "dataclass_type": "Input should be a table",
    "unexpected_keyword_argument": "unknown key",
}
"""What pydantic says of a table in the place of a value in words that are not those of a configuration."""
MISTAKES = "the configuration does not fit:"


def model_of(settings_type: type[Any], *, extra: Any = "forbid") -> type[BaseModel]:
    """The pydantic model of a settings dataclass: same fields, bounds and descriptions."""
    hints = get_type_hints(settings_type)
    made: dict[str, Any] = {}
    for f in fields(settings_type):
        about = {
            "description": f.metadata.get("description", ""),
            "ge": f.metadata.get("ge"),
            "le": f.metadata.get("le"),
        }
        if f.default_factory is not MISSING:
            made[f.name] = (hints[f.name], Field(default_factory=f.default_factory, **about))
        elif f.default is MISSING:
            made[f.name] = (hints[f.name], Field(**about))
        else:
            made[f.name] = (hints[f.name], Field(default=f.default, **about))
    config = ConfigDict(extra=extra, frozen=True)
    with warnings.catch_warnings():
        # Nobody asks the model for what it calls `schema`; a plugin may call a setting so.
        warnings.filterwarnings("ignore", r'Field name ".*" in ".*" shadows an attribute in parent "BaseModel"')
        model: type[BaseModel] = create_model(
            settings_type.__name__, __config__=config, __doc__=settings_type.__doc__, **made
        )
    return model


def merge(
    early: Sequence[Source], files: Sequence[Source], *, environment: bool = True
) -> tuple[
    GatewaySettings,
    dict[str, ServerSettings],
    dict[str, EndpointSettings],
    dict[str, dict[str, Any]],
    tuple[Source, ...],
]:
    """Merge and validate: gateway, servers, endpoints, the plugins' tables as they are, and all sources.

    Args:
        early: Sources that win over the environment.
        files: Sources that the environment wins over.
        environment: False: it says nothing.

    Raises:
        OperatorError: Names every mistake and its source.
    """
    gateway_model, server_model = model_of(GatewaySettings), model_of(ServerSettings, extra="allow")
    endpoint_model = model_of(EndpointSettings)
    labelled: list[Source] = []

    class Settings(BaseSettings):
        model_config = SettingsConfigDict(
            env_prefix=ENVIRONMENT_PREFIX, env_nested_delimiter="__", frozen=True, extra="forbid"
        )
        gateway: gateway_model = Field(default_factory=gateway_model)  # type: ignore[valid-type]
        servers: dict[str, server_model] = Field(default_factory=dict)  # type: ignore[valid-type]
        endpoints: dict[str, endpoint_model] = Field(default_factory=dict)  # type: ignore[valid-type]
        plugins: dict[str, dict[str, Any]] = Field(default_factory=dict)

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            said = [Source(ENVIRONMENT, normalise(env_settings()))] if environment else []
            labelled[:] = [*early, *said, *files]
            return tuple(InitSettingsSource(settings_cls, init_kwargs=source.tree) for source in labelled)

    try:
        valid: Any = Settings()
    except SettingsError as exc:
        cause = exc.__cause__ or exc
        raise OperatorError(
            f"an environment variable does not fit: {exc}: {cause}", "Write lists and tables as JSON."
        ) from exc
    except ValidationError as exc:
        models = {"gateway": gateway_model, "servers": server_model, "endpoints": endpoint_model}
        raise OperatorError(_explain(exc, labelled, models), "See pml config schema for what may stand where.") from exc
    servers = {name: make_server(model.model_dump()) for name, model in valid.servers.items()}
    gateway = GatewaySettings(**{f.name: getattr(valid.gateway, f.name) for f in fields(GatewaySettings)})
    endpoints = {name: EndpointSettings(**model.model_dump()) for name, model in valid.endpoints.items()}
    _check_names(servers, endpoints, labelled)
    return gateway, servers, endpoints, dict(valid.plugins), tuple(labelled)


def _check_names(
    servers: Mapping[str, ServerSettings], endpoints: Mapping[str, EndpointSettings], sources: Sequence[Source]
) -> None:
    """What types cannot say about servers and endpoints.

    Raises:
        OperatorError: Names every mistake.
    """
    problems = [problem for name, server in servers.items() for problem in server_problems(name, server)]
    wrong = {name: why for name in endpoints if (why := endpoint_problem(name))}
    problems += [f"endpoints.{name} ({source_of(sources, ('endpoints', name))}): {why}" for name, why in wrong.items()]
    if problems:
        raise OperatorError("\n  ".join([MISTAKES, *problems]))


def validate_table(settings_type: type[S], table: Mapping[str, Any], plugin: str, sources: Sequence[Source]) -> S:
    """One plugin's table as its settings.

    Raises:
        OperatorError: Names every mistake and its source.
    """
    model = model_of(settings_type)
    try:
        valid = model.model_validate({k: _from_text(model, plugin, k, v) for k, v in table.items()})
    except ValidationError as exc:
        message = _explain(exc, sources, {"plugins": model}, prefix=("plugins", plugin))
        raise OperatorError(message, f"See pml config explain plugins.{plugin}") from exc
    try:
        return settings_type(**{f.name: getattr(valid, f.name) for f in fields(settings_type)})  # type: ignore[arg-type]
    except ValueError as exc:  # of what no single value can be wrong about
        where = f"plugins.{plugin} ({source_of(sources, ('plugins', plugin))})"
        raise OperatorError(f"{MISTAKES} {where}: {exc}") from exc


def _from_text(model: type[BaseModel], plugin: str, name: str, value: Any) -> Any:
    """A value from an environment variable as its field wants it: lists and tables decoded, text left as text."""
    field = model.model_fields.get(name)
    if field is not None and field.annotation is str and not isinstance(value, str):
        # pydantic-settings before 2.16.3 decodes what looks like a number before anyone knows that it is text.
        variable = f"{ENVIRONMENT_PREFIX}PLUGINS__{plugin}__{name}".upper()
        return {k.upper(): v for k, v in os.environ.items()}.get(variable, value)
    if isinstance(value, str) and field is not None and field.annotation is not str and value[:1] in "[{":
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _explain(
    error: ValidationError,
    sources: Sequence[Source],
    models: Mapping[str, type[BaseModel]],
    prefix: tuple[str, ...] = (),
) -> str:
    found: dict[tuple[str, ...], list[str]] = {}
    for problem in error.errors(include_url=False):
        path = _written((*prefix, *map(str, problem["loc"])), sources, certain=len(prefix) + 1)
        text = ALTERNATIVES.get(problem["type"]) or problem["msg"].replace("a valid tuple", "a list")
        if problem["type"] == "extra_forbidden":
            model = models.get(path[0]) if len(path) > 1 else None
            names = list(model.model_fields) if model is not None else list(SECTIONS)
            near = difflib.get_close_matches(path[-1], names, n=1)
            text = "unknown key" + (f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(sorted(names))}")
        found.setdefault(path, []).append(text)
    # What is wrong inside a table says more than that the table might have been something else.
    apt = [path for path in found if not any(other[: len(path)] == path != other for other in found)]
    lines = [f"{'.'.join(path)} ({source_of(sources, path)}): {', or: '.join(found[path])}" for path in apt]
    return f"{MISTAKES} {lines[0]}" if len(lines) == 1 else "\n  ".join([MISTAKES, *lines])


def _written(path: Sequence[str], sources: Sequence[Source], *, certain: int) -> tuple[str, ...]:
    """``path`` without the names that pydantic gives to the alternatives of a type, which nobody wrote.

    Args:
        certain: How many parts at its beginning are none of these.
    """
    kept = list(path[:certain])
    for part in path[certain:]:
        here = [value for source in sources if (value := at(source.tree, kept)) is not None]
        if not here or any(_has(value, part) for value in here):
            kept.append(part)
    return tuple(kept)


def _has(value: Any, part: str) -> bool:
    """Whether something in a source may have a part of such a name; of JSON in a variable that is not known."""
    return isinstance(value, str) or (part in value if isinstance(value, Mapping) else part.isdigit())


def json_schema(
    plugins: Mapping[str, type[Any]], sections: Mapping[str, tuple[str, str]] = {}
) -> dict[str, Any]:  # fmt: skip
    """JSON Schema (2020-12) of a configuration file, with the tables of the given plugins.

    Args:
        plugins: The settings class of each.
        sections: Tables at the top of a file that are a setting of a plugin, each with both names; those of other
            plugins are left out.
    """
    gateway, server = model_of(GatewaySettings), model_of(ServerSettings, extra="allow")
    endpoint = model_of(EndpointSettings)
    tables: dict[str, Any] = {}
    for name, settings_type in plugins.items():
        model: Any = model_of(settings_type)
        tables[name] = (model, Field(default_factory=model))
    forbid = ConfigDict(extra="forbid")
    all_tables: Any = create_model("Plugins", __config__=forbid, **tables)
    short: dict[str, Any] = {}
    for section, (plugin, setting) in sections.items():
        if plugin in tables and (field := tables[plugin][0].model_fields.get(setting)) is not None:
            short[section] = (field.annotation, field)
    file: type[BaseModel] = create_model(
        "Configuration",
        __config__=forbid,
        __doc__="Configuration of the PML gateway.",
        gateway=(gateway, Field(default_factory=gateway)),
        servers=(dict[str, server], Field(default_factory=dict)),  # type: ignore[valid-type]
        endpoints=(dict[str, endpoint], Field(default_factory=dict)),  # type: ignore[valid-type]
        plugins=(all_tables, Field(default_factory=all_tables)),
        **short,
    )
    return file.model_json_schema()
