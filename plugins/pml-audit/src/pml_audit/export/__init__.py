"""Rows on their way to other machines: to a syslog daemon, and as OTLP logs."""
