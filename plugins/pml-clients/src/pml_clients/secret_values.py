"""Finds secrets in a server's table: by what they are called, and by what they look like.

Wrong in the safe direction: a harmless value taken for a secret costs an environment variable, a missed one is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from .client_server import REFERENCE

MASK = "********"
SECRET_NAME = re.compile(r"key|token|secret|passw|pwd|auth|bearer|credential|cookie|session|dsn", re.IGNORECASE)
"""In the name of what may be one: what is shown is masked, what is logged redacted."""

_PARTS = ("env", "headers", "args", "url", "command", "cwd")
"""What every server's table may have; the rest are options of its transport, of any shape."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_STRONG_WORDS = frozenset(
    (
        *("token", "secret", "secrets", "password", "passwd", "passphrase", "pwd", "apikey", "pat", "jwt", "dsn"),
        *("authorization", "credential", "credentials", "bearer", "cookie"),
    )
)
_WEAK_WORDS = frozenset(("key", "keys", "auth", "pass", "session", "private", "signature"))
"""Also said of things that are no secrets; a plain lower-case word under such a name is not taken for one."""
_STRONG_ENDINGS = ("token", "secret", "password", "passwd", "apikey", "accesskey", "secretkey", "authkey")
_NOT_THE_SECRET_ITSELF = frozenset(("file", "path", "dir", "directory", "sock", "socket", "type", "mode", "method"))
_HARMLESS = re.compile(r"(?i:true|false|yes|no|on|off|none|null)|[0-9]{1,5}")
_PLAIN_WORD = re.compile(r"[a-z]{1,10}")
_SCHEME = re.compile(r"(?i:bearer|basic|bot|token|apikey|api-key)\s+")
_NAMED = re.compile(r"-{0,2}([A-Za-z_][A-Za-z0-9_.-]*)(?:=|:\s+)")
_FLAG = re.compile(r"--?([A-Za-z][A-Za-z0-9_-]*)")
_USER_INFO = re.compile(r"://[^/?#@:\s]*:([^/?#\s]+)@")
_QUERY = re.compile(r"[?&;]([A-Za-z0-9_.\[\]-]+)=([^&;#\s]+)")
_KNOWN_SHAPE = re.compile(
    r"\b(?:(?:sk|rk|pk)[-_]|(?:hf|npm|sbp|ntn|secret|shpat|whsec|dop_v1|lin_api|figd|gsk)_|(?:tvly|pplx|pypi)-)"
    r"(?=[\w-]{0,99}[0-9])[\w-]{16,}"
    r"|\bgh[a-z]_[A-Za-z0-9]{16,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|\bxox[a-z]-[\w-]{10,}|\bxapp-[\w-]{10,}"
    r"|\bA[KS]IA[A-Z0-9]{16}\b|\bAIza[\w-]{30,}|\bya29\.[\w.-]{16,}|\beyJ[\w-]{8,500}+\.[\w-]+(?:\.[\w-]*)?"
    r"|\bSG\.[\w.-]{20,}|-----BEGIN [A-Z ]*PRIVATE KEY-----.*",
    re.DOTALL,
)
_RUN = re.compile(r"[A-Za-z0-9+=_-]{20,}")
_HEX = re.compile(r"[0-9a-fA-F]{32,}")
_LONG = 24
_PUBLIC_DIGEST = ("@", "#", "sha256:")
"""What stands before the digest of a commit or an image."""

Part: TypeAlias = tuple[int, int, str]
"""Where in a text a secret stands, and what it is called there; ``""`` when nothing says so."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret that stands in a server's table."""

    place: str
    """``env.API_KEY``, ``headers.Authorization``, ``args[2]`` or ``url``."""
    name: str
    """What it is called there."""
    value: str


def replaced(table: Mapping[str, Any], replacement: Callable[[Secret], str]) -> dict[str, Any]:
    """A copy of a ``[servers.<name>]`` table with each secret replaced. Parts that are not of the right type stay."""
    copy = dict(table)
    for key in ("env", "headers"):
        if isinstance(texts := table.get(key), Mapping):
            copy[key] = {
                name: _replaced(text, _parts(name, text), f"{key}.{name}", replacement)
                if isinstance(text, str)
                else text
                for name, text in texts.items()
            }
    if isinstance(args := table.get("args"), list):
        copy["args"] = list(_replaced_args(args, replacement))
    if isinstance(url := table.get("url"), str):
        copy["url"] = _replaced(url, _parts("", url), "url", replacement)
    return copy


def masked(table: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a table that can be shown. Of env and headers only what is plainly harmless is left to be read."""
    copy = replaced(table, lambda _: MASK)
    copy |= {name: _without_secrets(name, value) for name, value in copy.items() if name not in _PARTS}
    for key in ("env", "headers"):
        if isinstance(texts := copy.get(key), Mapping):
            copy[key] = {name: text if _can_be_shown(text) else MASK for name, text in texts.items()}
    return copy


def _without_secrets(name: str, value: Any) -> Any:
    """``value`` without what its name, or a name in it, tells to be secret."""
    if isinstance(value, Mapping):
        return {key: _without_secrets(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_secrets(name, inner) for inner in value]
    if not isinstance(value, str):
        return value
    return _replaced(value, _parts(name, value), name, lambda _: MASK)


def found_in(table: Mapping[str, Any]) -> list[Secret]:
    """The secrets in a table; references to the environment are none."""
    found: list[Secret] = []

    def keep(secret: Secret) -> str:
        found.append(secret)
        return secret.value

    replaced(table, keep)
    return found


def _can_be_shown(text: object) -> bool:
    if not isinstance(text, str):
        return False
    references = [found[2] or "" for found in REFERENCE.finditer(text)]
    if references:
        return all(_is_harmless(default) for default in references)
    return MASK in text or _is_harmless(text)


def _is_harmless(text: str) -> bool:
    return not text or bool(_HARMLESS.fullmatch(text) or _PLAIN_WORD.fullmatch(text))


def _replaced_args(args: list[Any], replacement: Callable[[Secret], str]) -> Iterator[Any]:
    flag = ""
    for index, text in enumerate(args):
        if not isinstance(text, str):
            yield text
            continue
        bare = _FLAG.fullmatch(text)
        parts = [] if bare else _parts(flag, text)
        yield _replaced(text, parts, f"args[{index}]", replacement)
        flag = bare[1] if bare else ""


def _replaced(text: str, parts: list[Part], place: str, replacement: Callable[[Secret], str]) -> str:
    done, position = "", 0
    for start, end, name in sorted(parts):
        if start >= position:
            done += text[position:start] + replacement(Secret(place, name, text[start:end]))
            position = end
    return done + text[position:]


def _parts(name: str, text: str, depth: int = 3) -> list[Part]:
    """The secret parts of ``text``, which is called ``name``; names within it count down to ``depth``."""
    if _is_secret(name, text):
        scheme = _SCHEME.match(text)
        found = [(scheme.end() if scheme else 0, len(text), name)]
    elif "://" in text:
        found = _url_parts(name, text)
    elif depth and (named := _NAMED.match(text)):
        inner = _parts(named[1], text[named.end() :], depth - 1)
        found = [(start + named.end(), end + named.end(), inner_name) for start, end, inner_name in inner]
    else:
        found = _shaped_parts(name, text)
    return [part for part in found if part[0] < part[1] and not REFERENCE.search(text, part[0], part[1])]


def _url_parts(name: str, text: str) -> list[Part]:
    found = [(*match.span(1), f"{name}_PASSWORD" if name else "PASSWORD") for match in _USER_INFO.finditer(text)]
    found += [(*match.span(2), match[1]) for match in _QUERY.finditer(text) if _is_secret(match[1], match[2])]
    covered = [range(start, end) for start, end, _ in found]
    shaped = _shaped_parts(name, text)
    return found + [
        part for part in shaped if not any(part[0] in span or span.start in range(*part[:2]) for span in covered)
    ]


def _shaped_parts(name: str, text: str) -> list[Part]:
    found = [(*match.span(), name) for match in _KNOWN_SHAPE.finditer(text)]
    runs = [
        match.span()
        for match in _RUN.finditer(text)
        if _looks_random(match[0]) and not text[: match.start()].endswith(_PUBLIC_DIGEST)
    ]
    return found + [(*run, name) for run in runs if not any(start <= run[0] < end for start, end, _ in found)]


def _looks_random(run: str) -> bool:
    if _HEX.fullmatch(run):
        return True
    kinds = (str.isupper, str.islower, str.isdigit)
    return len(run) >= _LONG and all(any(kind(char) for char in run) for kind in kinds)


def _is_secret(name: str, value: str) -> bool:
    """Whether a value is secret because of its name."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _NOT_THE_SECRET_ITSELF or not value or _HARMLESS.fullmatch(value):
        return False
    if any(word in _STRONG_WORDS for word in words) or "".join(words).endswith(_STRONG_ENDINGS):
        return True
    return any(word in _WEAK_WORDS for word in words) and not _PLAIN_WORD.fullmatch(value)
