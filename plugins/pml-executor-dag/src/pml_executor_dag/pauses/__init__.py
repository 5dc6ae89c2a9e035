"""Workflows that stop for somebody, and go on."""
