"""What tools become, changed in ways of which it is known what they mean."""
