"""``xoe.keras.elastic`` by Horovod's name."""

from xoe.keras.elastic import *  # noqa: F403
