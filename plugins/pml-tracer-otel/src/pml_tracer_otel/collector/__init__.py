"""The way to the collector: OpenTelemetry's exporters, and what waits for them."""
