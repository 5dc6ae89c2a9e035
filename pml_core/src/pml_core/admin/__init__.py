"""What operators ask of a gateway: is it well, what runs, change its configuration, log in."""
