"""Change a file of the user's: show what changes, ask, keep a copy, replace it in one step."""

from __future__ import annotations

import difflib
import os
import secrets
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pml_hookspecs import InvalidArguments

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BACKUP_SUFFIX = ".pml-backup"


class FileError(InvalidArguments):
    """A file cannot be used as it was asked for. The second line says what to do."""


@dataclass(frozen=True, slots=True)
class FileText:
    """A file as it was read."""

    path: Path
    raw: bytes | None
    """None when there is no such file."""

    @property
    def text(self) -> str:
        """Without the byte order mark; ``""`` when there is no file.

        Raises:
            FileError: It is not UTF-8.
        """
        try:
            return (self.raw or b"").decode("utf-8-sig")
        except UnicodeDecodeError as exc:
            raise FileError(f"{self.path}: is not UTF-8 text (byte {exc.start})\nSave it as UTF-8.") from None

    def encoded(self, text: str) -> bytes:
        """``text`` as it would stand in this file."""
        marked = self.raw is not None and self.raw.startswith(BYTE_ORDER_MARK)
        return (BYTE_ORDER_MARK if marked else b"") + text.encode()


def read(path: Path) -> FileText:
    """The file at ``path``, which need not exist.

    Raises:
        FileError: It cannot be read.
    """
    try:
        return FileText(path, path.read_bytes())
    except FileNotFoundError:
        return FileText(path, None)
    except OSError as exc:
        raise FileError(f"{path}: cannot be read: {exc.strerror}\nGive a file that can be read.") from None


def difference(file: FileText, text: str, *, context: int = 1) -> str:
    """What would change, as a unified diff; ``""`` for nothing."""
    name = str(file.path)
    lines = difflib.unified_diff(file.text.splitlines(), text.splitlines(), name, name, n=context, lineterm="")
    return "".join(f"{line}\n" for line in lines)


def agreed(question: str, *, yes: bool) -> bool:
    """Whether to go on. Without a terminal nobody can be asked, and the command is taken at its word."""
    if yes or not (sys.stdin and sys.stdin.isatty()):
        return True
    sys.stderr.write(f"{question} [Y/n] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    return bool(answer) and answer.strip().lower() in ("", "y", "yes")


def replace(file: FileText, raw: bytes | None) -> Path | None:
    """Put ``raw`` in the place of the file, or remove the file; the copy of what was there.

    Until the one step that replaces it, the file stays as it is, whatever happens.

    Raises:
        FileError: It cannot be written, or somebody else has changed it since it was read.
    """
    real = file.path.resolve()
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        backup = None if file.raw is None else _copied(real, file.raw)
        temporary = real.with_name(f".{real.name}.{secrets.token_hex(8)}")
        try:
            _written(temporary, raw or b"", _mode(real))
            if read(real).raw != file.raw:
                if backup is not None:
                    backup.unlink()
                raise FileError(
                    f"{file.path}: was changed by another program just now; nothing is written\nRun this again."
                )
            if raw is None:
                real.unlink()
            else:
                temporary.replace(real)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as exc:
        remedy = "Nothing is changed. Give another file, or make this one writable."
        raise FileError(f"{file.path}: cannot be written: {exc.strerror}\n{remedy}") from None
    return backup


def backups(path: Path) -> list[Path]:
    """The copies that :func:`replace` has made of the file, newest first."""
    real = path.resolve()
    found = (one for one in _siblings(real) if one.name.startswith(f"{real.name}.") and BACKUP_SUFFIX in one.name)
    return sorted(found, key=lambda one: one.name, reverse=True)


def _siblings(path: Path) -> list[Path]:
    return list(path.parent.iterdir()) if path.parent.is_dir() else []


def _mode(path: Path) -> int | None:
    """Who may read the file; None for a new one, of which the user's mask decides."""
    return path.stat().st_mode & 0o777 if path.exists() else None


def _copied(path: Path, raw: bytes) -> Path:
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S-%f")
    copy = path.with_name(f"{path.name}.{stamp}{BACKUP_SUFFIX}")
    _written(copy, raw, _mode(path))
    return copy


def _written(path: Path, raw: bytes, mode: int | None) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    if mode is not None:
        path.chmod(mode)
