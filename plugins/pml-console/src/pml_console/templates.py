"""Templates, and how values are written in them."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

UNKNOWN = "\N{EN DASH}"
MINUTE_S = HOUR_MIN = 60
MOST_CHARACTERS = 20_000
"""Of one value that are shown; a page with more is of no use to anybody."""


class Templates:
    """The templates of this package. What stands in them is text, unless it says otherwise here."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("pml_console"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
            lstrip_blocks=True,
        )  # fmt: skip
        self._environment.filters |= {
            "duration": duration, "money": money, "moment": moment, "pretty": pretty, "count": count,
        }  # fmt: skip

    def render(self, name: str, **values: Any) -> str:
        """The page."""
        return self._environment.get_template(name).render(**values)


def duration(seconds: float | None) -> str:
    """Such as ``340 ms``, ``2.4 s``, ``3 min 5 s``, ``2 h 10 min``; a dash where it is not known."""
    if seconds is None:
        return UNKNOWN
    if seconds < 1:
        return f"{round(1000 * seconds)} ms"
    if seconds < MINUTE_S:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), MINUTE_S)
    if minutes < HOUR_MIN:
        return f"{minutes} min {rest} s"
    return f"{minutes // HOUR_MIN} h {minutes % HOUR_MIN} min"


def money(usd: float | None) -> str:
    """Such as ``$0.0125``; a dash where it is not known."""
    if usd is None:
        return UNKNOWN
    return f"${usd:,.2f}" if usd == 0 or usd >= 1 else f"${usd:.4f}"


def count(number: float) -> str:
    """With commas."""
    return f"{number:,}"


def moment(at: str | datetime | None) -> Markup:
    """A time in UTC, which the page's script shows in the reader's own zone; a dash for none."""
    if at is None:
        return Markup(UNKNOWN)  # noqa: S704 - a constant
    text = at.isoformat() if isinstance(at, datetime) else at
    shown = text[:19].replace("T", " ")
    return Markup('<time datetime="{}">{} UTC</time>').format(text, shown)


def pretty(value: Any) -> str:
    """JSON to read, cut where it is too long."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[:MOST_CHARACTERS]}\n… {len(text) - MOST_CHARACTERS:,} more characters: pml executions show"
