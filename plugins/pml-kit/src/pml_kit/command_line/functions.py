"""Commands made of typed functions: arguments from the parameters, help from the docstring."""

from __future__ import annotations

import argparse
import inspect
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pml_hookspecs import Services
from pml_kit.mcp.functions import Parameter, signature_of
from pml_kit.shapes import ShapeError

KINDS = (str, int, float, Path)
"""What a word on the command line can be."""


def command(subcommands: Any, function: Callable[..., Any], *, name: str = "") -> argparse.ArgumentParser:
    """Add ``pml <name>``, which calls ``function``, to those of ``pml_commands``.

    A parameter without a default is a word, one with a default an option: ``most: int = 10`` is ``--most N``. Their
    hints are ``str``, ``int``, ``float``, ``Path``, ``bool``, ``Literal`` of texts, a list of one of these, or one of
    these or None; ``Annotated`` with a text describes them. A coroutine function may have a parameter of the type
    :class:`~pml_hookspecs.Services`, and is given the plugin's. A text that is returned is printed, a number is the
    exit status, and None is 0.

    Args:
        subcommands: As ``pml_commands`` gets them.
        function: Its docstring is the help; of that the first line is in the list of all commands.
        name: Of the command; ``""`` for the function's, with hyphens.

    Raises:
        ShapeError: Nothing can be made of the function; the message says why, and what to write.
    """
    signature = signature_of(function)
    services = [one.name for one in signature.parameters if one.hint is Services]
    if bool(services) != inspect.iscoroutinefunction(function):
        raise ShapeError(f"the command {signature.name!r} is a coroutine function exactly if it has Services; mend it")
    given = [one for one in signature.parameters if one.hint is not Services]
    words = [_argument(one, signature.name) for one in given]
    about = signature.description
    made: argparse.ArgumentParser = subcommands.add_parser(
        name or signature.name.replace("_", "-"), help=about.splitlines()[0].rstrip("."), description=about
    )
    for flags, options in words:
        made.add_argument(*flags, **options)

    def named(arguments: argparse.Namespace) -> dict[str, Any]:
        return {one.name: getattr(arguments, one.name) for one in given}

    async def run_with(arguments: argparse.Namespace, own: Services) -> int:
        return _status(await function(**named(arguments), **dict.fromkeys(services, own)))

    if services:
        made.set_defaults(run_with=run_with)
    else:
        made.set_defaults(run=lambda arguments: _status(function(**named(arguments))))
    return made


def _argument(one: Parameter, function: str) -> tuple[list[str], dict[str, Any]]:
    """What :meth:`argparse.ArgumentParser.add_argument` is called with."""
    hint, options = one.hint, {"help": one.about.replace("%", "%%") or None}
    if one.may_be_none:
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    optional = one.default is not inspect.Parameter.empty
    flags = [f"--{one.name.replace('_', '-')}"] if optional else [one.name]
    if optional:
        options |= {"default": one.default, "dest": one.name}
    if hint is bool and optional:
        return flags, {**options, "action": argparse.BooleanOptionalAction if one.default else "store_true"}
    if typing.get_origin(hint) is list:
        options["nargs"] = "*"
        hint = next(iter(typing.get_args(hint)), str)
    if typing.get_origin(hint) is typing.Literal and all(isinstance(choice, str) for choice in typing.get_args(hint)):
        return flags, {**options, "choices": typing.get_args(hint)}
    if hint not in KINDS:
        known = ", ".join(kind.__name__ for kind in KINDS)
        raise ShapeError(
            f"the command {function!r}: {one.name!r} is {hint!r}, which no word can be; use {known}, Literal of texts, "
            "a list of these, or bool with a default"
        )
    return flags, {**options, "type": hint, **({"metavar": one.name.upper()} if optional else {})}


def _status(returned: Any) -> int:
    if isinstance(returned, str):
        print(returned)
    return returned if isinstance(returned, int) else 0
