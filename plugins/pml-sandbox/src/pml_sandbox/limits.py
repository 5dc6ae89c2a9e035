"""What one run of code may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one run of code may use."""

    timeout_s: float = 30.0
    """For code that does not say itself [s]."""
    memory_bytes: int = 512 << 20
    """Resident memory of the process [bytes]."""
    max_calls: int = 1000
    """Tool calls in all."""
    max_in_flight: int = 64
    """Tool calls under way at once."""
    frame_bytes: int = 8 << 20
    """One message between gateway and code: inputs, arguments, a result [bytes]."""
    output_bytes: int = 1 << 20
    """What is kept of each stream that the code prints on; the rest is cut off [bytes]."""
    flood_factor: int = 8
    """Code that prints so many times as much is stopped."""
