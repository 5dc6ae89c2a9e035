"""Checks what goes into a sandbox as data: JSON and nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from itertools import islice
from keyword import iskeyword
from typing import Any

from pml_hookspecs import Failure, RawObject

from .outcomes import FUNCTION_IN_CONTEXT, INVALID_INPUTS

DEEPEST = 100
"""Arrays and objects within one another."""
LOOKS = 1000
"""Values looked at to see that all of them are too large."""
FORBIDDEN_KEYS = frozenset({"__proto__"})
"""Names of members that change what an object is where code copies them carelessly."""


class InputsError(ValueError):
    """Inputs are no data, or more than fits."""

    def __init__(self, code: str, key: str, message: str, name: str = "InputsError") -> None:
        super().__init__(message)
        self.failure = Failure(code, message, details={"name": name, "key": key})


def check_inputs(inputs: Mapping[str, Any]) -> None:
    """Make sure that ``inputs`` are JSON values all the way down.

    Raises:
        InputsError: A callable is among them, a number that JSON cannot say, a cycle, a member
            named ``__proto__``, or something that is no JSON value. The message names the place.
    """
    for key, value in inputs.items():
        _check_key(key, "")
        _check(value, key, [])


def encode_inputs(inputs: Mapping[str, Any], most_bytes: int) -> bytes:
    """The JSON text of ``inputs``, checked.

    Raises:
        InputsError: As :func:`check_inputs`, or the text is longer than ``most_bytes``.
    """
    check_inputs(inputs)
    text = to_json(inputs)
    if len(text) > most_bytes:
        message = f"The inputs are {len(text)} bytes as JSON; at most {most_bytes} fit. Hand over less, or a reference."
        raise InputsError(INVALID_INPUTS, "", message)
    return text


def python_names(inputs: Mapping[str, Any]) -> list[str]:
    """Names of those that Python code has as variables; the others are in ``inputs`` only."""
    return [name for name in inputs if name.isidentifier() and not iskeyword(name)]


def _default(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_default).encode
_encode_ascii = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_default).encode


def to_json(value: Any) -> bytes:
    """Strict JSON on one line, UTF-8; lone surrogates as escapes.

    Raises:
        ValueError: A number that JSON cannot say, or a cycle.
        TypeError: No JSON value.
    """
    text = _encode(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _encode_ascii(value).encode()


def surely_larger(value: Any, most_bytes: int) -> bool:
    """Whether a quick look shows that the JSON text of ``value`` is longer than ``most_bytes``.

    False tells nothing. To write millions of bytes only to count them keeps a thread busy for a long time.
    """
    size = 0
    for least in islice(_least_sizes(value), LOOKS):
        size += least
        if size > most_bytes:
            return True
    return False


def _least_sizes(value: Any) -> Iterator[int]:
    """What each value in ``value`` takes at least [bytes]."""
    open_ = [iter((value,))]
    while open_:
        for each in open_[-1]:
            if isinstance(each, str):
                yield len(each)
            elif isinstance(each, (dict, list, tuple)):
                # Members and what stands between them.
                yield 2 * len(each)
                open_.append(iter(each.values() if isinstance(each, dict) else each))
                break
        else:
            open_.pop()


def _check_key(key: Any, where: str) -> None:
    if not isinstance(key, str):
        raise InputsError(INVALID_INPUTS, where, f"Context key {where or key!r}: names of members must be strings.")
    if key in FORBIDDEN_KEYS:
        path = f"{where}.{key}" if where else key
        raise InputsError(INVALID_INPUTS, path, f"Context key {path!r}: a member may not be named {key!r}.")


def _check(value: Any, path: str, above: list[int]) -> None:
    if value is None or isinstance(value, (str, int)):
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputsError(INVALID_INPUTS, path, f"Context key {path!r}: {value} is no number that JSON can say.")
        return
    if callable(value):
        message = f"Security violation detected: FUNCTION_IN_CONTEXT - Context key '{path}' contains function value"
        raise InputsError(FUNCTION_IN_CONTEXT, path, message, "SecurityError")
    _check_within(value, path, above)


def _check_within(value: Any, path: str, above: list[int]) -> None:
    if id(value) in above:
        raise InputsError(INVALID_INPUTS, path, f"Context key {path!r}: the value contains itself.")
    if len(above) >= DEEPEST:
        raise InputsError(INVALID_INPUTS, path, f"Context key {path!r}: more than {DEEPEST} levels of nesting.")
    above.append(id(value))
    if isinstance(value, Mapping):
        # The members of a raw object are checked as what they decode to.
        for key, member in (value.value if isinstance(value, RawObject) else value).items():
            _check_key(key, path)
            _check(member, f"{path}.{key}", above)
    elif isinstance(value, (list, tuple)):
        for index, member in enumerate(value):
            _check(member, f"{path}[{index}]", above)
    else:
        message = f"Context key {path!r}: {type(value).__name__} is not a JSON value."
        raise InputsError(INVALID_INPUTS, path, message)
    above.pop()
