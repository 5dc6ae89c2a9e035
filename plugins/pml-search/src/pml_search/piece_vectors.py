"""Meaning without a neural network: one vector per piece of a word; a text is the sum of its pieces.

The table was distilled from all-MiniLM-L6-v2 and tuned on texts about tools; see NOTICE. It stays packed, four bits a
number, and only the rows in use are unpacked.
"""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from itertools import chain

from ._numpy import Array, NDArray, np
from .words import LONGEST_WORD

FILE = "tool-static-256-int4.npz"
SIZE = 256
"""Numbers in a vector."""
MOST_PIECES = 160
"""Pieces of a text that count."""
AT_ONCE = 256
"""Texts whose pieces are unpacked together: bounds the memory that building takes."""
SPLIT_CASE = re.compile(r"([a-z0-9])([A-Z])")
TOKEN = re.compile(r"[\u3400-\u9fff]|[^\W_]+|[^\w\s]")


def tokens(text: str) -> list[str]:
    """Words and marks, identifiers split, in lower case and without accents: what the table was made for."""
    text = SPLIT_CASE.sub(r"\1 \2", text).replace("_", " ").replace("-", " ").lower()
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
    return [token for token in TOKEN.findall(text) if len(token) <= LONGEST_WORD]


class PieceVectors:
    """The vectors of all pieces."""

    def __init__(self, data: bytes) -> None:
        with np.load(io.BytesIO(data)) as members:
            self._packed: NDArray[np.uint8] = members["packed"]
            self._scale: Array = members["scale"].astype(np.float32)
            vocabulary = members["vocab"].tobytes().decode()
        self._rows = {piece: row for row, piece in enumerate(vocabulary.split("\n"))}
        self._known: dict[str, tuple[int, ...]] = {}

    def __contains__(self, word: str) -> bool:
        """Whether ``word`` is a piece of its own: a common English word, mostly."""
        return word in self._rows

    def _pieces(self, word: str) -> tuple[int, ...]:
        """Rows of the longest pieces that make up ``word``, from the left; none when it cannot be made up."""
        found = self._known.get(word)
        if found is None:
            if len(self._known) > 50_000:  # noqa: PLR2004 - bounds what hostile queries can fill
                self._known.clear()
            found = self._known[word] = self._cut(word)
        return found

    def _cut(self, word: str) -> tuple[int, ...]:
        if (whole := self._rows.get(word)) is not None:
            return (whole,)
        rows, at = [], 0
        while at < len(word):
            mark = "##" if at else ""
            for end in range(min(len(word), at + 24), at, -1):
                if (row := self._rows.get(mark + word[at:end])) is not None:
                    rows.append(row)
                    at = end
                    break
            else:
                return ()
        return tuple(rows)

    def _unpacked(self, rows: NDArray[np.int64]) -> Array:
        packed = self._packed[rows]
        vectors = np.empty((len(rows), SIZE), np.float32)
        vectors[:, 0::2] = packed & 15
        vectors[:, 1::2] = packed >> 4
        vectors -= 8
        vectors *= self._scale[rows, None]
        return vectors

    def encode(self, texts: Sequence[Sequence[str]]) -> Array:
        """Vectors of length 1 of tokenized texts, one a row; zero for a text without known pieces."""
        return self.read(texts)[0]

    def read(self, texts: Sequence[Sequence[str]]) -> tuple[Array, Array]:
        """As :meth:`encode`, and how much each text says: the length of its vector before, above 0."""
        out = np.zeros((len(texts), SIZE), np.float32)
        for first in range(0, len(texts), AT_ONCE):
            self._encode(texts[first : first + AT_ONCE], out[first : first + AT_ONCE])
        return unit(out), np.linalg.norm(out, axis=1) + np.float32(1e-6)

    def _encode(self, texts: Sequence[Sequence[str]], out: Array) -> None:
        pieces = [list(chain.from_iterable(map(self._pieces, text[:MOST_PIECES])))[:MOST_PIECES] for text in texts]
        filled = [row for row, some in enumerate(pieces) if some]
        if not filled:
            return
        flat = np.fromiter(chain.from_iterable(pieces), np.int64)
        lengths = np.array([len(pieces[row]) for row in filled])
        rows, places = np.unique(flat, return_inverse=True)
        starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
        out[filled] = np.add.reduceat(self._unpacked(rows)[places], starts, axis=0)


def unit(vectors: Array) -> Array:
    """Rows scaled to length 1; what is zero stays zero."""
    return np.asarray(vectors / (np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-9), np.float32)


@cache
def table() -> PieceVectors:
    """The table that comes with this distribution, loaded once."""
    return PieceVectors(files(__package__).joinpath("data", FILE).read_bytes())
