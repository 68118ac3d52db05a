"""Files: written whole, and read safely."""
