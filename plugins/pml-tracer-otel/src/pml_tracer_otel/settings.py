"""``[plugins.otel]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pml_hookspecs import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What ``[plugins.otel]`` may say. What it does not say, the standard ``OTEL_*`` environment variables do."""

    endpoint: str = setting("", "Collector's base address, such as http://collector:4318; /v1/traces is added to it.")
    headers: dict[str, str] = setting(dict, "Sent with every export, such as a key of the service.", secret=True)
    protocol: Literal["", "http/protobuf", "grpc"] = setting(
        "", "How to speak with the collector; http/protobuf if nothing says otherwise."
    )
    service_name: str = setting("", "What the gateway is called in traces; pml if nothing says otherwise.")
    resource: dict[str, str] = setting(dict, "Further attributes of the gateway, such as deployment.environment.name.")
    traces: bool | None = setting(None, "Whether spans are exported.")
    metrics: bool | None = setting(None, "Whether metrics are exported.")
    prometheus: bool = setting(
        default=True, description="Whether HTTP listeners serve metrics at /metrics and /otel/metrics."
    )
    sample_ratio: float | None = setting(
        None, "Part of the traces that are kept, from 0 to 1, where no client has decided; all of them.", ge=0, le=1
    )
    follow_clients: bool = setting(
        default=True, description="Whether a client's trace goes on here; otherwise a new one begins, linked to it."
    )
    propagate: bool = setting(default=True, description="Whether servers are told the trace that a call belongs to.")
    arguments: bool = setting(
        default=False, description="Whether spans have the arguments of tool calls; known secrets are taken out."
    )
    arguments_bytes: int = setting(4096, "Longest arguments kept whole [bytes of JSON]; more is cut off.", ge=16)
    users: bool = setting(default=False, description="Whether spans say for whom something ran (user.id).")
    buffer_spans: int | None = setting(
        None, "Most finished spans that wait for the collector; further ones are dropped and counted; 16384.", ge=1
    )
    batch_spans: int | None = setting(None, "Most spans in one export; 128.", ge=1)
    interval_s: float | None = setting(None, "Longest that a finished span waits for others [s]; 1.", ge=0.01)
    metrics_interval_s: float | None = setting(None, "How often metrics are exported [s]; 60.", ge=0.1)
    timeout_s: float | None = setting(None, "Longest that one export may take, repetitions in it [s]; 10.", ge=0.1)
    exit_s: float = setting(3.0, "Longest that the end of the gateway waits for the last exports [s].", ge=0, le=4.5)
