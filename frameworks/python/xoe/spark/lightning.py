"""An estimator for Lightning: a LightningModule, trained on the rows of a data frame by a Trainer on each rank."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import cloudpickle

from xoe.spark.estimator import XoeEstimator, rows_of
from xoe.spark.params import with_params
from xoe.spark.torch import TorchModel, _dumps, _inputs, _loads

_OF_TORCH = ("optimizer", "loss", "loss_constructors", "train_minibatch_fn", "metrics", "loss_weights", "gradient_compression")


@with_params(
    ("input_shapes", None, None, ""),
    ("loss_constructors", None, None, ""),
    ("train_minibatch_fn", None, None, ""),
    ("trainer_args", None, None, ""),
    ("num_gpus", None, None, ""),
    ("logger", None, None, ""),
    ("log_every_n_steps", 50, None, ""),
    ("loader_num_epochs", None, None, ""),
    ("terminate_on_nan", False, None, ""),
    ("profiler", None, None, ""),
    ("debug_data_loader", False, None, ""),
    ("train_async_data_loader_queue_size", None, None, ""),
    ("val_async_data_loader_queue_size", None, None, ""),
)
class TorchEstimator(XoeEstimator):
    """Trains a ``LightningModule``; ``fit(data_frame)`` gives a :class:`TorchModel`.

    model: its steps get each batch as a dictionary of float32 tensors, one for each of ``feature_cols``, ``label_cols`` and
        ``sample_weight_col``, in the shapes of ``input_shapes`` and ``label_shapes``. Its optimizers are those of
        ``configure_optimizers``, and its learning rate is not changed.
    epochs, callbacks, logger, log_every_n_steps, profiler, and all of ``trainer_args``: as ``lightning.Trainer`` has them; its
        strategy is DDP on the backend "xoe". Hosts must have as many ranks each.
    store, run_id, validation, batch_size, random_seed, shuffle, transformation_fn: as those of ``xoe.spark.torch``.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        self._begin(kwargs)

    def _check(self) -> None:
        import lightning

        super()._check()
        if not isinstance(self.getModel(), lightning.LightningModule):
            kind = type(self.getModel())
            raise ValueError(
                f"model is a {kind.__module__}.{kind.__name__}; give a lightning.LightningModule, or use xoe.spark.torch"
            )
        given = [name for name in _OF_TORCH if self.getOrDefault(name)]
        if given:
            raise ValueError(
                f"the LightningModule says itself what {', '.join(given)} would; leave that out, or use xoe.spark.torch"
            )
        if self.getBackwardPassesPerStep() != 1:
            raise ValueError("pass trainer_args={'accumulate_grad_batches': ...} instead of backward_passes_per_step")

    def _training(self, run_id: str, index: Any, checkpoint: bytes | None) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        settings = self._settings(run_id, index) | {
            "input_shapes": self.getOrDefault("input_shapes"),
            "label_shapes": self.getLabelShapes(),
            "callbacks": list(self.getCallbacks() or []),
            "trainer": {
                "logger": self.getOrDefault("logger") or False,
                "log_every_n_steps": self.getOrDefault("log_every_n_steps"),
                "profiler": self.getOrDefault("profiler"),
                "detect_anomaly": bool(self.getOrDefault("terminate_on_nan")),
                **(self.getOrDefault("trainer_args") or {}),
            },
        }
        return _train, (cloudpickle.dumps((settings, self.getModel())), checkpoint)

    def _create_model(self, result: Any, run_id: str, metadata: Mapping[str, Any]) -> Any:
        history, data = result
        model = copy.deepcopy(self.getModel())
        model.load_state_dict(_loads(data)["model"])
        model.eval()
        return TorchModel(
            history=history,
            model=model,
            feature_columns=self.getFeatureCols(),
            label_columns=self.getLabelCols(),
            input_shapes=self.getOrDefault("input_shapes"),
            run_id=run_id,
            _metadata=dict(metadata),
        )


def _train(pickled: bytes, checkpoint: bytes | None) -> Any:
    """Trains on this rank. Rank 0 returns the history and the last state."""
    import lightning
    import torch
    from lightning.pytorch.strategies import DDPStrategy

    import xoe
    import xoe.torch.distributed  # the backend

    xoe.init()
    rank, size = xoe.rank(), xoe.size()
    settings, module = cloudpickle.loads(pickled)
    if checkpoint is not None:
        module.load_state_dict(_loads(checkpoint)["model"])
    if settings["seed"] is not None:
        lightning.seed_everything(settings["seed"], verbose=False)
    record = _recorder(settings, rank)
    options = {
        "accelerator": "gpu" if settings["use_gpu"] and torch.cuda.is_available() else "cpu",
        "devices": xoe.local_size(),
        "num_nodes": size // xoe.local_size(),
        "strategy": DDPStrategy(process_group_backend="xoe"),
        "max_epochs": settings["epochs"],
        "use_distributed_sampler": False,
        "enable_checkpointing": False,
        "enable_progress_bar": settings["verbose"] > 1 and rank == 0,
        "enable_model_summary": settings["verbose"] > 1 and rank == 0,
        **settings["trainer"],
        "callbacks": [record, *settings["callbacks"]],
    }
    held = _loader(settings, rank, size, validation=True) if settings["validation"] else None
    lightning.Trainer(**options).fit(module, _loader(settings, rank, size), held)
    return (record.history, _dumps({"model": module.state_dict()})) if rank == 0 else None


def _loader(settings: Mapping[str, Any], rank: int, size: int, validation: bool = False) -> Any:
    """Batches of this rank's rows, in another order in each epoch."""
    import torch

    rows = rows_of(settings, rank, size, validation)
    steps = settings["validation_steps" if validation else "steps"] or rows.batches

    class Batches(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
        def __init__(self) -> None:
            self.epoch = -1

        def __len__(self) -> int:
            return int(steps)

        def __iter__(self) -> Iterator[dict[str, Any]]:
            self.epoch += 1
            for batch in rows.epoch(0 if validation else self.epoch, steps):
                found: dict[str, Any] = {}
                for names, shapes in (
                    (settings["features"], settings["input_shapes"]),
                    (settings["labels"], settings["label_shapes"]),
                ):
                    found |= dict(zip(names, _inputs([batch[name] for name in names], shapes, "cpu"), strict=True))
                if settings["weight"]:
                    found[settings["weight"]] = _inputs([batch[settings["weight"]]], None, "cpu")[0]
                yield found

    return torch.utils.data.DataLoader(Batches(), batch_size=None)


def _recorder(settings: Mapping[str, Any], rank: int) -> Any:
    """A callback that keeps each epoch's metrics, and writes rank 0's checkpoint into the store."""
    import lightning

    class Recorder(lightning.Callback):
        def __init__(self) -> None:
            self.history: list[dict[str, Any]] = []

        def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
            metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
            self.history.append({"epoch": trainer.current_epoch, **metrics})
            if rank == 0 and settings["checkpoint"]:
                settings["store"].write(settings["checkpoint"], _dumps({"model": module.state_dict()}))

    return Recorder()
