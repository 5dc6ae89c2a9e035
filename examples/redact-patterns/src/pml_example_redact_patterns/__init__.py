"""PML hook plugin ``redact_patterns``: e-mail addresses and such reach neither servers nor clients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pml_hookspecs import Phase, ToolCall, hookimpl, setting

from .cleaning import Cleaner

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
    """Cleans all calls of tools, those of code and workflows as well. Implements :class:`pml_hookspecs.Wrapper`.

    Of results names of members are cleaned too. Those of arguments stay, because tools know arguments by their names.
    """

    phase = Phase.ADAPT

    def __init__(self, settings: Settings) -> None:
        """Raises ValueError for what is no regular expression; the gateway then says so and goes without."""
        self._settings, self._clean = settings, Cleaner(settings.patterns).clean

    async def __call__(self, task: Task, run: Run, call_next: CallNext) -> Outcome:
        if not isinstance(task, ToolCall):
            return await call_next(task, run)
        if self._settings.arguments and (given := self._clean(task.arguments, names=False)) is not task.arguments:
            task = replace(task, arguments=given)
        outcome = await call_next(task, run)
        if not self._settings.results:
            return outcome
        output, failure = self._clean(outcome.output), outcome.failure
        if failure is not None:
            failure = replace(failure, message=self._clean(failure.message), details=self._clean(failure.details))
        same = output is outcome.output and failure == outcome.failure
        return outcome if same else replace(outcome, output=output, failure=failure)


@hookimpl
def pml_wrap_executor(services: Services) -> list[Wrapper]:
    """One wrapper."""
    return [Redaction(services.settings or Settings())]
