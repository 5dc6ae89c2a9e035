"""The servers of a small shop, for pictures: ``office.py NAME`` is that server, on standard input and output."""

from __future__ import annotations

import json
import sys
import threading
import time

READ, DESTROY, WRITE = {"readOnlyHint": True}, {"destructiveHint": True}, {"destructiveHint": False}


def tool(name, description, hints, **parameters):
    properties = {key: {"type": kind, "description": about} for key, (kind, about) in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": [*properties][:1]}
    return {"name": name, "description": description, "inputSchema": schema, "annotations": hints}


ORDERS = [
    {"id": "A-2071", "customer": "Lin Chen", "total": 84.5, "status": "paid twice"},
    {"id": "A-2074", "customer": "Sam Okoye", "total": 129.0, "status": "not delivered"},
    {"id": "A-2080", "customer": "Ida Berg", "total": 19.9, "status": "returned"},
]
TOOLS = {
    "tickets": [
        tool(
            "list_tickets", "Lists tickets by status, newest first", READ, status=("string", "open, waiting or closed")
        ),
        tool(
            "comment", "Adds a comment to a ticket", WRITE, ticket=("string", "its id"), text=("string", "what to say")
        ),
        tool("close_ticket", "Closes a ticket for good", DESTROY, ticket=("string", "its id")),
    ],
    "shop": [
        tool("query_orders", "Finds orders by customer, status or day", READ, query=("string", "words or a status")),
        tool(
            "refund",
            "Pays an order back to its customer",
            DESTROY,
            order=("string", "its id"),
            amount=("number", "EUR"),
        ),
        tool("stock", "Says how many of an article there are", READ, article=("string", "its number")),
    ],
    "mail": [
        tool("search_mail", "Searches the mailbox of the team", READ, query=("string", "words")),
        tool("send_mail", "Sends a mail to one person", WRITE, to=("string", "address"), body=("string", "the text")),
    ],
    "reports": [
        tool("build", "Builds the sales report of a week", READ, week=("string", "such as 2026-W48")),
        tool("publish", "Puts a report where everybody sees it", WRITE, report=("string", "its id")),
    ],
}
LASTS_S = {"build": 90, "search_mail": 0.6, "query_orders": 0.4, "send_mail": 0.3, "list_tickets": 0.25}
"""How long tools take; the others answer at once."""


def answer(name, arguments):
    """The text of a result, and whether it is an error."""
    if name == "query_orders" and arguments.get("query") == "everything":
        return "query too broad: 48,211 orders; give a status, a customer or a day", True
    if name == "send_mail" and not arguments.get("to", "").endswith("example.com"):
        return f"550 no such mailbox: {arguments.get('to')}", True
    return ANSWERS.get(name, {"done": name, **arguments}), False


TITLES = [(311, "Charged twice"), (312, "Parcel is late"), (315, "Wrong size"), (318, "Invoice has no VAT number")]

ANSWERS = {
    "list_tickets": [{"id": f"T-{number}", "title": title} for number, title in TITLES],
    "query_orders": ORDERS,
    "search_mail": [{"from": "lin@example.com", "subject": "Charged twice for A-2071"}],
    "build": {"id": "W48", "rows": 1204},
}


def respond(name, message):
    method, params = message["method"], message.get("params", {})
    result = {}
    if method == "initialize":
        about = {"name": name, "version": "1"}
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    elif method == "tools/list":
        result = {"tools": TOOLS[name]}
    elif method == "tools/call":
        time.sleep(LASTS_S.get(params["name"], 0.05))
        said, wrong = answer(params["name"], params.get("arguments") or {})
        text = said if isinstance(said, str) else json.dumps(said)
        result = {"content": [{"type": "text", "text": text}], "isError": wrong}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


if __name__ == "__main__":
    for line in sys.stdin:
        told = json.loads(line)
        if "id" in told:
            threading.Thread(target=respond, args=(sys.argv[1], told), daemon=True).start()
