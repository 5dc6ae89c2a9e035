"""The hook plugin ``dry_run``: rehearses tasks, and keeps what real calls returned for that."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Offer, hookimpl
from pml_kit.offers import RECORDED_ANSWERS
from pml_kit.shared import GatewayParts

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services, Wrapper

    from .recorder import Recorder
    from .recordings import Recordings
    from .wrapper import DryRun

settings_type = Settings


@dataclass(frozen=True, slots=True)
class PluginParts:
    """The parts that this plugin made for one gateway."""

    recordings: Recordings
    recorder: Recorder
    dry_run: DryRun


def _made(services: Services) -> PluginParts:
    from .outputs import Outputs
    from .recorder import Recorder
    from .recording_writer import RecordingWriter
    from .recordings import Recordings
    from .wrapper import DryRun

    settings: Settings = services.settings or Settings()
    recordings = Recordings(services, settings)
    writing = RecordingWriter(services, settings, recordings)
    outputs = Outputs(services, settings, recordings, writing)
    recorder = Recorder(services, settings, writing, outputs)
    recordings.written = recorder.written
    return PluginParts(recordings, recorder, DryRun(services, settings, recordings, outputs))


parts_of = GatewayParts(_made)


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    """What is on record, for whoever tells of plans."""
    return [Offer(RECORDED_ANSWERS, parts_of(services).recordings)]


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    """What answers in a rehearsal, and what keeps the answers of real calls."""
    parts = parts_of(services)
    return [parts.dry_run, parts.recorder]


@hookimpl
def pml_lifespan(services: Services) -> Iterable[AbstractAsyncContextManager[None]]:
    """Calls are recorded while the gateway is up."""
    return [parts_of(services).recorder.open()]


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml recordings``."""
    from .commands import add

    add(subcommands)
