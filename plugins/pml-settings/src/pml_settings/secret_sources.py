"""Where ``${KIND:WHAT}`` finds a secret: the system's keyring, a file, the output of a command."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from pml_kit.system.environment import passed_on

SERVICE = "pml"
"""Where the keyring has what is referred to without a service."""
COMMAND_TIME_S = 30.0
STEP_MS = 50
MOST_BYTES = 64 * 1024
"""Of a file, and of what a command writes: whatever is longer is no secret that a program is given."""
COMMAND_VARIABLES = (
    *("OP_*", "VAULT_*", "BW_SESSION", "BWS_ACCESS_TOKEN", "PASSWORD_STORE_*", "GNUPGHOME", "GPG_TTY"),
    *("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY"),
)
"""What commands get of the gateway's environment besides what every program gets: 1Password, Vault, Bitwarden and pass
log in by these, and ask their user."""


class SecretError(Exception):
    """There is no such secret: why, and what to do. Never says what a file or a command said."""


def of_keyring(what: str, _ended: threading.Event) -> str:
    """What the keyring has under ``SERVICE/NAME``, or under a name of PML's own."""
    service, slash, user = what.rpartition("/")
    service = service if slash else SERVICE
    try:
        keyring: Any = import_module("keyring")
        errors: Any = import_module("keyring.errors")
    except ImportError:
        raise SecretError(
            f"the keyring is asked for {what!r} and not installed; install pml-gateway[keyring]"
        ) from None
    try:
        value: str | None = keyring.get_password(service, user)
    except errors.KeyringError as exc:
        raise SecretError(f"the keyring cannot be asked for {what!r}: {exc}") from exc
    if value is None:
        raise SecretError(f"the keyring has no {what!r}; keyring set {service} {user}")
    return value


def of_file(what: str, _ended: threading.Event) -> str:
    """All that stands in a file, without the end of its last line."""
    path = Path(what).expanduser()
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as exc:
        raise SecretError(f"file {path} cannot be read: {exc.strerror}; correct the path or its rights") from None
    return _text(raw, f"file {path}")


def of_command(what: str, ended: threading.Event) -> str:
    """What a command writes to its standard output, without the end of its last line.

    It is started without a shell, in the user's home, with nothing to read; what it writes to standard error is
    dropped. After :data:`COMMAND_TIME_S`, and once ``ended`` is set, it is killed with what it started.
    """
    try:
        words = shlex.split(what)
    except ValueError as exc:
        raise SecretError(f"${{command:…}} cannot be split into words: {exc}; correct its quotes") from None
    if not words:
        raise SecretError("${command:…} names no program; write one")
    who = f"command {words[0]!r}"
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=passed_on(os.environ, COMMAND_VARIABLES),
            cwd=Path.home(),
            start_new_session=True,
        )
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else exc
        raise SecretError(f"{who} cannot be started: {reason}; install it, or give its full path") from None
    raw = _output(process, who, ended)
    if process.returncode and len(raw) <= MOST_BYTES:
        raise SecretError(f"{who} ended with status {process.returncode}; run it by hand to see why")
    return _text(raw, f"the output of {who}")


def _output(process: subprocess.Popen[bytes], who: str, ended: threading.Event) -> bytes:
    """What it writes until it ends. One that is late, or writes too much, is ended with its group."""
    raw, open_ = bytearray(), True
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    stdout, until = process.stdout.fileno(), time.monotonic() + COMMAND_TIME_S
    poll = select.poll()
    poll.register(stdout, select.POLLIN)
    try:
        while len(raw) <= MOST_BYTES and not ended.is_set() and time.monotonic() < until:
            if open_ and poll.poll(STEP_MS):
                chunk = os.read(stdout, MOST_BYTES)
                raw.extend(chunk)
                open_ = bool(chunk)
            elif process.poll() is not None:  # a daemon that it started may hold the pipe for good
                break
            elif not open_:
                ended.wait(STEP_MS / 1000)
    finally:
        late = process.poll() is None
        if late:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    if late and len(raw) <= MOST_BYTES:
        raise SecretError(f"{who} took longer than {COMMAND_TIME_S:g} s; run it by hand to see what it waits for")
    return bytes(raw)


def _text(raw: bytes, whose: str) -> str:
    if len(raw) > MOST_BYTES:
        raise SecretError(f"{whose} is longer than {MOST_BYTES} bytes, which is no secret; name another")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise SecretError(f"{whose} is not UTF-8 text; name another") from None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text or "\0" in text:
        raise SecretError(f"{whose} {'has a NUL character in it' if text else 'is empty'}; name another")
    return text


SOURCES: Mapping[str, Callable[[str, threading.Event], str]] = {
    "keyring": of_keyring,
    "file": of_file,
    "command": of_command,
}
"""By kind: what a reference stands for, or :class:`SecretError`. Who asks may be ended meanwhile."""
