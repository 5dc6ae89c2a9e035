"""From scores to relevances that mean the same on every catalog.

1. *Probability* that a tool is one of those needed: a logistic model of three things, all known for every catalog:
   how far the tool's score is below the best one, its rank, and how close the best tool comes to what is meant.
   Fitted on queries over catalogs of 235 to 4,076 tools; see ``docs/search.md``.
2. *Relevance*: where several tools are plausible, each has a small probability, so thresholds on it would be of no use
   to people. The odds of the relevance are a power of the odds of the probability,
   ``odds(relevance) = (odds(probability) / EVEN) ** BEND``, such that 0.5 keeps some eight tools, 0.6 some five, and
   0.7 three or four.
3. *Support*: where not even the best tool has much to do with the query, everything is scaled down, until nothing is
   above a threshold.

All three are monotone in the score: they never change the order. What was done before can: see :func:`lifted`.
"""

from __future__ import annotations

import math

from ._numpy import Array, np

GAP, RANK, CLOSENESS, BASE = 7.9, -0.19, 6.9, -3.66
EVEN_LOGIT = -4.35
"""Log-odds of the probability that has relevance one half."""
BEND = 0.44
WORDS_SUPPORT = 0.2
"""What the root of the share of words counts towards the support, against the cosine."""
LIFT, LIFT_OF_RELEVANT = 0.4, 1.5
"""What the past adds at most to the log-odds of a relevance up to 0.5, which stays just below 0.6, and from 0.8 on."""
NO_SUPPORT, FULL_SUPPORT = 0.26, 0.38
"""Evidence below which nothing is relevant, and from which relevance counts fully."""


def logit(score: Array, closeness: float) -> Array:
    """Log-odds that tools are needed; ``score`` is best first, ``closeness`` the best cosine."""
    rank = np.log1p(np.arange(len(score), dtype=np.float32))
    return np.asarray(GAP * (score - score[:1]) + RANK * rank + CLOSENESS * closeness + BASE, np.float32)


def probability(score: Array, closeness: float) -> Array:
    """That tools are needed [0 to 1]; ``score`` is best first, ``closeness`` the best cosine."""
    return np.asarray(1 / (1 + np.exp(-logit(score, closeness))), np.float32)


def relevance(probability: Array) -> Array:
    """What people set thresholds on [0 to 1]: a monotone map of the probability."""
    held = np.clip(probability, 1e-9, 1 - 1e-7).astype(np.float64)
    odds = np.log(held / (1 - held))
    return np.asarray(1 / (1 + np.exp(-BEND * (odds - EVEN_LOGIT))), np.float32)


def lifted(relevance: float, past: float) -> float:
    """``relevance`` with what was done before, ``past``, both in [0, 1].

    Among tools that fit, the past decides between those that fit about as well. What does not fit it lifts but little:
    a relevance below 0.5 stays below the usual threshold of 0.6.
    """
    held = min(1 - 1e-7, max(1e-9, relevance))
    fits = min(1.0, max(0.0, (relevance - 0.5) / 0.3))
    lift = LIFT + (LIFT_OF_RELEVANT - LIFT) * fits
    return 1 / (1 + math.exp(-math.log(held / (1 - held)) - lift * past))


def support(cosine: float, share: float) -> float:
    """How much of the relevance is left, by the best cosine and the best share of words [0 to 1]."""
    evidence = cosine + WORDS_SUPPORT * math.sqrt(max(0.0, share))
    return min(1.0, max(0.0, (evidence - NO_SUPPORT) / (FULL_SUPPORT - NO_SUPPORT)))
