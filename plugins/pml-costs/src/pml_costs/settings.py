"""``[plugins.costs]``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from pml_hookspecs import setting

PATHS = ("result_cost", "result_tokens_in", "result_tokens_out", "result_model")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """One of ``tools``: what each call costs. All that is given is added up."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    per_call_usd: float = setting(0.0, "Of each call that its server answered, with an error also [USD].")
    per_1k_tokens_in_usd: float = setting(0.0, "Of 1000 tokens of what the tool gets [USD].")
    per_1k_tokens_out_usd: float = setting(0.0, "Of 1000 tokens of what it answers [USD].")
    model: str = setting("", "The model in models whose prices hold for its tokens, where the result names none.")
    result_cost: str = setting("", "Where in the result its cost stands: a JMESPath expression [USD].")
    result_tokens_in: str = setting("", "Where the tokens read stand [tokens]; estimated without.")
    result_tokens_out: str = setting("", "Where the tokens written stand [tokens]; estimated without.")
    result_model: str = setting("", "Where the name of the model stands.")

    def __post_init__(self) -> None:
        """Refuse what types cannot.

        Raises:
            ValueError: Names every mistake.
        """
        numbers = ("per_call_usd", "per_1k_tokens_in_usd", "per_1k_tokens_out_usd")
        problems = [*_bad_prices(self, numbers), *_bad_paths(self)]
        if problems:
            raise ValueError("; ".join(problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One of ``models``: what its tokens cost."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    input_per_million_usd: float = setting(0.0, "Of a million tokens that it reads [USD].")
    output_per_million_usd: float = setting(0.0, "Of a million tokens that it writes [USD].")

    def __post_init__(self) -> None:
        """Refuse what types cannot.

        Raises:
            ValueError: Names every mistake.
        """
        problems = list(_bad_prices(self, ("input_per_million_usd", "output_per_million_usd")))
        if problems:
            raise ValueError("; ".join(problems))


def _bad_prices(price: Any, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        value = getattr(price, name)
        if not (math.isfinite(value) and value >= 0):
            yield f"{name} is {value}; it must be 0 or more"


def _bad_paths(price: Price) -> Iterator[str]:
    for name in PATHS:
        expression = getattr(price, name)
        if not expression:
            continue
        from jmespath import compile as read
        from jmespath.exceptions import JMESPathError

        try:
            read(expression)
        except JMESPathError as exc:
            yield f"{name} is no JMESPath expression: {str(exc).splitlines()[0]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What things cost."""

    tools: dict[str, Price] = setting(
        dict,
        "Prices by pattern of tool ids, such as 'search:*'; of several that fit, the longest counts.",
        project="never",
    )
    models: dict[str, Model] = setting(
        dict,
        "Prices of tokens by pattern of models' names, such as 'large-*'; of several that fit, the longest counts.",
        project="never",
    )
    estimates: bool = setting(
        default=True,
        description="Note how many tokens each call's arguments and result are, as bytes / 4.",
        project="never",
    )
