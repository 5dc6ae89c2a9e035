"""What is hidden in servers' words, or pretends to be instructions: found, marked, stripped or withheld."""
