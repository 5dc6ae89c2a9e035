"""Keys as their holders have them: ``pml_<id>_<secret>``.

The secret has 256 random bits, so its SHA-256 can stand in the store: nobody finds a text with that hash by trying.
Slow hashes (Argon2, scrypt) are for passwords, which people think up; here they would only make each request slow.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from typing import NamedTuple

PREFIX = "pml_"
ID_BYTES, SECRET_BYTES = 10, 32
SHAPE = re.compile(r"pml_([a-z2-7]{16})_([a-z2-7]{52})")
ID = re.compile(r"[a-z2-7]{16}")
NO_DIGEST = "0" * 64
"""What a secret is compared with where there is no key of its id; the hash of nothing that is known."""


class Token(NamedTuple):
    """A key."""

    id: str
    """Public: by it the key is found, named and revoked."""
    secret: str

    @property
    def text(self) -> str:
        """What its holder presents."""
        return f"{PREFIX}{self.id}_{self.secret}"

    @property
    def digest(self) -> str:
        """What is kept of it: hex."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def fits(self, digest: str) -> bool:
        """Whether ``digest`` is its own; takes as long whatever the two have in common."""
        return hmac.compare_digest(self.digest, digest)


def new() -> Token:
    """A token that nobody has."""
    return Token(_text(ID_BYTES), _text(SECRET_BYTES))


def is_ours(text: str) -> bool:
    """Whether it means to be such a key."""
    return text.startswith(PREFIX)


def read(text: str) -> Token | None:
    """None when it is not spelt like one."""
    found = SHAPE.fullmatch(text)
    return None if found is None else Token(found[1], found[2])


def _text(size: int) -> str:
    return base64.b32encode(secrets.token_bytes(size)).decode().rstrip("=").lower()
