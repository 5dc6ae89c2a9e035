"""References to secrets in what is kept to be gone on with: it needs them, and nobody shall read them there."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import encode

if TYPE_CHECKING:
    from pml_hookspecs import Store

    from .ports import Secrets

OWNER, NAME = "core", "key of references to secrets"
REFERENCE = re.compile(r"\{pml-secret:([0-9a-f]{32})\}")
BEGINNING = b"{pml-secret:"
KEY_BYTES, DIGEST_BYTES = 32, 16


class SecretGoneError(Exception):
    """What is referred to is not among the secrets that the gateway knows."""


class SecretReferences:
    """Puts references into JSON values in the place of the secrets that the gateway knows, and these back.

    A reference is a keyed hash of the secret, so it tells nothing to who has not the key, which is among the secrets
    of the store.
    """

    def __init__(self, known: Secrets, store: Store) -> None:
        self._secrets, self._store = known, store
        self._key: bytes | None = None

    async def instead(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """``value`` with references in the place of secrets."""
        raw = encode(value)
        if self._secrets.raw(raw) == raw:
            return value
        key = await self._known_key()

        def swap(text: str) -> str:
            return self._secrets.swapped(text, lambda secret: _reference(secret, key))

        swapped: Mapping[str, Any] = _swapped(json.loads(raw), swap)
        return swapped

    async def back(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """``value`` as it was.

        Raises:
            SecretGoneError: A secret in it is not known any more.
        """
        raw = encode(value)
        if BEGINNING not in raw:
            return value
        key = await self._known_key()
        known = {_reference(secret, key): secret for secret in self._secrets.known}

        def secret_of(found: re.Match[str]) -> str:
            try:
                return known[found[0]]
            except KeyError:
                raise SecretGoneError(found[0]) from None

        swapped: Mapping[str, Any] = _swapped(json.loads(raw), lambda text: REFERENCE.sub(secret_of, text))
        return swapped

    async def _known_key(self) -> bytes:
        if self._key is None:
            text = await self._store.secrets.get(OWNER, NAME)
            if text is None:
                await self._store.secrets.put(OWNER, NAME, secrets.token_hex(KEY_BYTES))
                # Another gateway may have put its own meanwhile.
                text = await self._store.secrets.get(OWNER, NAME)
            self._key = bytes.fromhex(text or "")
        return self._key


def _reference(secret: str, key: bytes) -> str:
    digest = hashlib.blake2b(secret.encode("utf-8", "surrogatepass"), key=key, digest_size=DIGEST_BYTES)
    return f"{{pml-secret:{digest.hexdigest()}}}"


def _swapped(value: Any, swap: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return swap(value)
    if isinstance(value, dict):
        return {swap(str(name)): _swapped(member, swap) for name, member in value.items()}
    if isinstance(value, list):
        return [_swapped(member, swap) for member in value]
    return value
