"""Which tools each client is shown: the modes, and their lists."""

META_ONLY = "meta_only"
"""The mode that is always there, and takes the place of those that are not."""
DEFAULT_ENDPOINT = "default"
"""Name of the endpoint that is there without being configured."""
