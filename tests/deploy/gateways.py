"""Gateways in processes of their own, what stands in front of them, and clients that keep calling."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MODERN = "2026-07-28"
PATIENCE_S = 120.0
POLL_S = 0.05
PAUSE_S = 0.02
THINGS = Path(__file__).with_name("things.py")
ABOUT = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "deployed", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def until(is_so: Callable[[], bool], why: Callable[[], str] = str) -> None:
    """Wait for something that other processes do."""
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, why()
        time.sleep(POLL_S)


def post(url: str, method: str, params: Mapping[str, Any], name: str = "", **headers: str) -> dict[str, Any]:
    """The answer to one request that stands alone."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": ABOUT}}
    said = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": method,
        **({"Mcp-Name": name} if name else {}),
        **headers,
    }
    request = urllib.request.Request(f"{url}/mcp", json.dumps(body).encode(), said)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        text = response.read().decode()
    if response.headers["Content-Type"].startswith("text/event-stream"):
        text = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")][-1]
    answer: dict[str, Any] = json.loads(text)
    return answer


class Gateway:
    """One process of ``pml serve --http``, which can be started again at the same port."""

    def __init__(
        self,
        folder: Path,
        *,
        config: Path | None = None,
        python: str = sys.executable,
        around: Sequence[str] = (),
        home: str = "",
        name: str = "gateway",
    ) -> None:
        """``around`` is the command that runs it, as it sees ``config`` and ``home``."""
        self.folder, self.python, self._around = folder, python, around
        self.config = config or folder / "pml.toml"
        self.home, self.log = home or str(folder / f"{name}-home"), folder / f"{name}.log"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    @classmethod
    def with_server(cls, folder: Path, config: str, name: str = "gateway", **more: Any) -> Gateway:
        """One with the server of :mod:`things`; ``config`` has places for ``python`` and ``server``."""
        arguments = ", ".join(json.dumps(str(one)) for one in (THINGS, folder / "notes"))
        file = folder / f"{name}.toml"
        file.write_text(config.format(python=json.dumps(sys.executable), server=arguments), encoding="utf-8")
        return cls(folder, config=file, name=name, **more)

    @property
    def environment(self) -> dict[str, str]:
        """Of this process, without what says how pml is to be."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
        return {**kept, "PML_HOME": self.home}

    def start(self) -> Gateway:
        """Start it, and wait until it is ready."""
        command = [*self._around, self.python, "-m", "pml_core", "serve", "--config", str(self.config)]
        with self.log.open("ab") as log:
            begin = log.tell()
            self.process = subprocess.Popen(
                [*command, "--http", f"127.0.0.1:{self.port}"], stderr=log, env=self.environment, cwd=self.folder
            )

        def is_up() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.said()
            return b"serving MCP at" in self.log.read_bytes()[begin:] and self.status("/healthz") == 200

        until(is_up, self.said)
        return self

    def ready(self) -> Gateway:
        """Wait until all of it can be used; what came before ``/readyz`` is ready once it answers."""
        until(lambda: self.status("/readyz") in (200, 401, 404), self.said)
        return self

    def said(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-3000:]

    def stop(self) -> int:
        """SIGTERM, and its exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    @contextmanager
    def running(self) -> Iterator[Gateway]:
        """Up and ready inside the block."""
        try:
            yield self.start().ready()
        finally:
            if self.process is not None and self.process.poll() is None:
                self.stop()

    def status(self, path: str) -> int:
        """HTTP status of a page; 0 when nobody answers."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=10) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def page(self, path: str) -> str:
        """A page, whatever its status."""
        try:
            return self.get(path)
        except urllib.error.HTTPError as error:
            return error.read().decode()

    def get(self, path: str) -> str:
        """A page that is there."""
        with urllib.request.urlopen(f"{self.url}{path}", timeout=PATIENCE_S) as response:
            return str(response.read().decode())

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a tool."""
        answer = post(self.url, "tools/call", {"name": tool, "arguments": arguments}, tool)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def pml(self, *words: str) -> str:
        """What another command says, under the same configuration."""
        command = [self.python, "-m", "pml_core", *words, "--config", str(self.config)]
        done = subprocess.run(
            command, capture_output=True, text=True, env=self.environment, cwd=self.folder, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


class Callers:
    """Clients that call a tool one time after the other, each on connections as its library makes them."""

    def __init__(self, url: str, count: int = 4) -> None:
        self._url, self._numbers = url, itertools.count()
        self.answered: list[str] = []
        self.failed: list[str] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(count)]

    def _run(self) -> None:
        import httpx2

        with httpx2.Client(timeout=PATIENCE_S) as client:
            while not self._over.is_set():
                key = f"n{next(self._numbers)}"
                params = {"name": "things__note", "arguments": {"text": key}, "_meta": ABOUT}
                body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
                headers = {
                    "Accept": "application/json, text/event-stream",
                    "MCP-Protocol-Version": MODERN,
                    "Mcp-Method": "tools/call",
                    "Mcp-Name": "things__note",
                }
                try:
                    response = client.post(f"{self._url}/mcp", json=body, headers=headers)
                    good = response.status_code == 200 and '"result"' in response.text and key in response.text
                    (self.answered if good else self.failed).append(
                        key if good else f"{key}: {response.status_code} {response.text[:200]}"
                    )
                except httpx2.HTTPError as error:
                    self.failed.append(f"{key}: {error!r}")
                time.sleep(PAUSE_S)

    @contextmanager
    def calling(self) -> Iterator[Callers]:
        """They call inside the block."""
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join(PATIENCE_S)

    def more(self, count: int) -> None:
        """Wait until so many more calls were made."""
        now = len(self.answered) + len(self.failed)
        until(lambda: len(self.answered) + len(self.failed) >= now + count)


@contextmanager
def haproxy(program: str, shipped: Path, folder: Path, ports: Sequence[int], *, asks: bool = True) -> Iterator[str]:
    """HAProxy with the file that is shipped, but for where it listens and what stands behind it.

    Without ``asks`` it only looks whether somebody listens there.
    """
    text, port = shipped.read_text(encoding="utf-8"), free_port()
    servers = "\n".join(f"    server gateway{port} 127.0.0.1:{port}" for port in ports)
    text = re.sub(r"^    server-template .*$", servers, text, flags=re.MULTILINE)
    text = re.sub(r"^resolvers .*?\n\n", "", text, flags=re.MULTILINE | re.DOTALL)
    text = text.replace("bind :8080", f"bind 127.0.0.1:{port}").replace(" init-addr none", "")
    if not asks:
        text = re.sub(r"^    (option httpchk|http-check) .*\n", "", text, flags=re.MULTILINE)
    text = text.replace("global\n", f"global\n    stats socket {folder}/haproxy.sock level admin\n", 1)
    file = folder / "haproxy.cfg"
    file.write_text(text, encoding="utf-8")
    with _running([program, "-db", "-f", str(file)], folder / "haproxy.log", port) as url:
        yield url


def tell_haproxy(folder: Path, command: str) -> None:
    """Give the HAProxy of a folder a command."""
    with socket.socket(socket.AF_UNIX) as connected:
        connected.connect(str(folder / "haproxy.sock"))
        connected.sendall(f"{command}\n".encode())
        said = connected.recv(1 << 16)
    assert not said.strip(), said


@contextmanager
def nginx(program: str, shipped: str, folder: Path, ports: Sequence[int]) -> Iterator[str]:
    """nginx with ``shipped``, but for where it listens and what stands behind it."""
    port = free_port()
    text = re.sub(r"^ *server gateway-2:8808.*\n", "", shipped, flags=re.MULTILINE)
    behind = re.search(r"^( *)server gateway-1:8808(.*);$", text, flags=re.MULTILINE)
    assert behind is not None
    text = text.replace(behind[0], "\n".join(f"{behind[1]}server 127.0.0.1:{one}{behind[2]};" for one in ports))
    text = text.replace("listen 8080", f"listen 127.0.0.1:{port}")
    places = "\n".join(
        f"    {name} {folder}/nginx-{name};"
        for name in (
            "client_body_temp_path",
            "proxy_temp_path",
            "fastcgi_temp_path",
            "uwsgi_temp_path",
            "scgi_temp_path",
        )
    )
    text = text.replace("http {", f"http {{\n    access_log off;\n{places}")
    text = f"daemon off;\npid {folder}/nginx.pid;\nerror_log {folder}/nginx-errors.log;\nuser root;\n{text}"
    file = folder / "nginx.conf"
    file.write_text(text if os.getuid() == 0 else text.replace("user root;\n", ""), encoding="utf-8")
    with _running([program, "-p", str(folder), "-c", str(file)], folder / "nginx.log", port) as url:
        yield url


@contextmanager
def _running(command: Sequence[str], log: Path, port: int) -> Iterator[str]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)

    def is_up() -> bool:
        assert process.poll() is None, log.read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        until(is_up, log.read_text)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
