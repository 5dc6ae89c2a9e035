"""Keys, whom they belong to, and what their holders may call and see of what ran."""
