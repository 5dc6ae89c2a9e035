"""A fleet is restarted, one gateway after the other, and clients do not notice; nor when one gets another version."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gateways import Callers, Gateway, haproxy, nginx

from pml_testing.postgres import Cluster

CONFIG = """
[gateway]
store = "postgres"
tools_exposure = "full_proxy"
durability = "full"
block = ["dbos"]
shutdown_delay_s = {{delay_s}}

[plugins.postgres]
url = "{url}"

[servers.things]
command = {{python}}
args = [{{server}}]
"""
BY_DEFAULT = """
events {
}
http {
    upstream gateways {
        server gateway-1:8808;
        server gateway-2:8808;
    }
    server {
        listen 8080;
        location / {
            proxy_pass http://gateways;
            proxy_set_header Host $http_host;
        }
    }
}
"""
"""What people write first: nginx speaks HTTP/1.0 then, on a connection for each request."""
FAIL_TIMEOUT_S = 11
"""For so long nginx leaves a gateway out by its defaults, and a second to spare [s]."""
BETWEEN = 60
"""Calls between two restarts."""


@pytest.fixture
def fleet(database: Cluster, tmp_path: Path) -> Iterator[Callable[[float], list[Gateway]]]:
    """Makes two gateways on one database, with a delay before they stop listening."""
    made: list[Gateway] = []
    url = database.database()

    def make(delay_s: float) -> list[Gateway]:
        config = CONFIG.format(url=url).replace("{delay_s}", str(delay_s))
        made[:] = [Gateway.with_server(tmp_path, config, f"gateway{number}") for number in (1, 2)]
        # Every proxy hands on the name that clients called it by.
        for gateway in made:
            with gateway.config.open("a", encoding="utf-8") as file:
                file.write('\n[plugins.http]\nallowed_hosts = ["127.0.0.1:*"]\n')
            gateway.start().ready()
        return made

    yield make
    for gateway in made:
        if gateway.process is not None and gateway.process.poll() is None:
            gateway.stop()


def program(name: str, missing: Callable[[str], None]) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        missing(name)
    return str(found)


def restart_each(
    fleet: list[Gateway], callers: Callers, *, before_start: Callable[[Gateway], object] = id, rest_s: float = 0
) -> None:
    """One after the other, with calls before, meanwhile and after; ``rest_s`` before the next [s]."""
    for gateway in fleet:
        callers.more(BETWEEN)
        assert gateway.stop() == 128 + 15
        callers.more(BETWEEN)
        before_start(gateway)
        gateway.start().ready()
        time.sleep(rest_s)
    callers.more(BETWEEN)


def check(callers: Callers, folder: Path, gateway: Gateway) -> None:
    """Every call was answered, ran once and is in the history."""
    assert callers.failed == [], f"{len(callers.failed)} of {len(callers.answered) + len(callers.failed)} failed"
    noted = (folder / "notes").read_text(encoding="utf-8").split()
    assert sorted(noted) == sorted(callers.answered)
    said = gateway.pml("executions", "list", "--json", "--limit", "1")
    assert '"executions"' in said


def test_behind_haproxy_as_it_is_shipped(
    fleet: Callable[[float], list[Gateway]], tmp_path: Path, deploy: Path, missing: Callable[[str], None]
) -> None:
    found = program("haproxy", missing)
    gateways = fleet(5)
    ports = [gateway.port for gateway in gateways]
    with haproxy(found, deploy / "haproxy.cfg", tmp_path, ports) as url, Callers(url).calling() as callers:
        restart_each(gateways, callers)
    check(callers, tmp_path, gateways[0])


@pytest.mark.parametrize("kind", ["shipped", "by default"])
def test_behind_nginx(
    fleet: Callable[[float], list[Gateway]], tmp_path: Path, deploy: Path, missing: Callable[[str], None], kind: str
) -> None:
    found = program("nginx", missing)
    gateways = fleet(5 if kind == "shipped" else 0)
    text = BY_DEFAULT if kind == "by default" else (deploy / "nginx.conf").read_text(encoding="utf-8")
    ports = [gateway.port for gateway in gateways]
    rest_s = FAIL_TIMEOUT_S if kind == "by default" else 0
    with nginx(found, text, tmp_path, ports) as url, Callers(url).calling() as callers:
        restart_each(gateways, callers, rest_s=rest_s)
    check(callers, tmp_path, gateways[0])


def test_the_shipped_files_are_understood(deploy: Path, missing: Callable[[str], None]) -> None:
    done = subprocess.run(
        [program("haproxy", missing), "-c", "-f", str(deploy / "haproxy.cfg")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stderr, done.stderr
