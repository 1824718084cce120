"""``xoe.keras.callbacks`` by Horovod's name."""

from xoe.keras.callbacks import *  # noqa: F403
