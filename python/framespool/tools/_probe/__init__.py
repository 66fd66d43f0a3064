"""What a dataset contains: counts and distributions of its files, and what will be slow in training."""
