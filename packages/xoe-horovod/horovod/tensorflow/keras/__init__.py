"""``xoe.keras`` by Horovod's name."""

from horovod.tensorflow.keras import callbacks, elastic  # noqa: F401
from xoe.build_info import *  # noqa: F403
from xoe.keras import *  # noqa: F403
