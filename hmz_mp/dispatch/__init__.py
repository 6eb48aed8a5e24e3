"""What models are given to read."""
