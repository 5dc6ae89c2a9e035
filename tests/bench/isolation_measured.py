"""What was measured of an attempt to get out."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest that ``percent`` of the values are not above."""
    return sorted(values)[max(-(-len(values) * percent // 100) - 1, 0)]


@dataclass
class Round:
    """What calls took [ms]."""

    alone: list[float] = field(default_factory=list)
    """With nothing else going on, just before."""
    during: list[float] = field(default_factory=list)
    """While the attempt was made."""


@dataclass
class Measured:
    """One attempt, made again and again."""

    rounds: list[Round] = field(default_factory=list)
    escaped: list[str] = field(default_factory=list)
    """What got out."""
    attempts: int = 0
    """How often it was made."""

    @property
    def alone_ms(self) -> list[float]:
        """Of all rounds."""
        return [value for each in self.rounds for value in each.alone]

    @property
    def during_ms(self) -> list[float]:
        """Of all rounds."""
        return [value for each in self.rounds for value in each.during]

    def ratio(self, percent: int) -> float:
        """Of the two percentiles; the median of all rounds, as the machine may have had something else to do in one."""
        return statistics.median(
            percentile(each.during, percent) / percentile(each.alone, percent)
            for each in self.rounds
            if each.alone and each.during
        )
