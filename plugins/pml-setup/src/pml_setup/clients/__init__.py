"""``pml connect`` and ``pml disconnect``: PML in the place of a client's own servers, and out of it again."""
