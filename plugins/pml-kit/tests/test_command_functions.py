from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from pml_hookspecs import Services
from pml_kit.command_line.functions import command
from pml_kit.shapes import ShapeError
from pml_testing.fakes import FakeServices


def show_sizes(
    folder: Path,
    *,
    most: Annotated[int, "at most 100 %"] = 10,
    by: Literal["name", "size"] = "name",
    deep: bool = False,
    colour: bool = True,
    only: list[str] = [],  # noqa: B006 - not changed
    least: float | None = None,
) -> str:
    """Show the sizes of files.

    Of a folder, and with --deep of all in it.
    """
    return repr((folder, most, by, deep, colour, only, least))


def parser_of(function: Any, **more: Any) -> tuple[argparse.ArgumentParser, Any]:
    parser = argparse.ArgumentParser(prog="pml")
    subcommands = parser.add_subparsers()
    command(subcommands, function, **more)
    return parser, subcommands


def ran(function: Any, *words: str) -> int:
    arguments = parser_of(function)[0].parse_args(words)
    status: int = arguments.run(arguments)
    return status


def test_parameters_are_words_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(show_sizes, "show-sizes", "/tmp") == 0
    assert capsys.readouterr().out.strip() == repr((Path("/tmp"), 10, "name", False, True, [], None))
    words = ("--most", "3", "--by", "size", "--deep", "--no-colour", "--only", "a", "b", "--least", "0.5")
    ran(show_sizes, "show-sizes", "x", *words)
    assert capsys.readouterr().out.strip() == repr((Path("x"), 3, "size", True, False, ["a", "b"], 0.5))


def test_the_docstring_is_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser_of(show_sizes)[0].parse_args(["--help"])
    assert "Show the sizes of files" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        parser_of(show_sizes)[0].parse_args(["show-sizes", "--help"])
    told = capsys.readouterr().out
    assert "with --deep of all in it" in told
    assert "at most 100 %" in told


def test_what_does_not_fit_is_refused_by_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        ran(show_sizes, "show-sizes", "x", "--most", "many")
    assert "invalid int value: 'many'" in capsys.readouterr().err


@pytest.mark.parametrize(("returned", "status"), [(None, 0), (0, 0), (3, 3), ("said", 0)])
def test_what_it_returns_is_the_status_or_is_printed(
    returned: Any, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def give() -> Any:
        """Give it."""
        return returned

    assert ran(give, "give") == status
    assert capsys.readouterr().out == ("said\n" if returned == "said" else "")


def test_one_with_services_is_given_the_plugins() -> None:
    async def count(services: Services, more: int = 1) -> int:
        """Count the tools."""
        return len(services.catalog) + more

    arguments = parser_of(count, name="how-many")[0].parse_args(["how-many", "--more", "2"])
    assert not hasattr(arguments, "run")
    services: Any = FakeServices()
    assert asyncio.run(arguments.run_with(arguments, services)) == 2


def _tuple(size: tuple[int, int]) -> None:
    """Set it."""


def _flag(*, sure: bool) -> None:
    """Do it."""


async def _later(word: str) -> None:
    """Do it."""


def _services(services: Services) -> None:
    """Do it."""


def _numbers(level: Literal[1, 2] = 1) -> None:
    """Set it."""


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (_tuple, "which no word can be"),
        (_flag, "bool with a default"),
        (_numbers, "Literal of texts"),
        (_later, "exactly if it has Services"),
        (_services, "exactly if it has Services"),
    ],
)
def test_what_no_command_can_be_made_of_is_said(function: Any, said: str) -> None:
    with pytest.raises(ShapeError, match=said):
        parser_of(function)
