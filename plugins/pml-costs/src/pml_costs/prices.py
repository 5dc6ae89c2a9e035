"""What a call costs, by the table of prices and by what its result says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, NamedTuple, TypeVar

from pml_hookspecs import RawObject, encode, split_tool_id

from .settings import Model, Price, Settings

T = TypeVar("T")
AGENTS = "agents"
"""The server whose tools are agents: what they say of tokens is what their models used, not what the result is."""
OF_AGENTS = Price(
    result_cost="structuredContent.cost_usd",
    result_tokens_in="structuredContent.tokens_in",
    result_tokens_out="structuredContent.tokens_out",
    result_model="structuredContent.model",
)
"""Holds for agents that no pattern fits, where there are prices of models."""
META_COST, META_TOKENS_IN, META_TOKENS_OUT, META_MODEL = (
    f"pml/{name}" for name in ("cost_usd", "tokens_in", "tokens_out", "model")
)
"""Keys of a result's ``_meta`` by which a server may say what a call cost, if a pattern fits its tool."""
BYTES_PER_TOKEN = 4
"""Bytes of a token, as for :attr:`pml_hookspecs.CatalogEntry.tokens`."""


class Cost(NamedTuple):
    """What one call cost and used; None is what nobody knows."""

    usd: float | None
    tokens_in: int | None
    tokens_out: int | None


class ReportedCost(NamedTuple):
    """What a result says of its own cost and tokens."""

    usd: float | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    model: str = ""


class Prices:
    """The table of prices."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def of(self, tool: str) -> tuple[str, Price] | None:
        """The pattern that counts for ``tool``, and its price; None when no price is known."""
        found = _longest(self._settings.tools, tool)
        if found is None and self._settings.models and split_tool_id(tool)[0] == AGENTS:
            return "", OF_AGENTS
        return found

    def of_model(self, name: str) -> Model | None:
        """None when its prices are not known."""
        found = _longest(self._settings.models, name) if name else None
        return None if found is None else found[1]

    def cost(self, price: Price, arguments: Mapping[str, Any], result: Mapping[str, Any]) -> Cost:
        """What a call cost that was answered with ``result``."""
        said = _said(price, result)
        tokens_in = tokens_of(arguments) if said.tokens_in is None else said.tokens_in
        tokens_out = tokens_of(result) if said.tokens_out is None else said.tokens_out
        usd = self._usd(price, said, tokens_in, tokens_out)
        return Cost(usd, tokens_in, tokens_out)

    def _usd(self, price: Price, said: ReportedCost, tokens_in: int, tokens_out: int) -> float | None:
        if said.usd is not None:
            return _exact(said.usd + price.per_call_usd)
        usd = price.per_call_usd
        usd += (tokens_in * price.per_1k_tokens_in_usd + tokens_out * price.per_1k_tokens_out_usd) / 1000
        name = said.model or price.model
        if name or price.result_model:
            model = self.of_model(name)
            if model is None:  # what its tokens cost is not known, so neither is all of it
                return _exact(usd) if usd else None
            usd += (tokens_in * model.input_per_million_usd + tokens_out * model.output_per_million_usd) / 1_000_000
        return None if not usd and price.result_cost else _exact(usd)


def tokens_of(value: Mapping[str, Any]) -> int:
    """How many tokens a JSON object is, estimated."""
    raw = value.raw if type(value) is RawObject else encode(value)
    return len(raw) // BYTES_PER_TOKEN


def _said(price: Price, result: Mapping[str, Any]) -> ReportedCost:
    paths = (price.result_cost, price.result_tokens_in, price.result_tokens_out, price.result_model)
    raw = result.raw if type(result) is RawObject else b""
    if not any(paths) and raw and b'"pml/' not in raw:
        return ReportedCost()
    try:
        value: Any = result.value if isinstance(result, RawObject) else result
    except ValueError:
        return ReportedCost()
    meta = value.get("_meta")
    meta = meta if isinstance(meta, Mapping) else {}
    usd, tokens_in, tokens_out, model = (
        meta.get(key) if found is None else found
        for key, found in zip(
            (META_COST, META_TOKENS_IN, META_TOKENS_OUT, META_MODEL),
            (_found(path, value) for path in paths),
            strict=True,
        )
    )
    usd, tokens_in, tokens_out = _number(usd), _number(tokens_in), _number(tokens_out)
    return ReportedCost(
        usd,
        None if tokens_in is None else round(tokens_in),
        None if tokens_out is None else round(tokens_out),
        model if isinstance(model, str) else "",
    )


def _found(path: str, value: Any) -> Any:
    if not path:
        return None
    from jmespath.exceptions import JMESPathError

    try:
        return _compiled(path).search(value)
    except (JMESPathError, TypeError, ValueError, ArithmeticError, RecursionError):
        return None


@cache
def _compiled(path: str) -> Any:
    import jmespath

    return jmespath.compile(path)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        return None
    return float(value)


def _exact(usd: float) -> float:
    """Without the dust of binary fractions; a millionth of a cent is the least that counts."""
    return round(usd, 9)


def _longest(table: Mapping[str, T], name: str) -> tuple[str, T] | None:
    fitting = [pattern for pattern in table if pattern == name or fnmatchcase(name, pattern)]
    if not fitting:
        return None
    best = max(fitting, key=lambda pattern: (pattern == name, len(pattern), pattern))
    return best, table[best]
