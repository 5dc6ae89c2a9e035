"""Take the pictures of the console that the documentation shows, from a real gateway, its servers and a day of work.

python tests/browser/pictures.py                  # those that a page of docs/ shows, into docs/pictures
python tests/browser/pictures.py --folder FOLDER  # one of every page that there is
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2

from pml_console.site import GET

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from conftest import CHROMIUM, META, PATIENCE_MS, REVISION, address_in  # noqa: E402

DOCS = HERE.parents[1] / "docs"
SKEWED = HERE.parent / "kill" / "skewed_gateway.py"
SHOWN = re.compile(r"pictures/console-([\w-]+)\.webp")
ASKED = re.compile(r"approval_id\W+([\w-]+)")
WIDTH, TALLEST, MARGIN, QUALITY = 1280, 960, 16, 75
HOUR_S = 3600
PLANS = "/plans"
THINGS = "main :is(h1, p, tr, article, svg, dl, pre, form, section)"
LAST_WHOLE = f"""tallest => Math.max(...[...document.querySelectorAll('{THINGS}')]
    .map(one => one.getBoundingClientRect().bottom).filter(bottom => bottom <= tallest))"""
"""Where the last thing ends that the picture has room for."""
CONFIG = """
[gateway]
tools_exposure = "meta_only"

[plugins.http.tokens]
support-agent = "support-agent"
billing-agent = "billing-agent"

[plugins.http.tokens.ada]
token = "ada"
scopes = ["approve", "system"]

[plugins.costs.tools."mail:*"]
per_call_usd = 0.004

[plugins.costs.tools."shop:*"]
per_call_usd = 0.012

[plugins.schedules.schedules.digest]
cron = "0 7 * * MON-FRI"
time_zone = "Europe/Berlin"
tool = "reports:publish"
arguments = { report = "W47" }

[plugins.schedules.schedules.stock]
every_s = 21600
tool = "shop:stock"
arguments = { article = "K-100" }

[servers.warehouse]
command = "warehouse-mcp"
"""
SERVER = "\n[servers.{name}]\ncommand = {python}\nargs = [{office}, {quoted}]\n"
TRIAGE = [
    {"id": "tickets", "tool": "tickets:list_tickets", "arguments": {"status": "open"}},
    {"id": "mails", "tool": "mail:search_mail", "arguments": {"query": "refund"}},
    {"id": "orders", "tool": "shop:query_orders", "arguments": {"query": "paid twice"}},
    {"id": "late", "tool": "shop:query_orders", "arguments": {"query": "not delivered"}},
    {"id": "answer", "tool": "mail:send_mail", "depends_on": ["mails"],
     "arguments": {"to": "lin@example.com", "body": "Order {{orders[0].id}} was charged twice. We pay it back."}},
    {"id": "note", "tool": "tickets:comment",
     "arguments": {"ticket": "{{tickets[0].id}}", "text": "Answered; see {{orders[0].id}}"}},
    {"id": "ask", "tool": "tickets:comment",
     "arguments": {"ticket": "{{tickets[1].id}}", "text": "The carrier is asked about {{late[1].id}}"}},
]  # fmt: skip

REFUND = {"id": "refund", "tool": "shop:refund", "arguments": {"order": "A-2071", "amount": 84.5}}
SUM = {
    "id": "sum",
    "type": "code_execution",
    "language": "python",
    "tools": ["shop:query_orders"],
    "inputs": {"status": "paid twice"},
    "code": """orders = await tools.shop.query_orders(query=status)
return sum(order["total"] for order in orders)""",
}


class Gateway:
    """One that serves over HTTP, and agents that ask it."""

    def __init__(self, url):
        self.url = url

    def call(self, agent, name, arguments):
        meta = {**META, "io.modelcontextprotocol/clientInfo": {"name": agent, "version": "1"}}
        params = {"name": name, "arguments": arguments, "_meta": meta}
        headers = {
            "authorization": f"Bearer {agent}",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": REVISION,
            "mcp-method": "tools/call",
            "mcp-name": name,
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = httpx2.post(f"{self.url}/mcp", json=message, headers=headers, timeout=PATIENCE_MS / 1000)
        answer.raise_for_status()
        return answer.text

    def plan(self, intent, *tasks, agent="support-agent", **options):
        return self.call(agent, "execute_workflow", {"intent": intent, "workflow": {"tasks": [*tasks]}, **options})

    def tool(self, agent, tool, **arguments):
        return self.call(agent, "call_tool", {"name": tool, "arguments": arguments})


@contextmanager
def gateway(folder, hours_ago=0):
    """One whose clock is that many hours behind; all of them share what they keep."""
    config, said = folder / "pml.toml", folder / f"log-{hours_ago}.txt"
    python, office = json.dumps(sys.executable), json.dumps(str(HERE / "office.py"))
    servers = [
        SERVER.format(name=name, quoted=json.dumps(name), python=python, office=office)
        for name in ("tickets", "shop", "mail", "reports")
    ]
    config.write_text(CONFIG + "".join(servers), encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
    environment = {**kept, "PML_HOME": str(folder / "home")}
    clock = [str(SKEWED), str(-hours_ago * HOUR_S), socket.gethostname()]
    command = [sys.executable, *clock, "serve", "--config", str(config), "--http", "127.0.0.1:0"]
    with said.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stderr=log, stdout=log)
        try:
            yield Gateway(address_in(said, process))
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
            process.wait()


def night(folder):
    """What agents did while everybody slept."""
    with gateway(folder, hours_ago=8) as then:
        then.plan("answer the open questions of customers", *TRIAGE)
        then.tool("billing-agent", "shop:query_orders", query="everything")
        then.plan("sum of orders with a status", SUM, agent="billing-agent")
        then.tool("billing-agent", "mail:send_mail", to="sam@exampel.com", body="Your invoice is attached.")
    with gateway(folder, hours_ago=3) as then:
        then.tool("support-agent", "shop:stock", article="K-100")
        then.plan("answer the open questions of customers", *TRIAGE[:3])
        then.tool("billing-agent", "mail:send_mail", to="sam@exampel.com", body="Your invoice, once more.")
        then.tool("support-agent", "warehouse:pick", order="A-2074")
        close = {"id": "close", "tool": "tickets:close_ticket", "arguments": {"ticket": "T-312"}}
        (asked,) = set(ASKED.findall(then.plan("tidy up answered tickets", close)))
        then.call("ada", "answer_approval", {"approval_id": asked, "approve": True})


def morning(now):
    """What they do while somebody looks: two questions to a human, and one tool that takes its time."""
    paid = {**REFUND, "depends_on": ["orders"]}
    now.plan("pay back what was charged twice", TRIAGE[2], paid, agent="billing-agent")
    now.plan("sum of orders with a status", SUM, agent="billing-agent")
    close = {"id": "close", "tool": "tickets:close_ticket", "arguments": {"ticket": "T-315"}}
    now.plan("tidy up answered tickets", close)
    now.plan("answer the open questions of customers", *TRIAGE, dry_run=True)
    now.plan("answer the open questions of customers", *TRIAGE)

    def build():
        with suppress(httpx2.HTTPError):  # the gateway stops before it is built
            now.plan("sales of this week", {"id": "report", "tool": "reports:build", "arguments": {"week": "2026-W48"}})

    threading.Thread(target=build, daemon=True).start()


def taken(page):
    """A picture of what the page shows, as WebP."""
    whole = page.evaluate("document.documentElement.scrollHeight") <= TALLEST
    height = page.evaluate(LAST_WHOLE, TALLEST) + (MARGIN if whole else 0)
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1}
    session = page.context.new_cdp_session(page)
    given = session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY, "clip": clip})
    return base64.b64decode(given["data"])


def pages(page):
    """Name and path of every page that needs no choice, of one execution and of one tool."""
    for path in GET:
        if "{" not in path:
            yield path.strip("/").replace("/", "-") or "now", path
    page.goto("/console/history")
    link = page.locator("td.what a", has_text="answer the open questions").first.get_attribute("href")
    yield "execution", link.removeprefix("/console")
    yield "tool", "/tools/shop:refund"
    yield "search", "/tools?query=pay+money+back"


def pictures(folder):
    """Name and picture of every page.

    Raises:
        RuntimeError: A page answers with an error.
    """
    from playwright.sync_api import sync_playwright

    night(folder)
    with gateway(folder) as now, sync_playwright() as playwright:
        morning(now)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(
            base_url=now.url, color_scheme="light", locale="en-GB",
            timezone_id="Europe/Berlin", viewport={"width": WIDTH, "height": TALLEST},
        )  # fmt: skip
        page.set_default_timeout(PATIENCE_MS)
        page.goto("/console/login")
        page.fill("#token", "ada")
        page.click("main button")
        page.wait_for_url("**/console/")
        page.locator("td.what", has_text="sales of this week").first.wait_for()
        for name, path in [*pages(page)]:
            answer = page.goto(f"/console{path}", wait_until="domcontentloaded")
            if answer is None or not answer.ok:
                raise RuntimeError(f"/console{path} answers with {answer and answer.status}")
            page.locator("h1").first.wait_for()
            yield name, taken(page)
        if PLANS in GET:
            yield "rehearsal", rehearsed(page)
        browser.close()


def rehearsed(page):
    """A plan as text, with what a rehearsal finds: one argument is misspelt, one step has to be approved."""
    typo = {"id": "stock", "tool": "shop:stock", "arguments": {"artikel": "K-100"}}
    plan = {"intent": "pay back what was charged twice", "workflow": {"tasks": [TRIAGE[2], REFUND, typo]}}
    page.goto(f"/console{PLANS}")
    page.fill("textarea", json.dumps(plan, indent=1))
    page.click("button:has-text('Rehearse')")
    page.locator(".finding").first.wait_for()
    return taken(page)


def shown():
    """Names of those that pages of the documentation show."""
    every = [path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")]
    return {name for text in every for name in SHOWN.findall(text)}


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="where a picture of every page goes, shown or not")
    folder = parser.parse_args().folder
    wanted, others = shown(), []
    with tempfile.TemporaryDirectory(prefix="pml-") as work:
        for name, picture in pictures(Path(work)):
            wanted.discard(name)
            if folder is None and name not in shown():
                others.append(name)
                continue
            (folder or DOCS / "pictures").joinpath(f"console-{name}.webp").write_bytes(picture)
    if others:
        print(f"There are pages that no guide shows: {', '.join(others)}")
    if wanted:
        sys.exit(f"Guides show pages that there are not: {', '.join(sorted(wanted))}")


if __name__ == "__main__":
    main()
