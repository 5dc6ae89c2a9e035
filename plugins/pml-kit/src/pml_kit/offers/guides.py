"""Texts that say how something of the gateway is used."""

from __future__ import annotations

import re
from dataclasses import dataclass

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


GUIDES: Key[Guide] = Key("guides", Guide, several="all")
"""A name claimed twice is a start-up error."""
