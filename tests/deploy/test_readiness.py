"""What a running gateway tells probes: a server that is down, and an end that comes."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from gateways import Gateway, until

CONFIG = """
[gateway]
store = "sqlite"
tools_exposure = "full_proxy"
{more}

[plugins.sqlite]
path = "{store}"

[servers.things]
command = {{python}}
args = [{{server}}]
"""
BROKEN = '\n[servers.broken]\ncommand = "no-such-program-at-all"\n'


def made(folder: Path, name: str = "gateway", more: str = "", tables: str = "") -> Gateway:
    config = CONFIG.replace("{more}", more).replace("{store}", str(folder / "pml.db"))
    return Gateway.with_server(folder, config.replace("{{", "{").replace("}}", "}") + tables, name)


def test_a_gateway_with_a_server_down_is_alive_and_not_ready(tmp_path: Path) -> None:
    gateway = made(tmp_path, tables=BROKEN)
    try:
        gateway.start()
        until(lambda: "no-such-program-at-all" in gateway.page("/readyz"), gateway.said)
        assert (gateway.status("/healthz"), gateway.status("/readyz")) == (200, 503)
        servers = json.loads(gateway.page("/readyz"))["parts"]["servers"]
        assert not servers["ready"]
        assert servers["detail"].startswith("broken is down")
        assert gateway.call("things__echo", {"text": "still"})["content"][0]["text"] == "still"
    finally:
        gateway.stop()
    needless = made(tmp_path, "needless", more='ready_servers = ["things"]', tables=BROKEN)
    with needless.running():
        until(lambda: needless.status("/readyz") == 200, needless.said)


def test_one_that_is_told_to_end_says_so_first_and_serves_meanwhile(tmp_path: Path) -> None:
    gateway = made(tmp_path, more="shutdown_delay_s = 5")
    gateway.start()
    until(lambda: gateway.status("/readyz") == 200, gateway.said)
    assert gateway.process is not None
    gateway.process.send_signal(signal.SIGTERM)
    until(lambda: gateway.status("/readyz") == 503, gateway.said)
    assert gateway.status("/healthz") == 200
    assert gateway.call("things__echo", {"text": "to the end"})["content"][0]["text"] == "to the end"
    assert gateway.process.wait(60) == 128 + signal.SIGTERM
    assert gateway.status("/readyz") == 0
