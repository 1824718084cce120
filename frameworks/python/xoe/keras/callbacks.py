"""Callbacks for ``fit``, with Horovod's names and meanings, for Keras 3 on every backend."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from xoe import _arrays
from xoe import world as _world
from xoe.errors import InvalidArgumentError
from xoe.keras.versions import keras, learning_rate, to_numpy, variables_of, wait_for_programs
from xoe.process_sets import ProcessSet, global_process_set


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):
    """Gives all ranks the weights and the optimizer's state of ``root_rank``, when training begins: random ones differ, and
    checkpoints are loaded by one rank. Seeds of layers such as Dropout stay those of each rank. A model of tf_keras that makes
    its weights with its first batch gets them after that batch, as in Horovod."""

    def __init__(self, root_rank: int, device: str = "", local_variables: Any = None) -> None:
        super().__init__()
        del device
        self.root_rank = root_rank
        self.local = {id(variable) for variable in local_variables or ()}
        self.broadcast_done = False

    def on_train_begin(self, logs: Any = None) -> None:
        """Broadcasts once, if there are weights."""
        if self.model.built:
            self._broadcast()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Broadcasts where the first batch has made the weights."""
        self._broadcast()

    def _broadcast(self) -> None:
        if self.broadcast_done:
            return
        state = variables_of(self.model.optimizer, self.model)
        variables = [one for one in [*self.model.weights, *state] if id(one) not in self.local]
        wait_for_programs()
        values = _arrays.broadcast([to_numpy(variable) for variable in variables], self.root_rank)
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
        self.broadcast_done = True


class MetricAverageCallback(keras.callbacks.Callback):
    """Averages the logs of an epoch over all ranks. Put it before callbacks that read them, such as ReduceLROnPlateau."""

    def __init__(self, device: str = "", process_set: ProcessSet = global_process_set) -> None:
        super().__init__()
        del device
        self.process_set = process_set

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Averages what are numbers; the ranks have the same names."""
        if not logs or self.process_set.size() == 1:
            return
        names = sorted(
            name for name, value in logs.items() if np.ndim(value) == 0 and np.issubdtype(np.asarray(value).dtype, np.number)
        )
        values = np.array([float(logs[name]) for name in names], np.float64)
        wait_for_programs()
        for name, value in zip(names, _arrays.allreduce([values], process_set=self.process_set)[0], strict=True):
            logs[name] = float(value)


class LearningRateScheduleCallback(keras.callbacks.Callback):
    """Sets the learning rate to ``initial_lr`` times a multiplier, from ``start_epoch`` up to but not with ``end_epoch``.

    multiplier: a number, or a function of the epoch: of a whole one where ``staircase``, else of a fraction at each batch.
    momentum_correction: the optimizer's momentum is scaled with the rate for one step, as Goyal et al. 2017 found best.
    """

    def __init__(
        self,
        initial_lr: float | None,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        if initial_lr is None:
            raise InvalidArgumentError("initial_lr is None; pass the learning rate that the multiplier is of")
        self.initial_lr = initial_lr
        self.multiplier: Callable[[float], float]
        if callable(multiplier):
            self.multiplier, self.staircase = multiplier, staircase
        else:
            factor = float(multiplier)
            self.multiplier, self.staircase = (lambda epoch: factor), True
        self.start_epoch, self.end_epoch = start_epoch, end_epoch
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch = 0
        self._momentum: float | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Finds out how many batches an epoch has."""
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = (self.params or {}).get("steps")
            if not self.steps_per_epoch:
                raise InvalidArgumentError(
                    f"{type(self).__name__} cannot tell how many batches an epoch has; pass steps_per_epoch"
                )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Notes the epoch."""
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Sets the rate."""
        if self.current_epoch < self.start_epoch or (self.end_epoch is not None and self.current_epoch >= self.end_epoch):
            return
        if self.staircase and batch == 0:
            self._adjust(self.current_epoch)
        elif not self.staircase and self.steps_per_epoch:
            self._adjust(self.current_epoch + batch / self.steps_per_epoch)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Restores the momentum."""
        if self._momentum is not None:
            self.model.optimizer.momentum = self._momentum
            self._momentum = None

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Logs the rate."""
        if logs is not None:
            logs["lr"] = learning_rate(self.model.optimizer)

    def _adjust(self, epoch: float) -> None:
        optimizer = self.model.optimizer
        before = learning_rate(optimizer)
        after = self.initial_lr * self.multiplier(epoch)
        optimizer.learning_rate = after
        # A compiled step has the momentum as a constant: only where Keras runs eagerly does the correction reach it.
        if self.momentum_correction and before > 0 and self.model.run_eagerly and getattr(optimizer, "momentum", 0):
            self._momentum = optimizer.momentum
            optimizer.momentum = self._momentum * after / before


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raises the learning rate from ``initial_lr / size()`` to ``initial_lr`` within ``warmup_epochs``, for the large
    batches of many ranks.

    initial_lr: the rate after the warm-up, so the one of one rank times ``size()``.
    """

    def __init__(
        self,
        initial_lr: float | None,
        warmup_epochs: float = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            size = _world.size()
            done = min(1.0, (epoch + 1.0 / (self.steps_per_epoch or 1)) / warmup_epochs)
            return 1.0 / size * (done * (size - 1) + 1)

        super().__init__(
            initial_lr,
            multiplier,
            start_epoch=0,
            end_epoch=int(-(-warmup_epochs // 1)),
            staircase=False,
            momentum_correction=momentum_correction,
            steps_per_epoch=steps_per_epoch,
        )
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Says on rank 0 that the warm-up has ended."""
        super().on_epoch_end(epoch, logs)
        if self.end_epoch is not None and epoch == self.end_epoch - 1 and self.verbose and _world.rank() == 0:
            rate = learning_rate(self.model.optimizer)
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {rate:g}.")


class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):
    """Keras's ModelCheckpoint with ``save_best_only``, which writes on rank 0 alone. Put it after MetricAverageCallback, so
    that the best model is that of all ranks."""

    def __init__(self, filepath: str, **options: Any) -> None:
        super().__init__(filepath, **{"save_best_only": True, **options})

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Saves on rank 0."""
        if _world.rank() == 0:
            super().on_epoch_end(epoch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Saves on rank 0."""
        if _world.rank() == 0:
            super().on_train_batch_end(batch, logs)


class CommitStateCallback(keras.callbacks.Callback):
    """Commits an elastic state every ``batches_per_commit`` batches, and at the end of each epoch; data sets in the state are
    told of each batch. Put it after callbacks that change the state. Subclasses may change :meth:`commit`."""

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        super().__init__()
        self.state, self.batches_per_commit = state, batches_per_commit
        self.batches_remaining = batches_per_commit
        self._told = -1  # the last batch of the epoch that the state was told of

    def on_train_begin(self, logs: Any = None) -> None:
        """Counts from here."""
        self.batches_remaining = self.batches_per_commit

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Batches count from 0 in each epoch."""
        self._told = -1

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Commits."""
        self.state.steps_done(batch - self._told)  # several, with steps_per_execution
        self._told = batch
        self.batches_remaining -= 1
        if self.batches_remaining == 0:
            self.commit()
            self.batches_remaining = self.batches_per_commit

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Commits."""
        self.commit()

    def commit(self) -> None:
        """Commits the state."""
        self.state.commit()


class UpdateBatchStateCallback(keras.callbacks.Callback):
    """Keeps ``state.batch`` up to date: the number of the last batch of an epoch that is done, from 0; 0 when the epoch is.

    Where ``steps`` is known, the progress bar of an epoch that goes on after a failure ends with its remaining batches. Keras
    itself would begin at the first one: give ``fit`` a data set, or ``steps_per_epoch``, without what was done.
    """

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self.steps_per_epoch: int | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Each ``fit`` has steps of its own."""
        self.steps_per_epoch = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Leaves out what was done."""
        if self.params.get("steps"):
            self.steps_per_epoch = self.steps_per_epoch or self.params["steps"]
            self.params["steps"] = self.steps_per_epoch - self.state.batch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Notes the batch."""
        self.state.batch = batch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """The next epoch begins with its first batch."""
        self.state.batch = 0


class UpdateEpochStateCallback(keras.callbacks.Callback):
    """Keeps ``state.epoch`` up to date: how many epochs are done, of all calls of ``fit`` together. It may go on with
    ``fit(initial_epoch=state.epoch, epochs=EPOCHS)`` or, as in Horovod, with ``fit(epochs=EPOCHS - state.epoch)``."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self.initial_epoch = state.epoch
        self._first: int | None = None  # of this fit, by Keras's count

    def on_train_begin(self, logs: Any = None) -> None:
        """Counts from the state's epoch."""
        self.initial_epoch, self._first = self.state.epoch, None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Notes where Keras's count begins."""
        self._first = epoch if self._first is None else self._first

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Notes how many are done."""
        self.state.epoch = self.initial_epoch + epoch - (self._first or 0) + 1


class TimelineCallback(keras.callbacks.Callback):
    """Writes a Chrome trace of the communication of some epochs: from the start of ``epoch`` for ``epochs``."""

    def __init__(self, path: str, epoch: int = 0, epochs: int = 1) -> None:
        super().__init__()
        self.path, self.first, self.last = path, epoch, epoch + epochs - 1

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Starts on all ranks; rank 0 writes."""
        if epoch == self.first:
            _world.start_timeline(self.path)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Ends."""
        if epoch == self.last:
            _world.stop_timeline()


class ThroughputCallback(keras.callbacks.Callback):
    """Logs ``samples_per_second`` of all ranks for each epoch, the first batch left out; counts steps for the panel of ``xoe
    run``."""

    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self.batch_size = batch_size
        self._started = 0.0
        self._batches = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begins to count."""
        self._started, self._batches = 0.0, 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Counts."""
        _world.current().engine.note_step()
        if self._started == 0.0:
            self._started = time.monotonic()
        else:
            self._batches += 1

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Logs the sum over the ranks."""
        seconds = time.monotonic() - self._started
        own = self._batches * self.batch_size / seconds if self._batches else 0.0
        wait_for_programs()
        (total,) = _arrays.allreduce([np.array([own])], "sum")
        if logs is not None:
            logs["samples_per_second"] = float(total[0])
