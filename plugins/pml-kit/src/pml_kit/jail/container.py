"""A program with all that it starts: in namespaces of its own, and each process of it in a jail.

Run as ``python -I -m pml_kit.jail.container CONTAINER DESCRIPTOR PROGRAM ARGUMENTS...``, by one process that waits for
the first one inside, which waits for all others: when one of these two ends, however it ends, the kernel ends all that
is inside, whatever session, environment or parent it has given itself.

Facts: ``pid_namespaces(7)``, ``user_namespaces(7)`` of Linux.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NoReturn

from . import _view
from . import network as networks
from ._jail import DEVICES, Enter, Jail
from ._kernel import PR_SET_PDEATHSIG, libc

_NEW_PROCESSES, _NEW_NETWORK = 0x20000000, 0x40000000
_STREAMS = (0, 1, 2)
_FAILED = 70


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """What is around a program. Linux, where :func:`pml_kit.jail.missing` names nothing."""

    jail: Jail
    """Around each of its processes. Neither in a session of its own nor at a lower priority."""
    folders: tuple[str, ...] = ()
    """Folders that are there and empty, but for what the jail grants below them."""
    temporary: tuple[str, ...] = ()
    """The same, and it can write to them; they vanish with it."""
    temporary_bytes: int = 256 << 20
    """Size of all that is in one of these [bytes]."""
    network: bool = False
    """Whether it has a network of its own, in which it can reach only what is given with ``ports``."""
    ports: tuple[int, ...] = ()
    """TCP ports that connections are taken on; at most :data:`pml_kit.jail.network.MOST_PORTS`."""
    addresses: tuple[str, ...] = ()
    """IPv4 addresses that lead to these ports, besides those of :data:`pml_kit.jail.network.NAMES`."""
    processes: int | None = None
    """Processes and threads that there are at a time; not for root."""
    namespaces: bool = True
    """False: nothing but the jail, for systems that let nobody make namespaces."""

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> Container:
        """The one with these members, as JSON has them."""
        lists = {name: tuple(value) for name, value in members.items() if isinstance(value, list)}
        return cls(**{**members, **lists, "jail": Jail.of(members["jail"])})

    def command(self, descriptor: int = -1) -> tuple[str, ...]:
        """Words to put before a program, by its absolute path, and its arguments; it gets their environment.

        Args:
            descriptor: Of a Unix socket, inherited by number, that gets one message with the sockets of
                :func:`pml_kit.jail.network.sockets`, where it has a network of its own.
        """
        return (sys.executable, "-I", "-m", "pml_kit.jail.container", json.dumps(asdict(self)), str(descriptor))


def main() -> NoReturn:
    """Put the walls up, run the program within them, end as it ends."""
    container, descriptor, words = Container.of(json.loads(sys.argv[1])), int(sys.argv[2]), sys.argv[3:]
    _load()
    try:
        if not container.namespaces:
            _become(container, words, os.getppid())
        status = _outside(container, descriptor, words)
    except OSError as error:
        print(f"the sandbox does not stand: {error.strerror or error}", file=sys.stderr, flush=True)
        os._exit(_FAILED)
    if number := os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0:
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def _load() -> None:
    """Have at hand what is imported where it is used: inside there is nothing to import from."""
    import fcntl  # noqa: F401
    import resource  # noqa: F401


def _outside(container: Container, descriptor: int, words: list[str]) -> int:
    """Run the first process inside, and all others in it. Gives how the program ended, as ``wait`` has it."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the program gets it too, and decides
    jail = container.jail
    view = _view.View(
        (*jail.read, *jail.run),
        words[0],
        writable=(*jail.write, *jail.remove, *DEVICES),
        folders=container.folders,
        temporary=container.temporary,
        temporary_bytes=container.temporary_bytes,
    )
    view.part(_NEW_PROCESSES | (_NEW_NETWORK if container.network else 0))
    told, telling = os.pipe()
    first = os.fork()
    if not first:
        os.close(told)
        _inside(container, view, descriptor, words, telling)
    os.close(telling)
    _let_go()
    os.waitpid(first, 0)
    said = os.read(told, 4)
    return int.from_bytes(said, "little") if said else _FAILED << 8


def _inside(container: Container, view: _view.View, descriptor: int, words: list[str], telling: int) -> NoReturn:
    """Be the first process: make what is seen, start the program, wait for whoever has nobody else to."""
    try:
        libc().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if container.network:
            made = networks.sockets(container.ports, container.addresses)
            with socket.socket(fileno=descriptor) as channel:
                socket.send_fds(channel, [b"!"], [one.fileno() for one in made])
            for one in made:
                one.close()
        view.move()
        program = os.fork()
        if not program:
            _become(container, words, os.getpid() - 1)
        _let_go()
        status = 0
        ended = 0
        while ended != program:
            ended, status = os.wait()
        os.write(telling, status.to_bytes(4, "little"))
    except OSError as error:
        os.write(2, f"the sandbox does not stand: {error.strerror or error}\n".encode())
        os._exit(_FAILED)
    os._exit(0)


def _become(container: Container, words: list[str], parent: int) -> NoReturn:
    """Be the program."""
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        temporary = container.temporary if container.namespaces else ()
        jail = replace(container.jail, write=(*container.jail.write, *temporary))
        if container.processes is not None and container.namespaces:
            import resource

            resource.setrlimit(resource.RLIMIT_NPROC, (container.processes, container.processes))
        Enter(jail, (), parent, apart=False)()
        os.execve(words[0], words, os.environ)  # noqa: S606 - becoming that program is what this is for
    except OSError as error:
        os.write(2, f"{words[0]} cannot be started in its sandbox: {error.strerror or error}\n".encode())
        os._exit(_FAILED)


def _let_go() -> None:
    """Have none of the program's streams: their ends are its own."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in _STREAMS:
        os.dup2(nowhere, stream)
    os.close(nowhere)


if __name__ == "__main__":
    main()
