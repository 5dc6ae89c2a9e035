"""Makes up a value for a JSON Schema: the same one each time, and only one that fits for sure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pml_kit.schema.budget import UnreadableError
from pml_kit.schema.document import Document, item_schemas
from pml_kit.schema.intersection import type_names
from pml_kit.schema.verdicts import fits, fits_number

from .patterns import CannotMatchError, matching

if TYPE_CHECKING:
    from .argument_echo import ArgumentEcho

WORD = "simulated"
OF_ANYTHING = 3
"""Steps of a value of any kind."""
MOST_ITEMS = 20
MOST_CHARACTERS = 10_000
FULL_DEPTH = 6
"""Levels down to which optional members and items are made up."""
FULL_VALUES = 500
"""Values up to which they are."""
USUAL_ITEMS = 2
"""Items of an array in an answer."""

FORMATS: Mapping[str, str] = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "duration": "PT1S",
    "email": "simulated@example.com",
    "hostname": "example.com",
    "idn-email": "simulated@example.com",
    "idn-hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "iri": "https://example.com/",
    "iri-reference": "https://example.com/",
    "json-pointer": "/simulated",
    "regex": "simulated",
    "relative-json-pointer": "0",
    "time": "00:00:00Z",
    "uri": "https://example.com/",
    "uri-reference": "https://example.com/",
    "uri-template": "https://example.com/{simulated}",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
"""Addresses and names are from the ranges kept for documentation (RFC 2606, 3849, 5737)."""

_HINTS = {
    "properties": "object", "required": "object", "items": "array", "prefixItems": "array", "minItems": "array",
    "minLength": "string", "maxLength": "string", "pattern": "string", "format": "string", "minimum": "number",
    "maximum": "number", "exclusiveMinimum": "number", "exclusiveMaximum": "number", "multipleOf": "number",
}  # fmt: skip


class CannotSampleError(UnreadableError):
    """No value is sure to fit the schema."""


def sample(
    schema: Mapping[str, Any], given: ArgumentEcho | None = None, *, judge: Callable[[Any], bool] | None = None
) -> Any:
    """A value that fits ``schema``: what its author gives as an example where there is one, else made up.

    Args:
        schema: What it has to fit.
        given: The request that it answers: its arguments are repeated under their names, and other values depend on
            it. None for the simplest value.
        judge: Says whether a value fits, ``format`` included, for schemas that are not fully understood here.

    Raises:
        CannotSampleError: None can be found that is sure to fit.
    """
    document = Document(schema)
    try:
        value = _Sampler(document, given).value(schema, 0)
        sure = fits(document, value, schema) if judge is None else judge(value)
    except UnreadableError as exc:
        raise CannotSampleError(str(exc)) from None
    except (AttributeError, ArithmeticError, KeyError, RecursionError, TypeError, ValueError) as exc:
        # A server may send anything as a schema, such as {"minimum": "low"}.
        raise CannotSampleError(f"the schema is not one: {exc}") from exc
    if not sure:
        raise CannotSampleError("what was made up is not sure to fit")
    return value


class _Sampler:
    def __init__(self, document: Document, given: ArgumentEcho | None) -> None:
        self._document, self._request = document, given
        self._made = 0
        self._path: list[str] = []
        self._arrays = 0
        """Arrays that the place is in."""

    def value(self, schema: Any, depth: int) -> Any:
        self._made += 1
        if schema is True:
            self._document.budget.spend(OF_ANYTHING)
            return WORD if self._request is None else self._request.text(self._path, "")
        if not isinstance(schema, Mapping):
            raise CannotSampleError("the schema allows nothing")
        flat = self._document.flat(schema, depth)
        for given in self._given(flat):
            if fits(self._document, given, schema, depth):
                return given
        if "const" in flat or "enum" in flat:
            raise CannotSampleError("no listed value fits the rest of the schema")
        for choice in ("anyOf", "oneOf"):
            if choice in flat:
                return self._chosen(flat, choice, depth)
        return self._made_up(flat, depth)

    def _below(self, name: str, schema: Any, depth: int) -> Any:
        self._path.append(name)
        try:
            return self.value(schema, depth + 1)
        finally:
            self._path.pop()

    def _given(self, flat: Mapping[str, Any]) -> Iterator[Any]:
        """What the request says under this name, then what the author of the schema wrote down; best first."""
        request = self._request
        if request is not None and self._path and not self._arrays:
            yield from request.argument(self._path[-1])
        if "const" in flat:
            yield flat["const"]
        examples, listed = flat.get("examples", ()), flat.get("enum", ())
        examples = examples if isinstance(examples, list) else []
        yield from examples if request is None else request.one_of(self._path, examples)
        for key in ("example", "default"):
            if key in flat:
                yield flat[key]
        yield from listed if request is None else request.one_of(self._path, listed)

    def _chosen(self, flat: Mapping[str, Any], choice: str, depth: int) -> Any:
        rest = {key: value for key, value in flat.items() if key != choice}
        for branch in sorted(flat[choice], key=_is_null):
            try:
                value = self.value({**rest, "allOf": [branch]}, depth + 1)
            except UnreadableError:
                self._document.budget.spend()
                continue
            if fits(self._document, value, flat, depth):
                return value
        raise CannotSampleError(f"nothing is sure to fit {choice}")

    def _made_up(self, flat: Mapping[str, Any], depth: int) -> Any:
        types = type_names(flat) or [next((type_ for key, type_ in _HINTS.items() if key in flat), "string")]
        made: Any = None
        match next((name for name in types if name != "null"), "null"):
            case "object":
                made = self._object(flat, depth)
            case "array":
                made = self._array(flat, depth)
            case "string":
                made = _string(flat, self._request, self._path)
            case "integer" | "number" as name:
                first = () if self._request is None else (self._request.integer(self._path),)
                made = _number(flat, first, whole=name == "integer")
            case "boolean":
                made = True
        return made

    def _in_full(self, depth: int) -> bool:
        return depth < FULL_DEPTH and self._made < FULL_VALUES

    def _object(self, flat: Mapping[str, Any], depth: int) -> dict[str, Any]:
        named, required = flat.get("properties", {}), dict.fromkeys(flat.get("required", ()))
        made: dict[str, Any] = {}
        for name, schema in named.items():
            if name in required:
                made[name] = self._below(name, schema, depth)
            elif self._in_full(depth):
                try:
                    made[name] = self._below(name, schema, depth)
                except UnreadableError:
                    self._document.budget.spend()
        for name in required:
            if name not in made:
                made[name] = self._below(name, flat.get("additionalProperties", True), depth)
        return made

    def _array(self, flat: Mapping[str, Any], depth: int) -> list[Any]:
        least = flat.get("minItems", 0)
        if least > MOST_ITEMS:
            raise CannotSampleError("the schema wants too many items")
        first, others = item_schemas(flat)
        usual = 1 if self._request is None else USUAL_ITEMS
        wanted = max(least, len(first), usual) if self._in_full(depth) else least
        wanted = min(wanted, flat.get("maxItems", wanted))
        made: list[Any] = []
        self._arrays += 1
        try:
            for i in range(wanted):
                item = self._below(str(i), first[i] if i < len(first) else others, depth)
                if flat.get("uniqueItems") and len(made) >= least and item in made:
                    break
                made.append(item)
        except UnreadableError:
            if len(made) < least:
                raise
        finally:
            self._arrays -= 1
        return made


def _is_null(branch: Any) -> bool:
    return isinstance(branch, Mapping) and branch.get("type") == "null"


def _string(flat: Mapping[str, Any], request: ArgumentEcho | None, path: Sequence[str]) -> str:
    format, least, most = flat.get("format", ""), flat.get("minLength", 0), flat.get("maxLength", MOST_CHARACTERS)
    if least > MOST_CHARACTERS:
        raise CannotSampleError("the schema wants too long a text")
    if "pattern" in flat:
        try:
            return matching(flat["pattern"], 0 if request is None else request.number(path), shortest=least)
        except CannotMatchError as exc:
            raise CannotSampleError(str(exc)) from exc
    if request is not None and least <= len(text := request.text(path, format)) <= most:
        return text
    if (known := FORMATS.get(format)) is not None:
        return known
    repeated = WORD * (1 + int(least) // len(WORD))
    return repeated[: int(max(least, min(most, len(WORD))))]


def _number(flat: Mapping[str, Any], first: Sequence[int], *, whole: bool) -> int | float:
    low, high = flat.get("minimum", flat.get("exclusiveMinimum")), flat.get("maximum", flat.get("exclusiveMaximum"))
    ends = [end for end in (low, high) if end is not None]
    tried: list[int | float] = [*first, 1, 0, *ends]
    if len(ends) == len((low, high)):
        tried.append((low + high) / 2)
    for end in ends:
        tried += [math.floor(end) + 1, math.ceil(end) - 1]
        if multiple := flat.get("multipleOf"):
            tried += [math.floor(end / multiple) * multiple, math.ceil(end / multiple) * multiple]
    if multiple := flat.get("multipleOf"):
        tried.append(multiple)
    for number in tried:
        if whole and not float(number).is_integer():
            continue
        candidate = int(number) if whole else number
        if fits_number(candidate, flat):
            return candidate
    raise CannotSampleError("no number was found within the bounds")
