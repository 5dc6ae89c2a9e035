"""Rows as messages of syslog (RFC 5424), over UDP, TCP (RFC 6587), TLS (RFC 5425) or a socket of this machine."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from pml_audit.rows import canonical
from pml_hookspecs import encode

PORTS = {"udp": 514, "tcp": 601, "tls": 6514}
SCHEMES = (*PORTS, "unix")
ENTERPRISE = "pml@32473"
"""Of the structured data; the number is the one of RFC 5612 for those who have none of their own."""
FACILITY = 13
"""Log audit."""
ERROR, WARNING, NOTICE = 3, 4, 5
TIMEOUT_S = 5.0
"""Longest that a daemon may take for one step [s]."""
DATAGRAM_BYTES = 8192
"""Of a message that is one datagram; a longer row goes without its details."""
MESSAGE_BYTES = 65_536
"""Of any other."""
_NOT_PLAIN = re.compile(r"[^\x21-\x7e]")


def severity(kind: str) -> int:
    """Of a row."""
    if kind in ("audit.broken", "audit.head_lost", "audit.dropped"):
        return ERROR
    return WARNING if kind in ("denied", "refused", "key.refused", "definitions.blocked") else NOTICE


def message(row: Mapping[str, Any], trail: str, most_bytes: int = MESSAGE_BYTES) -> bytes:
    """One row: trail id, number and hash as structured data, all of it as JSON."""
    host, _, process = str(row.get("gateway", "")).rpartition(":")
    words = (_word(row.get("at"), 32), _word(host, 255), "pml", _word(process, 128), _word(row.get("kind"), 32))
    about = {"trail": trail, "n": row["n"], "hash": row["hash"], "previous": row["previous"]}
    data = " ".join(f'{name}="{value}"' for name, value in about.items())
    head = f"<{FACILITY * 8 + severity(str(row.get('kind')))}>1 {' '.join(words)} [{ENTERPRISE} {data}] ".encode()
    text = canonical({**row, "trail": trail})
    if len(head) + len(text) > most_bytes:
        kept = ("n", "at", "kind", "principal", "target", "code", "hash", "previous")
        short = {name: row[name][:200] if isinstance(row[name], str) else row[name] for name in kept if name in row}
        text = encode({**short, "trail": trail, "shortened": True})
    return head + text


def _word(value: Any, longest: int) -> str:
    return _NOT_PLAIN.sub("", str(value or ""))[:longest] or "-"


class Syslog:
    """A daemon. Its address: ``udp://host:514``, ``tcp://host:601``, ``tls://host:6514`` or ``unix:///dev/log``."""

    def __init__(self, address: str, ca_file: str = "") -> None:
        """Nothing is opened yet.

        Raises:
            ValueError: The address is none of these.
        """
        parts = urlsplit(address)
        self._scheme, self._ca_file, self._path = parts.scheme, ca_file, parts.path
        if parts.scheme not in SCHEMES or not (parts.path if parts.scheme == "unix" else parts.hostname):
            raise ValueError(f"{address!r} is no address such as tls://logs.example:6514 or unix:///dev/log")
        self._place = (parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0))

    def __call__(self, rows: Sequence[Mapping[str, Any]], trail: str) -> None:
        """Send rows. Over TCP and TLS they have arrived when this returns: the daemon has read to their end.

        Raises:
            OSError: They were not taken, all or some.
        """
        if self._scheme in ("udp", "unix"):
            self._send_datagrams([message(row, trail, DATAGRAM_BYTES) for row in rows])
        else:
            whole = [message(row, trail) for row in rows]
            self._send_stream(b"".join(b"%d %b" % (len(one), one) for one in whole))

    def _send_datagrams(self, messages: Sequence[bytes]) -> None:
        if self._scheme == "unix":
            family, place = socket.AF_UNIX, self._path
        else:
            family, _, _, _, place = socket.getaddrinfo(*self._place, type=socket.SOCK_DGRAM)[0]  # type: ignore[assignment]
        with closing(socket.socket(family, socket.SOCK_DGRAM)) as opened:
            opened.settimeout(TIMEOUT_S)
            opened.connect(place)
            for one in messages:
                opened.send(one)

    def _send_stream(self, data: bytes) -> None:
        with closing(self._connected()) as opened:
            opened.sendall(data)
            if isinstance(opened, ssl.SSLSocket):
                try:
                    opened.unwrap().close()
                except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
                    return  # closed without a word of farewell, which is closed all the same
                return
            # What a daemon closes after it has read to the end, it has read.
            opened.shutdown(socket.SHUT_WR)
            while opened.recv(4096):
                pass

    def _connected(self) -> socket.socket:
        plain = socket.create_connection(self._place, timeout=TIMEOUT_S)
        if self._scheme == "tcp":
            return plain
        try:
            context = ssl.create_default_context(cafile=self._ca_file or None)
            return context.wrap_socket(plain, server_hostname=self._place[0])
        except BaseException:
            plain.close()
            raise
