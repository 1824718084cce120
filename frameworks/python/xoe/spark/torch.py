"""An estimator for PyTorch: a network, an optimizer and losses, trained on the rows of a data frame."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import cloudpickle
import numpy as np

from xoe.spark.estimator import XoeEstimator, XoeModel, rows_of
from xoe.spark.params import with_params


def _dumps(value: Any) -> bytes:
    import torch

    out = io.BytesIO()
    torch.save(value, out)
    return out.getvalue()


def _loads(data: bytes) -> Any:
    import torch

    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=False)


def _optimizer_for(model: Any, optimizer: Any, state: Any) -> Any:
    """An optimizer of the same class and state for a model's parameters."""
    made = type(optimizer)(model.parameters(), lr=1)
    made.load_state_dict(state)
    return made


@with_params(
    ("input_shapes", None, None, ""),
    ("loss_constructors", None, None, ""),
    ("train_minibatch_fn", None, None, "TrainMinibatchFn"),
)
class TorchEstimator(XoeEstimator):
    """Trains a ``torch.nn.Module``; ``fit(data_frame)`` gives a :class:`TorchModel`.

    model, optimizer, loss: the loss, or one for each label, is called with (output, label); with ``sample_weight_col`` also
        with ``reduction="none"``. loss_constructors: functions that make them in each rank, called with ``model=``. The
        learning rate is multiplied by the number of ranks.
    feature_cols, label_cols: arguments and targets, all as float32; input_shapes: one for each feature, with -1 for the rows.
    metrics: functions of (output, label), whose averages the history has. validation: a share of the rows, or a column's name.
    batch_size: of each rank. random_seed, shuffle, epochs, train_steps_per_epoch, validation_steps_per_epoch: as they say.
    store: where the data and the run's checkpoint go; a run_id that has one continues from it.
    transformation_fn: changes each batch, a pandas.DataFrame. train_minibatch_fn: does a step instead, called with (model,
        optimizer, transform_outputs, loss_fn, inputs, labels, sample_weights), and returns (outputs, loss).
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        if "loss" in kwargs and "loss_constructors" in kwargs:
            raise ValueError("pass either loss or loss_constructors")
        if kwargs.get("backward_passes_per_step", 1) <= 0:
            raise ValueError("backward_passes_per_step is at least 1")
        self._begin(kwargs)

    def getOptimizer(self) -> Any:  # noqa: N802 (Horovod's name)
        """The optimizer, for the model's parameters."""
        model, optimizer = self.getModel(), self.getOrDefault(self.optimizer)
        return _optimizer_for(model, optimizer, optimizer.state_dict()) if model and optimizer else optimizer

    def _check(self) -> None:
        super()._check()
        if self.getOrDefault("optimizer") is None:
            raise ValueError("TorchEstimator needs optimizer")
        if self.getLoss() is None and self.getOrDefault("loss_constructors") is None:
            raise ValueError("TorchEstimator needs loss, or loss_constructors")

    def _training(self, run_id: str, index: Any, checkpoint: bytes | None) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        optimizer = self.getOrDefault(self.optimizer)
        loss = self.getLoss()
        settings = self._settings(run_id, index) | {
            "losses": list(loss) if isinstance(loss, (list, tuple)) else [loss] if loss else None,
            "loss_constructors": self.getOrDefault("loss_constructors"),
            "metrics": list(self.getMetrics() or []),
            "input_shapes": self.getOrDefault("input_shapes"),
            "label_shapes": self.getLabelShapes(),
            "minibatch": self.getOrDefault("train_minibatch_fn"),
        }
        state = checkpoint or _dumps({"model": self.getModel().state_dict(), "optimizer": optimizer.state_dict()})
        return _train, (cloudpickle.dumps((settings, self.getModel(), type(optimizer))), state)

    def _create_model(self, result: Any, run_id: str, metadata: Mapping[str, Any]) -> Any:
        history, data = result
        state = _loads(data)
        model = copy.deepcopy(self.getModel())
        model.load_state_dict(state["model"])
        model.eval()
        return TorchModel(
            history=history,
            model=model,
            optimizer=_optimizer_for(model, self.getOrDefault(self.optimizer), state["optimizer"]),
            feature_columns=self.getFeatureCols(),
            label_columns=self.getLabelCols(),
            input_shapes=self.getOrDefault("input_shapes"),
            run_id=run_id,
            _metadata=dict(metadata),
            loss=self.getLoss(),
            loss_constructors=self.getOrDefault("loss_constructors"),
        )


@with_params(
    ("optimizer", None, None, ""),
    ("input_shapes", None, None, ""),
    ("loss", None, None, ""),
    ("loss_constructors", None, None, ""),
)
class TorchModel(XoeModel):
    """A trained ``torch.nn.Module``; ``getModel()`` is the network, ``getHistory()`` what each epoch gave."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        self._begin(kwargs)
        self._name_outputs()

    def _predictor(self) -> Callable[[], Callable[[list[Any]], list[Any]]]:
        return partial(_make_predictor, cloudpickle.dumps(self.getModel()), self.getOrDefault("input_shapes"))


def _make_predictor(pickled: bytes, shapes: Any) -> Callable[[list[Any]], list[Any]]:
    import torch

    model = cloudpickle.loads(pickled)
    model.eval()

    def predict(features: list[Any]) -> list[Any]:
        with torch.no_grad():
            found = model(*_inputs(features, shapes, "cpu"))
        return [one.numpy() for one in (found if isinstance(found, (list, tuple)) else [found])]

    return predict


def _inputs(features: Sequence[Any], shapes: Any, device: str) -> list[Any]:
    """Tensors of a batch, each with its shape."""
    import torch

    tensors = [torch.tensor(np.asarray(one, np.float32), device=device) for one in features]
    return [one.reshape(_with_rows(shape, len(one))) for one, shape in zip(tensors, shapes, strict=True)] if shapes else tensors


def _with_rows(shape: Sequence[int], rows: int) -> list[int]:
    """A shape for a batch: the first -1 is the rows; a shape without one is that of a row."""
    return [rows, *shape[1:]] if len(shape) > 0 and shape[0] == -1 else [rows, *shape]


def _train(pickled: bytes, state: bytes) -> Any:
    """Trains on this rank. Rank 0 returns the history and the last state."""
    import torch

    import xoe.torch as hvd

    hvd.init()
    settings, model, kind = cloudpickle.loads(pickled)
    if settings["seed"] is not None:
        torch.manual_seed(settings["seed"])
    training = _Training(settings, model, kind, _loads(state))
    history = [training.epoch(number) for number in range(settings["epochs"])]
    return (history, training.state()) if hvd.rank() == 0 else None


class _Training:
    """The loop of one rank."""

    def __init__(self, settings: Mapping[str, Any], model: Any, kind: Any, state: Mapping[str, Any]) -> None:
        import torch

        import xoe.torch as hvd

        self._settings, self._kind = settings, kind
        self._device = self._choose_device()
        model.load_state_dict(state["model"])
        self._model = model.to(self._device)
        plain = kind(model.parameters(), lr=1)
        plain.load_state_dict(state["optimizer"])
        for group in plain.param_groups:
            group["lr"] = group["lr"] * hvd.size()
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(plain, root_rank=0, model=model)
        more = {"compression": settings["compression"]} if settings["compression"] else {}
        self._optimizer = hvd.DistributedOptimizer(
            plain, named_parameters=model.named_parameters(), backward_passes_per_step=settings["passes"], **more
        )
        constructors = settings["loss_constructors"]
        self._losses = [make(model=model) for make in constructors] if constructors else settings["losses"]
        self._rows = rows_of(settings, hvd.rank(), hvd.size())
        self._held = rows_of(settings, hvd.rank(), hvd.size(), validation=True) if settings["validation"] else None
        self._torch = torch

    def _choose_device(self) -> str:
        import torch

        import xoe.torch as hvd

        if not (self._settings["use_gpu"] and torch.cuda.is_available()):
            return "cpu"
        torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())
        return "cuda"

    def epoch(self, number: int) -> dict[str, Any]:
        """Trains once on all rows; what the history has of it."""
        import xoe.torch as hvd

        found = {"epoch": number, "train": self._pass(self._rows.epoch(number, self._settings["steps"]), train=True)}
        if self._held is not None:
            with self._torch.no_grad():
                found["validation"] = self._pass(self._held.epoch(0, self._settings["validation_steps"]), train=False)
        if hvd.rank() == 0:
            if self._settings["verbose"]:
                print(found)
            if self._settings["checkpoint"]:
                self._settings["store"].write(self._settings["checkpoint"], self.state())
        return found

    def _pass(self, batches: Iterator[Mapping[str, Any]], train: bool) -> dict[str, Any]:
        import xoe.torch as hvd

        self._model.train(train)
        sums: list[float] = []
        steps = 0
        for index, batch in enumerate(batches):
            outputs, labels, loss = self._step(batch, index) if train else self._look(batch)
            values = [float(loss), *(float(one) for one in self._measure(outputs, labels))]
            sums = [a + b for a, b in zip(sums or [0.0] * len(values), values, strict=True)]
            steps = index + 1
        if train and steps % self._settings["passes"]:
            self._optimizer.step()
            self._optimizer.zero_grad()
        averages = hvd.allreduce(self._torch.tensor(sums, dtype=self._torch.float64) / max(1, steps)).tolist()
        labels = self._settings["labels"]
        names = [_name(metric) for metric in self._settings["metrics"]]
        measured = {
            name: dict(zip(labels, averages[1 + len(labels) * place :], strict=False)) for place, name in enumerate(names)
        }
        return {"loss": averages[0], "all_metrics": measured}

    def _measure(self, outputs: Sequence[Any], labels: Sequence[Any]) -> list[Any]:
        with self._torch.no_grad():
            return [
                metric(out, label) for metric in self._settings["metrics"] for out, label in zip(outputs, labels, strict=True)
            ]

    def _batch(self, batch: Mapping[str, Any]) -> tuple[list[Any], list[Any], Any]:
        settings = self._settings
        inputs = _inputs([batch[name] for name in settings["features"]], settings["input_shapes"], self._device)
        labels = _inputs([batch[name] for name in settings["labels"]], None, self._device)
        weights = _inputs([batch[settings["weight"]]], None, self._device)[0] if settings["weight"] else None
        return inputs, labels, weights

    def _transform_outputs(self, outputs: Any, labels: list[Any]) -> tuple[list[Any], list[Any]]:
        """Labels in the shapes of the outputs, or in label_shapes."""
        outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        shapes = self._settings["label_shapes"]
        if shapes:
            return outputs, [one.reshape(_with_rows(shape, len(one))) for one, shape in zip(labels, shapes, strict=True)]
        pairs = zip(outputs, labels, strict=True)
        return outputs, [label.reshape(out.shape) if label.numel() == out.numel() else label for out, label in pairs]

    def _loss(self, outputs: Sequence[Any], labels: Sequence[Any], weights: Any) -> Any:
        shares = self._settings["loss_weights"] or [1 / len(labels)] * len(labels)
        functions = self._losses if len(self._losses) == len(labels) else self._losses * len(labels)
        if weights is None:
            parts = [function(out, label) for function, out, label in zip(functions, outputs, labels, strict=True)]
        else:
            parts = [
                _weighted(function, out, label, weights)
                for function, out, label in zip(functions, outputs, labels, strict=True)
            ]
        return sum(share * part for share, part in zip(shares, parts, strict=True))

    def _step(self, batch: Mapping[str, Any], index: int) -> tuple[Sequence[Any], Sequence[Any], Any]:
        inputs, labels, weights = self._batch(batch)
        if self._settings["minibatch"]:
            outputs, loss = self._settings["minibatch"](
                self._model, self._optimizer, self._transform_outputs, self._loss, inputs, labels, weights
            )
            return *self._transform_outputs(outputs, labels), loss.detach()
        first, last = index % self._settings["passes"] == 0, (index + 1) % self._settings["passes"] == 0
        if first:
            self._optimizer.zero_grad()
        outputs, labels = self._transform_outputs(self._model(*inputs), labels)
        loss = self._loss(outputs, labels, weights)
        loss.backward()
        if last:
            self._optimizer.step()
        return outputs, labels, loss.detach()

    def _look(self, batch: Mapping[str, Any]) -> tuple[Sequence[Any], Sequence[Any], Any]:
        inputs, labels, weights = self._batch(batch)
        outputs, labels = self._transform_outputs(self._model(*inputs), labels)
        return outputs, labels, self._loss(outputs, labels, weights)

    def state(self) -> bytes:
        """What another fit continues from, with the learning rate of one rank."""
        import xoe.torch as hvd

        state = copy.copy(self._optimizer.state_dict())
        state["param_groups"] = [{**group, "lr": group["lr"] / hvd.size()} for group in state["param_groups"]]
        return _dumps({"model": self._model.state_dict(), "optimizer": state})


def _weighted(function: Any, output: Any, label: Any, weights: Any) -> Any:
    """The mean loss of rows that count differently."""
    import torch

    if isinstance(function, torch.nn.Module):
        function = copy.copy(function)
        function.reduction = "none"
        each = function(output, label)
    else:
        each = function(output, label, reduction="none")
    return (each.reshape(len(weights), -1).mean(1) * weights).mean()


def _name(metric: Any) -> str:
    return getattr(metric, "__name__", type(metric).__name__)
