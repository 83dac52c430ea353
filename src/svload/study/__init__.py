"""What is asked: study file → factors, cases, exclusions, batches."""
