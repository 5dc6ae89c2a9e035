"""A gateway in a process of its own, and a client of it that checks nothing of what it writes."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

SERVER = Path(__file__).with_name("servers") / "walls.py"
PATIENCE_S = 120.0
LEGACY = "2025-11-25"


class Client:
    """Writes lines to a gateway and reads what comes back; nothing is checked on the way."""

    def __init__(self, process):
        self.process, self._number = process, 0
        self.heard, self.lines = [], queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def write(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def next_message(self, within_s=PATIENCE_S):
        line = self.lines.get(timeout=within_s)
        assert line, "the gateway has ended"
        return json.loads(line)

    def raw(self, method, params):
        """The answer to a request whose params are written as given; what else came is in ``heard``."""
        self._number += 1
        self.write(f'{{"jsonrpc":"2.0","id":{self._number},"method":"{method}","params":{params}}}')
        while (message := self.next_message()).get("id") != self._number or "method" in message:
            self.heard.append(message)
        return message

    def ask(self, method, **params):
        return self.raw(method, json.dumps(params))

    def call(self, name, /, **arguments):
        return self.ask("tools/call", name=name, arguments=arguments)


class Site:
    """A folder with a configuration, and the gateway that serves it."""

    def __init__(self, folder):
        self.folder, self.paid = folder, folder / "paid.txt"
        self.log = folder / "log.txt"

    def payments(self):
        return self.paid.read_text() if self.paid.exists() else ""

    @contextmanager
    def serving(self, more="", capabilities=None, words=(), environment=None):
        """The gateway with ``more`` in its configuration, which begins in ``[gateway]``, and a client of it.

        ``words`` are added to the command, and ``environment`` to what it is given.
        """
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
        arguments = json.dumps([str(SERVER), str(self.paid)])
        server = f"[servers.bank]\ncommand = {json.dumps(sys.executable)}\nargs = {arguments}"
        config = self.folder / "site.toml"
        config.write_text(f'[gateway]\ntools_exposure = "full_proxy"\nlog_format = "json"\n{more}\n{server}\n')
        with self.log.open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "pml_core", "serve", "--config", str(config), *words],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, encoding="utf-8", cwd=self.folder,
                env={**kept, "PML_HOME": str(self.folder / "home"), **(environment or {})},
            )  # fmt: skip
        client = Client(process)
        try:
            about = {"name": "attacker", "version": "1"}
            client.ask("initialize", protocolVersion=LEGACY, capabilities=capabilities or {}, clientInfo=about)
            client.write('{"jsonrpc":"2.0","method":"notifications/initialized"}')
            yield client
        finally:
            process.kill()
            process.wait(PATIENCE_S)
            client.reader.join(PATIENCE_S)
            process.stdout.close()
            with suppress(BrokenPipeError):
                process.stdin.close()
