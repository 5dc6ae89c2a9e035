"""What works where the gateway does not run, and that it says where it does: macOS and Windows, imitated on Linux.

The names that a system lacks are taken away from what our modules import. What is not ours is imported before that,
and chose what it uses on this system.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pml_kit.command_line.systems import SUPPORTED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOT_ON_MACOS = {
    "os": """
        CLONE_NEWUSER O_DIRECT O_NOATIME O_PATH O_RSYNC O_TMPFILE P_ALL P_PID P_PIDFD SCHED_BATCH SCHED_IDLE WEXITED
        WNOWAIT WSTOPPED copy_file_range eventfd getrandom getresgid getresuid getxattr listxattr memfd_create
        pidfd_open pipe2 posix_fadvise posix_fallocate removexattr sched_getaffinity sched_getparam sched_param
        sched_setaffinity sched_setparam sched_setscheduler setns setresgid setresuid setxattr splice unshare waitid
    """,
    "signal": "SIGCLD SIGPOLL SIGPWR SIGRTMAX SIGRTMIN SIGSTKFLT pidfd_send_signal sigtimedwait sigwaitinfo",
    "select": "epoll",
    "socket": "AF_NETLINK SOCK_CLOEXEC SOCK_NONBLOCK",
}
NOT_ON_WINDOWS = {
    "os": """
        O_ASYNC O_CLOEXEC O_DIRECTORY O_DSYNC O_NDELAY O_NOCTTY O_NOFOLLOW O_NONBLOCK O_SYNC WCONTINUED WIFSIGNALED
        WNOHANG WTERMSIG WUNTRACED chown chroot confstr ctermid fchdir fork forkpty fpathconf fstatvfs getegid geteuid
        getgid getgroups getloadavg getpgid getpgrp getpriority getsid getuid initgroups killpg lchown lockf login_tty
        mkfifo mknod nice openpty pathconf posix_openpt posix_spawn posix_spawnp pread preadv pwrite pwritev readv
        register_at_fork sendfile setegid seteuid setgid setgroups setpgid setpgrp setpriority setregid setreuid setsid
        setuid statvfs sync sysconf sysconf_names tcgetpgrp tcsetpgrp ttyname uname wait wait3 wait4 writev
    """,
    "signal": """
        ITIMER_REAL SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGIO SIGKILL SIGPIPE SIGPROF SIGQUIT SIGSTOP SIGSYS SIGTRAP
        SIGTSTP SIGTTIN SIGTTOU SIGURG SIGUSR1 SIGUSR2 SIGVTALRM SIGWINCH SIGXCPU SIGXFSZ SIG_BLOCK SIG_SETMASK
        SIG_UNBLOCK alarm getitimer pause pthread_kill pthread_sigmask setitimer siginterrupt sigpending sigwait
    """,
}
NO_MODULES_ON_WINDOWS = "fcntl grp posix pty pwd resource syslog termios tty"
IMITATED = """
import contextlib, importlib, io, json, os, select, signal, socket, sys, sysconfig, types

sysconfig.get_config_vars()  # reads a file of this system's
told = json.loads(sys.argv[1])


def imported(names):
    failed = {}
    for name in names:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as exc:
            failed[name] = f"{type(exc).__name__}: {exc}"
    return failed


with contextlib.redirect_stdout(io.StringIO()):
    not_here = imported(told["modules"])
for name in [name for name in sys.modules if name.startswith("pml_")]:
    del sys.modules[name]
for module, names in told["gone"].items():
    # Another module in its place: Python's own, which chose what they use, keep theirs.
    poor, gone = types.ModuleType(module), names.split()
    vars(poor).update({name: value for name, value in vars(sys.modules[module]).items() if name not in gone})
    sys.modules[module] = poor
for name in told["no_modules"].split():
    sys.modules[name] = None
sys.platform = told["platform"]

from pml_core.cli import main

commands = []
for words in told["commands"]:
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            status = main(words)
        except SystemExit as exc:
            status = exc.code
        except BaseException as exc:
            status = repr(exc)
    commands.append([status, out.getvalue(), error.getvalue()])
failed = imported(name for name in told["modules"] if name not in not_here)
print(json.dumps({"failed": failed, "commands": commands}))
"""
"""Takes the names away, and runs commands and imports one after the other; the last line says how that went."""
SERVER = """
import json, sys

for line in sys.stdin:
    asked = json.loads(line)
    info = {"name": "here", "version": "1"}
    answers = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info},
        "tools/list": {"tools": [{"name": "greet", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "hello"}]},
        "ping": {},
    }
    if "id" in asked and asked["method"] in answers:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answers[asked["method"]]}), flush=True)
"""
POLICY = """
from pml_hookspecs import hookimpl

@hookimpl
def pml_checks(services):
    return ()
"""
RUNS = """
import
import --from cursor
config
config check
config explain servers.here
config --preset balanced
connect cursor
disconnect cursor
trust --yes
trust --list
untrust
plugins list
plugins chain
plugins doctor
"""
"""What works on every system, one after the other in one process."""
SANDBOX = re.compile(r"FAIL  (executor |hooks )?(cpython|deno|monty)\b")
"""Lines of what looks for walls of Linux's kernel and starts programs, of which nothing can be imitated."""
NEEDS_GATEWAY = """
serve
serve --http 127.0.0.1:1
plugins doctor --connect
tokens --connect
demo
"""


@dataclass(frozen=True)
class CommandResult:
    """How a command ended."""

    status: int | str
    """What stands for an exception that nobody caught, too."""
    out: str
    error: str


@dataclass(frozen=True)
class SystemReport:
    """What became of everything on one of the systems."""

    windows: bool
    """macOS, when it is not."""
    failed: Mapping[str, str]
    """Why modules of ours cannot be imported, by name."""
    commands: Mapping[str, CommandResult]


def name_of(path: Path) -> str:
    """What a source file is imported as."""
    parts = path.with_suffix("").parts
    return ".".join(parts[parts.index("src") + 1 :]).removesuffix(".__init__")


def imitated(
    home: Path, lines: Sequence[str], *, windows: bool, modules: Sequence[str] = (), told: str = ""
) -> list[str]:
    """What a process says on standard output, with the names taken away.

    Args:
        home: The user's.
        lines: Commands.
        windows: macOS, when it is not.
        modules: What is imported on this system first, and on the other after the commands.
        told: Standard input.
    """
    gone = [NOT_ON_MACOS, *([NOT_ON_WINDOWS] if windows else [])]
    order = {
        "gone": {module: " ".join(names.get(module, "") for names in gone) for module in NOT_ON_MACOS},
        "no_modules": NO_MODULES_ON_WINDOWS if windows else "",
        "platform": "win32" if windows else "darwin",
        "modules": modules,
        "commands": [line.split() for line in lines],
    }
    env = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
    done = subprocess.run(
        [sys.executable, "-c", IMITATED, json.dumps(order)],
        capture_output=True,
        check=False,
        cwd=home / "work",
        encoding="utf-8",
        env=env | {"HOME": str(home), "PML_HOME": str(home / ".pml")},
        input=told,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def home_in(folder: Path) -> Path:
    """A user's home: a client with a server, and a configuration of the user's own."""
    servers = {"here": {"command": sys.executable, "args": ["-c", SERVER]}}
    (folder / "work").mkdir()
    for name, text in (
        (".cursor/mcp.json", json.dumps({"mcpServers": servers})),
        (".pml/policy.py", POLICY),
        (".pml/config.toml", '[gateway]\ntools_exposure = "full_proxy"\nlocal = ["./policy.py"]\n'),
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o600)
    return folder


@pytest.fixture(scope="module", params=["macos", "windows"])
def system(
    request: pytest.FixtureRequest, sources: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> SystemReport:
    windows = request.param == "windows"
    lines = [*RUNS.strip().splitlines(), *(NEEDS_GATEWAY.strip().splitlines() if windows else ())]
    modules = [name_of(path) for path in sources if path.stem not in ("__main__", "boot")]  # no programs
    last = imitated(home_in(tmp_path_factory.mktemp(request.param)), lines, windows=windows, modules=modules)[-1]
    answer: dict[str, Any] = json.loads(last)
    commands = {line: CommandResult(*one) for line, one in zip(lines, answer["commands"], strict=True)}
    return SystemReport(windows, answer["failed"], commands)


def test_every_module_can_be_imported_everywhere(system: SystemReport) -> None:
    assert system.failed == {}


def test_what_reads_and_writes_files_works_everywhere(system: SystemReport) -> None:
    ended = {line: system.commands[line] for line in RUNS.strip().splitlines()}
    doctor = ended.pop("plugins doctor")
    assert {line: one for line, one in ended.items() if one.status != 0} == {}
    assert "here" in ended["import --from cursor"].out
    assert "Cursor is connected" in ended["connect cursor"].out
    assert "stdio" in ended["plugins list"].out
    wrong = [line for line in doctor.out.splitlines() if line.startswith("FAIL")]
    told = [f"FAIL  system Windows: {SUPPORTED}"] if system.windows else []
    assert (doctor.status, [line for line in wrong if not SANDBOX.match(line)]) == (1, told)
    assert {SUPPORTED in one.error for one in ended.values()} == {system.windows}


@pytest.mark.parametrize("system", ["windows"], indirect=True)
def test_on_windows_what_needs_a_gateway_says_at_once_where_it_runs(system: SystemReport) -> None:
    for line in NEEDS_GATEWAY.strip().splitlines():
        ended = system.commands[line]
        assert (ended.status, ended.out) == (2, ""), line
        assert ended.error.splitlines()[0] == f"pml: this is Windows; {SUPPORTED}", line
        assert "wsl --install" in ended.error, line


def test_on_macos_the_gateway_serves(tmp_path: Path) -> None:
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    asked = [
        {"id": 1, "method": "initialize", "params": params},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
        {"id": 3, "method": "tools/call", "params": {"name": "here__greet", "arguments": {}}},
    ]
    told = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in asked)
    line = "serve --config ../.cursor/mcp.json --mode full_proxy"
    *said, last = imitated(home_in(tmp_path), [line], windows=False, told=told)
    answers = {one.get("id"): one for one in map(json.loads, said)}
    assert [tool["name"] for tool in answers[2]["result"]["tools"]] == ["here__greet"], last
    assert answers[3]["result"]["content"] == [{"type": "text", "text": "hello"}]
    assert json.loads(last)["commands"][0][0] == 0


def test_the_metadata_and_the_readme_say_where_it_runs(root: Path) -> None:
    project = tomllib.loads((root / "plugins" / "pml-gateway" / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    systems = {line.rpartition(" :: ")[2] for line in project["classifiers"] if line.startswith("Operating System")}
    assert systems == {"Linux", "MacOS"}
    for page in ("README.md", "docs/quickstart.md", "plugins/pml-gateway/README.md"):
        text = " ".join((root / page).read_text(encoding="utf-8").split())
        assert re.search(r"runs on Linux and macOS.{0,60} Windows.{0,20} inside \[WSL\]", text), page
