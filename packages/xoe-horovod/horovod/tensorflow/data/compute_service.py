"""Horovod's wrapper of TensorFlow's data service, which is not here: each name says what to use."""

from __future__ import annotations

from typing import Any, NoReturn

from xoe.errors import UnsupportedError


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    del args, kwargs
    raise UnsupportedError(
        "horovod.tensorflow.data.compute_service is not supported; start tf.data.experimental.service.DispatchServer and"
        " WorkerServer yourself, and apply tf.data.experimental.service.distribute with the dispatcher's address, which"
        " hvd.broadcast_object gives to all ranks"
    )


class TfDataServiceConfig:
    """Refuses, and says what to use."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse()

    from_dict = read = staticmethod(_refuse)


tf_data_service = send_to_data_service = compute_worker_fn = _refuse
