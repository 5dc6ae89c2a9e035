"""Take a long request apart: each clause may be served by another tool."""

from __future__ import annotations

import re

from .words import terms

MOST_CLAUSES = 12
FEWEST_TERMS = 2
"""What has fewer terms is no clause of its own."""
BREAK = re.compile(
    r"(?<=[.!?;\u3002\uff01\uff1f\uff1b])\s*(?=\S)(?<![0-9]\.)(?<!\be\.g\.)(?<!\bi\.e\.)|[\n\u3001]+"
    r"|,?\s+(?:and then|then|and also|also|additionally|furthermore|moreover|finally|after that|afterwards|next|plus"
    r"|und dann|und|dann|anschliessend|et puis|puis|et|ensuite|y luego|luego|y|e poi|poi|e depois|depois)\s+"
    r"|,\s+(?:and\s+|und\s+|et\s+)?(?=[^\W\d_]{2,}\s)|\s+and\s+(?=[a-z]+\s)",
    re.IGNORECASE,
)


def clauses(query: str) -> list[str]:
    """The clauses of ``query``, in order; none when it is but one."""
    parts = [part.strip() for part in BREAK.split(query) if part and part.strip()]
    parts = [part for part in dict.fromkeys(parts) if len(terms(part)) >= FEWEST_TERMS]
    return parts[:MOST_CLAUSES] if len(parts) > 1 else []
