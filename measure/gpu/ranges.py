"""Whether Nsight Compute sees Xoe's ranges (NVTX): ranges.py NCU XOE runs itself on two ranks, rank 0 of them under NCU, which is told to
profile only kernels that are launched while the range "negotiate late" is open. Prints a JSON line with their number, which must not be 0.
"""

import json
import re
import subprocess
import sys

KERNELS = 5


def rank():
    """Rank 0 submits a sum, launches kernels, and then lets the other rank submit it, too."""
    import torch

    import xoe.torch as hvd

    hvd.init()
    tensor = torch.ones(1000, device="cuda")
    torch.cuda.synchronize()
    if hvd.rank() == 0:
        handle = hvd.allreduce_async_(tensor, name="late")
        other = torch.ones(1000, device="cuda")
        for _ in range(KERNELS):
            other = other * 2
        torch.cuda.synchronize()
        hvd.barrier()
        hvd.synchronize(handle)
    else:
        hvd.barrier()
        hvd.allreduce_(tensor, name="late")
    hvd.shutdown()


def main():
    ncu, xoe = sys.argv[1:]
    profiled = [ncu, "--nvtx", "--nvtx-include", "xoe@negotiate late", "--section", "LaunchStats", "--clock-control", "none"]
    only_rank_0 = f'[ "$XOE_RANK" = 0 ] || shift {len(profiled)}; exec "$@"'
    own = [sys.executable, __file__, "rank"]
    command = [xoe, "run", "-np", "2", "--no-tag-output", "sh", "-c", only_rank_0, "sh", *profiled, *own]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(done.stdout)
    kernels = len(re.findall(r"^ +\S.*\), Context \d+, Stream \d+", done.stdout, re.MULTILINE))
    print(json.dumps({"kernels": kernels}))
    if done.returncode == 0 and kernels == 0:
        return "Nsight Compute found no kernel within the range"
    return done.returncode


if __name__ == "__main__":
    sys.exit(rank() if sys.argv[1:] == ["rank"] else main())
