"""Serves MCP clients over HTTP.

``listener`` takes connections and reads HTTP from them. Each request then goes to ``app``, which sees who sends it and
in which era, and from there to ``handshake`` (with ``sessions``) or ``stateless``, which have ``exchange`` answer it as
JSON or as a stream of events (``streams``); plugins' routes go to ``pages``.
"""
