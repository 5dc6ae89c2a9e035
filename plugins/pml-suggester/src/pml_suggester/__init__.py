"""Makes a plan of an intent."""
