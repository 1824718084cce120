"""Scripts as Horovod's documentation writes them, with `import horovod.torch as hvd`, run unchanged on packages/xoe-horovod."""

import os
import pathlib
import shutil
import subprocess
import textwrap
import unittest

import ranks

PATH = os.pathsep.join([str(ranks.BUILD / "python"), str(ranks.ROOT / "packages" / "xoe-horovod")])

TRAINING = """
import torch
import torch.nn.functional as F
from torch import optim
import horovod
import horovod.torch as hvd

hvd.init()
if torch.cuda.is_available():
    torch.cuda.set_device(hvd.local_rank())
torch.manual_seed(42)
torch.set_num_threads(1)

x = torch.randn(256, 20)
train_dataset = torch.utils.data.TensorDataset(x, (x[:, :10] @ torch.randn(10, 3)).argmax(1))
train_sampler = torch.utils.data.distributed.DistributedSampler(train_dataset, num_replicas=hvd.size(), rank=hvd.rank())
train_loader = torch.utils.data.DataLoader(train_dataset, batch_size=16, sampler=train_sampler)

model = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3), torch.nn.LogSoftmax(1))
optimizer = optim.SGD(model.parameters(), lr=0.05 * hvd.size(), momentum=0.5)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
compression = hvd.Compression.fp16
optimizer = hvd.DistributedOptimizer(optimizer,
                                     named_parameters=model.named_parameters(),
                                     compression=compression,
                                     op=hvd.Average,
                                     gradient_predivide_factor=1.0)

def metric_average(val, name):
    tensor = torch.tensor(val)
    avg_tensor = hvd.allreduce(tensor, name=name)
    return avg_tensor.item()

losses = []
for epoch in range(8):
    train_sampler.set_epoch(epoch)
    for batch_idx, (data, target) in enumerate(train_loader):
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
    losses.append(metric_average(loss.item(), 'avg_loss'))
assert losses[-1] < losses[0] / 2, losses

result = hvd.synchronize(hvd.allreduce_async(torch.ones(2) * hvd.rank(), name='sum', op=hvd.Sum))
assert result.tolist() == [sum(range(hvd.size()))] * 2
if hvd.rank() == 0:
    print('trained with', horovod.__version__)
"""

ELASTIC = """
import torch
import horovod.torch as hvd
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.torch.elastic import TorchState
from horovod.torch.elastic.sampler import ElasticSampler

hvd.init()
torch.set_num_threads(1)
epochs, dataset = 2, list(range(64))
model = torch.nn.Linear(1, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 1e-4 * hvd.size()))
sampler = ElasticSampler(dataset, shuffle=False)
loader = torch.utils.data.DataLoader(dataset, batch_size=4, sampler=sampler)

@hvd.elastic.run
def train(state):
    for state.epoch in range(state.epoch, epochs):
        for batch_idx, data in enumerate(loader):
            optimizer.zero_grad()
            model(data.float().reshape(-1, 1)).sum().backward()
            optimizer.step()
            state.sampler.record_batch(batch_idx, 4)
            if batch_idx % 4 == 0:
                state.commit()
        state.sampler.set_epoch(state.epoch + 1)
    return state.epoch

def on_state_reset():
    for param_group in optimizer.param_groups:
        param_group['lr'] = 1e-4 * hvd.size()

state = hvd.elastic.TorchState(model, optimizer, epoch=0, sampler=sampler)
state.register_reset_callbacks([on_state_reset])
assert train(state) == epochs - 1 and isinstance(state, TorchState)
everywhere = hvd.allgather(model.weight.detach())
assert torch.equal(everywhere, everywhere[:1].expand_as(everywhere))
if hvd.rank() == 0:
    print('elastic trained')
"""

NAMES = """
import horovod
import horovod.torch as hvd
import horovod.torch.mpi_ops as mpi_ops
import xoe
import xoe.torch
from horovod.common.elastic import ObjectState, State
from horovod.common.process_sets import ProcessSet, add_process_set
from horovod.torch.compression import Compression
from horovod.torch.functions import broadcast_object, broadcast_parameters
from horovod.torch.mpi_ops import Average, HorovodInternalError, allreduce_async_, rank, synchronize
from horovod.torch.optimizer import DistributedOptimizer
from horovod.torch.sync_batch_norm import SyncBatchNorm

assert horovod.__version__ == f"0.28.1+xoe.{xoe.__version__}", horovod.__version__
assert all(getattr(hvd, name) is getattr(xoe.torch, name) for name in xoe.torch.__all__ if name != "elastic")
assert DistributedOptimizer is hvd.DistributedOptimizer and mpi_ops.allreduce is hvd.allreduce
assert hvd.HorovodInternalError is xoe.HorovodInternalError is HorovodInternalError
assert hvd.elastic.TorchState is xoe.torch.elastic.TorchState and hvd.elastic.run is xoe.torch.elastic.run
from horovod.runner import run
assert horovod.run is run
try:
    import horovod.tensorflow
except ModuleNotFoundError:
    print("named")
"""


RUN = """
import horovod
import horovod.torch as hvd

def unready():
    try:
        hvd.rank()
    except ValueError:
        return not hvd.is_initialized()

def where(factor):
    before = unready()
    hvd.init()
    place = factor * hvd.rank(), hvd.size()
    hvd.shutdown()
    return before, unready(), place

assert horovod.run(where, args=(10,), num_proc=2, use_gloo=True) == [(True, True, (0, 2)), (True, True, (10, 2))]
assert horovod.run(unready, np=1) == [True]
print('ran')
"""


MODULES = """
import os
import threading
import horovod.torch as hvd
from horovod.common.exceptions import HorovodVersionMismatchError, get_version_mismatch_message
from horovod.common.util import (_cache, ccl_built, check_extension, cuda_built, ddl_built, env, extension_available, gloo_built,
    gpu_available, is_iterable, is_version_greater_equal_than, mpi_built, nccl_built, num_rank_is_power_2, rocm_built, split_list)
from horovod.runner.common.util.env import get_env_rank_and_size
from horovod.runner.launch import run_commandline
from horovod.runner.util.threads import execute_function_multithreaded, in_thread, on_event
from horovod.torch.compression import Compressor, FP16Compressor, NoneCompressor

before = get_env_rank_and_size()
hvd.init()
assert before == (hvd.rank(), hvd.size())
assert os.environ['HOROVOD_RANK'] == str(hvd.rank()) and os.environ['HOROVOD_LOCAL_SIZE'] == str(hvd.local_size())
assert hvd.mpi_ops.allreduce is hvd.allreduce and hvd.optimizer.DistributedOptimizer is hvd.DistributedOptimizer
assert hvd.functions.broadcast_object is hvd.broadcast_object and hvd.sync_batch_norm.SyncBatchNorm is hvd.SyncBatchNorm
assert hvd.elastic.state.TorchState is hvd.elastic.TorchState and hvd.compression.Compression is hvd.Compression
assert gloo_built() and gloo_built(verbose=True) and cuda_built() and not (rocm_built() or ddl_built() or ccl_built())
assert extension_available('torch') and extension_available('tensorflow') and not extension_available('caffe')
check_extension('horovod.torch', 'HOROVOD_WITH_PYTORCH', __file__, 'mpi_lib_v2')
try:
    check_extension('horovod.caffe', 'HOROVOD_WITH_CAFFE', __file__, 'mpi_lib')
except ImportError:
    pass
else:
    raise AssertionError
with env(SHIM_A='1', SHIM_B=None, HOME='/nowhere'):
    assert os.environ['SHIM_A'] == '1' and os.environ['HOME'] == '/nowhere' and 'SHIM_B' not in os.environ
assert 'SHIM_A' not in os.environ and os.environ['HOME'] != '/nowhere'
assert split_list(list(range(7)), 3) == [[0, 1, 2], [3, 4], [5, 6]] and is_iterable([]) and not is_iterable(1)
assert [n for n in range(9) if num_rank_is_power_2(n)] == [1, 2, 4, 8]
assert is_version_greater_equal_than('2.10.0', '2.9.1') and not is_version_greater_equal_than('2.9.0+cpu', '2.9.1')
turns = iter([1, 2])
turn = _cache(lambda: next(turns))
assert turn() == turn() == 1
assert execute_function_multithreaded(lambda a, b: a + b, [[1, 2], [3, 4]]) == {0: 3, 1: 7}
happened, ran, stop = threading.Event(), threading.Event(), threading.Event()
thread = on_event(happened, ran.set, stop=stop, check_stop_interval_s=0.01, daemon=False)
assert not ran.is_set()
happened.set()
thread.join()
assert ran.is_set()
thread = on_event(threading.Event(), happened.clear, stop=stop, check_stop_interval_s=0.01)
stop.set()
thread.join()
assert happened.is_set()
in_thread(lambda: 1 / 0, silent=True).join()
assert 'torch' in str(HorovodVersionMismatchError('torch', '2', '1')) and callable(run_commandline)
print('modules')
"""


def run(folder, size, text, words):
    path = pathlib.Path(folder) / "script.py"
    path.write_text(textwrap.dedent(text))
    done = ranks.run(size, path, PYTHONPATH=PATH)
    assert done.returncode == 0 and words in done.stdout, f"exit code {done.returncode}\n{done.stdout}"
    print(f"  {words!r} on {size} ranks after {done.seconds:.1f} s", flush=True)


def test_names(folder):
    run(folder, 1, NAMES, "named")


def test_modules(folder):
    """What Horovod's examples, documentation and tests, and programs of others, import besides."""
    run(folder, 2, MODULES, "modules")


def test_run(folder):
    """A function finds Horovod as in a new process, as that of PyTorch Ignite requires."""
    run(folder, 1, RUN, "ran")


def test_training(folder):
    run(folder, 2, TRAINING, "trained with 0.28.1+xoe.")


def test_elastic(folder):
    run(folder, 2, ELASTIC, "elastic trained")


def test_wheel(folder):
    """The wheel holds every module; nothing is downloaded."""
    source = ranks.ROOT / "packages" / "xoe-horovod"
    modules = {str(path.relative_to(source)) for path in source.glob("horovod/**/*.py")}
    copy = pathlib.Path(folder) / "packages" / "xoe-horovod"  # building leaves files behind
    shutil.copytree(source, copy)
    shutil.copy(ranks.ROOT / "CMakeLists.txt", folder)
    python = ranks.interpreter()
    code = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
    needed = "import setuptools, sys; sys.exit(int(setuptools.__version__.partition('.')[0]) < 77)"
    if subprocess.run([python, "-c", needed], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise unittest.SkipTest("no setuptools, or one before 77")
    done = subprocess.run([python, "-c", code, folder], cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    wheel = pathlib.Path(folder) / done.stdout.splitlines()[-1]
    listed = subprocess.run([python, "-m", "zipfile", "-l", str(wheel)], capture_output=True, text=True, check=True).stdout
    missing = [module for module in modules if module not in listed]
    assert wheel.name.endswith("-py3-none-any.whl") and not missing, f"{wheel.name}: {missing} missing in\n{listed}"


ranks.drive(globals())
