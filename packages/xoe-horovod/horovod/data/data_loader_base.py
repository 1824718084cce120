"""``xoe.loaders`` by Horovod's name."""

from xoe.loaders import AsyncDataLoaderMixin, BaseDataLoader

__all__ = ["AsyncDataLoaderMixin", "BaseDataLoader"]
