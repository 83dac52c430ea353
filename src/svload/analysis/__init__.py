"""What it means: validity, statistics, laws, limits, causes, and the policies that name the next batch. Pure."""
