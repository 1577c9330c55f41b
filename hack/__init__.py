"""What builds, checks and tries the project; nothing that it needs when it runs."""
