"""Text of others before a model or a person reads it: what nobody sees in it, and what pretends to be instructions."""
