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

All three are monotone in the score: they never change the order.
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


def support(cosine: float, share: float) -> float:
    """How much of the relevance is left, by the best cosine and the best share of words [0 to 1]."""
    evidence = cosine + WORDS_SUPPORT * math.sqrt(max(0.0, share))
    return min(1.0, max(0.0, (evidence - NO_SUPPORT) / (FULL_SUPPORT - NO_SUPPORT)))
