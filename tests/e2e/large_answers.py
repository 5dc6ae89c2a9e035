"""Servers that people use, asked for answers of a given size."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from . import plans
from .visit import Server

SIZES = {"1 kB": 10**3, "100 kB": 10**5, "1 MB": 10**6, "10 MB": 10**7, "50 MB": 5 * 10**7}
MOST_FETCHED = 999_999
"""Characters that the server fetch gives at once."""
LINE = "line {:07}: the tide at the pier is 3.51 metres high, and the wind comes from the sea, très calme.\n"


@dataclass(frozen=True)
class LargeAnswer:
    """A call whose answer is about as large as was asked for."""

    tool: str
    arguments: Mapping[str, Any]
    declared: bool = False
    """Whether the tool declares an ``outputSchema``, which no preview fits."""


@dataclass(frozen=True)
class LargeAnswers:
    """One server, and what it is asked."""

    server: Server
    of_size: Callable[[int], LargeAnswer | None]
    """None for a size that the server does not give at once."""


@lru_cache
def text_of(size: int) -> str:
    """Lines of some 100 bytes, numbered from 0; all of them ``size`` bytes, the last one without its end."""
    count = size // len(LINE.format(0).encode()) + 1
    return "".join(map(LINE.format, range(count))).encode()[:size].decode(errors="replace")


class Page(BaseHTTPRequestHandler):
    """Answers ``/SIZE`` with a text of that size."""

    def do_GET(self) -> None:
        size = self.path.strip("/")
        body = text_of(int(size)).encode() if size.isdigit() else b""
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *about: object) -> None:
        """Tell nobody."""


@contextmanager
def pages() -> Iterator[str]:
    """The address of a web site with a text of each size."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def filesystem(node: Path, python: Mapping[str, str], folder: Path, site: str) -> LargeAnswers:
    """Reads a file."""
    plan = plans.filesystem(node, python, folder, site)
    plan.prepare()

    def of_size(size: int) -> LargeAnswer:
        file = folder / "files" / f"{size}.txt"
        file.write_text(text_of(size), encoding="utf-8")
        return LargeAnswer("read_text_file", {"path": str(file)}, declared=True)

    return LargeAnswers(plan.server, of_size)


def git(node: Path, python: Mapping[str, str], folder: Path, site: str) -> LargeAnswers:
    """Shows a commit that adds a file."""
    plan = plans.git(node, python, folder, site)
    plan.prepare()
    repository = folder / "repository"

    def run(*words: str) -> None:
        identity = ["-c", "user.name=A Tester", "-c", "user.email=tester@example.invalid"]
        command = ["git", *identity, "-C", str(repository), *words]
        subprocess.run(command, check=True, capture_output=True, env=plans.GIT_ENVIRONMENT)

    def of_size(size: int) -> LargeAnswer:
        (repository / f"{size}.txt").write_text(text_of(size), encoding="utf-8")
        run("add", f"{size}.txt")
        run("commit", "--quiet", f"--message=Note {size} bytes", f"{size}.txt")
        run("tag", "--force", f"of-{size}")
        return LargeAnswer("git_show", {"repo_path": str(repository), "revision": f"of-{size}"})

    return LargeAnswers(plan.server, of_size)


def sqlite(node: Path, python: Mapping[str, str], folder: Path, site: str) -> LargeAnswers:
    """Reads rows, which it gives as a text that Python writes."""
    plan = plans.sqlite(node, python, folder, site)
    plan.prepare()

    def of_size(size: int) -> LargeAnswer:
        rows = max(1, size // len(repr({"id": 1, "text": LINE.strip()}).encode()))
        numbers = f"WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < {rows})"
        text = LINE.strip().replace("{:07}", "' || printf('%07d', id) || '")
        return LargeAnswer("read_query", {"query": f"SELECT * FROM ({numbers} SELECT id, '{text}' AS text FROM n)"})

    return LargeAnswers(plan.server, of_size)


def fetch(node: Path, python: Mapping[str, str], folder: Path, site: str) -> LargeAnswers:
    """Reads a page."""
    plan = plans.fetch(node, python, folder, site)

    def of_size(size: int) -> LargeAnswer | None:
        given = {"url": f"{site}/{size}", "raw": True, "max_length": min(size, MOST_FETCHED)}
        return LargeAnswer("fetch", given) if size <= SIZES["1 MB"] else None

    return LargeAnswers(plan.server, of_size)


ALL: Mapping[str, Callable[[Path, Mapping[str, str], Path, str], LargeAnswers]] = {
    "filesystem": filesystem,
    "git": git,
    "sqlite": sqlite,
    "fetch": fetch,
}
"""Each is given Node's folder, the interpreters, a folder of its own and the address of :func:`pages`."""
