"""Connections of clients: taken, bounded, and read as HTTP/1.1."""
