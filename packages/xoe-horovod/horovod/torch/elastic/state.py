"""The state of ``xoe.torch.elastic``."""

from xoe.torch.elastic import TorchState as TorchState
