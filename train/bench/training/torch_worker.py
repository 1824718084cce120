"""One PyTorch worker: ResNet-50 on one random batch, alone or with DistributedDataParallel (Gloo).

Prints one JSON line: {"images_per_s": ..., "step_ms": ...}. The network and the loop are those of `xoe-train
--synthetic`: SGD with momentum and weight decay, the same initialisation and order of memory, the loss and the accuracy read in each step, once
backward has been started. On "cuda" the batch lies on the GPU, and cuDNN chooses its algorithms by trial.
"""

import argparse
import json
import os
import statistics
import time

import torch
from torch import nn
from torch.nn import functional


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        out = width * 4
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        x = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        x = functional.relu(self.bn2(self.conv2(x)), inplace=True)
        return functional.relu(self.bn3(self.conv3(x)).add_(identity), inplace=True)


class ResNet50(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        blocks = []
        channels = 64
        for stage, count in enumerate((3, 4, 6, 3)):
            for index in range(count):
                width = 64 << stage
                blocks.append(Bottleneck(channels, width, 2 if stage > 0 and index == 0 else 1))
                channels = width * 4
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if isinstance(module, Bottleneck):
                nn.init.zeros_(module.bn3.weight)

    def forward(self, x):
        x = self.pool(functional.relu(self.bn1(self.conv1(x)), inplace=True))
        x = functional.adaptive_avg_pool2d(self.blocks(x), 1)
        return self.fc(torch.flatten(x, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ddp", action="store_true", help="join the group that RANK, WORLD_SIZE, ... describe")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--image-size", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--warmup", type=int, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    options = parser.parse_args()

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    torch.backends.cudnn.benchmark = True
    precision = torch.autocast(options.device, torch.bfloat16, enabled=options.precision == "bf16")
    rank = int(os.environ.get("RANK", "0"))
    torch.manual_seed(1)
    model = ResNet50().to(options.device, memory_format=torch.channels_last)
    if options.compile:
        model = torch.compile(model)
    size = 1
    if options.ddp:
        torch.distributed.init_process_group("gloo")
        size = torch.distributed.get_world_size()
        # The fast settings: gradients as views of the buckets, and running statistics kept per rank, as Xoe does.
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, broadcast_buffers=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=5e-5)

    torch.manual_seed(100 + rank)
    images = torch.randn(options.batch, 3, options.image_size, options.image_size)
    images = images.to(options.device).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(1000, (options.batch,)).to(options.device)
    times = []
    for step in range(options.warmup + options.steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        with precision:
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
        correct = (logits.argmax(1) == labels).sum()
        loss.backward()
        loss.item()
        correct.item()
        optimizer.step()
        if step >= options.warmup:
            times.append(time.perf_counter() - start)
    if rank == 0:
        speed = size * options.batch * len(times) / sum(times)
        print(json.dumps({"images_per_s": speed, "step_ms": statistics.median(times) * 1e3}), flush=True)
    if options.ddp:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
