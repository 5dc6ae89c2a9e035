"""What commands that change files are handed of the configuration, without a gateway."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pml_clients.trees import at
from pml_hookspecs import Key
from pml_kit.errors import OperatorError
from pml_kit.order import near

from .files import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What files, environment and options together came to."""

    servers: Mapping[str, Mapping[str, Any]]
    """By name, with defaults."""
    sources: Sequence[Source]
    """First wins."""

    def server(self, name: str) -> Mapping[str, Any]:
        """The section of a server.

        Raises:
            OperatorError: There is none.
        """
        if name in self.servers:
            return self.servers[name]
        raise no_server(name, self.servers)


class ConfigurationFiles(Protocol):
    """The files of the configuration, as the gateway here would understand them."""

    @property
    def given(self) -> Path | None:
        """The file that the command's options name; None for none."""
        ...

    def load(self, config: Path | None = None) -> Configuration:
        """What counts here, with ``config`` in the place of the project's files.

        Raises:
            OperatorError: A file cannot be read, or does not fit.
        """
        ...

    def from_options(self) -> Configuration:
        """What the command's own options ask for, as in :meth:`load`; files that do not count are told of."""
        ...

    def problems(self, config: Path, without: Path | None = None) -> list[str]:
        """What does not fit with ``config``, the settings of all plugins included, while ``without`` does not count."""
        ...

    def normalise(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        """What stands in a file, with older spellings as they are written today."""
        ...

    def doubts(self, mode: str) -> list[str]:
        """What else has to be said for ``mode`` as that of all clients to list anything, under :meth:`from_options`."""
        ...


class ServedFiles(Protocol):
    """The files that a running gateway follows."""

    def __call__(self) -> ConfigurationFiles:
        """They find nothing wrong with tables of plugins: the gateway has checked those, and loads nothing anew."""
        ...


SERVED_FILES: Key[ServedFiles] = Key("served_files", ServedFiles)
"""The gateway's own; nobody offers it where a program made the gateway of a configuration that is in no file."""


def source_of(sources: Iterable[Source], path: Sequence[str]) -> str | None:
    """Label of the first source that sets ``path``; None when it is a default."""
    return next((source.label for source in sources if at(source.tree, path) is not None), None)


def nearest_source(sources: Sequence[Source], path: Sequence[str]) -> str:
    """Label of the first source that says something at ``path`` or above it; ``default`` where none does."""
    found = (source_of(sources, path[:depth]) for depth in range(len(path), 0, -1))
    return next(filter(None, found), "default")


def no_server(name: str, known: Iterable[str]) -> OperatorError:
    """That there is no server of this name, and which might be meant."""
    hint = near(name, list(known), f"configured: {', '.join(sorted(known)) or 'none'}")
    return OperatorError(f"there is no server {name!r}; {hint}")
