"""``xoe.ray.report`` by Horovod's name."""

from typing import Any

from xoe.ray import report


def log(info_dict: dict[str, Any]) -> None:
    """Passes rank 0's values to the callbacks of ``RayExecutor.run`` and ``execute``."""
    report(info_dict)
