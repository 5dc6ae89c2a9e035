"""One connection to a server: opened, asked, listened to, lost, opened again."""
