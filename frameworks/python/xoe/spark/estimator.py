"""What estimators and models of all frameworks have in common: data on its way to the ranks, and predictions on their way
back."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from xoe.spark.backend import Backend, SparkBackend
from xoe.spark.params import EstimatorParams, ModelParams, Saved

# After params, which says what to install.
from pyspark.ml import Estimator, Model  # isort: skip
from pyspark.sql import functions as columns_  # isort: skip
from pyspark.sql import types as kinds  # isort: skip

_ROWS_AT_ONCE = 256  # of predictions
_WITHOUT = ("data_module", "transformation_edit_fields", "transformation_removed_fields")


def _is_vector(kind: Any) -> bool:
    return type(kind).__name__ == "VectorUDT"


def metadata_of(data: Any) -> dict[str, dict[str, Any]]:
    """The kind of each column of a data frame."""
    return {field.name: {"spark_data_type": type(field.dataType), "kind": field.dataType} for field in data.schema.fields}


class XoeEstimator(Estimator, EstimatorParams, Saved):
    """An estimator: ``fit(data_frame)`` writes the data into the store as Parquet, trains on ranks, and gives a model."""

    def fit_on_parquet(self, params: Any = None, dataset_idx: Any = None) -> Any:
        """Trains on the Parquet files that are in the store already, at ``store.get_train_data_path(dataset_idx)``."""
        if params:
            return self.copy(params).fit_on_parquet(dataset_idx=dataset_idx)
        self._check()
        return self._train(self._get_backend(), dataset_idx, None)

    def _fit(self, dataset: Any) -> Any:
        self._check()
        columns = self._columns()
        missing = [name for name in columns if name not in dataset.columns]
        if missing:
            raise ValueError(f"the data frame has no column {', '.join(missing)}; it has {', '.join(dataset.columns)}")
        backend, store = self._get_backend(), self.getStore()
        index = f"{time.time_ns():x}"
        try:
            self._write(dataset, columns, index, backend.num_processes())
            return self._train(backend, index, metadata_of(dataset))
        finally:
            for path in (store.get_train_data_path(index), store.get_val_data_path(index)):
                store.delete(path)

    def _check(self) -> None:
        for name in ("model", "store", "feature_cols", "label_cols"):
            if self.getOrDefault(name) is None:
                raise ValueError(f"{type(self).__name__} needs {name}")
        for name in _WITHOUT:
            if self.getOrDefault(name) is not None:
                raise NotImplementedError(
                    f"{type(self).__name__}: {name} is not supported: pyarrow reads the data, and transformation_fn changes it"
                )
        validation = self.getValidation()
        if isinstance(validation, float) and not 0 <= validation < 1:
            raise ValueError(f"validation is {validation}; give a share from 0 to below 1, or a column's name")

    def _columns(self) -> list[str]:
        weight = self.getSampleWeightCol()
        return [*self.getFeatureCols(), *self.getLabelCols(), *([weight] if weight else [])]

    def _get_backend(self) -> Backend:
        backend = self.getBackend()
        if backend is None:
            return SparkBackend(self.getNumProc())
        if self.getNumProc() is not None:
            raise ValueError("pass either backend or num_proc")
        return backend

    def _write(self, data: Any, columns: Sequence[str], index: str, ranks: int) -> None:
        """The columns as Parquet files, vectors as lists."""
        from pyspark.ml.functions import vector_to_array

        validation = self.getValidation()
        chosen = [
            (vector_to_array(data[name]) if _is_vector(data.schema[name].dataType) else columns_.col(name)).alias(name)
            for name in columns
        ]
        parts = {self.getStore().get_train_data_path(index): data}
        if isinstance(validation, str):
            held = columns_.col(validation).cast("boolean")
            parts = {
                self.getStore().get_train_data_path(index): data.filter(~held),
                self.getStore().get_val_data_path(index): data.filter(held),
            }
        elif validation:
            seed = self.getRandomSeed() or 0
            train, held = data.randomSplit([1 - validation, validation], seed)
            parts = {self.getStore().get_train_data_path(index): train, self.getStore().get_val_data_path(index): held}
        files = max(1, ranks * self.getPartitionsPerProcess())
        for path, part in parts.items():
            selected = part.select(*chosen)
            fewer = selected.rdd.getNumPartitions() > files
            (selected.coalesce(files) if fewer else selected).write.mode("overwrite").parquet(path)

    def _train(self, backend: Backend, index: Any, metadata: Any) -> Any:
        run_id = self.getRunId() or f"{type(self).__module__.rpartition('.')[2]}_{time.time_ns() // 1000}"
        store = self.getStore()
        folder = store.get_checkpoint_path(run_id)
        checkpoint = None
        if folder is not None and store.exists(f"{folder}/{store.get_checkpoint_filename()}"):
            checkpoint = self._load_checkpoint(run_id)
        function, args = self._training(run_id, index, checkpoint)
        results = backend.run(function, args=args, env={})
        return self._create_model(results[0], run_id, metadata or {})

    def _load_checkpoint(self, run_id: str) -> bytes:
        """The checkpoint of a run before, from which this one continues."""
        store = self.getStore()
        return bytes(store.read(f"{store.get_checkpoint_path(run_id)}/{store.get_checkpoint_filename()}"))

    def _training(self, run_id: str, index: Any, checkpoint: bytes | None) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The function that trains on a rank, and its arguments."""
        raise NotImplementedError

    def _create_model(self, result: Any, run_id: str, metadata: Mapping[str, Any]) -> Any:
        """The model of rank 0's result."""
        raise NotImplementedError

    def _settings(self, run_id: str, index: Any) -> dict[str, Any]:
        """What all trainings need to know, without the model."""
        store = self.getStore()
        folder = store.get_checkpoint_path(run_id)
        return {
            "store": store,
            "train": store.get_train_data_path(index),
            "validation": store.get_val_data_path(index) if self.getValidation() else None,
            "checkpoint": f"{folder}/{store.get_checkpoint_filename()}" if folder else None,
            "columns": self._columns(),
            "features": self.getFeatureCols(),
            "labels": self.getLabelCols(),
            "weight": self.getSampleWeightCol(),
            "batch": self.getBatchSize(),
            "validation_batch": self.getValBatchSize() or self.getBatchSize(),
            "epochs": self.getEpochs(),
            "steps": self.getTrainStepsPerEpoch(),
            "validation_steps": self.getValidationStepsPerEpoch(),
            "seed": self.getRandomSeed(),
            "shuffle": self.getShuffle() and self.getShufflingBufferSize() != 0,
            "transformation": self.getTransformationFn(),
            "keep": self.getInMemoryCacheAll(),
            "verbose": self.getVerbose(),
            "use_gpu": self.getUseGpu(),
            "passes": self.getBackwardPassesPerStep(),
            "compression": self.getGradientCompression(),
            "loss_weights": self.getLossWeights(),
        }


def rows_of(settings: Mapping[str, Any], rank: int, size: int, validation: bool = False) -> Any:
    """This rank's rows of the training or validation data."""
    from xoe.spark.parquet import Rows

    path = settings["validation" if validation else "train"]
    return Rows(
        settings["store"].get_parquet_dataset(path),
        settings["columns"],
        rank,
        size,
        settings["validation_batch" if validation else "batch"],
        None if validation or not settings["shuffle"] else settings["seed"] or 0,
        settings["transformation"],
        settings["keep"],
    )


class XoeModel(Model, ModelParams, Saved):
    """A trained model: ``transform(data_frame)`` adds a column of predictions for each label, by default LABEL__output."""

    def _name_outputs(self) -> None:
        labels = self.getOrDefault(self.label_columns)
        if labels and not self.isSet(self.outputCols):
            self.setOutputCols([f"{name}__output" for name in labels])

    def _predictor(self) -> Callable[[], Callable[[list[Any]], list[Any]]]:
        """A function, which can be pickled, that makes one from arrays of features to arrays of predictions."""
        raise NotImplementedError

    def _transform(self, dataset: Any) -> Any:
        from pyspark.ml.linalg import VectorUDT

        make, labels, outputs = self._predictor(), self.getLabelColumns(), self.getOutputCols()
        features = self.getFeatureColumns()
        metadata = self._get_metadata() or {}
        kept = [field for field in dataset.schema.fields if field.name not in outputs]
        fields = []
        sample = dataset.limit(1).collect()
        shapes = [one.shape[1:] for one in make()(_features(sample, features))] if sample else [() for _ in outputs]
        for label, output, shape in zip(labels, outputs, shapes, strict=True):
            known = metadata.get(label, {})
            kind = known["spark_data_type"]() if "spark_data_type" in known else kinds.DoubleType()
            if int(np.prod(shape)) > 1 or isinstance(kind, kinds.ArrayType) or _is_vector(kind):
                kind = VectorUDT()
            fields.append(kinds.StructField(output, kind, True))
        predict = partial(
            _predictions, make, features, [field.name for field in kept], [copy.deepcopy(field.dataType) for field in fields]
        )
        rows = dataset.rdd.mapPartitions(predict)
        return dataset.sparkSession.createDataFrame(rows, kinds.StructType([*kept, *fields]))


def _features(rows: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """An array for each column, of all rows."""
    return [np.stack([_numbers(row[name]) for row in rows]) for name in names]


def _numbers(value: Any) -> Any:
    return value.toArray() if hasattr(value, "toArray") else np.asarray(value)


def _predictions(
    make: Callable[[], Any], features: Sequence[str], kept: Sequence[str], fields: Sequence[Any], rows: Iterator[Any]
) -> Iterator[Any]:
    """The rows with their predictions."""
    from itertools import islice

    predict = None
    while some := list(islice(rows, _ROWS_AT_ONCE)):
        predict = predict or make()
        found = predict(_features(some, features))
        for index, row in enumerate(some):
            yield (*(row[name] for name in kept), *(_value(one[index], kind) for one, kind in zip(found, fields, strict=True)))


def _value(prediction: Any, kind: Any) -> Any:
    """A prediction as Spark's kind of column wants it."""
    if _is_vector(kind):
        from pyspark.ml.linalg import DenseVector

        return DenseVector(np.asarray(prediction, np.float64).reshape(-1))
    number = np.asarray(prediction).reshape(-1)[0].item()
    if isinstance(kind, kinds.IntegralType):
        return round(number)
    if isinstance(kind, kinds.BooleanType):
        return bool(round(number))
    return float(number)
