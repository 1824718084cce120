"""An estimator for Keras 3: a model, trained on the rows of a data frame."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import cloudpickle
import numpy as np

from xoe.spark.estimator import XoeEstimator, XoeModel, rows_of
from xoe.spark.params import with_params


def _dumps(model: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        model.save(path)
        with open(path, "rb") as file:
            return file.read()


def _loads(data: bytes, custom_objects: Any, compile: bool = False) -> Any:
    import keras

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        with open(path, "wb") as file:
            file.write(data)
        return keras.models.load_model(path, custom_objects=custom_objects, compile=compile, safe_mode=False)


@with_params(("custom_objects", {}, None, ""), ("checkpoint_callback", None, None, ""), ("backend_env", None, None, ""))
class KerasEstimator(XoeEstimator):
    """Trains a Keras model; ``fit(data_frame)`` gives a :class:`KerasModel`.

    model, optimizer, loss, loss_weights, metrics, callbacks: as Keras has them; without optimizer and loss, those with which
        the model was compiled. The learning rate is multiplied by the number of ranks.
    feature_cols, label_cols: the model's inputs and outputs, in the shapes that it wants. custom_objects: as Keras has them.
    validation: a share of the rows, or a column's name. batch_size: of each rank.
    store: where the data and the run's checkpoint go; a run_id that has one continues from its weights.
    checkpoint_callback: one more callback, on rank 0. backend_env: variables for the ranks.
    transformation_fn: changes each batch, a pandas.DataFrame.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        self._begin(kwargs)

    def _check(self) -> None:
        import keras

        super()._check()
        if not isinstance(self.getModel(), keras.Model):
            raise ValueError(
                f"model is a {type(self.getModel()).__module__}.{type(self.getModel()).__name__}; give a model of Keras 3"
            )
        if self.getLoss() is None and getattr(self.getModel(), "loss", None) is None:
            raise ValueError("KerasEstimator needs loss, or a model that was compiled with one")

    def _training(self, run_id: str, index: Any, checkpoint: bytes | None) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        import keras

        model = self.getModel()
        optimizer = self.getOptimizer() or model.optimizer
        if isinstance(optimizer, str):
            optimizer = keras.optimizers.get(optimizer)
        settings = self._settings(run_id, index) | {
            "optimizer": keras.optimizers.serialize(optimizer) if optimizer is not None else None,
            "loss": self.getLoss() or model.loss,
            "metrics": self.getMetrics() or [],
            "callbacks": list(self.getCallbacks() or []),
            "checkpoint_callback": self.getOrDefault("checkpoint_callback"),
            "custom_objects": self.getOrDefault("custom_objects"),
            "env": self.getOrDefault("backend_env"),
        }
        return _train, (cloudpickle.dumps(settings), checkpoint or _dumps(model))

    def _create_model(self, result: Any, run_id: str, metadata: Mapping[str, Any]) -> Any:
        history, data = result
        return KerasModel(
            history=history,
            model=_loads(data, self.getOrDefault("custom_objects")),
            feature_columns=self.getFeatureCols(),
            label_columns=self.getLabelCols(),
            custom_objects=self.getOrDefault("custom_objects"),
            run_id=run_id,
            _metadata=dict(metadata),
        )


@with_params(("custom_objects", {}, None, ""), ("_floatx", None, None, ""))
class KerasModel(XoeModel):
    """A trained model of Keras; ``getModel()`` is that, ``getHistory()`` what ``fit`` gave of each epoch."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        self._begin(kwargs)
        self._name_outputs()

    def _predictor(self) -> Callable[[], Callable[[list[Any]], list[Any]]]:
        return partial(_make_predictor, _dumps(self.getModel()), self.getOrDefault("custom_objects"))


def _make_predictor(data: bytes, custom_objects: Any) -> Callable[[list[Any]], list[Any]]:
    model = _loads(data, custom_objects)

    def predict(features: list[Any]) -> list[Any]:
        found = model.predict_on_batch(_single(_shaped(features, model.inputs)))
        return [np.asarray(one) for one in (found if isinstance(found, (list, tuple)) else [found])]

    return predict


def _single(values: Sequence[Any]) -> Any:
    return values[0] if len(values) == 1 else tuple(values)


def _shaped(arrays: Sequence[Any], tensors: Sequence[Any]) -> list[Any]:
    """Arrays in the shapes and types that a model has for its inputs or outputs."""
    found = []
    for array, tensor in zip(arrays, tensors, strict=True):
        shape = [-1 if size is None else size for size in tensor.shape[1:]]
        kind = tensor.dtype if isinstance(tensor.dtype, str) else tensor.dtype.name
        array = np.asarray(array, kind)
        fits = shape.count(-1) == 0 and int(np.prod(shape)) == array[0].size
        found.append(array.reshape(len(array), *shape) if fits else array)
    return found


def _train(pickled: bytes, data: bytes) -> Any:
    """Trains on this rank. Rank 0 returns the history and the saved model."""
    import keras

    import xoe.keras as hvd

    hvd.init()
    settings = cloudpickle.loads(pickled)
    if settings["seed"] is not None:
        keras.utils.set_random_seed(settings["seed"])
    _choose_device(settings["use_gpu"])
    model = _loads(data, settings["custom_objects"])
    optimizer = keras.optimizers.deserialize(settings["optimizer"], custom_objects=settings["custom_objects"])
    _scale(optimizer, hvd.size())
    more = {"compression": settings["compression"]} if settings["compression"] else {}
    optimizer = hvd.DistributedOptimizer(optimizer, backward_passes_per_step=settings["passes"], **more)
    model.compile(
        optimizer=optimizer, loss=settings["loss"], loss_weights=settings["loss_weights"], metrics=settings["metrics"]
    )
    rows = rows_of(settings, hvd.rank(), hvd.size())
    steps = settings["steps"] or rows.batches
    held: dict[str, Any] = {}
    if settings["validation"]:
        validation = rows_of(settings, hvd.rank(), hvd.size(), validation=True)
        count = settings["validation_steps"] or validation.batches
        held = {"validation_data": _batches(validation, count, model, settings, same=True), "validation_steps": count}
    history = model.fit(
        _batches(rows, steps, model, settings),
        steps_per_epoch=steps,
        epochs=settings["epochs"],
        callbacks=_callbacks(settings),
        verbose=settings["verbose"] if hvd.rank() == 0 else 0,
        **held,
    )
    _scale(optimizer, 1 / hvd.size())
    return (history.history, _dumps(model)) if hvd.rank() == 0 else None


def _scale(optimizer: Any, factor: float) -> None:
    """Multiplies a learning rate that is a number."""
    import keras

    if not isinstance(getattr(optimizer, "_learning_rate", None), keras.optimizers.schedules.LearningRateSchedule):
        optimizer.learning_rate = float(optimizer.learning_rate) * factor


def _choose_device(use_gpu: bool) -> None:
    """One GPU for this rank; none where they are not wanted."""
    import keras

    import xoe

    if keras.backend.backend() != "tensorflow":
        return
    import tensorflow as tf

    found = tf.config.list_physical_devices("GPU")
    chosen = found[xoe.local_rank() % len(found)] if found and use_gpu else None
    if found:
        tf.config.set_visible_devices([chosen] if chosen else [], "GPU")
    if chosen:
        tf.config.experimental.set_memory_growth(chosen, True)


def _batches(rows: Any, steps: int, model: Any, settings: Mapping[str, Any], same: bool = False) -> Iterator[Any]:
    """Batches for Keras without end. same: each epoch's are those of the first."""
    epoch = 0
    while True:
        for batch in rows.epoch(0 if same else epoch, steps):
            inputs = _shaped([batch[name] for name in settings["features"]], model.inputs)
            labels = [np.asarray(batch[name]) for name in settings["labels"]]
            shaped = [
                label.reshape(len(label), *out.shape[1:])
                if None not in out.shape[1:] and label[0].size == int(np.prod(out.shape[1:]))
                else label
                for label, out in zip(labels, model.outputs, strict=True)
            ]
            weights = (np.asarray(batch[settings["weight"]], np.float32),) if settings["weight"] else ()
            yield (_single(inputs), _single(shaped), *weights)
        epoch += 1


def _callbacks(settings: Mapping[str, Any]) -> list[Any]:
    import keras

    import xoe.keras as hvd

    class Checkpoint(keras.callbacks.Callback):
        """Writes the model into the store, with the learning rate of one rank."""

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            del epoch, logs
            _scale(self.model.optimizer, 1 / hvd.size())
            settings["store"].write(settings["checkpoint"], _dumps(self.model))
            _scale(self.model.optimizer, hvd.size())

    found = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(), *settings["callbacks"]]
    if hvd.rank() == 0:
        found += [Checkpoint()] if settings["checkpoint"] else []
        found += [settings["checkpoint_callback"]] if settings["checkpoint_callback"] else []
    return found
