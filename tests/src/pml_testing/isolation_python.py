"""Attempts to get out of a sandbox, in Python."""

from __future__ import annotations

from typing import Any

from .isolation import Attempt
from .isolation_python_inside import BRIDGE, LIMITS, TRICKS


def _try(group: str, name: str, code: str, **more: Any) -> Attempt:
    return Attempt(name=name, group=group, language="python", code=code.strip("\n"), **more)


_SYSCALL = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == "x86_64"
"""
"""Before attempts that make system calls by their numbers, given as ``x if x86 else y``."""

FILES = (
    _try("files", "read a file", 'return open("@SECRET@").read()'),
    _try("files", "read the list of users", 'return open("/etc/passwd").read()'),
    _try("files", "read by descriptor", 'import os\nreturn os.read(os.open("@SECRET@", os.O_RDONLY), 100).decode()'),
    _try("files", "read by pathlib", 'import pathlib\nreturn pathlib.Path("@SECRET@").read_text()'),
    _try("files", "read by io.open_code", 'import io\nreturn io.open_code("@SECRET@").read().decode()'),
    _try(
        "files",
        "read by the C library",
        """
import ctypes
libc = ctypes.CDLL(None)
buffer = ctypes.create_string_buffer(100)
libc.read(libc.open(b"@SECRET@", 0), buffer, 100)
return buffer.value.decode()
""",
    ),
    _try("files", "import a module from outside", 'import sys\nsys.path.insert(0, "@OUTSIDE@")\nimport code as it\n'
         'import importlib.util\nspec = importlib.util.spec_from_file_location("it", "@OUTSIDE@/code.py")\n'
         "module = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(module)\nreturn module.VALUE"),
    _try("files", "run a file from outside", 'import runpy\nreturn runpy.run_path("@OUTSIDE@/code.py")["VALUE"]'),
    _try("files", "read by line cache", 'import linecache\nreturn linecache.getlines("@SECRET@")'),
    _try("files", "read by a database", """
import sqlite3
base = sqlite3.connect("@MARK@")
base.execute("create table t (a)")
base.commit()
"""),
    _try("files", "read by URL", 'import urllib.request\nreturn urllib.request.urlopen("file://@SECRET@").read().decode()'),
    _try("files", "list a directory", 'import os\nreturn @WON@ if "secret.txt" in os.listdir("@OUTSIDE@") else None'),
    _try("files", "list the root", 'import os\nreturn @WON@ if os.listdir("/") else None'),
    _try("files", "read through dot dot",
         'import os\nreturn open("@FOLDER@/../outside/secret.txt").read()', folder=True),
    _try("files", "read after changing directory",
         'import os\nos.chdir("@OUTSIDE@")\nreturn open("secret.txt").read()'),
    _try("files", "read through a link that is there", 'return open("@FOLDER@/link/secret.txt").read()', folder=True),
    _try("files", "read through a link of its own", """
import os
os.symlink("@OUTSIDE@", "@FOLDER@/new")
return open("@FOLDER@/new/secret.txt").read()
""", folder=True),
    _try("files", "read through a hard link", """
import os
os.link("@SECRET@", "@FOLDER@/hard")
return open("@FOLDER@/hard").read()
""", folder=True),
    _try("files", "read memory of the gateway", 'return open("/proc/@GATEWAY@/environ").read() and @WON@'),
    _try("files", "read memory of itself by name", """
import os
return @WON@ if open(f"/proc/{os.getpid()}/maps").read() else None
"""),
    _try("files", "write a file", 'open("@MARK@", "w").write("x")'),
    _try("files", "change a file", 'open("@SECRET@", "w").write("x")'),
    _try("files", "add to a file", 'open("@SECRET@", "a").write("x")'),
    _try("files", "cut a file", 'import os\nos.truncate("@SECRET@", 0)'),
    _try("files", "remove a file", 'import os\nos.unlink("@SECRET@")'),
    _try("files", "remove a tree", 'import shutil\nshutil.rmtree("@OUTSIDE@")'),
    _try("files", "make a directory", 'import os\nos.mkdir("@MARK@")'),
    _try("files", "make a temporary file", """
import tempfile
with tempfile.NamedTemporaryFile(dir="/tmp") as made:
    made.write(b"x")
    return @WON@
"""),
    _try("files", "move a file out", 'import os\nos.rename("@FOLDER@/own.txt", "@MARK@")', folder=True),
    _try("files", "move a file in", """
import os
os.rename("@SECRET@", "@FOLDER@/in.txt")
""", folder=True),
    _try("files", "make a link outside", 'import os\nos.symlink("/etc", "@MARK@")'),
    _try("files", "make a pipe with a name", 'import os\nos.mkfifo("@MARK@")'),
    _try("files", "make a file of shared memory", """
import os
fd = os.open("/dev/shm/pml-isolation", os.O_CREAT | os.O_RDWR)
os.unlink("/dev/shm/pml-isolation")
return @WON@
"""),
    _try("files", "change a mode", 'import os\nos.chmod("@SECRET@", 0o777)'),
    _try("files", "change a mode by descriptor", 'import os\nos.fchmod(os.open("@SECRET@", os.O_RDONLY), 0o777)'),
    _try("files", "watch a directory", _SYSCALL + """
fd = libc.inotify_init1(0)
if fd >= 0 and libc.inotify_add_watch(fd, b"@OUTSIDE@", 2) >= 0:
    return @WON@
"""),
)  # fmt: skip

ENVIRONMENT = (
    _try("environment", "read a variable", 'import os\nreturn os.environ.get("@ENV@")'),
    _try("environment", "read all variables", "import os\nreturn dict(os.environ)"),
    _try("environment", "ask the C library", """
import ctypes
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
return (libc.getenv(b"@ENV@") or b"").decode()
"""),
    _try("environment", "read what it was started with", 'return open("/proc/self/environ").read()'),
    _try("environment", "read what the gateway was started with",
         'return open("/proc/@GATEWAY@/cmdline").read() and @WON@'),
)  # fmt: skip

NETWORK = (
    _try("network", "connect by TCP", 'import socket\nsocket.create_connection(("127.0.0.1", @TCP@), 1)'),
    _try("network", "connect by asyncio", 'import asyncio\nawait asyncio.open_connection("127.0.0.1", @TCP@)'),
    _try("network", "fetch a page", """
import urllib.request
urllib.request.urlopen("http://127.0.0.1:@TCP@/", timeout=0.2).read()
"""),
    _try("network", "send by UDP", """
import socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", @UDP@))
"""),
    _try("network", "ask for a name", 'import socket\nreturn @WON@ if socket.getaddrinfo("localhost", 80) else None'),
    _try("network", "listen", 'import socket\nsocket.create_server(("127.0.0.1", 0)).close()\nreturn @WON@'),
    _try("network", "connect to a Unix socket", """
import socket
socket.socket(socket.AF_UNIX).connect("@STREAM@")
"""),
    _try("network", "connect to an abstract Unix socket", """
import socket
socket.socket(socket.AF_UNIX).connect("\\0@ABSTRACT@")
"""),
    _try("network", "send to a Unix socket", """
import socket
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", "@DATAGRAM@")
"""),
    _try("network", "send from a pair of sockets to another", """
import socket
first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
first.sendto(b"x", "@DATAGRAM@")
"""),
    _try("network", "connect one of a pair of streams", """
import ctypes, socket, struct
first, second = socket.socketpair()
second.close()
first.connect("@STREAM@")
""", bare=False),
    _try("network", "talk to the kernel by netlink", """
import socket
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).bind((0, 0))
return @WON@
"""),
    _try("network", "make a socket by number", _SYSCALL + """
if libc.syscall(41 if x86 else 198, 2, 1, 0) >= 0:
    return @WON@
"""),
    _try("network", "make a socket by the other numbering", _SYSCALL + """
if libc.syscall(0x40000000 + 41, 2, 1, 0) >= 0:
    return @WON@
""", bare=False),
    _try("network", "use a socket that was left open", """
import socket
if socket.socket(fileno=@INHERITED@).getsockname()[1] == @TCP@:
    return @WON@
"""),
    _try("network", "use an io_uring", _SYSCALL + """
if libc.syscall(425, 4, ctypes.create_string_buffer(120)) >= 0:
    return @WON@
""", privileged=True),
)  # fmt: skip

PROCESSES = (
    _try("processes", "run a program", 'import subprocess\nsubprocess.run(["/bin/sh", "-c", "echo > @MARK@"])'),
    _try("processes", "run a shell", 'import os\nos.system("echo > @MARK@")'),
    _try("processes", "run by popen", 'import os\nreturn os.popen("cat @SECRET@").read()'),
    _try("processes", "run by asyncio", """
import asyncio
process = await asyncio.create_subprocess_exec("/bin/cat", "@SECRET@", stdout=-1)
return (await process.communicate())[0].decode()
"""),
    _try("processes", "fork", """
import os
if os.fork() == 0:
    open("/dev/null", "w").write("x")
    os._exit(0)
os.wait()
return @WON@
"""),
    _try("processes", "spawn", """
import os
pid = os.posix_spawn("/bin/sh", ["sh", "-c", "echo > @MARK@"], {})
os.waitpid(pid, 0)
"""),
    _try("processes", "fork with a terminal", """
import os, pty
pid, fd = pty.fork()
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
return @WON@
"""),
    _try("processes", "become another program", """
import os
os.execv("/bin/sh", ["sh", "-c", "echo > @MARK@"])
"""),
    _try("processes", "become a program of its own making", """
import os, shutil
shutil.copyfile("/bin/sh", "@FOLDER@/sh")
os.chmod("@FOLDER@/sh", 0o755)
os.execv("@FOLDER@/sh", ["sh", "-c", "echo > @MARK@"])
""", folder=True),
    _try("processes", "become a program in memory", """
import os
fd = os.memfd_create("x")
os.write(fd, open("/bin/sh", "rb").read())
os.execve(fd, ["sh", "-c", "echo > @MARK@"], {})
""", privileged=True),
    _try("processes", "fork by number", _SYSCALL + """
pid = libc.syscall(56, 17, 0, 0, 0, 0) if x86 else libc.syscall(220, 17, 0, 0, 0, 0)
if pid == 0:
    os._exit(0)
if pid > 0:
    os.waitpid(pid, 0)
    return @WON@
"""),
    _try("processes", "use a pool of processes", """
import multiprocessing
with multiprocessing.get_context("fork").Pool(1) as pool:
    return @WON@ if pool.map(abs, [-1]) == [1] else None
"""),
    _try("processes", "fork without end", """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
""", bare=False, timeout_s=0.5),
    _try("processes", "start threads without end", """
import threading, time
while True:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
""", bare=False, timeout_s=1.0),
    _try("processes", "end another process", "import os, signal\nos.kill(@VICTIM@, signal.SIGKILL)"),
    _try("processes", "signal the gateway", "import os\nos.kill(@GATEWAY@, 0)\nreturn @WON@"),
    _try("processes", "signal everybody", "import os\nos.kill(-1, 0)\nreturn @WON@"),
    _try("processes", "signal by a descriptor", """
import os, signal
signal.pidfd_send_signal(os.pidfd_open(@VICTIM@), signal.SIGKILL)
""", privileged=True),
    _try("processes", "queue a signal", _SYSCALL + """
info = ctypes.create_string_buffer(128)
ctypes.memmove(info, (ctypes.c_int * 3)(9, 0, -1), 12)
libc.syscall(129 if x86 else 138, @VICTIM@, 9, info)
"""),
    _try("processes", "signal a thread of another process",
         _SYSCALL + "libc.syscall(200 if x86 else 130, @VICTIM@, 9)"),
    _try("processes", "limit another process", """
import resource
resource.prlimit(@VICTIM@, resource.RLIMIT_NOFILE, (7, 7))
"""),
    _try("processes", "slow another process down", "import os\nos.setpriority(os.PRIO_PROCESS, @VICTIM@, 19)"),
    _try("processes", "take processors from another process", "import os\nos.sched_setaffinity(@VICTIM@, {0})"),
)  # fmt: skip

KERNEL = (
    _try("kernel", "trace another process", _SYSCALL + """
if libc.ptrace(16, @VICTIM@, None, None) == 0:
    libc.ptrace(17, @VICTIM@, None, None)
    return @WON@
""", privileged=True),
    _try("kernel", "read another process", _SYSCALL + """
base = int(open("/proc/@VICTIM@/maps").readline().split("-")[0], 16)
into = ctypes.create_string_buffer(16)
local = (ctypes.c_size_t * 2)(ctypes.addressof(into), 16)
remote = (ctypes.c_size_t * 2)(base, 16)
if libc.process_vm_readv(@VICTIM@, local, ctypes.c_ulong(1), remote, ctypes.c_ulong(1), ctypes.c_ulong(0)) == 16:
    return @WON@
""", privileged=True),
    _try("kernel", "make a namespace",
         _SYSCALL + "if libc.unshare(0x10000000) == 0:\n    return @WON@", privileged=True),
    _try("kernel", "make a namespace by clone", _SYSCALL + """
pid = libc.syscall(56 if x86 else 220, 0x10000000 | 17, 0, 0, 0, 0)
if pid == 0:
    os._exit(0)
if pid > 0:
    os.waitpid(pid, 0)
    return @WON@
""", privileged=True),
    _try("kernel", "change the root", _SYSCALL + """
if libc.unshare(0x10000000 | 0x20000) == 0 and libc.chroot(b"/") == 0:
    return @WON@
""", privileged=True),
    _try("kernel", "mount", _SYSCALL + """
if libc.unshare(0x10000000 | 0x20000) == 0 and libc.mount(b"x", b"/tmp", b"tmpfs", 0, None) == 0:
    return @WON@
""", privileged=True),
    _try("kernel", "keep a key", _SYSCALL + """
if libc.syscall(248 if x86 else 217, b"user", b"pml", b"x", ctypes.c_size_t(1), ctypes.c_int(-2)) >= 0:
    return @WON@
""", privileged=True),
    _try("kernel", "share memory by number", _SYSCALL + """
made = libc.shmget(0, ctypes.c_size_t(4096), 0o1600)
if made >= 0:
    libc.shmctl(made, 0, None)
    return @WON@
"""),
    _try("kernel", "memory that has a descriptor", 'import os\nos.close(os.memfd_create("x"))\nreturn @WON@'),
    _try("kernel", "change what kind of process it is", _SYSCALL + """
if libc.personality(ctypes.c_ulong(0x0040000)) >= 0:
    return @WON@
"""),
    _try("kernel", "count events", _SYSCALL + """
attributes = ctypes.create_string_buffer(128)
ctypes.memmove(attributes, (ctypes.c_uint32 * 2)(1, 128), 8)
if libc.syscall(298 if x86 else 241, attributes, 0, -1, -1, 0) >= 0:
    return @WON@
""", bare=False),
    _try("kernel", "load a program into the kernel", _SYSCALL + """
if libc.syscall(321 if x86 else 280, 0, (ctypes.c_uint32 * 16)(1, 4, 8, 1), 64) >= 0:
    return @WON@
""", bare=False),
    _try("kernel", "have capabilities", _SYSCALL + """
data = (ctypes.c_uint32 * 6)()
libc.capget((ctypes.c_uint32 * 2)(0x20080522, 0), data)
if data[0] or data[1]:
    return @WON@
""", bare=False),
    _try("kernel", "make a device", """
import os, stat
os.mknod("@FOLDER@/disk", stat.S_IFBLK | 0o600, os.makedev(1, 3))
return @WON@
""", folder=True, bare=False),
)  # fmt: skip

ATTEMPTS = (*FILES, *ENVIRONMENT, *NETWORK, *PROCESSES, *KERNEL, *LIMITS, *BRIDGE, *TRICKS)
