"""glibc's settings, for processes of PyTorch that Xoe is compared with."""

import ctypes


def keep_freed_memory():
    """As Xoe does, by the same two settings of glibc."""
    libc = ctypes.CDLL(None)
    libc.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD
    libc.mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD
