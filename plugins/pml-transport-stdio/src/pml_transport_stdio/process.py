"""A server's process: start it in a session of its own, listen to its stderr, and leave nothing of it behind."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_hookspecs import TransportError
from pml_kit.jsonrpc.junk import last_words
from pml_kit.processes.pipes import Reader
from pml_kit.processes.tree import MARK, ProcessTree, signal_name
from pml_kit.system.environment import passed_on

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pml_kit.jail.container import Container

    from .command import Command

STDERR_KEPT = 8 * 1024
"""How much of the end of stderr goes into error messages [bytes]."""
AFTER_KILL_S = 1.0


def spawn(
    name: str,
    command: Command,
    env: Mapping[str, str],
    mark: str,
    container: Container | None = None,
    channel: int = -1,
) -> subprocess.Popen[bytes]:
    """Start a server, its three streams on pipes, ``mark`` in its environment.

    Args:
        name: Its name.
        command: What to start; of one in a container, the program is an absolute path.
        env: Its environment, but for the mark.
        mark: By which it is found again.
        container: What is around it; None for nothing.
        channel: Descriptor on which the container gives the sockets of its network; -1 for one without.

    Raises:
        TransportError: It cannot be started; the message says what to do.
    """
    if command.cwd is not None and not Path(command.cwd).is_dir():
        raise TransportError(
            f"server {name!r}: its working directory {command.cwd!r} is not a folder; create it or correct "
            f"[servers.{name}] cwd",
            retryable=False,
        )
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(
            command.argv if container is None else (*container.command(channel), *command.argv),
            bufsize=0,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            cwd=command.cwd,
            env={**env, MARK: mark},
            start_new_session=True,
            pass_fds=() if channel < 0 else (channel,),
        )
    except (OSError, ValueError) as error:
        raise not_started(name, command.argv[0], error) from error


def environment(command: Command, env: Mapping[str, str]) -> dict[str, str]:
    """A server's environment: of the gateway's, the usual variables and those that its table names; then ``env``."""
    usual = passed_on(os.environ, command.inherit_env)
    if command.sandbox is not None:
        from .sandbox import environment_of

        usual = environment_of(usual, command.sandbox)
    return {**usual, **env}


def not_started(name: str, program: str, error: OSError | ValueError) -> TransportError:
    """Why a command was not started, with what to do."""
    message = f"server {name!r}: command {program!r} {_problem(program, error)} in [servers.{name}] command"
    return TransportError(message, retryable=_may_pass(error))


def _problem(program: str, error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        if os.sep not in program:
            hint = ", and its arguments apart from it," if " " in program else ""
            return f"not found on PATH; install it or give the full path{hint}"
        if Path(program).exists():
            return "names an interpreter in its first line that does not exist; install that or name another program"
        return "does not exist; correct the path"
    if isinstance(error, PermissionError):
        return "is not executable; make it so (chmod +x) or start it with its interpreter"
    if isinstance(error, OSError) and error.errno == errno.ENOEXEC:
        return "is not a program this system can run; start it with its interpreter"
    reason = error.strerror if isinstance(error, OSError) else error
    return f"cannot be started: {reason}; check what stands"


def _may_pass(error: OSError | ValueError) -> bool:
    short = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY)
    return isinstance(error, OSError) and error.errno in short


def discard(popen: subprocess.Popen[bytes]) -> None:
    """Undo :func:`spawn`, without grace."""
    popen.kill()
    with popen:
        pass


class Child:
    """A started process and what it says on stderr."""

    def __init__(
        self, name: str, popen: subprocess.Popen[bytes], mark: str, log: Any, on_sign: Callable[[str], None]
    ) -> None:
        """Take over ``popen``.

        Args:
            name: The server's.
            popen: All three streams are pipes.
            mark: In its environment.
            log: Gets each line of stderr, at debug.
            on_sign: Called with ``"exit"`` when the process is gone, though not what it started, and with ``"stderr"``
                at the end of its stderr.
        """
        self._name, self._popen, self._log = name, popen, log
        self._stderr = b""
        self._stderr_line = b""
        self._streams = [stream for stream in (popen.stdin, popen.stdout, popen.stderr) if stream is not None]
        stdin, stdout, stderr = (stream.fileno() for stream in self._streams)
        for fd in (stdin, stdout, stderr):
            os.set_blocking(fd, False)
        self.stdin, self.stdout = stdin, stdout
        """File descriptors to write to and to read from."""
        self._stderr_reader = Reader(stderr, self._stderr_received, lambda _error: on_sign("stderr"))
        self._tree = ProcessTree(popen, mark, lambda: on_sign("exit"))

    def obituary(self, otherwise: str, words: str) -> str:
        """What became of the server, for an error message: exit code or signal, and its last words on stderr.

        Args:
            otherwise: What it did when it is still running.
            words: Its last words on stdout, for one that said nothing on stderr.
        """
        code = self._popen.poll()
        if code is None:
            end = otherwise
        elif code < 0:
            end = f"was ended by {signal_name(-code)}"
        else:
            end = f"exited with code {code}"
        words = self.last_words() or words
        return f"server {self._name!r} {end}" + (f"; its last words: {words}" if words else "")

    def last_words(self) -> str:
        """The end of its stderr, on one line."""
        return last_words(self._stderr)

    def _stderr_received(self, data: bytes) -> None:
        self._stderr = (self._stderr + data[-STDERR_KEPT:])[-STDERR_KEPT:]
        *lines, rest = (self._stderr_line + data).split(b"\n")
        # A line without end is logged in pieces.
        if len(rest) > STDERR_KEPT:
            lines, rest = [*lines, rest], b""
        self._stderr_line = rest
        for line in lines:
            if text := line[:STDERR_KEPT].decode(errors="replace").rstrip():
                self._log.debug("stdio.stderr", server=self._name, line=text)

    def close_stdin(self) -> None:
        """Tell the server that nothing more will come, which is how it is asked to stop (MCP, "Shutdown")."""
        self._streams[0].close()

    async def stop(self, grace_s: float) -> None:
        """End the process and all its descendants. Takes at most ``2 * grace_s + 1`` s.

        stdin must be closed already.
        """
        steps = ((None, grace_s), (signal.SIGTERM, grace_s), (signal.SIGKILL, AFTER_KILL_S))
        if not await self._tree.end(steps):
            self._log.warning("stdio.processes_remain", server=self._name, group=self._popen.pid)

    def close(self) -> None:
        """Let go of all descriptors."""
        self._tree.close()
        self._stderr_reader.close()
        for stream in self._streams:
            stream.close()
