"""What a request wants done, and what a tool does: acts that exclude each other, such as making and destroying."""

from __future__ import annotations

from collections.abc import Mapping

from .words import split, stem

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
FIRST = 3
"""Words among which the verb of a request stands."""


def asked(text: str) -> tuple[str, int]:
    """The verb of a request and its acts, one bit each; ``("", 0)`` when it names none."""
    for word in split(text)[:FIRST]:
        if acts := OF_VERB.get(word) or OF_VERB.get(stem(word)):
            return word, acts
    return "", 0


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
    return 3 if (wanted ^ done) & READING else 4


CONFLICTS = ("none", "does not destroy or make that", "destroys", "one reads and the other writes", "another act")
