"""What the tests of the configuration load with."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pml_hookspecs import setting
from pml_kit.errors import OperatorError
from pml_settings.config import load

HARMLESS = "gateway.log_level='info'"
"""An override that says the default: takes the long way through pydantic and changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hybrid:
    """Settings of a plugin of the tests."""

    max_underlying_tools: int = setting(50, "Most tools.", ge=0)
    whitelisted_tools: tuple[str, ...] = setting((), "Always shown.")
    label: str = setting("", "Text.")
    blank: dict[str, str] = setting(dict, "A table.")


def refusal(*arguments, **options) -> str:
    """Why such a configuration is refused."""
    with pytest.raises(OperatorError) as caught:
        load(*arguments, **options)
    return str(caught.value)
