"""Texts that say how something of the gateway is used, for models and for programs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pml_hookspecs import Key

NAME = re.compile(r"\w+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """A text that says how something of the gateway is used, for those who cannot know it from tools' definitions.

    Clients get it as the resource ``pml://guide/<name>`` and as the prompt ``guide_<name>``, models also by the tool
    ``guide_<name>``, which is not listed and is found by what people ask.
    """

    name: str
    """Letters, digits and ``_``."""
    description: str
    """What it is about, in one sentence."""
    text: str
    """Markdown."""
    questions: tuple[str, ...] = ()
    """What people ask who need it; see :data:`pml_hookspecs.QUESTIONS`."""

    def __post_init__(self) -> None:
        """See that clients can be shown it.

        Raises:
            ValueError: They cannot; says why and what to do.
        """
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise ValueError(f"a guide's name {self.name!r} will not do; use letters, digits and '_'")
        if not all(isinstance(text, str) and text for text in (self.description, self.text)):
            raise ValueError(f"the guide {self.name!r} lacks its description or its text; give it both, as texts")
        questions: object = self.questions
        if isinstance(questions, str):
            raise ValueError(f"the questions of the guide {self.name!r} are one text; make them a tuple")  # noqa: TRY004


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiDescription:
    """What the OpenAPI 3.1 document of the gateway says of a plugin's routes under ``/api/``."""

    paths: Mapping[str, Mapping[str, Any]]
    """Path items by path, ``/api`` included."""
    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By their names under ``#/components/schemas/``; ``Error``, an object with ``code`` and ``message``, is there."""


class ApiDescriber(Protocol):
    """Knows a plugin's routes under ``/api/``."""

    def __call__(self) -> ApiDescription:
        """What the document says of them; called when that is asked for."""
        ...


GUIDES: Key[Guide] = Key("guides", Guide, several="all")
"""A name claimed twice is a start-up error."""
API_DESCRIPTIONS: Key[ApiDescriber] = Key("api_descriptions", ApiDescriber, several="all")
"""Asked by whoever serves the document; of two for one path or schema, one counts."""
