"""Rows that go to a syslog daemon, whatever becomes of it and of the gateway, and what they are good for afterwards."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import ssl
import subprocess

import pytest
from audit_kit import call, gateway
from syslog_kit import PATIENCE_S, DatagramDaemon, Rsyslog, StreamDaemon, wait_for

from pml_audit.export import exporter, tail
from pml_audit.export.comparison import exported
from pml_audit.export.syslog import Syslog, message
from pml_audit.files import Files, Head
from pml_audit.heads import trail_id
from pml_audit.rows import SEALS, START, seal
from pml_audit.trail import Trail
from pml_core.cli import main
from pml_hookspecs import Session

pytestmark = pytest.mark.anyio

RFC_5424 = re.compile(
    r"<(?P<pri>\d{1,3})>1 (?P<at>\S+) (?P<host>\S+) pml (?P<process>\S+) (?P<kind>\S{1,32}) "
    r'\[pml@32473 trail="(?P<trail>[0-9a-f]{32})" n="(?P<n>\d+)" hash="(?P<hash>[0-9a-f]{64})" '
    r'previous="(?P<previous>[0-9a-f]{64})"\] (?P<text>\{.*\})'
)
MALLORY = Session(key="m", principal="mallory", client="tester/1")
TRAIL = "a" * 32


def parsed(messages):
    found = [RFC_5424.fullmatch(one.decode("ascii")) for one in messages]
    assert all(found), [one for one, fits in zip(messages, found, strict=True) if not fits][:2]
    return [one.groupdict() for one in found]


def numbers(daemon):
    return [int(one["n"]) for one in parsed(daemon.messages)]


async def until(holds):
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - a thread of the daemon has it
            await asyncio.sleep(0.02)


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(exporter, "LOOK_S", 0.02)


# How a message looks


def row(**more):
    return {"n": 7, "hash": "b" * 64, "previous": "c" * 64, "kind": "denied", "at": "2026-11-26T10:00:00.123456+00:00",
            "gateway": "box:42", "principal": "ada", **more}  # fmt: skip


def test_a_row_is_a_message_of_rfc_5424():
    (told,) = parsed([message(row(), TRAIL)])
    assert (told["pri"], told["at"], told["host"], told["process"]) == (
        str(13 * 8 + 4), "2026-11-26T10:00:00.123456+00:00", "box", "42",
    )  # fmt: skip
    assert json.loads(told["text"]) == {**row(), "trail": TRAIL}
    assert parsed([message(row(kind="audit.broken"), TRAIL)])[0]["pri"] == str(13 * 8 + 3)
    assert parsed([message(row(kind="key.used"), TRAIL)])[0]["pri"] == str(13 * 8 + 5)


@pytest.mark.attack("The audit stands up", "put a line of its own into what a syslog daemon writes")
def test_words_of_others_end_no_field_and_begin_no_line():
    evil = 'x"] \n<110>1 - - pml - denied [pml@32473 trail="e" n="1" hash="f"] \u202e'
    for name in ("principal", "kind", "gateway", "target"):
        (told,) = parsed([message(row(**{name: evil}), TRAIL)])
        assert json.loads(told["text"])[name] == evil
        assert told["n"] == "7"


def test_a_row_that_is_too_long_keeps_what_it_is_known_by():
    (told,) = parsed([sent := message(row(arguments="x" * 9000), TRAIL, 8192)])
    assert len(sent) <= 8192
    assert json.loads(told["text"])["shortened"]
    assert told["hash"] == "b" * 64


@pytest.mark.parametrize("address", ["", "logs.example:514", "http://x", "udp://", "unix://", "tcp://h:port"])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(ValueError, match=r"address|Port|port"):
        Syslog(address)


# What arrives


async def test_all_rows_arrive_in_order_though_connections_break(rows):
    daemon = StreamDaemon(drop=3)
    async with gateway({"syslog": f"tcp://127.0.0.1:{daemon.port}"}) as client:
        for _ in range(5):
            await client.dispatcher.start(call("fs:drop"), MALLORY)
        await until(lambda: set(numbers(daemon)) >= {row["n"] for row in rows()})
        written = {row["n"]: row["hash"] for row in rows()}
        last = max(written)
    assert daemon.dropped == 3
    arrived = parsed(daemon.messages)
    assert {int(one["n"]): one["hash"] for one in arrived if int(one["n"]) <= last} == written
    firsts = list(dict.fromkeys(int(one["n"]) for one in arrived))
    assert firsts == sorted(firsts)


async def test_the_next_gateway_goes_on_after_what_has_arrived(rows, folder):
    daemon = StreamDaemon()
    settings = {"syslog": f"tcp://127.0.0.1:{daemon.port}", "file_bytes": 4096}
    async with gateway(settings):
        await until(lambda: daemon.messages)
    first = len(daemon.messages)
    async with gateway({"file_bytes": 4096}) as client:  # nothing is exported now, and files are put away
        for number in range(40):
            await client.dispatcher.start(call("fs:drop"), Session(key=str(number), principal="mallory"))
    async with gateway(settings):
        pass  # what there is arrives before the gateway ends
    assert len(list(folder.glob("audit-*.jsonl"))) > 2
    assert first < len(daemon.messages)
    assert numbers(daemon) == [row["n"] for row in rows()]


async def test_a_daemon_that_is_down_holds_nobody_up_and_gets_all_later(rows, monkeypatch):
    monkeypatch.setattr(exporter, "LONGEST_WAIT_S", 0.1)
    daemon = StreamDaemon()
    port = daemon.port
    daemon.close()
    async with gateway({"syslog": f"tcp://127.0.0.1:{port}"}) as client:
        outcome = await asyncio.wait_for(client.dispatcher.start(call("fs:drop"), MALLORY), PATIENCE_S)
        assert outcome is not None
        assert rows("gateway.started")


@pytest.mark.parametrize("scheme", ["udp", "unix"])
async def test_datagrams_arrive(scheme, rows, tmp_path):
    daemon = DatagramDaemon(tmp_path / "log" if scheme == "unix" else None)
    address = f"unix://{tmp_path}/log" if scheme == "unix" else f"udp://127.0.0.1:{daemon.port}"
    async with gateway({"syslog": address}):
        await until(lambda: daemon.messages and set(numbers(daemon)) >= {row["n"] for row in rows()})
    daemon.close()


def certified(folder):
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates with openssl")
async def test_over_tls_only_who_is_vouched_for_gets_rows(rows, tmp_path):
    certificate, key = await asyncio.to_thread(certified, tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    daemon = StreamDaemon(tls=context)
    address = f"tls://127.0.0.1:{daemon.port}"
    with pytest.raises(OSError, match="certificate verify failed"):
        Syslog(address)([row()], TRAIL)
    async with gateway({"syslog": address, "syslog_ca": str(certificate)}):
        await until(lambda: daemon.messages and set(numbers(daemon)) >= {row["n"] for row in rows()})


# Which rows are next


def test_rows_are_read_on_over_full_files_and_never_before_they_count(folder):
    trail = Trail(folder, file_bytes=4096, sync=False)
    reader, seen = tail.Tail(Files(folder), START), []
    assert reader.next(10) == []
    for number in range(60):
        trail.append([{"kind": "x", "at": "2026-11-26T10:00:00+00:00", "text": "y" * 300, "number": number}])
        if number % 7 == 0:
            seen += reader.next(3)
    while more := reader.next(5):
        seen += more
    assert [one["n"] for one in seen] == list(range(1, 62))
    with (folder / "audit.jsonl").open("ab") as file:
        file.write(b'{"half":')
    assert reader.next(5) == []
    later = tail.Tail(Files(folder), tail.Tip(40, seen[39]["hash"]))
    assert [one["n"] for one in later.next(100)] == list(range(41, 62))
    reader.close()
    later.close()


def test_one_gateway_of_several_hands_on(folder):
    folder.mkdir(parents=True)
    mine, other = tail.Cursor(folder), tail.Cursor(folder)
    assert mine.take()
    assert not other.take()
    mine.close()
    assert other.take()
    other.close()


def test_a_trail_that_was_begun_anew_is_exported_anew(folder):
    first = Trail(folder, file_bytes=4096, sync=False)
    first.append([{"kind": "x"}])
    cursor = tail.Cursor(folder)
    cursor.take()
    cursor.keep("t", first.tip)
    assert cursor.of("t") == first.tip
    for path in folder.glob("audit.[jh]*"):
        path.unlink()
    Trail(folder, file_bytes=4096, sync=False).append([{"kind": "x"}])
    assert cursor.of("t") == START
    cursor.close()


# What it is good for


def formats(rows, trail):
    """The same rows as others keep them."""
    attributes = [
        [{"key": f"pml.audit.{n}", "value": {"stringValue": v}} for n, v in (("trail", trail), ("hash", row["hash"]))]
        + [{"key": "pml.audit.n", "value": {"intValue": str(row["n"])}}]
        for row in rows
    ]
    records = [{"attributes": one, "body": {"stringValue": '{"n": 1, "hash": "no"}'}} for one in attributes]
    return {
        "rfc5424": "".join(f"{message(row, trail).decode()}\n" for row in rows),
        "traditional": "".join(
            f"Nov 26 10:00:00 box pml[42]: {message(row, trail).decode().partition('] ')[2]}\n" for row in rows
        ),
        "export": "".join(f"{json.dumps(row)}\n" for row in rows),
        "otlp": json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}) + "\n",
    }


@pytest.mark.parametrize("form", ["rfc5424", "traditional", "export", "otlp"])
@pytest.mark.attack("The audit stands up", "write all of the audit anew, its head as well, when it has been exported")
def test_a_trail_that_was_written_anew_shows_against_the_export(form, folder, rows, capsys, tmp_path):
    trail = Trail(folder, file_bytes=4096, sync=False)
    for number in range(30):
        trail.append([{"kind": "denied", "at": "2026-11-26T10:00:00+00:00", "principal": f"p{number}"}])
    taken = tmp_path / "taken.log"
    taken.write_text(f"something else\n{formats(rows(), trail_id(folder))[form]}{{}}\n{{\n")
    assert len(list(exported(taken))) == 31
    assert main(["audit", "verify", "--against", str(taken)]) == 0
    assert "31 of 31 rows are as they were exported" in capsys.readouterr().out
    forge(folder, [row for row in rows() if row.get("principal") != "p7"])
    assert main(["audit", "verify"]) == 0
    assert main(["audit", "verify", "--against", str(taken)]) == 1
    assert f"row 9 is another than the one that {taken} knows" in capsys.readouterr().out


def forge(folder, rows):
    """All rows anew, with the trail's id, each with a hash that fits, and the head."""
    tip, lines = START, []
    for row in rows:
        line, tip = seal({name: value for name, value in row.items() if name not in SEALS}, tip)
        lines.append(line)
    for path in folder.glob("audit-*"):
        path.unlink()
    files = Files(folder)
    files.current.write_bytes(b"".join(lines))
    files.write_head(Head(tip, files.current.stat().st_size), sync=False)


def test_a_file_that_knows_nothing_of_the_audit_is_an_error_in_words(folder, capsys, tmp_path):
    Trail(folder, file_bytes=4096, sync=False).append([{"kind": "x"}])
    taken = tmp_path / "taken.log"
    taken.write_text("nothing\n")
    assert main(["audit", "verify", "--against", str(taken)]) == 2
    assert main(["audit", "verify", "--against", str(tmp_path / "none")]) == 2
    taken.write_text(message(row(), TRAIL).decode() + "\n")
    assert main(["audit", "verify", "--against", str(taken)]) == 1
    told = capsys.readouterr()
    assert "has no row" in told.err
    assert "cannot be read" in told.err
    assert f"knows the audit {TRAIL}, and not this one" in told.out


@pytest.mark.skipif(shutil.which("rsyslogd") is None, reason="apt-get install rsyslog")
async def test_rsyslog_takes_every_row_though_it_is_stopped_in_between(rows, folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(exporter, "LONGEST_WAIT_S", 0.2)
    daemon = Rsyslog(tmp_path)
    daemon.start()
    try:
        async with gateway({"syslog": f"tcp://127.0.0.1:{daemon.port}"}) as client:
            await until(lambda: "gateway.started" in daemon.text())
            daemon.stop()
            for _ in range(3):
                await client.dispatcher.start(call("fs:drop"), MALLORY)
            count = len(rows())
            await asyncio.to_thread(daemon.start)
            await until(lambda: f' n="{count}" ' in daemon.text())
    finally:
        daemon.stop()
    lines = [line for line in daemon.text().splitlines() if "pml@32473" in line]
    assert all(RFC_5424.fullmatch(line) for line in lines)
    known = {one.tip for one in exported(daemon.file)}
    assert {(row["n"], row["hash"]) for row in rows() if row["n"] <= count} <= known
    assert {one.trail for one in exported(daemon.file)} == {trail_id(folder)}
    assert await asyncio.to_thread(main, ["audit", "verify", "--against", str(daemon.file)]) == 0
    assert "rows are as they were exported" in capsys.readouterr().out
    wait_for(lambda: json.loads((folder / tail.NAME).read_text()))
