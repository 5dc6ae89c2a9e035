"""Find the tool that is meant: words, meaning and structure in one calibrated score; offline, on the CPU."""
