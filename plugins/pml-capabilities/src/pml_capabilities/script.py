"""Literals of TypeScript and JavaScript, by their tokens; where a token can be read in two ways, none are told."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .literal import NONE, Literal, LiteralScan, usable

_NAME = r"[A-Za-z_$\u0080-\uffff#][\w$\u0080-\uffff]*"
_TOKEN = re.compile(
    rf"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<name>{_NAME})
    |(?P<number>(?:\d|\.\d)(?:[eE][+-]|[\w.])*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<sign>===|!==|=>|==|!=|<=|>=|\?\.|\.\.\.|&&|\|\||\?\?|\+\+|--|[^\s\w"'`/])""",
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
_NUMBER = re.compile(r"(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}
_WORDS = """
await case delete do else extends in instanceof new of return throw typeof void yield import from as is keyof satisfies
export default
"""
_KEYWORDS = frozenset(_WORDS.split())
"""Behind these begins a value, or a name that is none."""
_NOT_BEHIND = frozenset({"import", "from", "as", "is", "keyof", "extends", "satisfies", "|", "&", "<", "."})
"""What stands behind is a type, a module, or a member."""
_NOT_BEFORE = frozenset({"(", "=", "=>", "|", "&", "as"})
_TELLS = frozenset({":", "=", "===", "!==", "==", "!=", "<", ">", "<=", ">="})
"""What is before them says what the literal behind them is for."""
_TRUTHS = {"true": True, "false": False}
DEEPEST = 20
"""Templates within templates."""


class _AmbiguousTokenError(Exception):
    """A token can be read in two ways, or not at all."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    depth: int
    """Brackets that are open before it."""

    @property
    def operand(self) -> bool:
        """Whether a value ends with it."""
        if self.kind == "name":
            return self.text not in _KEYWORDS
        return self.kind != "sign" or self.text in (")", "]")


_NOTHING = _Token("sign", ";", 0, 0)


def of_script(source: str) -> LiteralScan:
    """Literals and names of variables."""
    inner: list[_Token] = []
    try:
        tokens, _ = _tokens(source, 0, inner, 0)
    except _AmbiguousTokenError:
        return NONE
    found = []
    for at, token in enumerate(tokens):
        before = tokens[at - 1] if at else _NOTHING
        ahead = tokens[at - 2] if at > 1 else _NOTHING
        after = tokens[at + 1] if at + 1 < len(tokens) else _NOTHING
        value = _value(token)
        if value is not None and usable(value) and _free(token, before, ahead, after):
            named, word = _named(tokens[:at])
            name = _meaning(before, named, key=word in ("{", ","))
            declares = before.text == "=" and word in ("const", "let", "var") and token.depth == 0
            found.append(Literal(token.start, token.start + len(token.text), value, name, declares))
    return LiteralScan(tuple(found), frozenset(_variables(tokens) | _variables(inner)))


def _tokens(source: str, at: int, inner: list[_Token], nested: int) -> tuple[list[_Token], int]:
    """Tokens from ``at`` on, up to the end, or within a template up to the bracket that ends its hole.

    Those within templates go to ``inner``.
    """
    if nested > DEEPEST:
        raise _AmbiguousTokenError
    found: list[_Token] = []
    depth = 0
    while at < len(source):
        if source[at] == "`":
            end = _after_template(source, at + 1, inner, nested)
            found.append(_Token("template", source[at:end], at, depth))
            at = end
            continue
        matched = _TOKEN.match(source, at)
        if matched is None:
            matched = _slash(source, at, found[-1] if found else _NOTHING)
        kind, text = matched.lastgroup or "regex", matched[0]
        if kind == "sign" and text == "}" and depth == 0 and nested:
            return found, at + 1
        if kind == "sign" and text in "([{":
            depth += 1
        elif kind == "sign" and text in ")]}":
            depth -= 1
        if kind != "space":
            found.append(_Token(kind, text, at, depth))
        at = matched.end()
    if nested:
        raise _AmbiguousTokenError
    return found, at


def _slash(source: str, at: int, before: _Token) -> re.Match[str]:
    """A sign, or a regular expression."""
    if source[at] != "/" or before.text in ("++", "--"):
        raise _AmbiguousTokenError
    rest = source[at + 1 :].partition("\n")[0]
    # Behind a condition or a block stands a regular expression, behind a value in brackets a sign.
    if before.text in (")", "}") and "/" in rest:
        raise _AmbiguousTokenError
    division = before.operand or before.text == "}"
    matched = re.compile("(?P<sign>/)").match(source, at) if division else _REGEX.match(source, at)
    if matched is None:
        raise _AmbiguousTokenError
    return matched


def _after_template(source: str, at: int, inner: list[_Token], nested: int) -> int:
    while at < len(source):
        if source[at] == "\\":
            at += 2
        elif source[at] == "`":
            return at + 1
        elif source.startswith("${", at):
            tokens, at = _tokens(source, at + 2, inner, nested + 1)
            inner += tokens
        else:
            at += 1
    raise _AmbiguousTokenError


def _value(token: _Token) -> str | float | bool | None:
    """None for what is no literal, or is spelt in a way that is better left alone."""
    if token.kind == "name":
        return _TRUTHS.get(token.text)
    if token.kind == "number" and _NUMBER.fullmatch(token.text):
        return int(token.text) if token.text.isdigit() else float(token.text)
    if token.kind == "string":
        text = token.text[1:-1]
        if set(_ESCAPE.findall(text)) <= _ESCAPED.keys():
            return _ESCAPE.sub(lambda escape: _ESCAPED[escape[1]], text)
    return None


def _free(token: _Token, before: _Token, ahead: _Token, after: _Token) -> bool:
    """Whether any expression may stand there."""
    typed = (before.text in _NOT_BEHIND and before.kind != "string") or (
        after.text in _NOT_BEFORE and after.kind != "string"
    )
    key = before.text in ("{", ",") and after.text == ":"
    statement = token.kind == "string" and before.kind == "sign" and before.text in (";", "{", "}")
    member = before.text == "[" and after.text == "]" and ahead.operand
    module = before.text == "(" and ahead.text in ("import", "require")
    signed = before.text in ("-", "+") and not ahead.operand
    return not (typed or key or statement or member or module or signed)


def _named(before: list[_Token]) -> tuple[_Token, str]:
    """What stands before the last sign, and the word before that; a variable's type is passed over."""
    words = [*([_NOTHING] * 5), *before][-5:]
    typed = words[4].text == "=" and words[2].text == ":"
    return (words[1], words[0].text) if typed else (words[3], words[2].text)


def _meaning(before: _Token, ahead: _Token, *, key: bool) -> str:
    if before.text not in _TELLS or before.kind != "sign":
        return ""
    if ahead.kind == "name" and ahead.text not in _KEYWORDS:
        return ahead.text
    return ahead.text[1:-1] if ahead.kind == "string" and before.text == ":" and key else ""


def _variables(tokens: list[_Token]) -> set[str]:
    """Names that are neither members nor keys."""
    found = set()
    for at, token in enumerate(tokens):
        before = tokens[at - 1].text if at else ";"
        after = tokens[at + 1].text if at + 1 < len(tokens) else ";"
        key = after == ":" and before in ("{", ",")
        if token.kind == "name" and before not in (".", "?.") and not key:
            found.add(token.text)
    return found
