"""What happened in a span of time, for a page, for mail and for programs."""
