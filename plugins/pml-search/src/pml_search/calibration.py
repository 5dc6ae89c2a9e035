"""From evidence to relevances that mean the same on every catalog, whatever other tools there are.

1. *Fit*: how well one tool fits one request, by these two alone (:mod:`pml_search.fit`): log-odds of a logistic model.
2. *Probability* that a tool is one of those needed, by its fit. Nothing in it is measured against the best tool, so it
   stays as it is when another tool may not be found.
3. *Relevance*: where several tools are plausible, each has a small probability, so thresholds on it would be of no use
   to people. The odds of the relevance are a power of the odds of the probability,
   ``odds(relevance) = (odds(probability) / EVEN) ** BEND``.

The order is that of the scores, which know the catalog: a tool is taken to be as relevant as the best of those behind
it. All numbers were set with halves of the sets that ``docs/search.md`` names. What was done before can change the
order: see :func:`with_past`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ._numpy import Array, NDArray, np

if TYPE_CHECKING:
    from .fit import Fit

COSINE, COVERED, LEAST, TOLD, NAMED, VERB, FIT_BASE = 3.6, 2.1, 0.3, 0.2, 1.25, 0.85, -5.62
LENGTH = 0.2
"""What each word of a part counts: the more is said, the less of it a tool that fits can have."""
CONFLICT = np.array((0, -1.8, -2.7, -2.3, -3.3, -1.8), np.float32)
"""What another action than the one wanted takes from the fit, in the order of
:data:`pml_search.action_conflicts.CONFLICTS`."""
SHAPED = 3.0
"""What it counts that a tool takes or gives what is asked for ("path -> text"); by hand, as no set has such queries."""
FIT, LACK, ENOUGH, BASE = 1.53, 0.9, -0.8, -2.59
"""What fit counts for the probability, and what it counts more where it is below ``ENOUGH``."""
EVEN_LOGIT = -4.55
"""Log-odds of the probability that has relevance one half: that of a fit of -1.1."""
BEND = 1.6
LIFT, LIFT_OF_RELEVANT = 0.4, 1.5
"""What the past adds at most to the log-odds of a relevance up to 0.5, which stays just below 0.6, and from 0.8 on."""


def fit(found: Fit, cosine: Array, shaped: NDArray[np.bool_]) -> Array:
    """Log-odds that tools fit, by the best part of a request.

    Args:
        found: Has a row for each part.
        cosine: Has one, too.
        shaped: Whether the tool takes or gives what the request asks for in so many words; one row.
    """
    odds = COSINE * cosine + COVERED * found.covered + LEAST * found.least + TOLD * found.told + NAMED * found.named
    odds += VERB * found.verb + CONFLICT[found.conflict] + LENGTH * found.length + FIT_BASE
    return np.asarray(odds.max(axis=0) + SHAPED * shaped, np.float32)


def probability(fits: Array) -> Array:
    """That tools are needed [0 to 1], never rising; ``fits`` are in the order of the scores, best first."""
    held = np.maximum.accumulate(fits[::-1])[::-1]
    logit = FIT * held + LACK * np.minimum(0, held - ENOUGH) + BASE
    return np.asarray(1 / (1 + np.exp(-logit)), np.float32)


def relevance(probability: Array) -> Array:
    """What people set thresholds on [0 to 1]: a monotone map of the probability."""
    held = np.clip(probability, 1e-9, 1 - 1e-7).astype(np.float64)
    odds = np.log(held / (1 - held))
    return np.asarray(1 / (1 + np.exp(-BEND * (odds - EVEN_LOGIT))), np.float32)


def with_past(relevance: float, past: float) -> float:
    """``relevance`` with what was done before, ``past``, both in [0, 1].

    Among tools that fit, the past decides between those that fit about as well. What does not fit it lifts but little:
    a relevance below 0.5 stays below the usual threshold of 0.6.
    """
    held = min(1 - 1e-7, max(1e-9, relevance))
    fits = min(1.0, max(0.0, (relevance - 0.5) / 0.3))
    lift = LIFT + (LIFT_OF_RELEVANT - LIFT) * fits
    return 1 / (1 + math.exp(-math.log(held / (1 - held)) - lift * past))
