"""Words that a query misspells: the nearest words of the catalog."""

from __future__ import annotations

from collections.abc import Sequence

from ._numpy import NDArray, np

WIDEST = 24
"""Longer words are not corrected [letters]."""
SHORTEST = 4
MOST_MISSING = 3
"""Different letters that two words may have and be looked at."""
KEPT = 3
BITS = np.array([n.bit_count() for n in range(1 << 13)], np.uint8)


class Speller:
    """Finds words of a vocabulary by what was typed instead: letters wrong, missing, too many or swapped."""

    def __init__(self, words: Sequence[str]) -> None:
        fit = [n for n, word in enumerate(words) if SHORTEST <= len(word) <= WIDEST and _plain(word)]
        self._places = np.array(fit, np.int64)
        joined = b"".join(words[n].encode().ljust(WIDEST, b"\0") for n in fit)
        self._letters = np.frombuffer(joined, np.uint8).reshape(len(fit), WIDEST)
        self._lengths = np.array([len(words[n]) for n in fit], np.int64)
        masks = np.where(self._letters > 0, 1 << (self._letters.astype(np.int64) - ord("a")).clip(0), 0)
        self._masks = np.bitwise_or.reduce(masks, axis=1)

    def near(self, word: str) -> list[tuple[int, float]]:
        """Places of the nearest words, best first, each with how near it is [0 to 1]; none for a word too unlike.

        One mistake in four letters, two from eight on.
        """
        if not SHORTEST <= len(word) <= WIDEST or not _plain(word):
            return []
        allowed = 1 if len(word) < 7 else 2  # noqa: PLR2004 - a second mistake in a short word makes it another word
        differing = self._masks ^ _mask(word)
        apart = BITS[differing & 0x1FFF] + BITS[differing >> 13]
        close = (apart <= min(MOST_MISSING, 2 * allowed)) & (abs(self._lengths - len(word)) <= allowed)
        candidates = np.flatnonzero(close)
        if not len(candidates):
            return []
        distances = _distances(word, self._letters[candidates], self._lengths[candidates])
        same_start = self._letters[candidates, 0] == ord(word[0])
        cost = distances + np.where(same_start, 0, 0.5)
        kept = [n for n in np.argsort(cost, kind="stable")[:KEPT] if distances[n] <= allowed]
        # The runners-up count only when they are as near as the best.
        kept = [n for n in kept if cost[n] <= cost[kept[0]]]
        return [(int(self._places[candidates[n]]), float((1 - cost[n] / (len(word) + 1)) ** 2)) for n in kept]


def _plain(word: str) -> bool:
    return word.isascii() and word.isalpha() and word.islower()


def _mask(word: str) -> int:
    mask = 0
    for letter in word:
        mask |= 1 << (ord(letter) - ord("a"))
    return mask


def _distances(word: str, letters: NDArray[np.uint8], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Mistakes between ``word`` and each row: Damerau's distance without overlapping swaps."""
    width = int(lengths.max())
    before = previous = np.tile(np.arange(width + 1), (len(letters), 1))
    for row, letter in enumerate(word.encode(), 1):
        current = np.empty_like(previous)
        current[:, 0] = row
        for at in range(1, width + 1):
            wrong = letters[:, at - 1] != letter
            best = np.minimum(previous[:, at] + 1, current[:, at - 1] + 1)
            best = np.minimum(best, previous[:, at - 1] + wrong)
            if row > 1 and at > 1:
                swapped = (letters[:, at - 2] == letter) & (letters[:, at - 1] == ord(word[row - 2]))
                best = np.where(swapped, np.minimum(best, before[:, at - 2] + 1), best)
            current[:, at] = best
        before, previous = previous, current
    return np.asarray(previous[np.arange(len(letters)), lengths], np.int64)
