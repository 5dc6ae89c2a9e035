"""Capabilities as a file, to take from one gateway to another."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments, ToolId

from .capability import MOST_INTENTS, Capability
from .inputs import is_one
from .normalization import LONGEST_INTENT, LONGEST_NAME, identity

if TYPE_CHECKING:
    from .settings import Settings

FORMAT, VERSION = "pml.capabilities", 1
MOST_BYTES = 64 << 20
MOST_TOOLS = 200
LONGEST_WORD = 300
"""Longest principal, language, tool or digest in a file [characters]."""
NAME = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*")
NAME_RULE = f"lower case letters and digits in words joined by _, at most {LONGEST_NAME} characters"


def exported(capabilities: Iterable[Capability]) -> dict[str, Any]:
    """The document. Counts are for whoever reads it: an import does not take them."""
    return {"format": FORMAT, "version": VERSION, "capabilities": [_member(one) for one in capabilities]}


def _member(one: Capability) -> dict[str, Any]:
    return {
        "name": one.name,
        "intents": list(one.intents),
        "language": one.language,
        "program": one.program,
        "code": one.code,
        "inputs": dict(one.inputs),
        "tools": dict(one.tools),
        "learned_by": sorted(one.principals),
        "successes": one.successes,
        "failures": one.failures,
    }


def is_name(text: object) -> bool:
    """Whether a capability may be called that."""
    return isinstance(text, str) and len(text) <= LONGEST_NAME and NAME.fullmatch(text) is not None


def read(data: bytes, file: str, principal: str, settings: Settings) -> list[Capability]:
    """What a file holds, as ``principal``'s own: with no runs yet, and an id made of its code.

    Args:
        data: What is in the file.
        file: What it is called, for messages.
        principal: Whose they will be.
        settings: Of this gateway.

    Raises:
        InvalidArguments: Something in it is not as it must be; says what and where. Nothing of the file is taken then.
    """
    if len(data) > MOST_BYTES:
        raise InvalidArguments(f"{file} is larger than {MOST_BYTES >> 20} MiB; export fewer capabilities at once")
    try:
        document = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as exc:
        raise InvalidArguments(f"{file} is not JSON: {str(exc) or 'too deep'}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidArguments(f"{file} was not written by `pml capabilities export`: it has no format {FORMAT!r}")
    if document.get("version") != VERSION:
        raise InvalidArguments(f"{file} has the version {document.get('version')!r}; this PML reads {VERSION}")
    members = document.get("capabilities")
    if not isinstance(members, list) or len(members) > settings.keep:
        raise InvalidArguments(
            f"{file}: capabilities must be a list of at most {settings.keep} ([plugins.capabilities] keep)"
        )
    made = [
        _capability(member, f"{file}: capabilities[{at}]", principal, settings) for at, member in enumerate(members)
    ]
    return list({one.id: one for one in made}.values())


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no value of JSON")


def _capability(given: Any, at: str, principal: str, settings: Settings) -> Capability:
    if not isinstance(given, dict):
        raise InvalidArguments(f"{at} must be an object")

    def member(name: str, valid: Callable[[Any], bool], rule: str) -> Any:
        if name not in given:
            raise InvalidArguments(f"{at}.{name} is missing")
        if not valid(given[name]):
            raise InvalidArguments(f"{at}.{name} must be {rule}")
        return given[name]

    code = member(
        "code", lambda value: _text(value, settings.longest_code), f"text, at most {settings.longest_code} characters"
    )
    language = member("language", _word, "a language")
    program = member("program", lambda value: isinstance(value, bool), "true or false")
    intents = member("intents", _intents, f"1 to {MOST_INTENTS} lines of at most {LONGEST_INTENT} printable characters")
    tools = member(
        "tools",
        _tools,
        f"an object of at most {MOST_TOOLS} tools (server:tool), each with the digest of its definition",
    )
    learned_by = member("learned_by", _words, "a list of names")
    return Capability(
        id=identity(language, code, program=program, owner="" if settings.shared else principal),
        name=member("name", is_name, NAME_RULE),
        code=code,
        language=language,
        program=program,
        intents=tuple(intents),
        tools={ToolId(tool): digest for tool, digest in tools.items()},
        inputs=member("inputs", is_one, "a schema as `pml capabilities export` writes it"),
        principals=frozenset({principal}),
        successes=0,
        source=", ".join(learned_by) or "nobody it names",
    )


def _text(value: Any, longest: int) -> bool:
    if not isinstance(value, str) or not value.strip() or len(value) > longest:
        return False
    return not any("\ud800" <= char <= "\udfff" for char in value)


def _word(value: Any) -> bool:
    return _text(value, LONGEST_WORD) and value.isprintable()


def _words(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= MOST_TOOLS and all(map(_word, value))


def _intents(value: Any) -> bool:
    lines = isinstance(value, list) and 1 <= len(value) <= MOST_INTENTS
    return lines and all(_text(one, LONGEST_INTENT) and one.isprintable() for one in value)


def _tools(value: Any) -> bool:
    if not isinstance(value, Mapping) or len(value) > MOST_TOOLS:
        return False
    return all(_word(tool) and ":" in tool[1:-1] and _word(digest) for tool, digest in value.items())
