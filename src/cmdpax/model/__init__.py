"""What the user says and is told: models, limits, results and their files."""
