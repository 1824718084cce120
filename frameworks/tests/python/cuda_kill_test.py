"""A rank is killed between collectives of CUDA tensors: the other one is told which, within seconds, and can still use its GPU. The two
ranks share a GPU where there is only one. Skipped without a GPU.

    cuda_kill_test.py [cuda|cpu [WAY...]]       ways: values of XOE_GPU; cpu shows that this test runs, and needs no GPU

Prints for each way {"told_s": seconds until the other rank was told}.
"""

import json
import os
import signal
import subprocess
import sys
import time

import ranks

VICTIM = 1
PATIENCE = 10.0  # seconds, without other work
ROLE = "XOE_TEST_ROLE"
DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cuda"
WAYS = sys.argv[2:] or ("auto", "host")


def rank():
    import torch

    import xoe
    import xoe.torch as hvd

    hvd.init()
    if DEVICE == "cuda":
        torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())
    device = torch.device(DEVICE)
    tensor = torch.ones(1 << 20, device=device)
    for _ in range(20):
        hvd.allreduce_(tensor, op=hvd.Average, name="before")
    assert torch.equal(tensor, torch.ones_like(tensor))
    if hvd.rank() == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    started = time.monotonic()
    waited = None
    for _ in range(2):  # the second one knows already
        try:
            hvd.allreduce_(tensor, op=hvd.Average, name="after")
        except xoe.PeerLostError as error:
            assert VICTIM in error.ranks, error
        else:
            raise AssertionError("no error")
        waited = waited or time.monotonic() - started
    assert waited < ranks.told_within(PATIENCE), f"told after {waited:.1f} s"
    assert (torch.ones(4, device=device) * 2).sum().item() == 8
    print(json.dumps({"told_s": waited}), flush=True)


def lose_one(way):
    common = {"XOE_GPU": way, ROLE: "rank", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(ranks.free_port())}  # fmt: skip
    processes = [
        subprocess.Popen(
            [ranks.interpreter(), __file__, DEVICE], env=ranks.environment(**common, RANK=str(number), LOCAL_RANK=str(number)),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for number in range(2)
    ]  # fmt: skip
    ends = []
    for process in processes:
        try:
            output = process.communicate(timeout=ranks.HANGS)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            output = process.communicate()[0] + "\nended after 60 s"
        ends.append((process.returncode, output))
    (code, said), (victims_code, victim_said) = ends
    assert victims_code == -signal.SIGKILL, f"XOE_GPU={way}: rank {VICTIM}: {victims_code}: {victim_said}"
    assert code == 0 and "told_s" in said, f"XOE_GPU={way}: rank 0: {code}: {said}"
    print(next(line for line in said.splitlines() if line.startswith("{")), flush=True)


def main():
    if DEVICE == "cuda":
        ranks.gpus()
    for way in WAYS:
        lose_one(way)
        print(f"XOE_GPU={way}: good", flush=True)


if __name__ == "__main__":
    rank() if os.environ.get(ROLE) == "rank" else sys.exit(main())
