"""What ``sandbox`` of a server may say, what a program is made of, and what is said where a machine lacks a wall."""

from __future__ import annotations

import random
import socket
import sys
from pathlib import Path

import pytest

import pml_kit.jail
from pml_hookspecs import Endpoint, TransportError
from pml_kit.jail import Wall
from pml_testing.transport import Recorder
from pml_transport_stdio import Stdio, programs
from pml_transport_stdio.command import parse
from pml_transport_stdio.process import environment
from pml_transport_stdio.reach import Forwarder, Place
from pml_transport_stdio.sandbox import contained, isolation, profiles

linux = pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")


def endpoint(sandbox, line="server", env=None):
    return Endpoint(name="git", address=f"stdio:{line}", env=env or {}, options={"sandbox": sandbox})


def parsed(sandbox, line="server", env=None):
    return parse(endpoint(sandbox, line, env)).sandbox


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """The home folder of whoever runs the gateway."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PML_HOME", raising=False)
    (tmp_path / "home/notes").mkdir(parents=True)
    return tmp_path / "home"


@pytest.mark.parametrize("value", [None, False])
def test_no_sandbox_is_asked_for(value):
    assert parsed(value) is None


def test_a_table_says_what_a_server_may_have():
    table = {"read": ["~/notes"], "network": ["API.github.com:443"], "memory_bytes": 1 << 30, "processes": 8}
    sandbox = parsed(table)
    assert sandbox.read == ("~/notes",)
    assert sandbox.places() == (Place("api.github.com", 443),)
    assert (sandbox.memory_bytes, sandbox.processes, sandbox.required) == (1 << 30, 8, True)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, r"^\[servers\.git\] sandbox must be true, the name of a profile or a table, not 5"),
        ("files", r"^\[servers\.git\] sandbox: there is no profile 'files'; there are: filesystem, git"),
        ({"reed": []}, r"^\[servers\.git\] sandbox has no 'reed'; it knows: profile, read, write"),
        ({"read": "~/notes"}, r"^\[servers\.git\] sandbox: read must be a list of texts, not '~/notes'"),
        ({"read": ["~"]}, r"sandbox: read names ~, which holds the home folder or PML's own; name folders inside it"),
        ({"write": ["/"]}, r"sandbox: write names /, which holds the home folder"),
        ({"read": ["~/.pml"]}, r"sandbox: read names ~/\.pml, which holds the home folder or PML's own"),
        ({"network": "none"}, r"sandbox: network must be a list of texts, not 'none'"),
        ({"network": ["github.com"]}, r"'github\.com' is no place; write 'host:port', such as 'api\.github\.com:443'"),
        ({"network": ["https://a.b:443"]}, r"is no place"),
        ({"network": ["a.*.b:443"]}, r"a \* stands for every name, or at the beginning"),
        ({"network": ["a:0"]}, r"is no place"),
        ({"network": [f"a:{port}" for port in range(1, 66)]}, r"network names 65 ports; at most 64"),
        ({"memory_bytes": 5}, r"sandbox: memory_bytes must be a number from 1,048,576 on, not 5"),
        ({"processes": True}, r"sandbox: processes must be a number from 1 on, not True"),
        ({"required": "no"}, r"sandbox: required must be true or false, not 'no'"),
    ],
)
def test_what_is_not_understood_is_told(value, message):
    with pytest.raises(ValueError, match=message):
        parsed(value)


def test_a_profile_takes_places_from_the_command_line(home, tmp_path):
    repository = tmp_path / "repository"
    repository.mkdir()
    (home / ".gitconfig").touch()
    for line in (f"git --repository {repository}", f"git --repository={repository}", f"git -r {repository}"):
        sandbox = parsed("git", line)
        assert sandbox.write == (str(repository),)
        assert sandbox.read[0] == str(home / ".gitconfig")
    assert parsed("sqlite", f"sqlite --db-path {repository}/new.db").write == (str(repository),)
    assert parsed("memory", env={"MEMORY_FILE_PATH": f"{repository}/m.json"}).write == (str(repository),)
    more = parsed({"profile": "filesystem", "read": ["/opt"]}, f"fs --verbose {repository} /no/such")
    assert (more.write, more.read) == ((str(repository),), ("/opt",))


@pytest.mark.parametrize("place", ["/", "~", "~/.pml", "relative"])
def test_a_profile_never_grants_too_much(place, home):
    (home / ".pml").mkdir()
    assert parsed("filesystem", f"fs {Path(place).expanduser()}").write == ()


def test_every_profile_says_what_it_is_for():
    assert all(profile["about"] for profile in profiles().values())
    assert {key for profile in profiles().values() for key in profile} <= {"about", "read", "write", "network"}


# What a program is made of.


def parts(program, *arguments, environment=None):
    return {str(path) for path in programs.parts(str(program), [str(program), *arguments], None, environment or {})}


def test_a_program_of_python_needs_its_environment_and_its_interpreter(tmp_path):
    base, venv = tmp_path / "python-3.12", tmp_path / "project/.venv"
    for folder in (base / "bin", base / "lib", base / "secrets", venv / "bin"):
        folder.mkdir(parents=True)
    (base / "bin/python3.12").touch()
    (venv / "pyvenv.cfg").touch()
    (venv / "bin/python").symlink_to(base / "bin/python3.12")
    (venv / "bin/server").write_text(f"#!{venv}/bin/python\n")
    (tmp_path / "project/.env").touch()
    found = parts(venv / "bin/server")
    assert {str(venv), str(base / "bin"), str(base / "lib")} <= found
    assert not {str(base), str(base / "secrets"), str(tmp_path / "project")} & found


def test_a_program_of_node_needs_the_packages_around_it(tmp_path):
    package = tmp_path / "project/node_modules/server"
    (package / "dist").mkdir(parents=True)
    (tmp_path / "project/node_modules/.bin").mkdir()
    (package / "dist/index.js").write_text("#!/usr/bin/env node\n")
    link = tmp_path / "project/node_modules/.bin/server"
    link.symlink_to("../server/dist/index.js")
    assert str(tmp_path / "project/node_modules") in parts(link)
    assert str(tmp_path / "project") not in parts(link)
    assert str(tmp_path / "project/node_modules") in parts("/usr/bin/node", str(package / "dist/index.js"))


def test_a_script_in_the_home_folder_is_granted_alone(home):
    (home / "package.json").touch()
    (home / "server.py").touch()
    (home / "bin").mkdir()
    assert parts("/usr/bin/python3", str(home / "server.py")) >= {str(home / "server.py")}
    assert str(home) not in parts("/usr/bin/python3", str(home / "server.py"))


def test_what_is_not_a_script_of_an_interpreter_is_not_granted(tmp_path):
    (tmp_path / "secret").touch()
    assert str(tmp_path / "secret") not in parts("/usr/bin/python3", "-m", "server", str(tmp_path / "secret"))
    assert str(tmp_path / "secret") not in parts("/usr/bin/env", str(tmp_path / "secret"))


# What it is started with.


def test_its_environment_leads_nowhere_outside(monkeypatch, home):
    for name in ("https_proxy", "XDG_RUNTIME_DIR", "TMPDIR"):
        monkeypatch.setenv(name, "/elsewhere")
    closed = environment(parse(endpoint(True)), {"TOKEN": "x"})
    assert (closed["HOME"], closed["TMPDIR"], closed["TOKEN"]) == (str(home), "/tmp", "x")
    assert not {"https_proxy", "XDG_RUNTIME_DIR"} & set(closed)
    assert environment(parse(endpoint({"network": True})), {})["https_proxy"] == "/elsewhere"
    assert environment(parse(endpoint(False)), {})["TMPDIR"] == "/elsewhere"


@linux
def test_what_is_granted_has_to_be_there():
    with pytest.raises(TransportError, match=r"^\[servers\.git\] sandbox write: /no/such does not exist; create it"):
        contained("git", parsed({"write": ["/no/such"]}), ["/bin/true"], None, {})


@linux
@pytest.mark.anyio
async def test_a_program_that_is_not_there_is_told_of_as_without_a_sandbox():
    with pytest.raises(TransportError, match="command 'no-such-program' not found on PATH") as told:
        async with Stdio().connect(endpoint(True, "no-such-program"), Recorder()):
            pass
    assert not told.value.retryable


# What a machine lacks.

NO_NAMES = Wall("names", False, "no namespaces here; allow them")


@linux
def test_a_missing_wall_keeps_a_server_from_starting_unless_it_is_not_required(monkeypatch):
    monkeypatch.setattr(pml_kit.jail, "walls", lambda: [NO_NAMES])
    with pytest.raises(TransportError, match=r"cannot build: no namespaces here.*write required = false"):
        contained("git", parsed(True), ["/bin/true"], None, {})
    weak = parsed({"required": False, "network": ["a:1"]})
    container, _ = contained("git", weak, ["/bin/true"], None, {})
    assert not container.namespaces
    assert not container.network
    said = isolation("git", weak)
    assert (
        said == "sandbox (weakened, as required = false allows: no namespaces here; allow them); the machine's network"
    )


def test_where_there_is_no_jail_at_all_nothing_starts_in_it(monkeypatch):
    monkeypatch.setattr("pml_kit.jail._jail.machine", lambda: "")
    monkeypatch.setattr(pml_kit.jail, "walls", lambda: [Wall("files", False, "no jail on darwin of this kind")])
    for sandbox in (True, {"required": False}):
        with pytest.raises(TransportError, match=r"no jail on darwin.*container, or write sandbox = false, in"):
            isolation("git", parsed(sandbox))


@linux
def test_what_stands_around_a_server_is_said():
    assert isolation("git", None) == "no sandbox: it may do what this account may"
    assert isolation("git", parsed(True)) == "sandbox (namespaces, Landlock, seccomp); no network"
    named = parsed({"profile": "fetch", "network": ["a.b:443"]})
    assert isolation("git", named) == "sandbox fetch (namespaces, Landlock, seccomp); a.b:443"


# Places.


@pytest.mark.parametrize(
    ("place", "host", "fits"),
    [
        ("*:443", "a.b", True),
        ("*:443", "10.0.0.1", False),
        ("*.a.b:443", "x.a.b", True),
        ("*.a.b:443", "a.b", False),
        ("*.a.b:443", "xa.b", False),
        ("a.b:443", "a.b", True),
        ("a.b:443", "x.a.b", False),
        ("10.0.0.1:443", "10.0.0.1", True),
    ],
)
def test_a_place_is_a_name_an_end_of_names_or_an_address(place, host, fits):
    assert Place.of(place).fits(host) is fits


def asked(name):
    labels = b"".join(bytes([len(one)]) + one.encode() for one in name.split("."))
    return b"\1\2\1\0\0\1\0\0\0\0\0\0" + labels + b"\0\0\1\0\1"


def test_whatever_is_asked_of_names_nothing_breaks(services):
    forwarder = Forwarder([Place("*.a.b", 443)], services.log, "git")
    with socket.socket(type=socket.SOCK_DGRAM) as server, socket.socket(type=socket.SOCK_DGRAM) as client:
        server.bind(("127.0.0.1", 0))
        client.settimeout(60)
        made = random.Random(7)
        for number in range(2000):
            question = bytearray(asked(f"n{number}.a.b"))
            for _ in range(made.randrange(4)):
                question[made.randrange(len(question))] = made.randrange(256)
            client.sendto(bytes(question[: made.randrange(len(question) + 1)]), server.getsockname())
            forwarder._answer(server)
        server.setblocking(False)
        client.setblocking(False)
        while True:
            try:
                client.recv(512)
            except BlockingIOError:
                break
        client.setblocking(True)
        for name, end in (("x.a.b", True), ("x.c.d", False)):
            client.sendto(asked(name), server.getsockname())
            server.setblocking(True)
            forwarder._answer(server)
            said = client.recv(512)
            assert said[:2] == b"\1\2"
            assert (said[3] & 15, said[7]) == ((0, 1) if end else (3, 0))


def test_names_without_end_take_bounded_room(services):
    forwarder = Forwarder([Place("*", 443)], services.log, "git")
    found = [forwarder._address(f"n{number}.example") for number in range(5000)]
    assert len(set(found[:4096])) == 4096
    assert set(found[4096:]) == {None}
    assert forwarder._address("n7.example") == found[7]
