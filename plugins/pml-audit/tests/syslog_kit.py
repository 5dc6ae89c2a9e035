"""Daemons that take syslog: in this process, and rsyslog."""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from contextlib import suppress

PATIENCE_S = 60
FRAME = re.compile(rb"(\d+) ")


class StreamDaemon:
    """Takes octet-counted messages until the sender has no more; ``drop`` connections are reset in the middle."""

    def __init__(self, tls=None, drop=0):
        self.messages, self.drop, self.dropped = [], drop, 0
        self._tls, self._listener = tls, socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with suppress(OSError):
            while True:
                opened, _ = self._listener.accept()
                with suppress(OSError):
                    self._take(self._tls.wrap_socket(opened, server_side=True) if self._tls else opened)

    def _take(self, opened):
        if self.dropped < self.drop:
            self.dropped += 1
            opened.recv(10)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            opened.close()
            return
        data = b""
        while more := opened.recv(65536):
            data += more
        while data:
            found = FRAME.match(data)
            end = found.end() + int(found[1])
            self.messages.append(data[found.end() : end])
            data = data[end:]
        if isinstance(opened, ssl.SSLSocket):
            opened = opened.unwrap()
        opened.close()

    def close(self):
        self._listener.close()


class DatagramDaemon:
    """Takes messages that are one datagram each."""

    def __init__(self, path=None):
        self.messages = []
        self._socket = socket.socket(socket.AF_UNIX if path else socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(str(path) if path else ("127.0.0.1", 0))
        self.port = None if path else self._socket.getsockname()[1]
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self):
        with suppress(OSError):
            while True:
                self.messages.append(self._socket.recv(65536))

    def close(self):
        self._socket.close()


class Rsyslog:
    """The daemon of Debian, which writes what it takes into a file."""

    def __init__(self, folder, template="RSYSLOG_SyslogProtocol23Format"):
        self.file, self._folder = folder / "taken.log", folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        (folder / "rsyslog.conf").write_text(
            f'global(workDirectory="{folder}" maxMessageSize="64k")\n'
            'module(load="imtcp")\n'
            f'input(type="imtcp" port="{self.port}" address="127.0.0.1")\n'
            f'*.* action(type="omfile" file="{self.file}" template="{template}" asyncWriting="off")\n'
        )
        self._process = None

    def start(self):
        command = [shutil.which("rsyslogd"), "-n", "-f", "rsyslog.conf", "-i", str(self._folder / "pid")]
        self._process = subprocess.Popen(command, cwd=self._folder, stderr=subprocess.DEVNULL)
        wait_for(self._listens)

    def _listens(self):
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def stop(self):
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PATIENCE_S)
            self._process = None

    def text(self):
        return self.file.read_text("utf-8") if self.file.exists() else ""


def wait_for(holds):
    until_s = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < until_s
        time.sleep(0.05)
    return found
