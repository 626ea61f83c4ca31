"""What checks are made of: calls, what is seen in them, the verdict."""
