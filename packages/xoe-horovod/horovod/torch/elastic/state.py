"""The state of ``xoe.torch.elastic``, and its handlers."""

from xoe.torch.elastic.state import ModelStateHandler as ModelStateHandler
from xoe.torch.elastic.state import OptimizerStateHandler as OptimizerStateHandler
from xoe.torch.elastic.state import SamplerStateHandler as SamplerStateHandler
from xoe.torch.elastic.state import StateHandler as StateHandler
from xoe.torch.elastic.state import TorchState as TorchState
from xoe.torch.elastic.state import get_handler_registry as get_handler_registry
from xoe.torch.elastic.state import set_handler_registry as set_handler_registry
