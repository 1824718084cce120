"""Where estimators keep their data, checkpoints and logs: a folder that Spark and all ranks see."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")
_DBFS = "/dbfs"


class Store:
    """A folder for training data, validation data, and the runs' checkpoints and logs. Paths are those that Spark
    understands."""

    checkpoint_filename = "checkpoint"

    def __init__(self) -> None:
        pass

    @staticmethod
    def create(prefix_path: str, *args: Any, **kwargs: Any) -> Store:
        """The store for a path: of a file system that all hosts share, ``hdfs://``, ``s3://``, ``gs://``, ``abfss://`` or
        ``dbfs:/``."""
        for kind in (HDFSStore, DBFSLocalStore):
            if kind.matches(prefix_path):
                return kind(prefix_path, *args, **kwargs)
        return FilesystemStore(prefix_path, *args, **kwargs)


class FilesystemStore(Store):
    """A store below ``prefix_path``, in any file system that pyarrow knows.

    train_path, val_path, test_path, runs_path: instead of folders below it. save_runs: keep checkpoints and logs.
    """

    def __init__(
        self,
        prefix_path: str,
        train_path: str | None = None,
        val_path: str | None = None,
        test_path: str | None = None,
        runs_path: str | None = None,
        save_runs: bool = True,
        storage_options: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.prefix_path = self.get_full_path(prefix_path)
        self._paths = {
            name: self.get_full_path(path) if path else os.path.join(self.prefix_path, folder)
            for name, path, folder in (
                ("train", train_path, "intermediate_train_data"),
                ("val", val_path, "intermediate_val_data"),
                ("test", test_path, "intermediate_test_data"),
                ("runs", runs_path, "runs"),
            )
        }
        self._save_runs = save_runs
        self.storage_options = {**(storage_options or {}), **kwargs}

    @classmethod
    def matches(cls, path: str) -> bool:
        """Whether this kind of store is meant by the path."""
        return bool(path)

    def get_full_path(self, path: str) -> str:
        """The path with its scheme."""
        return path if _SCHEME.match(path) else f"file://{os.path.abspath(path)}"

    def get_localized_path(self, path: str) -> str:
        """The path within its file system."""
        return str(self._open(path)[1])

    def _open(self, path: str) -> tuple[Any, str]:
        """The file system of pyarrow, and the path in it."""
        from pyarrow import fs

        scheme = _SCHEME.match(path)
        if scheme is None or scheme[1] == "file":
            return fs.LocalFileSystem(), path.removeprefix("file://")
        if self.storage_options:
            import fsspec

            return fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(scheme[1], **self.storage_options))), path[scheme.end() :]
        found, within = fs.FileSystem.from_uri(path)
        return found, str(within)

    @property
    def fs(self) -> Any:
        """pyarrow's file system."""
        return self._open(self.prefix_path)[0]

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder."""
        system, within = self._open(path)
        return bool(system.get_file_info([within])[0].type.name != "NotFound")

    def read(self, path: str) -> bytes:
        """A file's content."""
        system, within = self._open(path)
        with system.open_input_stream(within) as file:
            return bytes(file.read())

    def write(self, path: str, data: bytes) -> None:
        """Writes a file, and the folders above it."""
        system, within = self._open(path)
        system.create_dir(os.path.dirname(within), recursive=True)
        with system.open_output_stream(within) as file:
            file.write(data)

    def write_text(self, path: str, text: str) -> None:
        """Writes a file of text."""
        self.write(path, text.encode())

    def delete(self, path: str) -> None:
        """Removes a folder, if it is there."""
        if self.exists(path):
            system, within = self._open(path)
            system.delete_dir(within)

    def is_parquet_dataset(self, path: str) -> bool:
        """Whether files of Parquet are in the folder."""
        try:
            return len(self.get_parquet_dataset(path).files) > 0
        except (OSError, ValueError):
            return False

    def get_parquet_dataset(self, path: str) -> Any:
        """pyarrow's data set of a folder."""
        from pyarrow import dataset

        system, within = self._open(path)
        return dataset.dataset(within, filesystem=system, format="parquet")

    def _data(self, name: str, idx: Any) -> str:
        return self._paths[name] if idx is None else f"{self._paths[name]}.{idx}"

    def get_train_data_path(self, idx: Any = None) -> str:
        """Where training data is; ``idx`` distinguishes fits."""
        return self._data("train", idx)

    def get_val_data_path(self, idx: Any = None) -> str:
        """Where validation data is."""
        return self._data("val", idx)

    def get_test_data_path(self, idx: Any = None) -> str:
        """Where test data is."""
        return self._data("test", idx)

    def saving_runs(self) -> bool:
        """Whether runs are kept."""
        return self._save_runs

    def get_runs_path(self) -> str:
        """Where runs are."""
        return self._paths["runs"]

    def get_run_path(self, run_id: str) -> str:
        """Where a run is."""
        return os.path.join(self.get_runs_path(), run_id)

    def get_checkpoint_filename(self) -> str:
        """The name of a checkpoint's file."""
        return self.checkpoint_filename

    def get_checkpoint_path(self, run_id: str) -> str | None:
        """The folder of a run's checkpoint; None where runs are not kept."""
        return self.get_run_path(run_id) if self._save_runs else None

    def get_checkpoints(self, run_id: str, suffix: str = ".ckpt") -> list[str]:
        """Files of a run whose names end with the suffix."""
        from pyarrow import fs

        system, within = self._open(self.get_run_path(run_id))
        found = system.get_file_info(fs.FileSelector(within, allow_not_found=True))
        return sorted(one.base_name for one in found if one.base_name.endswith(suffix))

    def get_logs_path(self, run_id: str) -> str | None:
        """The folder of a run's logs; None where runs are not kept."""
        return os.path.join(self.get_run_path(run_id), self.get_logs_subdir()) if self._save_runs else None

    def get_logs_subdir(self) -> str:
        """The name of the logs' folder."""
        return "logs"

    def get_local_output_dir_fn(self, run_id: str) -> Callable[[], contextlib.AbstractContextManager[str]]:
        """A function whose context is a temporary folder of this host."""

        @contextlib.contextmanager
        def folder() -> Iterator[str]:
            with tempfile.TemporaryDirectory(prefix=f"{run_id}-") as path:
                yield path

        return folder

    def sync_fn(self, run_id: str) -> Callable[[str], None]:
        """A function that copies a folder of this host into the run's."""

        def copy(local_run_path: str) -> None:
            for folder, _, files in os.walk(local_run_path):
                for name in files:
                    path = os.path.join(folder, name)
                    with open(path, "rb") as file:
                        self.write(os.path.join(self.get_run_path(run_id), os.path.relpath(path, local_run_path)), file.read())

        return copy


class LocalStore(FilesystemStore):
    """:class:`FilesystemStore`, by another name."""

    def delete_all(self) -> None:
        """Removes the store."""
        shutil.rmtree(self.get_localized_path(self.prefix_path), ignore_errors=True)


class HDFSStore(FilesystemStore):
    """A store in HDFS, at ``hdfs://HOST:PORT/PATH``; pyarrow needs Hadoop's libhdfs."""

    @classmethod
    def matches(cls, path: str) -> bool:
        """Whether the path is one of HDFS."""
        return path.startswith("hdfs://")

    def get_full_path(self, path: str) -> str:
        """The path with its scheme."""
        return path if _SCHEME.match(path) else f"hdfs://{'' if path.startswith('/') else '/'}{path}"


class DBFSLocalStore(FilesystemStore):
    """A store in Databricks' file system, at ``dbfs:/PATH``, ``/dbfs/PATH`` or ``file:///dbfs/PATH``."""

    @classmethod
    def matches(cls, path: str) -> bool:
        """Whether the path is one of Databricks' file system."""
        return bool(re.match(r"dbfs:/(?!/)|/dbfs/|file:///dbfs/", path))

    def get_full_path(self, path: str) -> str:
        """The path as that of a file."""
        path = path.removeprefix("file://")
        if path.startswith("dbfs:/"):
            path = f"{_DBFS}/{path.removeprefix('dbfs:/')}"
        return f"file://{path}"
