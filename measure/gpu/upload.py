"""What copying a batch of images to the GPU costs: from pageable memory, through pinned memory, and what of it a training hides that copies
in a stream of its own while the GPU computes, as `xoe train` does. Prints a JSON line.
"""

import argparse
import json
import statistics
import time

import torch


def median_seconds(action, synchronize, times=15):
    """Of an action that has completed on the device."""
    seconds = []
    for _ in range(times):
        synchronize()
        started = time.perf_counter()
        action()
        synchronize()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--mib", type=int, required=True, help="size of the batch")
    options = parser.parse_args()

    on_gpu = options.device == "cuda"
    synchronize = torch.cuda.synchronize if on_gpu else lambda: None
    batch = torch.ones(options.mib << 18)
    pinned = batch.pin_memory() if on_gpu else batch.clone()
    side = torch.cuda.Stream() if on_gpu else None
    operand = torch.randn(*(4096, 4096) if on_gpu else (256, 256), device=options.device)

    def upload():
        if side is None:
            return pinned.copy_(batch).clone()
        with torch.cuda.stream(side):
            return pinned.copy_(batch).to(options.device, non_blocking=True)

    def compute():
        for _ in range(40):
            operand @ operand

    def both():
        compute()
        upload()

    gb = batch.nbytes / 1e9
    seconds = {
        "pageable": median_seconds(lambda: batch.to(options.device, copy=True), synchronize),
        "pin": median_seconds(lambda: pinned.copy_(batch), synchronize),
        "pinned": median_seconds(lambda: pinned.to(options.device, copy=True, non_blocking=True), synchronize),
        "compute": median_seconds(compute, synchronize),
        "both": median_seconds(both, synchronize),
    }
    alone = seconds["pin"] + seconds["pinned"]
    print(
        json.dumps(
            {
                **{f"{name}_gb_s": gb / seconds[name] for name in ("pageable", "pin", "pinned")},
                "compute_ms": 1e3 * seconds["compute"],
                "both_ms": 1e3 * seconds["both"],
                "hidden": min(1.0, max(0.0, 1 - (seconds["both"] - seconds["compute"]) / alone)),
            }
        )
    )


if __name__ == "__main__":
    main()
