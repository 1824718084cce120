"""Ranks as actors of Ray.

``run(function, args, num_workers=4)`` calls a function on four ranks, as :func:`xoe.run` does, wherever Ray has room for them::

    import xoe.ray
    results = xoe.ray.run(train, [3], num_workers=4, gpus_per_worker=1)

:class:`Executor` keeps the ranks for several calls. Ray itself is imported on first use.
"""

from xoe.ray.executor import Executor, run
from xoe.ray.worker import report

__all__ = ["Executor", "report", "run"]
