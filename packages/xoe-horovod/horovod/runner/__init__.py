"""``horovod.runner.run``."""

from xoe.runner import run as run
