"""The backend "xoe" of torch.distributed: DDP, FSDP2, DTensor and other users of PyTorch's collectives run on the engine.

::

    import xoe.torch.distributed  # not needed where the package was installed: PyTorch finds the backend
    torch.distributed.init_process_group("xoe")

docs/guide/torch-distributed.md describes what it supports.
"""

from xoe._torch_autoload import register
from xoe.torch.distributed import callbacks, subgroups
from xoe.torch.distributed.group import Group
from xoe.torch.distributed.hook import allreduce_hook

__all__ = ["Group", "allreduce_hook"]

register()
subgroups.watch()
callbacks.watch()
