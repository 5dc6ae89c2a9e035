"""A compiled JSON Schema that takes bounded work to make and to ask. Who uses it asks for ``jsonschema-rs`` itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .bounds import SchemaBounds

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

SIZE_LIMIT = 1 << 20
"""Largest compiled pattern [bytes]."""
MOST_BACKTRACKING = 2_000
"""Steps of trying a pattern that looks around on one text, for which there is no linear engine."""


class Validator:
    """Judges values by one schema."""

    def __init__(self, schema: Mapping[str, Any], *, formats: bool = False) -> None:
        """Compile ``schema``.

        Args:
            schema: As an object; booleans are none.
            formats: Whether ``format`` is an assertion, as whoever made values up would have it, or a note.

        Raises:
            ValueError: It is none, is over the bounds of schemas, or refers to other documents.
        """
        self._bounds, self._compiled = SchemaBounds(schema), _compiled(dict(schema), formats)
        self.most_bytes = self._bounds.most_bytes
        """Length as JSON up to which every value is admitted [bytes]."""
        self.admits: Callable[[Any], bool] = self._bounds.admits
        """Whether asking about a value is a bounded amount of work; if not, nobody knows whether it fits."""
        self.is_valid: Callable[[Any], bool] = self._compiled.is_valid
        """Whether a value fits; ValueError when it is no JSON: a lone surrogate, say."""

    def iter_errors(self, value: Any) -> Iterator[ValidationError]:
        """What is wrong with ``value``, but for patterns that were given up; the first thing where all are too many."""
        from jsonschema_rs import ValidationError, ValidationErrorKind

        found: Iterable[ValidationError] = ()
        if self._bounds.explains(value):
            found = self._compiled.iter_errors(value)
        else:
            try:
                self._compiled.validate(value)
            except ValidationError as exc:
                found = (exc,)
        unsure = ValidationErrorKind.BacktrackLimitExceeded
        return (error for error in found if not isinstance(error.kind, unsure))


def _compiled(schema: dict[str, Any], formats: bool) -> Any:  # noqa: FBT001 - as the library names it
    from jsonschema_rs import FancyRegexOptions, RegexOptions, validator_for

    try:
        linear = RegexOptions(size_limit=SIZE_LIMIT)
        return validator_for(schema, retriever=_refuse, validate_formats=formats, pattern_options=linear)
    except ValueError:
        # Patterns that look around are common enough in checks of passwords.
        other = FancyRegexOptions(backtrack_limit=MOST_BACKTRACKING, size_limit=SIZE_LIMIT)
        return validator_for(schema, retriever=_refuse, validate_formats=formats, pattern_options=other)


def _refuse(uri: str) -> Any:
    raise ValueError(f"schemas may not refer to other documents, such as {uri}")
