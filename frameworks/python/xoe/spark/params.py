"""Parameters of estimators and models, with Spark's getters and setters, made from tables."""

from __future__ import annotations

import base64
import pickle
from typing import Any

import cloudpickle

try:
    from pyspark.ml.param import Param, Params, TypeConverters
    from pyspark.ml.param.shared import HasOutputCols
    from pyspark.ml.util import MLReadable, MLReader, MLWritable, MLWriter
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "pyspark":
        raise
    raise ImportError(
        "xoe.spark's estimators need PySpark and pyarrow; install them with: pip install pyspark pyarrow"
    ) from error

_INT, _BOOL, _TEXT = TypeConverters.toInt, TypeConverters.toBoolean, TypeConverters.toString
_TEXTS, _FLOATS = TypeConverters.toListString, TypeConverters.toListFloat

# Name, default, conversion, and the word of its getter and setter where that is not the name's.
ESTIMATOR: list[tuple[str, Any, Any, str]] = [
    ("num_proc", None, None, ""),
    ("train_reader_num_workers", 2, None, "TrainReaderNumWorker"),
    ("val_reader_num_workers", 2, None, "ValReaderNumWorker"),
    ("reader_pool_type", "thread", None, ""),
    ("optimizer", None, None, ""),
    ("model", None, None, ""),
    ("backend", None, None, ""),
    ("store", None, None, ""),
    ("metrics", [], None, ""),
    ("loss", None, None, ""),
    ("gradient_compression", None, None, ""),
    ("compress_sparse_cols", False, _BOOL, ""),
    ("loss_weights", None, _FLOATS, ""),
    ("sample_weight_col", None, _TEXT, ""),
    ("feature_cols", None, _TEXTS, ""),
    ("label_cols", None, _TEXTS, ""),
    ("continuous_cols", None, _TEXTS, ""),
    ("categorical_cols", None, _TEXTS, ""),
    ("validation", None, None, ""),
    ("callbacks", [], None, ""),
    ("batch_size", 32, _INT, ""),
    ("val_batch_size", None, _INT, ""),
    ("epochs", 1, _INT, ""),
    ("train_steps_per_epoch", None, _INT, ""),
    ("validation_steps_per_epoch", None, _INT, ""),
    ("random_seed", None, _INT, ""),
    ("shuffle_buffer_size", None, _INT, "ShufflingBufferSize"),
    ("shuffle", True, _BOOL, ""),
    ("verbose", 1, _INT, ""),
    ("partitions_per_process", 10, _INT, ""),
    ("run_id", None, _TEXT, ""),
    ("transformation_fn", None, None, ""),
    ("transformation_edit_fields", None, None, ""),
    ("transformation_removed_fields", None, None, ""),
    ("label_shapes", None, None, ""),
    ("inmemory_cache_all", False, _BOOL, "InMemoryCacheAll"),
    ("use_gpu", True, _BOOL, ""),
    ("mp_start_method", None, _TEXT, ""),
    ("backward_passes_per_step", 1, _INT, ""),
    ("tensorflow_dataset_prefetch_buffer_size", 0, _INT, ""),
    ("data_module", None, None, ""),
]
MODEL: list[tuple[str, Any, Any, str]] = [
    ("history", None, None, ""),
    ("model", None, None, ""),
    ("feature_columns", None, None, ""),
    ("label_columns", None, None, ""),
    ("run_id", None, _TEXT, ""),
    ("_metadata", None, None, ""),
]


def _word(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def with_params(*table: tuple[str, Any, Any, str]) -> Any:
    """Gives a class of Params these parameters, and getters and setters that it does not have itself."""

    def add(kind: Any) -> Any:
        defaults = {**getattr(kind, "_defaults_of_params", {})}
        for name, default, conversion, word in table:
            text = name.replace("_", " ").strip()
            setattr(
                kind, name, Param(Params._dummy(), name, text, conversion) if conversion else Param(Params._dummy(), name, text)
            )
            defaults[name] = default
            word = word or _word(name)
            prefix = "_" if name.startswith("_") else ""
            for verb, function in (("get", _getter(name)), ("set", _setter(name))):
                full = f"{prefix}{verb}{'_' + name.strip('_') if prefix else word}"
                if full not in vars(kind):
                    setattr(kind, full, function)
        kind._defaults_of_params = defaults
        return kind

    return add


def _getter(name: str) -> Any:
    return lambda self: self.getOrDefault(getattr(self, name))


def _setter(name: str) -> Any:
    return lambda self, value: self._set(**{name: value})


class _Writer(MLWriter):
    def __init__(self, instance: Any) -> None:
        super().__init__()
        self._instance = instance

    def saveImpl(self, path: str) -> None:  # noqa: N802 (Spark's name)
        one = self._instance
        values = {
            param.name: one.getOrDefault(param) for param in one.params if one.isDefined(param) and param.name != "backend"
        }
        text = base64.b64encode(cloudpickle.dumps((one.uid, values))).decode()
        self.sc.parallelize([text], 1).saveAsTextFile(path)


class _Reader(MLReader):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self._kind = kind

    def load(self, path: str) -> Any:
        (text,) = self.sc.textFile(path).collect()
        uid, values = pickle.loads(base64.b64decode(text))
        made = self._kind()
        made._resetUid(uid)
        return made._set(**{name: value for name, value in values.items() if value is not None})


class Saved(MLWritable, MLReadable):
    """``save(path)`` and ``load(path)``. The file is a pickle: load only what you trust."""

    def write(self) -> Any:
        """Spark's writer."""
        return _Writer(self)

    @classmethod
    def read(cls) -> Any:
        """Spark's reader."""
        return _Reader(cls)


class _Tabled(Params):
    _defaults_of_params: dict[str, Any] = {}  # noqa: RUF012 (one for each class)

    def _begin(self, given: dict[str, Any]) -> None:
        self._setDefault(**self._defaults_of_params)
        self.setParams(**given)

    def setParams(self, **kwargs: Any) -> Any:  # noqa: N802 (Spark's name)
        """Sets parameters; None leaves one alone."""
        unknown = [name for name in kwargs if not self.hasParam(name)]
        if unknown:
            raise TypeError(f"{type(self).__name__} has no parameter {', '.join(unknown)}")
        return self._set(**{name: value for name, value in kwargs.items() if value is not None})


@with_params(*ESTIMATOR)
class EstimatorParams(_Tabled):
    """Parameters of all estimators."""


@with_params(*MODEL)
class ModelParams(_Tabled, HasOutputCols):
    """Parameters of all models."""

    def setOutputCols(self, value: Any) -> Any:  # noqa: N802 (Spark's name)
        """Names the columns of predictions."""
        return self._set(outputCols=value)
