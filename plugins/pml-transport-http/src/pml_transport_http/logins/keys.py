"""The keys that logins are encrypted with: in the system's keyring where there is one, or else in a file."""

from __future__ import annotations

import asyncio
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pml_transport_http.settings import Settings

KEYRING_SERVICE = "pml-http"
NAME = "login.key"
PRIVATE = 0o600


class LoginKeyError(Exception):
    """What is kept cannot be read with the keys that there are. The message says what to do."""


class KeyPlace(Protocol):
    """Where the keys are: one a line, the one to encrypt with first."""

    @property
    def name(self) -> str:
        """For messages."""
        ...

    def read(self) -> str:
        """The lines; empty when there are none yet."""
        ...

    def write(self, lines: str, *, first: bool) -> None:
        """Replace them; ``first``: only if there are none."""
        ...


class KeyFile:
    """A file that nobody else may read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        """The path."""
        return f"the key file {self._path}"

    def read(self) -> str:
        """The lines; empty when there is no file.

        Raises:
            LoginKeyError: Others may read it.
        """
        try:
            with self._path.open(encoding="ascii") as file:
                if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077:
                    raise LoginKeyError(f"others may read {self.name}; run: chmod 600 {self._path}")
                return file.read()
        except FileNotFoundError:
            return ""

    def write(self, lines: str, *, first: bool) -> None:
        """Replace the file in one step."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self._path.with_name(f".{self._path.name}.{secrets.token_hex(8)}")
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "w", encoding="ascii") as file:  # noqa: PTH123
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        try:
            if first:
                with suppress(FileExistsError):
                    os.link(new, self._path)
            else:
                new.replace(self._path)
        finally:
            new.unlink(missing_ok=True)


class KeyringEntry:
    """An entry of the system's keyring."""

    name = f"the keyring ({KEYRING_SERVICE}, {NAME})"

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def read(self) -> str:
        """The lines; empty when there are none.

        Raises:
            LoginKeyError: The keyring is locked, or fails otherwise.
        """
        return str(self._asked("get_password") or "")

    def write(self, lines: str, *, first: bool) -> None:
        """Replace them."""
        if not (first and self.read()):
            self._asked("set_password", lines)

    def _asked(self, action: str, *values: str) -> Any:
        try:
            return getattr(self._backend, action)(KEYRING_SERVICE, NAME, *values)
        except Exception as error:
            what = f"{self.name} cannot be used ({error}); unlock it, or name a file as key_file in [plugins.http]"
            raise LoginKeyError(what) from error


def find_keyring() -> Any:
    """The system's keyring; None without the package, or without a backend that keeps anything."""
    import importlib

    try:
        keyring: Any = importlib.import_module("keyring")
    except ImportError:
        return None
    backend = keyring.get_keyring()
    # The backend that refuses everything has priority 0.
    return backend if getattr(backend, "priority", 0) > 0 else None


def place_of(settings: Settings) -> KeyPlace:
    """Where the settings have the keys."""
    backend = find_keyring() if settings.keyring and not settings.key_file else None
    if backend is not None:
        return KeyringEntry(backend)
    home = Path(os.environ.get("PML_HOME") or Path.home() / ".pml")
    return KeyFile(Path(settings.key_file).expanduser() if settings.key_file else home / NAME)


class LoginKeys:
    """Encrypts and decrypts what is kept of logins (Fernet: AES-CBC, with HMAC)."""

    def __init__(self, place: KeyPlace) -> None:
        self._place = place
        self._known: list[str] = []

    async def seal(self, text: str) -> str:
        """``text``, encrypted with the newest key, which may have changed since it was last used."""
        keys = await self._read()
        if not keys:
            from cryptography.fernet import Fernet

            await self._write([Fernet.generate_key().decode()], first=True)
            keys = await self._read()
        return str(_box(keys).encrypt(text.encode()).decode())

    async def open(self, sealed: str) -> str:
        """What was sealed, with this key or the one before it.

        Raises:
            LoginKeyError: With neither.
        """
        from cryptography.fernet import InvalidToken

        for keys in (self._known, await self._read()):
            with suppress(InvalidToken):
                if keys:
                    return str(_box(keys).decrypt(sealed.encode()).decode())
        raise LoginKeyError(
            f"it was encrypted with a key that is not in {self._place.name}; put that key back, or log in anew with "
            "pml auth login"
        )

    async def add(self) -> None:
        """Encrypt with a new key from now on."""
        from cryptography.fernet import Fernet

        await self._write([Fernet.generate_key().decode(), *await self._read()])

    async def drop(self) -> None:
        """Forget all keys but the newest and the one before it, which others may just have used."""
        await self._write((await self._read())[:2])

    async def _read(self) -> list[str]:
        keys = (await asyncio.to_thread(self._place.read)).split()
        try:
            _box(keys)
        except ValueError:
            raise LoginKeyError(f"{self._place.name} holds something else than keys; put them back") from None
        self._known = keys
        return keys

    async def _write(self, keys: list[str], *, first: bool = False) -> None:
        lines = "".join(f"{key}\n" for key in keys)
        await asyncio.to_thread(lambda: self._place.write(lines, first=first))


def _box(keys: list[str]) -> Any:
    from cryptography.fernet import Fernet, MultiFernet

    return MultiFernet([Fernet(key) for key in keys]) if keys else None
