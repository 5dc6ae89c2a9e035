"""Actions that exclude each other, such as making and destroying: what a request wants done, and what a tool does."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .words import STOP, split, stem

ACTS: Mapping[str, str] = {
    "destroy": "delete remove erase drop wipe purge discard trash destroy clear forget unlink uninstall",
    "read": "get read fetch retrieve show view display describe list search query find lookup look browse count check "
    "compare analyze inspect what which who how when where download calculate compute summarize open see tell extract "
    "print",
    "create": "create add make new insert generate build compose draft append write save put store register record set "
    "init open start launch run execute",
    "change": "update edit modify change rename adjust replace patch set move rewrite put assign",
    "send": "send post publish notify reply comment message write tell announce push forward email",
    "stop": "stop close end kill shut terminate cancel pause archive",
    "start": "run execute start launch evaluate deploy restart",
    "restore": "restart reset restore undo revert",
    "merge": "merge join combine",
    "copy": "copy clone fork duplicate",
    "move": "move transfer rename",
    "convert": "convert translate transform resize format compress zip encode",
    "commit": "commit",
    "push": "push upload attach",
    "play": "play queue",
    "trade": "buy order book charge pay sell refund",
    "sign": "sign",
    "print": "print",
    "plan": "schedule plan create remind",
    "share": "invite add share",
    "publish": "publish post deploy release",
    "stage": "stage add",
    "lock": "lock protect",
    "switch": "switch checkout",
}
"""Acts and the verbs that name them; a verb may name several."""
DESTROYING, READING, CREATING = 1, 2, 4
"""The bits of the first three."""
OF_VERB: dict[str, int] = {}
for _bit, _verbs in enumerate(ACTS.values()):
    for _verb in _verbs.split():
        for _spelt in {_verb, stem(_verb)}:
            OF_VERB[_spelt] = OF_VERB.get(_spelt, 0) | 1 << _bit
NOUNS = ("ing", "s")
"""Ends of words that name things where a request begins with them: "opening hours", "stories"."""
NAMED = re.compile(r"\S+\.[a-z]{2,5}\b", re.IGNORECASE)
"""Names of files and hosts, which do not say what kind of thing they are."""
FIRST = 3
"""Words among which the verb of a request stands."""


def asked(text: str) -> tuple[str, int]:
    """The verb of a request and its acts, one bit each; ``("", 0)`` when it names none."""
    for word in split(text)[:FIRST]:
        if acts := OF_VERB.get(word) or (0 if word.endswith(NOUNS) else OF_VERB.get(stem(word))):
            return word, acts
    return "", 0


_AROUND = (
    "about above after against along as at before behind below between by down during except for from in inside into "
    "like near of off on onto out over per since than through to under until up upon via with within without "
    "am are be been can could did do does had has have is may might must should was were will would "
    "and or but if so that then there when where while because"
)
AROUND = frozenset(_AROUND.split())
"""Words that end the phrase which says what is acted on: prepositions, auxiliaries, conjunctions."""
_UNTELLING = "new newest last latest current first next own another more some any every whole entire"
UNTELLING = frozenset(_UNTELLING.split())
"""Words in front of what is acted on that do not say what it is."""


def head(text: str, verb: str, *, ordered: bool = True) -> str:
    """The word that says what is acted on: ``row`` in "delete row 7 of the sheet"; ``""`` when there is none.

    Args:
        text: A request.
        verb: Its verb, as :func:`asked` tells.
        ordered: Whether it has the order and the small words of English; a translation has not.
    """
    words = split(NAMED.sub(" ", text))
    words = words[words.index(verb) + 1 :] if verb in words else words
    phrase: list[str] = []
    for word in words:
        if phrase and ordered and word in AROUND:
            break
        if word not in STOP | UNTELLING | AROUND and not word.isdigit() and not word.endswith("ly"):
            phrase.append(word)
    if not phrase:
        return ""
    return phrase[-1] if ordered else phrase[0]


def by_place(places: Mapping[str, int]) -> dict[int, int]:
    """The acts of a catalog's verbs, by their place in its vocabulary."""
    found: dict[int, int] = {}
    for verb, acts in OF_VERB.items():
        if (place := places.get(stem(verb))) is not None:
            found[place] = found.get(place, 0) | acts
    return found


def conflict(wanted: int, named: int, told: int) -> int:
    """In what way a tool does not do what is ``wanted``: a place in :data:`CONFLICTS`; 0 for none that is known.

    Args:
        wanted: Acts that a request asks for; 0 when it does not say.
        named: Acts in the tool's name.
        told: Acts in its name and the first sentence of its description.
    """
    done = named or told
    if not wanted or wanted & done:
        return 0
    if wanted & DESTROYING:
        return 0 if told & DESTROYING else 1
    if not done:
        return 0
    if done & DESTROYING:
        return 2
    if wanted & READING:
        return 3
    return 5 if done & READING else 4


CONFLICTS = (
    "none", "does not destroy or make that", "destroys", "writes where something is asked", "another act", "reads only",
)  # fmt: skip
