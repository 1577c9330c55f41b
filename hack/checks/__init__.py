"""Small checks of the tree, each a script with a unit test; `make lint` runs them."""
