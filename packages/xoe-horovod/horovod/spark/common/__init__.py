"""What Horovod's estimators have in common."""
