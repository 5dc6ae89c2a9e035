"""``[plugins.approvals]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pml_hookspecs import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What needs a human's word."""

    effects: Literal["none", "declared", "unknown", "writes"] = setting(
        "declared",
        "Which tools need approval by what they say of themselves: none; those that say that they destroy (declared); "
        "also those that say neither that they only read nor that they destroy nothing (unknown); or all that do not "
        "say that they only read (writes).",
    )
    scope: Literal["plans", "everywhere"] = setting(
        "plans",
        "Where: in workflows, code, capabilities and what a meta-tool calls, as clients ask their humans about calls "
        "that they make themselves; or everywhere.",
    )
    require: tuple[str, ...] = setting(
        (),
        "What always needs approval, by pattern: tools ('mail:send_*'), or else ('files:@resource/*').",
        project="add",
    )
    trust: tuple[str, ...] = setting((), "Tools that never do, by pattern; 'require' wins.")
    ask_client: bool = setting(
        default=True, description="Ask through the client where it can ask its human; else only pml approvals answers."
    )
    wait_s: float = setting(
        45.0,
        "How long a call that its client's human does not answer waits for an answer from elsewhere, if somebody has "
        "looked at what waits in the last half minute or the same was asked before [s]; many clients give up after 60.",
        ge=0,
    )
    kept_s: float = setting(
        2_592_000.0, "How long a request that was answered and used is kept, to compare later ones with [s].", ge=1
    )
    expires_s: float = setting(86_400.0, "How long a request waits and an approval is good [s].", ge=1)
