"""What the documentation takes from the tree when it is built, so that it cannot become stale."""
