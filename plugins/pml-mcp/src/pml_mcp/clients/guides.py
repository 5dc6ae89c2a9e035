"""Guides of plugins, as clients get them: a resource, a prompt and a tool each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from pml_hookspecs import QUESTIONS, MetaTool, Run
from pml_kit.errors import OperatorError
from pml_kit.offers import Guide

URI = "pml://guide/"
PREFIX = "guide_"
TYPE = "text/markdown"


class Guides:
    """By name, in the order of the plugins that bring them."""

    def __init__(self, contributed: Iterable[tuple[str, Guide]]) -> None:
        """Take the guides, each with its plugin.

        Raises:
            OperatorError: Two plugins claim a name.
        """
        self._guides: dict[str, Guide] = {}
        self._plugins: dict[str, str] = {}
        for plugin, guide in contributed:
            if (owner := self._plugins.setdefault(guide.name, plugin)) != plugin:
                message = f"guide {guide.name!r} is claimed by plugins {owner!r} and {plugin!r}"
                raise OperatorError(message, f"Block one of them: [gateway] block = [{plugin!r}]")
            self._guides[guide.name] = guide

    def told(self) -> list[str]:
        """One line each: what it is about, and where it is."""
        return [f"{one.description} Read {URI}{one.name} or call {PREFIX}{one.name}." for one in self._guides.values()]

    def resources(self) -> list[Mapping[str, Any]]:
        """As ``resources/list`` has them."""
        return [
            {"uri": f"{URI}{one.name}", "name": f"{PREFIX}{one.name}", "description": one.description, "mimeType": TYPE}
            for one in self._guides.values()
        ]

    def prompts(self) -> list[Mapping[str, Any]]:
        """As ``prompts/list`` has them."""
        return [{"name": f"{PREFIX}{one.name}", "description": one.description} for one in self._guides.values()]

    def resource(self, uri: str) -> Mapping[str, Any] | None:
        """The result of ``resources/read``; None when it is none of these."""
        guide = self._guides.get(uri.removeprefix(URI)) if uri.startswith(URI) else None
        return None if guide is None else {"contents": [{"uri": uri, "mimeType": TYPE, "text": guide.text}]}

    @property
    def names(self) -> Collection[str]:
        """Of the prompts."""
        return {f"{PREFIX}{name}" for name in self._guides}

    def prompt(self, name: str) -> Mapping[str, Any] | None:
        """The result of ``prompts/get``; None when it is none of these."""
        guide = self._guides.get(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None
        if guide is None:
            return None
        content = {"type": "text", "text": guide.text}
        return {"description": guide.description, "messages": [{"role": "user", "content": content}]}

    def tools(self) -> Iterator[tuple[str, MetaTool]]:
        """A tool for each, with its plugin."""
        for name, guide in self._guides.items():
            yield self._plugins[name], MetaTool(definition=_definition(guide), call=_reader(guide), listed=False)


def _definition(guide: Guide) -> Mapping[str, Any]:
    return {
        "name": f"{PREFIX}{guide.name}",
        "description": guide.description,
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": {"readOnlyHint": True},
        "_meta": {QUESTIONS: list(guide.questions)},
    }


def _reader(guide: Guide) -> Any:
    async def read(_arguments: Mapping[str, Any], _run: Run) -> Mapping[str, Any]:
        return {"guide": guide.text}

    return read
