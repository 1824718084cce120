"""Where the virtual machine's two cores are at the moment.

The hypervisor moves them between caches every few minutes, and all figures move along. So every figure stands between
two canaries, and only figures of one state are compared.
"""

import ctypes
import os

NEAR_NS = 120.0  # below: the cores share a cache; 52-59 seen against about 250
BUSY_NS = 1000.0
BUSY_SPREAD = 3.0


class Canary:
    """The one-way time of a flag between the first two cores that this process may use."""

    def __init__(self, library):
        self._library = ctypes.CDLL(str(library))
        self._library.xoe_bench_canary.restype = ctypes.c_double
        self._library.xoe_bench_canary.argtypes = [
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_double,
            ctypes.POINTER(ctypes.c_double),
        ]
        self._library.xoe_bench_sync_bytes.restype = ctypes.c_size_t
        self._cores = sorted(os.sched_getaffinity(0))[:2]

    @property
    def sync_bytes(self):
        return self._library.xoe_bench_sync_bytes()

    def measure(self):
        """(nanoseconds, state), the state being near, far, busy or single."""
        if len(self._cores) < 2:
            return 0.0, "single"
        spread = ctypes.c_double()
        nanoseconds = self._library.xoe_bench_canary(*self._cores, 3.0, ctypes.byref(spread))
        if nanoseconds < 0 or nanoseconds > BUSY_NS or spread.value > BUSY_SPREAD:
            return nanoseconds, "busy"
        return nanoseconds, "near" if nanoseconds < NEAR_NS else "far"
