"""Where this rank's host is, for the job's other ranks."""

from __future__ import annotations

import os
import socket


def host_name() -> str:
    """What this rank's host is called: ranks with the same name share memory."""
    return os.environ.get("XOE_HOSTNAME") or socket.gethostname()


def own_address(alone: bool) -> str:
    """The address of this host that the job's other hosts reach: the one from which this host reaches the launcher's store.

    alone: all ranks are on this host. Empty: not known, since the launcher's store is no server of a network.
    """
    kind, _, place = os.environ.get("XOE_STORE", "").partition(":")
    if alone or kind == "unix":
        return "127.0.0.1"
    host, _, port = place.rpartition(":")
    if kind != "tcp" or not host:
        return ""
    family, sort, protocol, _, address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, sort, protocol) as probe:
        probe.connect(address)  # sends nothing, and takes the route's address
        return str(probe.getsockname()[0])
