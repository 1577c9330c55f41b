"""GPU DRA driver."""
