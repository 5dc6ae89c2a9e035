"""What cannot stand next to each other in TypeScript and JavaScript: only what is wrong in every context."""

from __future__ import annotations

import re

TOKEN = re.compile(r"(?P<name>[A-Za-z_$][\w$]*)|(?P<number>\d[\w.]*)|(?P<string>\"[^\"]*\")|(?P<mark>\+\+|--|=>|\S)")
NO_CONDITION = re.compile(r"(?<![\w$.])(if|while|switch)\s*\(\s*\)")
WORDS = frozenset(
    (
        "abstract", "accessor", "any", "as", "asserts", "async", "await", "bigint", "boolean", "break", "case", "catch",
        "class", "const", "continue", "debugger", "declare", "default", "delete", "do", "else", "enum", "export",
        "extends", "finally", "for", "from", "function", "get", "global", "if", "implements", "import", "in", "infer",
        "instanceof", "interface", "is", "keyof", "let", "module", "namespace", "new", "of", "out", "override",
        "package", "private", "protected", "public", "readonly", "require", "return", "satisfies", "set", "static",
        "super", "switch", "throw", "try", "type", "typeof", "unique", "using", "var", "void", "while", "with", "yield",
    )
)  # fmt: skip
"""Names that may stand next to a name on the same line, in one context or another."""
STATEMENTS = frozenset(
    ("break", "const", "continue", "for", "if", "let", "return", "switch", "throw", "try", "var", "while")
)
OPERATORS = frozenset("=&|*%+-")
ENDS = frozenset(")];}")


def problem(plain: str) -> str:
    """What is certainly wrong, with the line; ``""`` for nothing.

    Args:
        plain: Code without the insides of strings and comments, from :func:`pml_dry_run.preflight.script.stripped`.
    """
    if found := NO_CONDITION.search(plain):
        return f"{found[1]!r} has no condition (line {plain.count(chr(10), 0, found.start()) + 1})"
    before: re.Match[str] | None = None
    for token in TOKEN.finditer(plain):
        if before is not None and (why := _pair(before, token, "\n" in plain[before.end() : token.start()])):
            return f"{why} (line {plain.count(chr(10), 0, token.start()) + 1})"
        before = token
    if before is not None and (before[0] in OPERATORS or before[0] == "=>"):
        return f"nothing follows {before[0]!r} (line {plain.count(chr(10), 0, before.start()) + 1})"
    return ""


def _pair(one: re.Match[str], other: re.Match[str], apart: bool) -> str:  # noqa: FBT001 - private, with one caller
    first, second = one[0], other[0]
    if first in OPERATORS and second in ENDS:
        return f"nothing stands between {first!r} and {second!r}"
    if (first, second) in (("(", ","), ("=>", "=>")):
        return f"nothing stands between {first!r} and {second!r}"
    if first in ("const", "var") and _is_no_name(one, other):
        return f"{second!r} cannot be a variable"
    if first in ("if", "while", "switch") and other.lastgroup in ("number", "string"):
        return f"{first!r} needs a condition in brackets"
    return "" if apart else _on_one_line(one, other)


def _on_one_line(one: re.Match[str], other: re.Match[str]) -> str:
    if one[0] == "return" and other[0] in STATEMENTS:
        return f"{other[0]!r} cannot be returned"
    if _is_operand(one) and _is_operand(other):
        return f"something is missing between {one[0]!r} and {other[0]!r}"
    return ""


def _is_no_name(declared: re.Match[str], other: re.Match[str]) -> bool:
    # Both words can be names of members.
    member = declared.string[: declared.start()].endswith(".")
    return not member and (other.lastgroup in ("number", "string") or other[0] == "=")


def _is_operand(token: re.Match[str]) -> bool:
    return token.lastgroup in ("number", "string") or (token.lastgroup == "name" and token[0] not in WORDS)
