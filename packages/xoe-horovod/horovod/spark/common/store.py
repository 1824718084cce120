"""``xoe.spark.store`` by Horovod's name."""

from xoe.spark.store import DBFSLocalStore, FilesystemStore, HDFSStore, LocalStore, Store

__all__ = ["DBFSLocalStore", "FilesystemStore", "HDFSStore", "LocalStore", "Store"]
