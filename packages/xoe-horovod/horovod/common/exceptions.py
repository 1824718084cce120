"""Errors of Xoe that Horovod's programs catch."""

from __future__ import annotations

from xoe.errors import HorovodInternalError, HostsUpdatedInterrupt

__all__ = ["HorovodInternalError", "HorovodVersionMismatchError", "HostsUpdatedInterrupt", "get_version_mismatch_message"]


def get_version_mismatch_message(name: str, version: str, installed_version: str) -> str:
    """The message of :class:`HorovodVersionMismatchError`."""
    return f"{name} {version} is installed, but the package was built with {name} {installed_version}"


class HorovodVersionMismatchError(ImportError):
    """Never raised: the package is not linked with a framework."""

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name = name
        self.version = version
        self.installed_version = installed_version
