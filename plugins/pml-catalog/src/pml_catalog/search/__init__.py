"""Which tools fit a query, where no plugin brings a search."""
