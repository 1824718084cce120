"""How processes come to the backend "xoe", and what happens when one goes: torchrun, processes started by hand, `xoe run`;
a rank that does not come, and one that is killed.
"""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

import ranks

ROLE = "XOE_TEST_ROLE"


# ---- in a rank


def told_apart():
    """Without an import of xoe: PyTorch finds the backend by itself."""
    import torch
    import torch.distributed as dist

    assert "xoe.torch" not in sys.modules
    dist.init_process_group("xoe")
    tensor = torch.full((3,), float(dist.get_rank()))
    dist.all_reduce(tensor)
    assert tensor.tolist() == [sum(range(dist.get_world_size()))] * 3
    assert dist.get_backend() == "xoe"
    dist.destroy_process_group()
    print("met", flush=True)


def spawned(rank, port):
    import torch
    import torch.distributed as dist

    import xoe.torch.distributed  # noqa: F401

    assert "RANK" not in os.environ
    dist.init_process_group("xoe", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [2.0] * 3 and "RANK" not in os.environ
    dist.destroy_process_group()
    # Once more, from a file, and of one rank each.
    dist.init_process_group("xoe", store=dist.HashStore(), rank=0, world_size=1)
    dist.all_reduce(tensor)
    dist.destroy_process_group()
    print("met", flush=True)


def spawn():
    import torch.multiprocessing

    torch.multiprocessing.spawn(spawned, (free_port(),), nprocs=2)


def replaced():
    """XOE_TORCH_REPLACES: programs that name gloo, or no backend, get "xoe", also through names that they have imported."""
    import torch
    import torch.distributed as dist
    from torch.distributed import init_process_group, new_group
    from torch.distributed.device_mesh import init_device_mesh

    def total(group=None):
        tensor = torch.full((3,), float(dist.get_rank() + 1))
        dist.all_reduce(tensor, group=group)
        return tensor.tolist()

    os.environ["XOE_TORCH_REPLACES"] = "gloo,nccl"
    for start in (lambda: init_process_group("gloo"), init_process_group, lambda: init_device_mesh("cpu", (2,))):
        start()
        assert dist.get_backend() == "xoe" and total() == [3.0] * 3, dist.get_backend()
        dist.destroy_process_group()
    init_process_group(backend="cpu:gloo,cuda:nccl")
    assert dist.get_backend() == "cpu:xoe,cuda:xoe" and total() == [3.0] * 3, dist.get_backend()
    part = new_group([0, 1], backend="gloo")
    assert dist.get_backend(part) == "xoe" and total(part) == [3.0] * 3, dist.get_backend(part)
    os.environ["XOE_TORCH_REPLACES"] = "nccl"
    part = new_group([0, 1], backend="gloo")
    assert dist.get_backend(part) == "gloo" and total(part) == [3.0] * 3, dist.get_backend(part)
    os.environ["XOE_TORCH_REPLACES"] = "gloo,glo"
    try:
        new_group([0, 1])
        raise AssertionError("no error")
    except ValueError as error:
        assert "XOE_TORCH_REPLACES" in str(error) and "'glo'" in str(error) and "nccl" in str(error), error
    dist.destroy_process_group()
    print("met", flush=True)


def listeners():
    """The addresses at which this process listens."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(fd))) as one:
                if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and one.family != socket.AF_UNIX:
                    found.append(one.getsockname()[0])
        except OSError:
            pass  # no socket
    return found


def under_xoe_run():
    import torch
    import torch.distributed as dist

    import xoe.torch.distributed  # noqa: F401

    dist.init_process_group("xoe")
    reached = [address for address in listeners() if not address.startswith("127.")]
    assert not reached, f"other hosts reach the store of one host at {reached}"
    dist.destroy_process_group()
    dist.init_process_group("gloo")
    sub = dist.new_group([0], backend="xoe")
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(1), group=sub)
    dist.destroy_process_group()
    try:
        dist.init_process_group("xoe", store=dist.HashStore(), rank=0, world_size=5)
    except ValueError as error:
        assert "of 5" in str(error) and "of 2" in str(error), error
        print("met", flush=True)


def over_hosts():
    """Ranks of several hosts, started by core/tests/net/python_over_hosts.py: each rank's messages, and the store, listen where the other
    hosts reach them."""
    import torch
    import torch.distributed as dist

    import xoe.torch.distributed  # noqa: F401

    kind, host, _ = os.environ["XOE_STORE"].split(":")  # the hosts of that test have addresses of IPv4
    assert kind == "tcp", kind
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))
        own = probe.getsockname()[0]
    before = listeners()
    dist.init_process_group("xoe")
    more = [address for address in listeners() if address not in before]
    wanted = [own] * (2 if dist.get_rank() == 0 else 1)
    assert more == wanted, f"rank {dist.get_rank()}: {more}, not {wanted}"
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == dist.get_world_size()
    dist.destroy_process_group()
    print("met", flush=True)


def losing():
    """Rank 2 comes too late, and is then killed."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    import xoe.torch.distributed  # noqa: F401
    from xoe.errors import OperationTimeoutError, PeerLostError

    dist.init_process_group("xoe", timeout=timedelta(seconds=60))
    rank = dist.get_rank()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
    tensor = torch.ones(4)
    work = None if rank == 2 else dist.all_reduce(tensor, async_op=True)
    if rank != 2:
        try:
            work.wait(timedelta(seconds=0.2))
            raise AssertionError("no time-out")
        except OperationTimeoutError:
            pass
    dist.new_group([0, 1])  # all are here: the other ranks have seen the time-out
    if rank == 2:
        dist.all_reduce(tensor)
        model(torch.ones(1, 2)).sum().backward()
        os.kill(os.getpid(), signal.SIGKILL)
    work.wait()
    assert tensor.tolist() == [3.0] * 4
    model(torch.ones(1, 2)).sum().backward()
    started = time.monotonic()
    words = []
    for attempt in (
        lambda: dist.all_reduce(tensor),
        lambda: dist.all_reduce(tensor, async_op=True).wait(),
        lambda: dist.all_reduce(tensor, async_op=True).get_future().wait(),
        lambda: model(torch.ones(1, 2)).sum().backward(),
    ):
        try:
            attempt()
            raise AssertionError("no error")
        except RuntimeError as error:
            words.append((type(error) is PeerLostError, str(error)))
    assert time.monotonic() - started < 10, time.monotonic() - started
    assert [of_xoe for of_xoe, _ in words[:2]] == [True, True], words
    assert all("rank 2" in text for _, text in words), words
    print("told", flush=True)


def missing():
    """Rank 1 does not come in the time of the group."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    import xoe.torch.distributed  # noqa: F401
    from xoe.errors import HorovodInternalError

    dist.init_process_group("xoe", timeout=timedelta(seconds=5))
    if dist.get_rank() == 1:
        time.sleep(9)
    else:
        try:
            dist.all_reduce(torch.ones(1))
        except HorovodInternalError as error:
            assert "1" in str(error), error
            print("told", flush=True)


# ---- the driver


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def entry_point(folder, group):
    """What an installed package says of itself."""
    about = pathlib.Path(folder) / group / "xoe_test-0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: xoe-test\nVersion: 0\n")
    (about / "entry_points.txt").write_text(f"[{group}]\nxoe = xoe._torch_autoload:register\n")
    return os.pathsep.join([str(about.parent), ranks.environment()["PYTHONPATH"]])


def reads_backends():
    """Whether PyTorch looks for the entry points of backends."""
    look = "import torch.distributed as dist; raise SystemExit(not hasattr(dist.Backend, '_ensure_backend_registered'))"
    return subprocess.run([ranks.interpreter(), "-c", look], check=False).returncode == 0


def call(words, role, count, word, **variables):
    done = subprocess.run(
        [str(one) for one in words],
        env=ranks.environment(**{ROLE: role}, **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=ranks.HANGS,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.count(word) == count, f"{role}: {done.returncode}: {done.stdout}"
    print(f"{role}: good", flush=True)


def by_hand(size, role, expected):
    """Processes without a launcher, which would end them when one is lost."""
    port = str(free_port())
    processes = [
        subprocess.Popen(
            [ranks.interpreter(), __file__],
            env=ranks.environment(
                RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **{ROLE: role}
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        outputs = [process.communicate(timeout=ranks.HANGS)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for rank, (process, output) in enumerate(zip(processes, outputs, strict=True)):
        assert (process.returncode, output.count("told")) == expected[rank], (
            f"{role}: rank {rank}: {process.returncode}: {output}"
        )
    print(f"{role}: good", flush=True)


def main():
    python = ranks.interpreter()
    torchrun = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    with tempfile.TemporaryDirectory(prefix="xoe-test-") as folder:
        installed = entry_point(folder, "torch.backends")
        call([*torchrun, __file__], "told_apart", 2, "met", PYTHONPATH=installed)
        call([*torchrun, __file__], "replaced", 2, "met", PYTHONPATH=installed, XOE_TORCH_REPLACES="gloo")
        if reads_backends():
            path = entry_point(folder, "torch.distributed.backends")
            call([*torchrun, __file__], "told_apart", 2, "met", PYTHONPATH=path, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    call([python, __file__], "spawn", 2, "met")
    call(ranks.command(2, __file__), "under_xoe_run", 2, "met")
    by_hand(3, "losing", [(0, 1), (0, 1), (-signal.SIGKILL, 0)])
    by_hand(2, "missing", [(0, 1), (0, 0)])


if __name__ == "__main__":
    globals()[os.environ.get(ROLE, "main")]()
