"""Helpers of Horovod's launcher."""
