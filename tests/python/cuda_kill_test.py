"""A rank is killed between collectives of CUDA tensors: the other one is told which, within seconds, and can still use its GPU. The two
ranks share a GPU where there is only one. Skipped without a GPU."""

import os
import signal
import subprocess
import sys
import time

import ranks

VICTIM = 1
PATIENCE = 10.0  # seconds
ROLE = "XOE_TEST_ROLE"


def rank():
    import torch

    import xoe
    import xoe.torch as hvd

    hvd.init()
    device = torch.device("cuda", hvd.local_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)
    tensor = torch.ones(1 << 20, device=device)
    for _ in range(20):
        hvd.allreduce_(tensor, op=hvd.Average, name="before")
    assert torch.equal(tensor, torch.ones_like(tensor))
    if hvd.rank() == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    started = time.monotonic()
    for _ in range(2):  # the second one knows already
        try:
            hvd.allreduce_(tensor, op=hvd.Average, name="after")
        except xoe.PeerLostError as error:
            assert VICTIM in error.ranks, error
        else:
            raise AssertionError("no error")
    waited = time.monotonic() - started
    assert waited < PATIENCE, f"told after {waited:.1f} s"
    assert (torch.ones(4, device=device) * 2).sum().item() == 8
    print("told", flush=True)


def lose_one(way):
    common = {"XOE_GPU": way, ROLE: "rank", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(ranks.free_port())}  # fmt: skip
    processes = [
        subprocess.Popen(
            [ranks.interpreter(), __file__], env=ranks.environment(**common, RANK=str(number), LOCAL_RANK=str(number)),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for number in range(2)
    ]  # fmt: skip
    ends = []
    for process in processes:
        try:
            output = process.communicate(timeout=60)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            output = process.communicate()[0] + "\nended after 60 s"
        ends.append((process.returncode, output))
    (code, said), (victims_code, victim_said) = ends
    assert victims_code == -signal.SIGKILL, f"XOE_GPU={way}: rank {VICTIM}: {victims_code}: {victim_said}"
    assert code == 0 and "told" in said, f"XOE_GPU={way}: rank 0: {code}: {said}"


def main():
    ranks.gpus()
    for way in ("auto", "host"):
        lose_one(way)
        print(f"XOE_GPU={way}: good", flush=True)


if __name__ == "__main__":
    rank() if os.environ.get(ROLE) == "rank" else sys.exit(main())
