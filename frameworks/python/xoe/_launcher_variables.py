"""The variables in which a launcher tells a process which rank it is, and how it finds the others."""

from __future__ import annotations

OF_THE_LAUNCHER = (
    "XOE_RANK",
    "XOE_SIZE",
    "XOE_LOCAL_RANK",
    "XOE_LOCAL_SIZE",
    "XOE_CROSS_RANK",
    "XOE_CROSS_SIZE",
    "XOE_STORE",
    "XOE_MEETING",
    "XOE_RESTARTS",
    "XOE_MIN_RANKS",
)
