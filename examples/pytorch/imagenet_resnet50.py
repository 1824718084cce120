"""ResNet-50 on ImageNet's record files, or any other folder of images that Xoe reads, on several ranks:

    xoe run -np 4 python examples/pytorch/imagenet_resnet50.py FOLDER --checkpoint resnet50.pt

With an existing checkpoint it resumes in the middle of the epoch. `xoe data make FOLDER` renders images for a try.
"""

import argparse
import math
import os
import time
from itertools import chain, islice, repeat

import torch
import torchvision
import xoe.torch as hvd
from xoe.torch.data import ImageDataset

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--validate", action="store_true", help="after each epoch")
parser.add_argument("--checkpoint", metavar="FILE")
parser.add_argument("--checkpoint-every", type=int, default=1000, metavar="STEPS")
parser.add_argument("--epochs", type=int, default=90)
parser.add_argument("--steps", type=int, help="stop after so many steps, also within an epoch, and write a checkpoint")
parser.add_argument("--batch", type=int, default=32, help="images of a rank in a step")
parser.add_argument("--image-size", type=int, default=224)
parser.add_argument("--lr", type=float, default=0.1, help="for 256 images in a step of all ranks")
parser.add_argument("--bf16", action="store_true", help="compute in bfloat16 where autocast allows it")
args = parser.parse_args()

hvd.init()
say = print if hvd.rank() == 0 else lambda _: None
device = torch.device("cuda", hvd.local_rank()) if torch.cuda.is_available() else torch.device("cpu")
precision = torch.autocast(device.type, torch.bfloat16, enabled=args.bf16)
options = {"batch": args.batch, "image_size": args.image_size, "threads": "auto", "processes": hvd.local_size()}
train = ImageDataset(args.folder, training=True, quality="fast", seed=1, **options)

model = torchvision.models.resnet50(num_classes=train.images.facts["classes"]).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-5)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


def learning_rate(step, warmup=5):
    """Grows from the rate for one rank to the rate for all (Goyal et al., 2017), then falls along a cosine."""
    epoch, alone = step / len(train), args.lr * args.batch / 256
    if epoch < warmup:
        return alone * (1 + (hvd.size() - 1) * epoch / warmup)
    return alone * hvd.size() * (1 + math.cos(math.pi * (epoch - warmup) / (args.epochs - warmup))) / 2


def save(step):
    if args.checkpoint and hvd.rank() == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "data": train.state_dict(), "step": step}
        torch.save(state, args.checkpoint + ".new")
        os.replace(args.checkpoint + ".new", args.checkpoint)


def accuracy():
    model.eval()
    counts = torch.zeros(2)
    with torch.no_grad(), precision:
        for images, labels in ImageDataset(args.folder, training=False, **options):
            counts += torch.tensor([(model(images.to(device)).argmax(1).cpu() == labels).sum(), len(labels)])
    model.train()
    right, seen = hvd.allreduce(counts, op=hvd.Sum, name="accuracy")
    return (right / seen).item()


step, position = 0, train.state_dict()
if args.checkpoint and hvd.rank() == 0 and os.path.exists(args.checkpoint):
    state = torch.load(args.checkpoint, map_location=device)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    step, position = state["step"], state["data"]
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
step, position = hvd.broadcast_object((step, position), root_rank=0)
train.load_state_dict(position)
say(f"begins at step {step}, epoch {step / len(train):.3f}")
last = min(args.epochs * len(train), step + (args.steps or args.epochs * len(train)))
measured, started = step, time.perf_counter()
for images, labels in islice(chain.from_iterable(repeat(train)), last - step):  # epoch after epoch
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(step)
    optimizer.zero_grad()
    with precision:
        loss = torch.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
    loss.backward()
    optimizer.step()
    step += 1
    if step % 50 == 0 or step == last:
        mean = hvd.allreduce(loss.detach(), name="loss").item()
        speed = (step - measured) * args.batch * hvd.size() / (time.perf_counter() - started)
        say(f"epoch {step / len(train):.3f}: loss {mean:.3f}, {speed:.1f} images/s")
        measured, started = step, time.perf_counter()
    if step % args.checkpoint_every == 0 or step == last:
        save(step)
    if args.validate and step % len(train) == 0:
        say(f"epoch {step // len(train)}: accuracy {accuracy():.2%}")
