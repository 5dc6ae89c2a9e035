"""Ways out of a sandbox, each as Python that sets ``won`` where it got through, and the things that they reach for."""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

FILES = {
    "read the key in ~/.ssh": "won = 'secret' in open(f'{home}/.ssh/id_ed25519').read()",
    "read PML's own configuration": "won = 'secret' in open(f'{home}/.pml/config.toml').read()",
    "list the home folder": "import os; won = '.ssh' in os.listdir(home)",
    "ask for the size of a file outside": "import os; won = os.stat(f'{outside}/secret.txt').st_size",
    "write outside": "open(f'{outside}/new.txt', 'w').write('x'); won = True",
    "change what a shell runs at its start": "import os; os.path.getsize(f'{home}/.bashrc')\n"
    "open(f'{home}/.bashrc', 'a').write('x'); won = True",
    "go up from a folder that is granted": "won = 'secret' in open(f'{write}/../outside/secret.txt').read()",
    "follow a link that stands in a folder that is granted": "won = 'secret' in open(f'{write}/way/secret.txt').read()",
    "make a link in a folder that is granted": "import os; os.symlink(f'{outside}/secret.txt', f'{write}/made')\n"
    "won = os.path.islink(f'{write}/made')",
    "make a hard link to a file outside": "import os; os.link(f'{outside}/secret.txt', f'{write}/hard'); won = True",
    "make a hard link from what it may read to where it may write": "import os\n"
    "os.link(f'{read}/kept.txt', f'{write}/k'); open(f'{write}/k', 'w'); won = True",
    "change what it may only read": "open(f'{read}/kept.txt', 'w'); won = True",
    "give a file the rights of its owner": "import os; open(f'{write}/tool', 'w').close()\n"
    "os.chmod(f'{write}/tool', 0o4755); won = os.stat(f'{write}/tool').st_mode & 0o4000",
    "make what it may read open to all": "import os; os.chmod(f'{read}/kept.txt', 0o666)\n"
    "won = os.stat(f'{read}/kept.txt').st_mode & 0o002",
    "run a program that it has written": "import shutil, subprocess; shutil.copyfile('/bin/true', f'{write}/own')\n"
    "import os; os.chmod(f'{write}/own', 0o755); won = subprocess.run([f'{write}/own']).returncode == 0",
    "look into the processes of the machine": "import os; won = any(n.isdigit() for n in os.listdir('/proc'))",
    "read the gateway's environment": "won = b'PATH=' in open(f'/proc/{gateway}/environ', 'rb').read()",
    "reach files by way of the gateway's root": "way = '/'.join(('/proc', str(gateway), 'root', outside))\n"
    "won = 'secret' in open(f'{way}/secret.txt').read()",
    "open what the gateway has open": "import os; won = os.listdir(f'/proc/{gateway}/fd')",
}
NETWORK = {
    "connect to a port of the machine": "import socket; won = socket.create_connection(('127.0.0.1', tcp), 5)",
    "connect to it by another of its addresses": "import socket; won = socket.create_connection(('127.9.9.9', tcp), 5)",
    "send a datagram": "import socket; s = socket.socket(type=socket.SOCK_DGRAM)\n"
    "s.connect(('127.0.0.1', udp)); s.send(b'x'); won = s.recv(1) == b'x'",
    "connect to a Unix socket, as that of Docker": "import socket; s = socket.socket(socket.AF_UNIX)\n"
    "s.connect(unix); won = True",
    "connect to an abstract Unix socket, as that of D-Bus": "import socket; s = socket.socket(socket.AF_UNIX)\n"
    "s.connect('\\0' + abstract); won = True",
    "send to a Unix socket through a pair": "import socket; a, b = socket.socketpair(type=socket.SOCK_DGRAM)\n"
    "a.sendto(b'x', unix_datagrams); won = True",
    "take connections": "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); won = True",
    "ask the kernel about the network (netlink)": "import socket\n"
    "won = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)",
}
SYSCALL = (
    "import ctypes; libc = ctypes.CDLL(None, use_errno=True); buffer = ctypes.create_string_buffer(4096)\nwon = {} >= 0"
)
PROCESSES = {
    "signal another process": "import os; os.kill(victim, 0); won = True",
    "kill all processes of the user": "import os; os.kill(-1, 0); os.kill(victim, 0); won = True",
    "trace another process (ptrace)": SYSCALL.format("libc.ptrace(0x4206, victim, 0, 0)"),
    "take a descriptor of another process": SYSCALL.format("libc.syscall(438, libc.syscall(434, victim, 0), 0, 0)"),
    "change the priority of another process": "import os; os.setpriority(os.PRIO_PROCESS, victim, 5); won = True",
    "make a file in memory to run it": SYSCALL.format("libc.memfd_create(b'x', 0)"),
    "use io_uring": SYSCALL.format("libc.syscall(425, 1, buffer)"),
    "have more memory than it may": "x = bytearray(700 << 20); won = True",
}
PRIVILEGED = {
    "mount": SYSCALL.format("libc.mount(b'x', read.encode(), b'tmpfs', 0, None)") + "\nlibc.umount2(read.encode(), 2)",
    "make a namespace": "import os, subprocess\n"
    "won = subprocess.run(['unshare', '--user', 'true'], capture_output=True).returncode == 0",
    "change the root": SYSCALL.format("libc.chroot(b'/')"),
    "become another user": "import os; pid = os.fork()\n"
    "if not pid:\n    try: os.setuid(65534)\n    except OSError: os._exit(1)\n"
    "    os._exit(0)\nwon = os.waitpid(pid, 0)[1] == 0",
    "make a device": "import os; os.mknod(f'{write}/device', 0o20600, os.makedev(1, 3)); won = True",
}
ESCAPES = {**FILES, **NETWORK, **PROCESSES, **PRIVILEGED}


class World(ExitStack):
    """What they reach for: a home, folders, sockets, a process and memory that are not the server's."""

    def __init__(self, place: Path) -> None:
        """Make it below ``place``."""
        super().__init__()
        self._place = place
        self.names = {name: str(place / name) for name in ("home", "outside", "read", "write")}
        for folder in (*self.names.values(), f"{place}/home/.ssh", f"{place}/home/.pml"):
            Path(folder).mkdir()
        for file in (
            "home/.ssh/id_ed25519",
            "home/.pml/config.toml",
            "home/.bashrc",
            "outside/secret.txt",
            "read/kept.txt",
        ):
            (place / file).write_text("secret")
        (place / "write/way").symlink_to(place / "outside")
        inet, unix = socket.AF_INET, socket.AF_UNIX
        self._listen("tcp", inet, socket.SOCK_STREAM, ("", 0))
        datagrams = self._listen("udp", inet, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        echo = Thread(target=self._echo, args=(datagrams,))
        echo.start()
        self.callback(self._end_echo, datagrams, echo)
        self._listen("unix", unix, socket.SOCK_STREAM, f"{place}/docker.sock")
        self._listen("unix_datagrams", unix, socket.SOCK_DGRAM, f"{place}/log.sock")
        self._listen("abstract", unix, socket.SOCK_STREAM, f"\0pml-{place.name}-{os.getpid()}")
        victim = self.enter_context(subprocess.Popen(["/bin/sleep", "600"]))
        self.callback(victim.kill)
        self.names.update(gateway=os.getpid(), victim=victim.pid)

    def read(self, file: str) -> str:
        """What is in a file of it."""
        return (self._place / file).read_text()

    def list(self, folder: str) -> list[str]:
        """Names of what is in a folder of it."""
        return sorted(path.name for path in (self._place / folder).iterdir())

    def _listen(self, name, family, kind, address):
        made = self.enter_context(socket.socket(family, kind))
        made.bind(address)
        if kind == socket.SOCK_STREAM:
            made.listen(64)
        bound = made.getsockname()
        self.names[name] = bound[1] if isinstance(bound, tuple) else os.fsdecode(bound).lstrip("\0")
        return made

    def _echo(self, made: socket.socket) -> None:
        said = b""
        while said != b"end":
            said, who = made.recvfrom(16)
            made.sendto(said, who)

    def _end_echo(self, made: socket.socket, echo: Thread) -> None:
        made.sendto(b"end", made.getsockname())
        echo.join()
