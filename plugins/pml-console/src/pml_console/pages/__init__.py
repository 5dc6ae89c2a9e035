"""The pages, each a function of a visit."""
