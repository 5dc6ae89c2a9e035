"""What commands of plugins share, and what the core hands them."""
