"""Meta-tools made of typed functions: the schema from the hints, the description from the docstring."""

from __future__ import annotations

import copy
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec
from anyio import to_thread

from pml_hookspecs import InvalidArguments, MetaTool, RawObject, Run, Session
from pml_hookspecs.tasks import Node
from pml_kit.mcp.effects import Effects
from pml_kit.shapes import ShapeError

HINTS: Mapping[Effects, Mapping[str, bool]] = {
    "read": {"readOnlyHint": True, "destructiveHint": False},
    "write": {"readOnlyHint": False, "destructiveHint": False},
    "destroy": {"readOnlyHint": False, "destructiveHint": True},
}
"""The annotations of a tool with such effects."""
_WHERE = re.compile(r"(?s)(.*?)(?: - at `\$\.?(.*)`)?")
_ONE_BY_ONE = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Parameter(NamedTuple):
    """One parameter of a function, as its hint has it."""

    name: str
    hint: Any
    """Without what is said of it."""
    about: str
    """The text in ``Annotated[…, "text"]``; ``""`` for none."""
    default: Any
    """``inspect.Parameter.empty`` for none."""

    @property
    def may_be_none(self) -> bool:
        """Whether its hint allows None."""
        return type(None) in typing.get_args(self.hint)


class Signature(NamedTuple):
    """What is to be known of a typed function."""

    name: str
    description: str
    """Its docstring."""
    parameters: list[Parameter]
    returns: Any
    """``None`` where nothing is said."""


def signature_of(function: Callable[..., Any]) -> Signature:
    """The hints of a function, each of its parameters with one.

    Raises:
        ShapeError: A parameter has none, or one that cannot be read, or is not given by name; there is no docstring.
    """
    name = getattr(function, "__name__", type(function).__name__)
    if not (description := inspect.getdoc(function) or "") or name == "<lambda>":
        raise ShapeError(f"{name!r} has no docstring; say in one what it does, for those who are to call it")
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as exc:  # whatever a hint does when it is read
        why = "; import it where the module is run, not for the type checker alone" * isinstance(exc, NameError)
        raise ShapeError(f"the hints of {name!r} cannot be read: {exc}{why}") from exc
    parameters = []
    for one in inspect.signature(function).parameters.values():
        if one.kind not in _ONE_BY_ONE:
            raise ShapeError(f"{name!r} has {str(one)!r}, which cannot be given by name; write each parameter out")
        if one.name not in hints:
            raise ShapeError(f"{name!r}: {one.name!r} has no type hint; write one: {one.name}: str")
        hint, about = hints[one.name], ""
        if typing.get_origin(hint) is typing.Annotated:
            about = next((said for said in hint.__metadata__ if isinstance(said, str)), "")
            hint = hint.__origin__ if about and len(hint.__metadata__) == 1 else hint
        parameters.append(Parameter(one.name, hint, about, one.default))
    return Signature(name, description, parameters, hints.get("return"))


def meta_tool(
    function: Callable[..., Any],
    *,
    name: str = "",
    effects: Effects | None = None,
    listed: bool | Callable[[Session], bool] = True,
    aliases: tuple[str, ...] = (),
) -> MetaTool:
    """A tool of the gateway's own that calls ``function``, with what its hints and docstring say of it.

    Parameters may be texts, numbers, truth values, lists, dicts, ``Literal``, ``Optional``, dataclasses, ``TypedDict``
    and structs of msgspec, ``Annotated`` with a text that describes them; one of the type :class:`~pml_hookspecs.Run`
    is given the run. The function may be a coroutine function; another one is called in a thread. What it returns is
    the result: a text, a mapping or what makes one, or any other value as ``{"result": value}``. One that says that it
    returns a task, and is no coroutine function, stands for that task.

    Args:
        function: Its docstring is the description.
        name: Of the tool; ``""`` for the function's.
        effects: What it does at most, for clients that ask their users by that; None to say nothing.
        listed: As of :class:`~pml_hookspecs.MetaTool`.
        aliases: As of :class:`~pml_hookspecs.MetaTool`.

    Raises:
        ShapeError: Nothing can be made of the function; the message says why, and what to write.
    """
    signature = signature_of(function)
    runs = [one.name for one in signature.parameters if one.hint is Run]
    reader = _Reader(name or signature.name, [one for one in signature.parameters if one.hint is not Run])
    definition = {"name": reader.name, "description": signature.description, "inputSchema": reader.schema}
    if effects is not None:
        definition["annotations"] = HINTS[effects]
    if _is_task(signature.returns):
        if runs or inspect.iscoroutinefunction(function):
            raise ShapeError(f"{signature.name!r} returns a task to run, so it is no coroutine function and has no Run")
        made: Callable[..., Any] = lambda arguments: function(**reader.read(arguments))  # noqa: E731 - one expression
        return MetaTool(definition=definition, task=made, listed=listed, aliases=aliases)

    async def call(arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any] | str:
        given = {**reader.read(arguments), **dict.fromkeys(runs, run)}
        if inspect.iscoroutinefunction(function):
            return _result(await function(**given))
        return _result(await to_thread.run_sync(partial(function, **given)))

    return MetaTool(definition=definition, call=call, listed=listed, aliases=aliases)


class _Reader:
    """Makes the arguments of a function of a call's, and says what they have to be."""

    def __init__(self, name: str, parameters: list[Parameter]) -> None:
        self.name, self._parameters = name, parameters
        fields = [_field(one) for one in parameters]
        try:
            self._type = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
            (_, found) = msgspec.json.schema_components([self._type], ref_template="#/$defs/{name}")
        except Exception as exc:  # msgspec raises many kinds for what it does not know
            reason = str(exc).strip().splitlines()[-1]
            raise ShapeError(
                f"no JSON schema can be made of the hints of {name!r}: {reason}; use str, int, float, bool, list, "
                "dict, Literal, dataclasses or TypedDict"
            ) from exc
        own = found.pop(name)
        del own["title"]
        self.schema: dict[str, Any] = {**own, "$defs": found} if found else own

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """By name; a null for what has a default, and may not be one, counts as left out.

        Raises:
            InvalidArguments: They do not fit.
        """
        optional = {
            one.name for one in self._parameters if one.default is not inspect.Parameter.empty and not one.may_be_none
        }
        given = {name: value for name, value in arguments.items() if value is not None or name not in optional}
        try:
            made = msgspec.convert(given, self._type)
        except msgspec.ValidationError as exc:
            found = _WHERE.fullmatch(str(exc))
            what, where = (found[1], found[2]) if found else (str(exc), "")
            raise InvalidArguments(f"{self.name}: {f'{where}: ' if where else ''}{what}.") from exc
        return {one.name: getattr(made, one.name) for one in self._parameters}


def _field(one: Parameter) -> tuple[str, Any] | tuple[str, Any, Any]:
    hint = typing.Annotated[one.hint, msgspec.Meta(description=one.about)] if one.about else one.hint
    if one.default is inspect.Parameter.empty:
        return one.name, hint
    if isinstance(one.default, list | dict | set):
        return one.name, hint, msgspec.field(default_factory=partial(copy.deepcopy, one.default))
    return one.name, hint, one.default


def _is_task(returns: Any) -> bool:
    """Whether a hint of what is returned is one task, or one of several."""
    several = typing.get_args(returns) if isinstance(returns, types.UnionType) else (returns,)
    return all(inspect.isclass(one) and issubclass(one, Node) for one in several)


def _result(value: Any) -> Mapping[str, Any] | str:
    if isinstance(value, str | RawObject):
        return value
    plain = msgspec.to_builtins(value, str_keys=True)
    return plain if isinstance(plain, dict) else {"result": plain}
