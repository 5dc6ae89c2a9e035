"""PML hook plugin ``redact_patterns``: e-mail addresses and such reach neither servers nor clients."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Phase, ServerRequest, ToolCall, hookimpl, replace, setting

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, Outcome, Run, Services, Task, Wrapper

# The look behind keeps a long text without an @, such as an image, from being searched from each of its characters.
E_MAIL = r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The table ``[plugins.redact_patterns]``."""

    patterns: dict[str, str] = setting(lambda: {"e-mail": E_MAIL}, "Name to regular expression; matches become [name].")
    arguments: bool = setting(True, "Whether servers are to be kept from it.")
    results: bool = setting(True, "Whether clients, the history and recordings are to be kept from it.")


settings_type = Settings  # what the gateway reads [plugins.redact_patterns] with


class Redaction:
    """Cleans all calls of tools, those of code and workflows too, and other requests to servers: a `Wrapper`."""

    phase = Phase.ADAPT

    def __init__(self, settings: Settings) -> None:
        """Raises ValueError for what is no regular expression; the gateway then says so and goes without."""
        self._settings, self._patterns = settings, {}
        for name, pattern in settings.patterns.items():
            try:
                self._patterns[f"[{name}]".replace("\\", r"\\")] = re.compile(pattern)
            except re.error as exc:
                raise ValueError(f"[plugins.redact_patterns] patterns.{name} is no regular expression: {exc}") from exc

    async def __call__(self, task: Task, run: Run, call_next: CallNext) -> Outcome:
        if not isinstance(task, (ToolCall, ServerRequest)):
            return await call_next(task, run)
        given = task.arguments if isinstance(task, ToolCall) and self._settings.arguments else {}
        if (arguments := self.clean(given, names=False)) != given:
            task = replace(task, arguments=arguments)
        outcome = await call_next(task, run)
        if not self._settings.results:
            return outcome
        made, failed = self.clean(outcome.output), outcome.failure
        why = failed and replace(failed, message=self.clean(failed.message), details=self.clean(failed.details))
        return outcome if (made, why) == (outcome.output, failed) else replace(outcome, output=made, failure=why)

    def clean(self, value: Any, *, names: bool = True) -> Any:
        """``value`` without what fits. ``names`` of members too: not of arguments, which tools know by their names."""
        if isinstance(value, str):
            for mark, pattern in self._patterns.items():
                value = pattern.sub(mark, value)
        if isinstance(value, list):
            return [self.clean(member, names=names) for member in value]
        if not isinstance(value, Mapping):
            return value
        made: dict[str, Any] = {}
        for name, member in value.items():
            new = self.clean(name) if names else name
            while new in made:  # two names that are the same now: no member is lost
                new = f"{new} {len(made) + 1}"
            made[new] = self.clean(member, names=names)
        return made


@hookimpl
def pml_wrap_executor(services: Services) -> list[Wrapper]:
    """One wrapper."""
    return [Redaction(services.settings or Settings())]
