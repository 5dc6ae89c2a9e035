"""Executions as JSON."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import Any

from pml_hookspecs import ExecutionRecord, Failure, Status

from .totals import RUNNING

MEMBERS = [field.name for field in fields(ExecutionRecord)]


def to_plain(record: ExecutionRecord) -> dict[str, Any]:
    """A record as JSON."""
    failure = record.failure
    told = {name: getattr(record, name) for name in MEMBERS}
    told["started_at"] = record.started_at.isoformat()
    told["failure"] = failure and [failure.code, failure.message, failure.retryable, failure.details]
    return told


def from_plain(value: dict[str, Any]) -> ExecutionRecord:
    """The record of which :func:`to_plain` made ``value``."""
    value["started_at"] = datetime.fromisoformat(value["started_at"])
    value["status"] = value["status"] if value["status"] in RUNNING else Status(value["status"])
    value["failure"] = value["failure"] and Failure(*value["failure"])
    value["tool_calls"] = tuple(value["tool_calls"])
    return ExecutionRecord(**value)
