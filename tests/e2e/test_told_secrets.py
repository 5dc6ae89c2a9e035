"""Servers that tell their secrets wherever they can say something: nothing that PML keeps or shows has them."""

from __future__ import annotations

import base64
import gzip
import json
import re
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from gate import Gate

from pml_kit.system.redaction import MASK

TELLER = Path(__file__).parent / "servers" / "teller.py"
BOB = "tok-bob-77ac0b1d"
LINK = re.compile(r'(?:href|action|hx-get)="(/console/[^"#]*)"')
MOST_PAGES = 150
CONFIG = """
[gateway]
log_level = "debug"
log_format = "json"
tools_exposure = "full_proxy"
tracers = ["log", "store", "otel"]
[plugins.http.tokens]
bob = "${{BOB_TOKEN}}"
[plugins.console]
one_time_token = "once-and-only-this-token"
[plugins.otel]
endpoint = {collector}
arguments = true
interval_s = 0.1
metrics_interval_s = 0.5
[servers.near]
command = {python}
args = [{teller}]
env = {{ SECRET = {near} }}
[servers.far]
url = {far}
headers = {{ Authorization = "Bearer ${{file:far.secret}}" }}
"""
NEAR, FAR = 'near-s3cret"with\\all/of+it=1', "far-s3cret/with+all&of=it-2"
NEWER = 'newer-s3cret"with\\all/of+it=3'


class Collector(ThreadingHTTPServer):
    """Takes all that is exported."""

    def __init__(self):
        self.bodies = []
        bodies = self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                bodies.append(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_args):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


@pytest.fixture
def collector():
    with Collector() as made:
        yield made
        made.shutdown()


@pytest.fixture
def far(tmp_path):
    """The address of the server over HTTP."""
    place = tmp_path / "far.url"
    process = subprocess.Popen([sys.executable, str(TELLER), "--http", str(place)])
    until_s = time.monotonic() + 60
    while not place.exists() or not place.read_text():
        assert time.monotonic() < until_s
        time.sleep(0.05)
    yield place.read_text()
    process.terminate()
    process.wait()


def shapes(secret):
    """How a secret may stand somewhere: as it is, in JSON, in addresses and pages, and in base64 behind any bytes."""
    raw = secret.encode()
    found = {
        raw,
        json.dumps(secret)[1:-1].encode(),
        quote(secret, safe="").encode(),
        quote(secret).encode(),
        raw.hex().encode(),
    }
    found |= {json.dumps(json.dumps(secret)[1:-1])[1:-1].encode()}
    found |= {secret.replace("&", "&amp;").replace('"', mark).encode() for mark in ("&#34;", "&quot;")}
    for skipped in range(3):
        whole = base64.b64encode(b"\0" * skipped + raw).decode().rstrip("=")
        found.add(whole[4:-2].encode())
    return found


class Places:
    """All that was kept or shown, by where."""

    def __init__(self):
        self.found = {}

    def add(self, where, what):
        self.found[where] = what if isinstance(what, bytes) else what.encode(errors="replace")

    def having(self, secrets):
        """Where one of the secrets stands, with what is around it."""
        return {
            where: what[max(0, at - 60) : at + 100]
            for where, what in self.found.items()
            for secret in secrets
            for shape in shapes(secret)
            if (at := what.find(shape)) >= 0
        }


def look_at_files(places, gate, when):
    for path in (gate.folder / "home").rglob("*"):
        if path.is_file():
            places.add(f"{when}: {path.relative_to(gate.folder)}", path.read_bytes())
    with closing(sqlite3.connect(f"file:{gate.folder}/home/pml.db?mode=ro", uri=True)) as base:
        places.add(f"{when}: dump", "\n".join(base.iterdump()))
        for (table,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for number, row in enumerate(base.execute(f'SELECT * FROM "{table}"')):
                for value in row:
                    if isinstance(value, bytes):
                        with suppress(zlib.error):
                            places.add(f"{when}: {table} {number}, inflated", zlib.decompress(value))


def look_at_commands(places, gate):
    """What commands print, whatever becomes of them."""
    exported = str(gate.folder / "home" / "exported.jsonl")
    id = json.loads(gate.pml("executions", "list", "--json", "--limit", "1"))["executions"][0]["id"]
    for words in (
        ["executions", "show", id], ["executions", "show", id, "--json"], ["executions", "export"],
        ["config"], ["config", "explain", "servers.near.env"], ["config", "explain", "servers.far.headers"],
        ["plugins", "doctor", "--connect"], ["servers", "list", "--connect", "--json"], ["servers", "tools", "near"],
        ["audit", "export"], ["recordings", "export", exported], ["search", "tell"], ["report"],
    ):  # fmt: skip
        command = [sys.executable, "-m", "pml_core", *words, "--config", str(gate.config)]
        done = subprocess.run(
            command, capture_output=True, check=False, cwd=gate.folder, env=gate.environment, timeout=120
        )
        assert b"usage:" not in done.stderr, words
        assert done.stdout + done.stderr, words
        places.add(" ".join(words), done.stdout + done.stderr)


def look_at_console(places, url):
    """Every page that a link leads to."""
    with httpx2.Client(base_url=url, timeout=120, follow_redirects=True) as browser:
        entered = browser.post("/console/enter", data={"token": "once-and-only-this-token"})
        assert entered.status_code == 200
        left, seen = ["/console/"], set()
        while left and len(seen) < MOST_PAGES:
            path = left.pop(0)
            if path in seen:
                continue
            seen.add(path)
            page = browser.get(path.replace("&amp;", "&"))
            places.add(f"console {path}", page.text)
            left += LINK.findall(page.text)
    assert len(seen) > 10


def look_at_processes(places):
    """What ``ps`` shows of all, and what all but the servers were given."""
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            places.add(f"{place}/cmdline", (place / "cmdline").read_bytes())
            if TELLER.name not in (place / "cmdline").read_text():
                places.add(f"{place}/environ", (place / "environ").read_bytes())


@pytest.fixture
def gate(tmp_path, collector, far):
    """A gateway with both servers, whose secrets lie in files."""
    made = Gate(tmp_path)
    made.environment |= {"BOB_TOKEN": BOB}
    (tmp_path / "near.secret").write_text(NEAR)
    (tmp_path / "far.secret").write_text(FAR)
    written = {"python": sys.executable, "teller": str(TELLER), "near": f"${{command:cat {tmp_path}/near.secret}}"}
    places = {"far": far, "collector": f"http://127.0.0.1:{collector.server_address[1]}"}
    made.config.write_text(CONFIG.format(**{name: json.dumps(one) for name, one in {**written, **places}.items()}))
    return made


def call_all(bob):
    """Have both servers tell all that they can; the errors of the gateway's own."""
    errors = []
    for server, secret in (("near", NEAR), ("far", FAR)):
        told = bob.ask("tools/call", meta={"progressToken": server}, name=f"{server}__tell", arguments={"mine": secret})
        assert json.loads(told["result"]["content"][0]["text"]) == {"secret": secret, "mine": secret}
        assert bob.text(f"{server}__refuse") == f"no: {secret}"
        bob.call(f"{server}__junk", mine=secret)
        assert bob.call(f"{server}__fail")["error"]["data"] == {"token": secret}
        errors.append(json.dumps(bob.call(f"{server}__die")))
        bob.ask("resources/read", uri="mem://one")
        bob.ask("prompts/get", name=f"{server}__ask")
    return errors


def replaced(gate, bob):
    """Have the secret of a server changed, and the server tell the old one."""
    (gate.folder / "near.secret").write_text(NEWER)
    gate.pml("servers", "restart", "near")
    until_s = time.monotonic() + 120
    while json.dumps(NEWER)[1:-1] not in bob.text("near__tell", mine=NEAR):
        assert time.monotonic() < until_s
        time.sleep(0.2)


@pytest.mark.attack("A server's environment", "tell a secret in results, errors, lists, progress, logs and on stderr")
def test_what_servers_tell_of_their_secrets_is_kept_and_shown_nowhere(gate, collector):
    places = Places()
    with gate.serving(), gate.caller(BOB) as bob:
        places.add("errors", "\n".join(call_all(bob)))
        places.add("status", json.dumps(bob.status()))
        places.add("lists", json.dumps(bob.ask("tools/list")))
        look_at_processes(places)
        replaced(gate, bob)
        places.add("metrics", httpx2.get(f"{gate.url}/otel/metrics", headers={"Authorization": f"Bearer {BOB}"}).text)
        look_at_console(places, gate.url)
        look_at_files(places, gate, "while it runs")
        look_at_commands(places, gate)
    look_at_files(places, gate, "afterwards")
    places.add("log", gate.log.read_bytes())
    places.add("exports", b"\n".join(collector.bodies))
    assert places.having((NEAR, FAR, NEWER)) == {}
    masked = {where for where, what in places.found.items() if MASK.encode() in what}
    assert {"log", "exports", "lists", "status", "executions export", "search tell", "afterwards: dump"} <= masked
    assert [where for where in masked if "inflated" in where or "console" in where]


def test_a_log_for_people_has_no_secrets_either(gate):
    gate.config.write_text(gate.config.read_text().replace('"json"', '"console"'))
    with gate.serving(), gate.caller(BOB) as bob:
        call_all(bob)
    places = Places()
    places.add("log", gate.log.read_bytes())
    assert places.having((NEAR, FAR)) == {}
    assert MASK in gate.log.read_text()
