"""``${file:…}`` and ``${command:…}``: what they give, to whom, and what is said where they give nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shlex
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from pml_clients.client_configs import ClientConfigError, servers_in
from pml_hookspecs import TransportError, setting
from pml_kit.errors import OperatorError
from pml_settings import secret_sources
from pml_settings.config import ServerSettings, load
from pml_settings.endpoints import endpoint_of, found_endpoint
from pml_settings.secret_sources import SecretError, of_command, of_file
from pml_settings.warnings import config_warnings

POISON = ("AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "LD_PRELOAD", "PYTHONPATH", "PML_SERVERS", "CRM_TOKEN")
proc = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    dsn: str = setting("", "Where it is.", secret=True)
    port: int = setting(0, "Its port.")
    url: str = setting("", "Its address.")

    def __post_init__(self):
        if self.url:
            raise ValueError(f"url {self.url!r} is none")


def python(code):
    """A command that runs ``code``."""
    return shlex.join([sys.executable, "-c", code])


def given(command, ended=None):
    return of_command(command, ended or threading.Event())


def read(path):
    return of_file(str(path), threading.Event())


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"s3cret\n", "s3cret"),
        (b"s3cret\r\n", "s3cret"),
        (b" two\nlines \n\n", " two\nlines \n"),
        (b"s3cret", "s3cret"),
    ],
)
def test_a_file_is_the_value_without_the_end_of_its_last_line(tmp_path, raw, value):
    (tmp_path / "token").write_bytes(raw)
    assert read(tmp_path / "token") == value
    assert given(f"cat {tmp_path / 'token'}") == value


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (None, "cannot be read: No such file or directory; correct the path or its rights"),
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"s3cret\0", "has a NUL character in it"),
        (b"\xffs3cret", "is not UTF-8 text"),
        (b"s" * 70_000, "is longer than 65536 bytes"),
    ],
)
def test_what_is_no_secret_is_said_without_what_it_says(tmp_path, raw, said):
    path = tmp_path / "token"
    if raw is not None:
        path.write_bytes(raw)
        with pytest.raises(SecretError, match=f"the output of command 'cat' {said}"):
            given(f"cat {path}")
    with pytest.raises(SecretError, match=said) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_command_is_no_line_of_a_shell():
    assert given("echo '$HOME; id' `id` $(id) | cat") == "$HOME; id `id` $(id) | cat"


def test_a_command_gets_what_every_program_gets_what_password_managers_need_and_nothing_else(monkeypatch):
    for name in POISON:
        monkeypatch.setenv(name, "poison")
    monkeypatch.setenv("VAULT_ADDR", "https://vault.example")
    code = "import os, sys; print(sorted(os.environ), os.getcwd(), repr(sys.stdin.read()))"
    said = given(python(code))
    assert not [name for name in POISON if name in said]
    assert "'VAULT_ADDR'" in said
    assert "'PATH'" in said
    assert said.endswith(f"{Path.home()} ''")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("no-such-program read x", "command 'no-such-program' cannot be started: No such file or directory; install"),
        ("echo 'x", r"\$\{command:…\} cannot be split into words: No closing quotation"),
        (" ", r"\$\{command:…\} names no program"),
        (python("import sys; print('s3cret'); print('s3cret', file=sys.stderr); sys.exit(3)"), "ended with status 3"),
        (python("import os; os.kill(os.getpid(), 15)"), "ended with status -15"),
    ],
)
def test_a_command_that_gives_nothing_is_named_without_its_output(command, said):
    with pytest.raises(SecretError, match=said) as caught:
        given(command)
    assert "s3cret" not in str(caught.value)


FOREVER = "import subprocess, sys; print('s3cret', flush=True); subprocess.run(['sleep', '4242{}'])"


async def until(words, *, there):
    """Wait until a process has these words, or none."""
    async with asyncio.timeout(60):
        while True:
            said = []
            for place in Path("/proc").glob("[0-9]*/cmdline"):  # noqa: ASYNC240 - no disk
                with suppress(OSError):
                    said.append(place.read_bytes())
            if (words in said) == there:
                return
            await asyncio.sleep(0.05)


@pytest.mark.anyio
@proc
async def test_a_command_that_waits_for_ever_is_ended_with_what_it_started(monkeypatch):
    monkeypatch.setattr(secret_sources, "COMMAND_TIME_S", 0.5)
    with pytest.raises(SecretError, match=r"took longer than 0\.5 s; run it by hand"):
        given(python(FOREVER.format(1)))
    await until(b"sleep\x0042421\x00", there=False)


def test_a_command_that_writes_without_end_is_ended():
    with pytest.raises(SecretError, match="is longer than 65536 bytes"):
        given("yes s3cret")


def test_a_daemon_that_a_command_leaves_holds_up_nobody():
    code = "import subprocess; subprocess.Popen(['sleep', '60'], start_new_session=True); print('s3cret')"
    begun_s = time.monotonic()
    assert given(python(code)) == "s3cret"
    assert time.monotonic() - begun_s < 60


@pytest.mark.anyio
@proc
async def test_a_command_is_ended_with_the_start_that_it_is_for():
    command = python(FOREVER.format(2))
    server = ServerSettings(command="x", env={"T": f"${{command:{command}}}"})
    start = asyncio.create_task(found_endpoint("far", server, lambda _values: None))
    await until(b"sleep\x0042422\x00", there=True)
    start.cancel()
    await asyncio.wait([start])
    await until(b"sleep\x0042422\x00", there=False)
    assert start.cancelled()


def test_each_is_asked_once_for_a_server_and_known_as_secret_also_where_another_is_missing(tmp_path):
    (tmp_path / "token").write_text("s3cret-of-the-file\n")
    times = tmp_path / "times"
    command = f"sh -c 'echo x >> {times}; echo s3cret-of-a-command'"
    env = {"A": f"a ${{file:{tmp_path}/token}}", "B": f"${{command:{command}}}", "C": f"c ${{command:{command}}}"}
    known = []
    made = endpoint_of("far", ServerSettings(command="x", env=env), {}, known.extend)
    expected = {"A": "a s3cret-of-the-file", "B": "s3cret-of-a-command", "C": "c s3cret-of-a-command"}
    assert made.env == expected
    assert times.read_text() == "x\n"
    assert known == ["s3cret-of-the-file", "s3cret-of-a-command"]
    known.clear()
    gone = {**env, "D": "${file:/gone}", "E": "${command:no-such-program:-other}"}
    with pytest.raises(TransportError, match=r"file /gone cannot be read: .*; \[servers\.far\] refers to it") as caught:
        endpoint_of("far", ServerSettings(command="x", env=gone), {}, known.extend)
    assert known == ["s3cret-of-the-file", "s3cret-of-a-command"]
    assert caught.value.retryable is False


def test_a_path_is_seen_from_the_configuration_that_names_it_in_any_table(place, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    (place.home / "dsn").write_text("postgres://me:pw-in-a-file@h/db\n")
    place.users(
        "config.toml",
        '[servers.a]\ncommand = "x"\nenv = { T = "${file:dsn} ${file:~/a} ${file:/b}" }\n'
        '[plugins.x]\ndsn = "${file:dsn}"\n',
    )
    config = load()
    home = place.home.resolve()
    assert config.servers["a"].env == {"T": f"${{file:{home}/dsn}} ${{file:~/a}} ${{file:/b}}"}
    assert config.plugin("x", Settings).dsn == "postgres://me:pw-in-a-file@h/db"
    assert list(config.values.secrets) == ["postgres://me:pw-in-a-file@h/db"]


def test_a_plugins_command_runs_once_for_a_configuration_and_again_for_the_next(place, tmp_path):
    times = tmp_path / "times"
    place.users("config.toml", f"""[plugins.x]\ndsn = "${{command:sh -c 'echo x >> {times}; echo s3cret'}}"\n""")
    config = load()
    assert not times.exists()
    assert [config.plugin("x", Settings).dsn for _ in range(3)] == ["s3cret"] * 3
    assert times.read_text() == "x\n"
    load().plugin("x", Settings)
    assert times.read_text() == "x\nx\n"


@pytest.mark.parametrize("reference", ["command:echo s3cret", "CRM_TOKEN"])
@pytest.mark.parametrize("line", ['dsn = "R"\nother = 1', 'port = "R"', 'url = "R"'])
def test_a_plugins_mistake_is_told_without_the_value(place, line, reference, monkeypatch):
    monkeypatch.setenv("CRM_TOKEN", "s3cret")
    place.users("config.toml", f"[plugins.x]\n{line}\n".replace("R", f"${{{reference}}}"))
    with pytest.raises(OperatorError, match=r"plugins\.x") as caught:
        load().plugin("x", Settings)
    assert "s3cret" not in str(caught.value)


def test_a_plugins_missing_secret_is_told_with_its_table(place):
    place.users("config.toml", '[plugins.x]\ndsn = "${file:/gone}"\n')
    with pytest.raises(
        OperatorError, match=r"file /gone cannot be read: .*; plugins\.x \(.*config\.toml\) refers to it"
    ):
        load().plugin("x", Settings)


@pytest.mark.attack("A folder is a stranger", "name a command as a secret, so that it runs")
def test_a_folder_that_is_not_trusted_runs_no_command_and_reads_no_file(place, tmp_path):
    marks = tmp_path / "ran"
    place.write("pml.toml", f"""[plugins.x]\ndsn = "${{command:touch {marks}}}"\n[servers.a]\nurl = "https://h"\n""")
    from pml_clients.configuration import trust

    trust.keep({place.project / "pml.toml": None})
    config = load()
    config.plugin("x", Settings)
    list(config.secrets())
    assert list(config.ignored) == [place.project / "pml.toml"]
    assert (dict(config.servers), marks.exists()) == ({}, False)


@pytest.mark.attack("A folder is a stranger", "have a client's file name a command, a file or the keyring as a value")
@pytest.mark.parametrize("reference", ["${command:touch x}", "${file:/etc/passwd}", "${keyring:github}", "${file:"])
@pytest.mark.parametrize("table", [{"command": "x", "env": {"T": "R"}}, {"url": "https://h", "headers": {"A": "b R"}}])
def test_a_clients_file_refers_to_variables_only(reference, table):
    table = {key: {n: v.replace("R", reference) for n, v in value.items()} if isinstance(value, dict) else value
             for key, value in table.items()}  # fmt: skip
    with pytest.raises(ClientConfigError, match="which is for PML's own configuration"):
        servers_in({"mcpServers": {"a": table}}, "mcp.json")


@pytest.mark.skipif(os.name != "posix", reason="others read by other means there")
def test_who_else_can_see_a_secret_is_said(place):
    for name, mode in (("open", 0o644), ("group", 0o640), ("mine", 0o600), ("of.env", 0o604)):
        (place.home / name).write_text("T=s3cret")
        (place.home / name).chmod(mode)
    place.users(
        "config.toml",
        '[servers.a]\ncommand = "x"\nargs = ["--token", "${file:mine}", "${HOME}"]\nenv_file = "of.env"\n'
        'env = { A = "${file:open}", B = "${file:group}", C = "${file:gone}" }\n',
    )
    home = place.home.resolve()
    assert config_warnings(load(), [], []) == [
        f"{home}/group has secrets and other users may read it (mode 0640): chmod 600 {home}/group",
        f"{home}/of.env has secrets and other users may read it (mode 0604): chmod 600 {home}/of.env",
        f"{home}/open has secrets and other users may read it (mode 0644): chmod 600 {home}/open",
        (
            f"servers.a.args: everybody on this machine sees in the list of processes what file:{home}/mine stands for"
            "; give it to the program in env"
        ),
    ]
