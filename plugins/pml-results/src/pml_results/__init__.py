"""Large results, stored and read in parts."""
