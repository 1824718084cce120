"""Errors of Xoe that Horovod's programs catch."""

from xoe.errors import HorovodInternalError, HostsUpdatedInterrupt

__all__ = ["HorovodInternalError", "HostsUpdatedInterrupt"]
