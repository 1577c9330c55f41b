"""The node half's figures: what is counted as it happens, and what is looked up when a scraper asks."""
