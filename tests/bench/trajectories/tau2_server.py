"""The shop of the retail domain of tau2-bench: its tools over its ``db.json``, written anew after its rules.

python tau2_server.py --data DIR [--control SOCKET]
"""

from __future__ import annotations

import copy
import json
import math
import re
from pathlib import Path
from typing import Any

from stdio_server import Server, ToolError, arguments, definition

TEXT = {"type": "string"}
ORDER = {"type": "string", "description": "Id of the order, with the '#' at its beginning, such as '#W0000000'."}
ITEMS = {"type": "array", "items": TEXT, "description": "Ids of items of the order; one that is in it twice, twice."}
NEW_ITEMS = {
    "type": "array",
    "items": TEXT,
    "description": "Ids of the items that take their places, in the same order: other variants of the same products.",
}
PAYMENT = {
    "type": "string",
    "description": "Id of a payment method in the customer's profile, such as 'gift_card_0000000'.",
}
USER = {"type": "string", "description": "Id of the customer, such as 'sara_doe_496'."}
PLACE = {
    "address1": {"type": "string", "description": "First line of the address, such as '123 Main St'."},
    "address2": {"type": "string", "description": "Second line of the address, such as 'Apt 1', or ''."},
    "city": {"type": "string", "description": "City, such as 'San Francisco'."},
    "state": {"type": "string", "description": "State, such as 'CA'."},
    "country": {"type": "string", "description": "Country, such as 'USA'."},
    "zip": {"type": "string", "description": "Zip code, such as '12345'."},
}
AGREED = "Say to the customer what will be done and have an explicit yes first. "
READS = {
    "calculate": (
        "Work out an arithmetic expression.",
        {"expression": {"type": "string", "description": "Numbers, + - * / ( ) and spaces, such as '2 + 2'."}},
    ),
    "find_user_id_by_email": ("Find the id of a customer by mail address.", {"email": TEXT}),
    "find_user_id_by_name_zip": (
        "Find the id of a customer by name and zip code, where the customer cannot remember the mail address.",
        {"first_name": TEXT, "last_name": TEXT, "zip": TEXT},
    ),
    "get_item_details": ("Tell price, options and availability of one variant of a product.", {"item_id": TEXT}),
    "get_order_details": ("Tell status, items, address, payments and deliveries of an order.", {"order_id": ORDER}),
    "get_product_details": (
        "Tell all variants of a product, with their prices, options and availability.",
        {"product_id": {"type": "string", "description": "Id of the product, which is not the id of an item."}},
    ),
    "get_user_details": ("Tell name, address, payment methods and orders of a customer.", {"user_id": USER}),
    "list_all_product_types": ("List names and ids of all products; each has variants with ids of their own.", {}),
    "transfer_to_human_agents": (
        "Hand the customer over to a human. Only where the customer asks for one and the tools cannot solve it.",
        {"summary": {"type": "string", "description": "What it is about."}},
    ),
}
"""Descriptions and parameters of the tools that change nothing."""
WRITES = {
    "cancel_pending_order": (
        f"Cancel a pending order, with the money back: to a gift card at once, else within a week. {AGREED}",
        {"order_id": ORDER, "reason": {"enum": ["no longer needed", "ordered by mistake"]}}),
    "exchange_delivered_order_items": (
        f"Exchange items of a delivered order for variants of the same products. Once for each order. {AGREED}",
        {"order_id": ORDER, "item_ids": ITEMS, "new_item_ids": NEW_ITEMS, "payment_method_id": PAYMENT}),
    "modify_pending_order_address": (
        f"Change the address that a pending order goes to. {AGREED}", {"order_id": ORDER, **PLACE}),
    "modify_pending_order_items": (
        f"Exchange items of a pending order for variants of the same products. Once for each order. {AGREED}",
        {"order_id": ORDER, "item_ids": ITEMS, "new_item_ids": NEW_ITEMS, "payment_method_id": PAYMENT}),
    "modify_pending_order_payment": (
        f"Change how a pending order is paid. {AGREED}", {"order_id": ORDER, "payment_method_id": PAYMENT}),
    "modify_user_address": (f"Change the address in a customer's profile. {AGREED}", {"user_id": USER, **PLACE}),
    "return_delivered_order_items": (
        f"Return items of a delivered order, with the money back as it was paid, or to a gift card. {AGREED}",
        {"order_id": ORDER, "item_ids": ITEMS, "payment_method_id": PAYMENT}),
}  # fmt: skip
"""Of those that change the shop."""
OPTIONAL = (
    "cancel_reason", "exchange_items", "exchange_new_items", "exchange_payment_method_id", "exchange_price_difference",
    "return_items", "return_payment_method_id",
)  # fmt: skip
"""Members of an order that are null until something happens."""
ARITHMETIC = re.compile(r"[\d+\-*/(). ]+")


class Shop:
    """The database, and what may be done with it."""

    def __init__(self, folder: Path) -> None:
        self._whole = json.loads((folder / "db.json").read_text("utf-8"))
        self._all = copy.deepcopy(self._whole)

    def definitions(self):
        reading = [definition(name, words, takes, reads=True) for name, (words, takes) in READS.items()]
        return reading + [definition(name, words, takes, reads=False) for name, (words, takes) in WRITES.items()]

    def call(self, name, given):
        if name not in READS and name not in WRITES:
            raise ToolError(f"Tool '{name}' not found")
        try:
            found = getattr(self, name)(**given)
        except TypeError as exc:
            raise ToolError(str(exc)) from exc
        return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)

    def reset(self, to):
        for kind, changed in self.state().items():
            self._all[kind] |= {key: copy.deepcopy(self._whole[kind][key]) for key in changed}

    def state(self):
        return {
            kind: {key: one for key, one in entries.items() if one != self._whole[kind].get(key)}
            for kind, entries in self._all.items()
        }

    # What is looked up

    def _one(self, kind: str, key: str) -> dict[str, Any]:
        found = self._all[f"{kind}s"].get(key)
        if found is None:
            raise ToolError(f"{kind.capitalize()} not found")
        return found

    def _method(self, order: dict[str, Any], key: str) -> dict[str, Any]:
        found = self._one("user", order["user_id"])["payment_methods"].get(key)
        if found is None:
            raise ToolError("Payment method not found")
        return found

    def _open(self, order_id: str, status: str, deed: str) -> dict[str, Any]:
        order = self._one("order", order_id)
        if order["status"] != status:
            raise ToolError(f"Non-{status} order cannot be {deed}")
        return order

    def _pending(self, order_id: str) -> dict[str, Any]:
        order = self._one("order", order_id)
        if "pending" not in order["status"]:
            raise ToolError("Non-pending order cannot be modified")
        return order

    def calculate(self, expression):
        if not ARITHMETIC.fullmatch(expression):
            raise ToolError("Invalid characters in expression")
        try:
            return str(round(float(eval(expression, {"__builtins__": None}, {})), 2))
        except (SyntaxError, ArithmeticError) as exc:
            raise ToolError(str(exc)) from exc

    def find_user_id_by_email(self, email):
        return self._user_id(lambda user: user["email"].lower() == email.lower())

    def find_user_id_by_name_zip(self, first_name, last_name, zip):
        names = (first_name.lower(), last_name.lower(), zip)

        def fits(user):
            first, last = user["name"]["first_name"], user["name"]["last_name"]
            return (first.lower(), last.lower(), user["address"]["zip"]) == names

        return self._user_id(fits)

    def _user_id(self, fits) -> str:
        found = next((key for key, user in self._all["users"].items() if fits(user)), None)
        if found is None:
            raise ToolError("User not found")
        return found

    def get_item_details(self, item_id):
        for product in self._all["products"].values():
            if item_id in product["variants"]:
                return product["variants"][item_id]
        raise ToolError("Item not found")

    def get_order_details(self, order_id):
        return shown(self._one("order", order_id))

    def get_product_details(self, product_id):
        return self._one("product", product_id)

    def get_user_details(self, user_id):
        return self._one("user", user_id)

    def list_all_product_types(self):
        found = {product["name"]: product["product_id"] for product in self._all["products"].values()}
        return json.dumps(found, sort_keys=True)

    def transfer_to_human_agents(self, summary):
        return "Transfer successful"

    # What is changed

    def cancel_pending_order(self, order_id, reason):
        order = self._open(order_id, "pending", "cancelled")
        if reason not in WRITES["cancel_pending_order"][1]["reason"]["enum"]:
            raise ToolError("Invalid reason")
        backs = []
        for paid in order["payment_history"]:
            self._credit(self._method(order, paid["payment_method_id"]), paid["amount"])
            backs.append({**paid, "transaction_type": "refund"})
        order["payment_history"] += backs
        order |= {"status": "cancelled", "cancel_reason": reason}
        return shown(order)

    def _credit(self, method: dict[str, Any], amount: float) -> None:
        if method["source"] == "gift_card":
            method["balance"] = round(method["balance"] + amount, 2)

    def _pairs(self, order, item_ids, new_item_ids):
        """Of each exchange the item as it is, and the variant that takes its place."""
        there = [item["item_id"] for item in order["items"]]
        for key in item_ids:
            if item_ids.count(key) > there.count(key):
                raise ToolError(f"Number of {key} not found.")
        if len(item_ids) != len(new_item_ids):
            raise ToolError("The number of items to be exchanged should match.")
        for old, new in zip(item_ids, new_item_ids, strict=True):
            item = next(item for item in order["items"] if item["item_id"] == old)
            variant = self._one("product", item["product_id"])["variants"].get(new)
            if variant is None or not variant["available"]:
                raise ToolError(f"New item {new} not found or available")
            yield item, variant

    def _can_pay(self, method: dict[str, Any], amount: float) -> None:
        if method["source"] == "gift_card" and method["balance"] < amount:
            raise ToolError("Insufficient gift card balance")

    def exchange_delivered_order_items(self, order_id, item_ids, new_item_ids, payment_method_id):
        order = self._open(order_id, "delivered", "exchanged")
        pairs = self._pairs(order, item_ids, new_item_ids)
        more = round(sum(variant["price"] - item["price"] for item, variant in pairs), 2)
        self._can_pay(self._method(order, payment_method_id), more)
        order |= {
            "status": "exchange requested",
            "exchange_items": sorted(item_ids),
            "exchange_new_items": sorted(new_item_ids),
            "exchange_payment_method_id": payment_method_id,
            "exchange_price_difference": more,
        }
        return shown(order)

    def modify_pending_order_items(self, order_id, item_ids, new_item_ids, payment_method_id):
        order = self._open(order_id, "pending", "modified")
        if any(old == new for old, new in zip(item_ids, new_item_ids, strict=False)):
            raise ToolError("The new item id should be different from the old item id")
        pairs = list(self._pairs(order, item_ids, new_item_ids))
        more = sum(variant["price"] - item["price"] for item, variant in pairs)
        method = self._method(order, payment_method_id)
        self._can_pay(method, more)
        kind = "payment" if more > 0 else "refund"
        order["payment_history"].append(
            {"transaction_type": kind, "amount": abs(more), "payment_method_id": payment_method_id}
        )
        self._credit(method, -more)
        # The original gives every item price and options of the last variant; end states have to be comparable.
        last = pairs[-1][1]
        for old, new in zip(item_ids, new_item_ids, strict=True):
            item = next(item for item in order["items"] if item["item_id"] == old)
            item |= {"item_id": new, "price": last["price"], "options": copy.deepcopy(last["options"])}
        order["status"] = "pending (item modified)"
        return shown(order)

    def modify_pending_order_address(self, order_id, **place):
        order = self._pending(order_id)
        order["address"] = self._place(place)
        return shown(order)

    def modify_user_address(self, user_id, **place):
        user = self._one("user", user_id)
        user["address"] = self._place(place)
        return user

    def _place(self, place: dict[str, str]) -> dict[str, str]:
        if set(place) != set(PLACE):
            raise TypeError(f"an address has {', '.join(PLACE)}")
        return {name: place[name] for name in PLACE}

    def modify_pending_order_payment(self, order_id, payment_method_id):
        order = self._pending(order_id)
        method, history = self._method(order, payment_method_id), order["payment_history"]
        if len(history) != 1 or history[0]["transaction_type"] != "payment":
            raise ToolError("There should be exactly one payment for a pending order")
        before, amount = history[0]["payment_method_id"], history[0]["amount"]
        if before == payment_method_id:
            raise ToolError("The new payment method should be different from the current one")
        self._can_pay(method, amount)
        for kind, key, sign in (("payment", payment_method_id, -1), ("refund", before, 1)):
            history.append({"transaction_type": kind, "amount": amount, "payment_method_id": key})
            self._credit(self._method(order, key), math.copysign(amount, sign))
        return shown(order)

    def return_delivered_order_items(self, order_id, item_ids, payment_method_id):
        order = self._open(order_id, "delivered", "returned")
        method = self._method(order, payment_method_id)
        if method["source"] != "gift_card" and payment_method_id != order["payment_history"][0]["payment_method_id"]:
            raise ToolError("Payment method should be the original payment method")
        there = [item["item_id"] for item in order["items"]]
        if any(item_ids.count(key) > there.count(key) for key in item_ids):
            raise ToolError("Some item not found")
        order |= {
            "status": "return requested",
            "return_items": sorted(item_ids),
            "return_payment_method_id": payment_method_id,
        }
        return shown(order)


def shown(order: dict[str, Any]) -> dict[str, Any]:
    """An order as its tools answer with it: with every member that it can have."""
    return order | {name: order.get(name) for name in OPTIONAL}


if __name__ == "__main__":
    given = arguments(data="folder with db.json")
    Server("retail", Shop(Path(given.data))).serve(given.control)
