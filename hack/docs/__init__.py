"""Pages for users that are made from the code. ``python -m hack.docs`` writes them."""
