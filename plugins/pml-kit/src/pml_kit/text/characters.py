"""Characters that nobody sees, that a terminal obeys, or that look like others."""

from __future__ import annotations

import re
import unicodedata

TERMINAL = re.compile("[\x1b\x9b](?:[\\[\\]PX^_]?)")
"""Begins what a terminal obeys."""
CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9a\x9c-\x9f]")
"""Controls but white space and what begins terminal codes."""
DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Turns the direction of reading; marks such as U+200E, which texts of Hebrew and Arabic need, do not."""
HIDDEN = re.compile(
    "(?<=[A-Za-z0-9])[\u00ad\u200b-\u200d\u2060-\u2064\ufeff](?=[A-Za-z0-9])"
    "|[\u200b-\u200d\u2060-\u2064\ufeff]{3,}"
    "|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{3,}"
    "|[\u115f\u1160\u3164\uffa0]{2,}"
)
"""Of no width, where no script needs it: between Latin letters, or several in a row."""
TAGS = re.compile("(?<![\U0001f3f4\U000e0020-\U000e007f])[\U000e0000-\U000e007f]+")
"""Tag characters, which spell ASCII that nobody sees. The flags of regions are written with them."""
UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e01ef]"
)
"""Whatever may be one of these; one search decides that a text has nothing of the kind."""
SEQUENCE = re.compile(
    "\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?"
    "|(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]?"
    "|\x1b[PX^_][^\x1b]*(?:\x1b\\\\)?"
    "|\x1b[ -/]*[0-~]?"
)
"""A whole terminal code."""

_ALIKE = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u051b\u051d\u04bb\u04cf\u0475"
    "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u04c0"
    "\u03bf\u03b1\u03bd\u03b9\u03c1\u03c5\u03f2\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u0131\u0251\u0261\u1d04\u1d0f\u1d1c\u1d20\u1d21\u1d22\u0578\u057d\u0585\u13ad\u13ae",
    "aeopcyxijsdqwhlvABESIJKMHOPCTXIoavipycABEZHIKMNOPTYXiagcouvwznuoHE",
)
MIXED = re.compile(
    "[A-Za-z][\u0370-\u03ff\u0400-\u052f\u0578-\u0585]|[\u0370-\u03ff\u0400-\u052f\u0578-\u0585][A-Za-z]"
)
"""A Latin letter beside a Greek, Cyrillic or Armenian one."""
SHORTEST_WORD = 3
"""Letters of a word that may pass for another."""
_WORD = re.compile(r"[^\W\d_]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
_LETTERS = str.maketrans({"\u0131": "i", "\u0142": "l", "\xf8": "o", "\xdf": "ss", "\u2019": "'", "\u2018": "'"})
"""What has no accent to take off, and the two apostrophes."""


def visible(text: str) -> str:
    """``text`` without what nobody sees and what a terminal obeys; white space and the scripts' own joiners stay."""
    if text.isascii() and UNSEEN.search(text) is None:
        return text
    for pattern in (SEQUENCE, CONTROL, DIRECTION, TAGS, HIDDEN):
        text = pattern.sub("", text)
    return text


def spelt_in_tags(text: str) -> str:
    """What tag characters of ``text`` spell; empty where there are none."""
    return "".join(
        chr(ord(char) & 0x7F) for char in "".join(TAGS.findall(text)) if "\U000e0020" <= char <= "\U000e007e"
    )


def folded(text: str) -> str:
    """``text`` as patterns search it.

    Lower case, no accents, one space for any white space and none at the ends, nothing unseen, letters of other scripts
    that pass for Latin as Latin ones in words that have Latin letters, too.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", visible(text))
        if MIXED.search(text) is not None:
            text = _WORD.sub(_as_latin, text)
        text = _ACCENTS.sub("", unicodedata.normalize("NFD", text.lower())).translate(_LETTERS)
        text = unicodedata.normalize("NFC", text)
    return " ".join(text.lower().split())


def _as_latin(word: re.Match[str]) -> str:
    found = word[0]
    return found.translate(_ALIKE) if MIXED.search(found) is not None else found


def mixed_words(text: str) -> list[str]:
    """Words that pass for Latin ones and have letters of another script; none as a rule.

    Units and symbols (``kΩ``, ``Δt``) are none: what remains once look-alikes are Latin has to be Latin altogether, and
    three letters at least.
    """
    if text.isascii() or MIXED.search(text) is None:
        return []
    words = (word for word in _WORD.findall(text) if len(word) >= SHORTEST_WORD and MIXED.search(word) is not None)
    return [word for word in words if word.translate(_ALIKE).isascii()]


def skeleton(name: str) -> str:
    """The same for names that people take for one another: ``read_fi1e`` and ``read_file``, in whatever script."""
    text = unicodedata.normalize("NFKC", visible(name)).translate(_ALIKE)
    text = _ACCENTS.sub("", unicodedata.normalize("NFD", text)).replace("I", "l").lower()
    for looks, like in (("0", "o"), ("1", "l"), ("rn", "m"), ("vv", "w"), ("5", "s")):
        text = text.replace(looks, like)
    return text
