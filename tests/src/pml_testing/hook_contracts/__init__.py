"""The contracts of what hook plugins contribute besides wrappers: filters, meta-tools, the search."""
