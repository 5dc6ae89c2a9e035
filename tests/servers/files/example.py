"""An example."""


def add(a: int, b: int) -> int:
    """The sum."""
    return a + b
