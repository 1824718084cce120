"""``horovod.runner.run``."""

from xoe.runner import run

__all__ = ["run"]
