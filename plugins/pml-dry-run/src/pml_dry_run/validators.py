"""Whether values fit schemas, as a real validator sees it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

MOST = 1024
Judge = Callable[[Any], bool]


class Validators:
    """A cache of compiled schemas; the least recently used is dropped first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Judge] = OrderedDict()

    def of(self, key: str, schema: Mapping[str, Any]) -> Judge:
        """The judge of a schema; ``key`` changes with it. Of a schema that is none, one that lets nothing pass."""
        judge = self._kept.get(key)
        if judge is None:
            judge = self._kept[key] = _compiled(schema)
            if len(self._kept) > MOST:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return judge


def _compiled(schema: Mapping[str, Any]) -> Judge:
    from pml_kit.schema.validation import Validator

    try:
        validator = Validator(schema, formats=True)  # a server that names a format means it
    except (TypeError, ValueError):
        return lambda _value: False

    def fits(value: Any) -> bool:
        try:
            return validator.admits(value) and validator.is_valid(value)
        except ValueError:  # a lone surrogate, say
            return False

    return fits
