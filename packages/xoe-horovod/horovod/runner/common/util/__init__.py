"""Helpers of Horovod's launchers."""
