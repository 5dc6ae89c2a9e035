"""An embedder from configuration to ranking, with real processes: what it adds, and what happens without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

TOOLS = {
    "rent_limousine": "Have a stately automobile wait at the door.",
    "list_invoices": "What customers still owe.",
    "water_lawn": "Switch the garden's sprinklers on.",
    "send_letter": "Hand a sheet of paper to the postman.",
    "play_song": "Music from the loudspeakers.",
    "translate": "The same sentence in another tongue.",
    "dim_lamp": "Less light in a room.",
    "book_table": "A place at a restaurant.",
}
QUERIES = {
    "flibbet to the opera": "rent_limousine",
    "gronkle my dues": "list_invoices",
    "splosh outdoors": "water_lawn",
}
"""In words that only the model knows, and their tools."""
MEANINGS = [("automobile", "flibbet"), ("owe", "gronkle"), ("sprinklers", "splosh")]
SERVER = """
import json, sys
TOOLS = [{"name": n, "description": d, "inputSchema": {"type": "object"}} for n, d in json.loads(sys.argv[1]).items()]
for line in sys.stdin:
    said = json.loads(line)
    if "id" not in said:
        continue
    answers = {"initialize": lambda: {"protocolVersion": said["params"]["protocolVersion"],
                                      "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
               "tools/list": lambda: {"tools": TOOLS}, "ping": dict}
    if said["method"] in answers:
        reply = {"result": answers[said["method"]]()}
    else:
        reply = {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": said["id"], **reply}), flush=True)
"""


def vector(text):
    """One number for each meaning, and one for each tool, so that all texts differ."""
    found = [float(any(word in text for word in words)) for words in MEANINGS]
    return found + [0.3 * float(description in text) for description in TOOLS.values()] + [0.1]


class Endpoint(BaseHTTPRequestHandler):
    """``POST /v1/embeddings``."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        texts = json.loads(self.rfile.read(int(self.headers["content-length"])))["input"]
        good = self.headers.get("authorization") == "Bearer k-1"
        said = {"data": [{"index": n, "embedding": vector(text)} for n, text in enumerate(texts)]} if good else {}
        raw = json.dumps(said).encode()
        self.send_response(200 if good else 401)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_):
        pass


@pytest.fixture
def url():
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def pml(tmp_path):
    (tmp_path / "server.py").write_text(SERVER)
    server = {"command": sys.executable, "args": [str(tmp_path / "server.py"), json.dumps(TOOLS)]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"s": server}}))
    lines = [json.dumps({"query": query, "gold": [f"s:{tool}"]}) for query, tool in QUERIES.items()]
    (tmp_path / "queries.jsonl").write_text("\n".join(lines))
    env = {k: v for k, v in os.environ.items() if not k.startswith("PML_")}
    env |= {"PML_HOME": str(tmp_path / "home"), "EMBEDDINGS_KEY": "k-1"}

    def run(*words):
        command = [sys.executable, "-m", "pml_core", *words, "--config", "mcp.json"]
        return subprocess.run(
            command, capture_output=True, check=False, cwd=tmp_path, encoding="utf-8", env=env, timeout=300
        )

    return run


def settings(url, key="${EMBEDDINGS_KEY}"):
    given = {"url": f'"{url}"', "model": '"tiny"', "api_key": f'"{key}"'}
    return [f"--set=plugins.embeddings.{name}={value}" for name, value in given.items()]


COMPARE = ("eval", "--compare-embedder", "--queries", "queries.jsonl", "--json", "--connect", "--wait", "30")


def test_what_the_embedder_adds_on_this_catalog_is_measured(pml, url):
    done = pml(*COMPARE, *settings(url))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    without, with_it = said["rows"]
    assert without["hit@1"] < 1, "these words are in no table"
    assert with_it["hit@1"] == 1
    assert said["better"] > 0 == said["worse"]
    assert "k-1" not in done.stdout + done.stderr


def test_without_one_it_is_said_how_to_get_one(pml):
    done = pml(*COMPARE)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no embedder is configured" in done.stderr
    assert "[plugins.embeddings]" in done.stderr


def test_an_endpoint_that_refuses_is_told_by_the_comparison_and_the_doctor_and_search_goes_on(pml, url):
    wrong = settings(url, key="k-wrong")
    done = pml(*COMPARE, *wrong)
    assert done.returncode == 2
    assert "answers 401" in done.stderr
    assert "check api_key" in done.stderr
    doctor = pml("plugins", "doctor", "--json", *wrong)
    (line,) = [one for one in json.loads(doctor.stdout) if one["subject"] == "embeddings: embedder"]
    assert not line["ok"]
    assert "check api_key" in line["detail"]
    searched = pml("eval", "--only", "search", "--queries", "queries.jsonl", "--json", *wrong)
    assert searched.returncode == 0, searched.stderr
    assert "k-wrong" not in "".join(one.stdout + one.stderr for one in (done, doctor, searched))


def test_the_doctor_says_that_none_is_configured(pml):
    lines = json.loads(pml("plugins", "doctor", "--json").stdout)
    (line,) = [one for one in lines if one["subject"] == "embeddings: embedder"]
    assert line["ok"]
    assert "none configured" in line["detail"]
