"""Reading JSON Schemas that others wrote, within a budget: what they refer to, what they come to, what fits them."""
