"""CheXNet: which of 14 findings does a chest X-ray show? (P. Rajpurkar et al., 2017.) On several ranks:

    xoe run -np 2 python examples/chexnet/chexnet.py FOLDER --run RUN

FOLDER is NIH ChestX-ray14, or phantoms of `xoe data make-xray`. Trains with a weighted cross-entropy, stops when the
validation patients' mean AUROC no longer grows, and tests the best network on test_list.txt. RUN gets a checkpoint after
each epoch, from which the same command goes on, and scores.json, of which `xoe report RUN/scores.json` makes a page.
docs/guide/chexnet.md tells more.
"""

import argparse
import json
import math
import pathlib
import re
import time
from itertools import chain

import torch
import xoe.torch as hvd
from xoe import stats
from xoe.torch.data import ImageDataset

LABELS = [
    "Atelectasis", "Cardiomegaly", "Effusion", "Infiltration", "Mass", "Nodule", "Pneumonia", "Pneumothorax",
    "Consolidation", "Edema", "Emphysema", "Fibrosis", "Pleural_Thickening", "Hernia"
]  # fmt: skip

parser = argparse.ArgumentParser(description="CheXNet on several ranks", allow_abbrev=False)
parser.add_argument("folder")
parser.add_argument("--run", type=pathlib.Path, required=True, help="folder of the checkpoint and of scores.json")
parser.add_argument(
    "--model", default="densenet121", help="detector (small, for phantoms), or one of torchvision's classifiers"
)
parser.add_argument(
    "--weights",
    help="begin with these, but for the last layer: a state dict of torchvision's network (.pth, .pt), or safetensors; "
    "images are then normalised as ImageNet's were for it",
)
parser.add_argument("--image-size", type=int, default=224)
parser.add_argument("--batch", type=int, default=64, help="images of all ranks in a step")
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--lr", type=float, default=0.001, help="the highest, of AdamW")
parser.add_argument("--patience", type=int, default=5, help="epochs without a better validation AUROC before training ends")
parser.add_argument("--validation-share", type=float, default=0.1, help="of the patients of train_val_list.txt")
parser.add_argument("--flip", action="store_true", help="mirror training images at random, as CheXNet does; not for phantoms")
parser.add_argument(
    "--shuffle-labels", action="store_true", help="a control: train on other images' labels; AUROCs must be 0.5"
)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()
if args.weights and args.model == "detector":
    parser.error("--weights are those of a network of photographs, not of the detector")
MEAN, DEVIATION = (0.5,) * 3, (0.25,) * 3
if args.weights:
    # torchvision's weights of these two networks are for numbers from -1 to 1.
    symmetric = args.model in ("googlenet", "inception_v3")
    MEAN, DEVIATION = (MEAN, (0.5,) * 3) if symmetric else ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


class Detector(torch.nn.Module):
    """Finds lesions of 14 kinds in phantoms (`xoe data make-xray`).

    Filters, of which each of 4 by 4 regions keeps the logarithm of the mean exponential, as the ideal observer does; so this
    network can come close to it. prior: how likely each pixel of a region is the place of a lesion. Each label weighs the
    regions, and the filters, for itself.
    """

    def __init__(self, image_size, filters=16):
        super().__init__()
        side = image_size // 4
        kernel = image_size // 8 + 3
        self.filter = torch.nn.Conv2d(1, filters, kernel, padding=kernel // 2)
        self.prior = torch.nn.Parameter(torch.zeros(filters, 1, side, 1, side))
        self.region = torch.nn.Parameter(torch.zeros(len(LABELS), 16))
        self.channel = torch.nn.Parameter(0.3 * torch.randn(len(LABELS), filters))
        self.bias = torch.nn.Parameter(torch.zeros(len(LABELS)))

    def forward(self, images):
        found = self.filter(images[:, :1])
        side = found.shape[-1] // 4
        found = found.unflatten(3, (4, side)).unflatten(2, (4, side)) + 4 * self.prior
        regions = found.clamp(max=30).exp().mean((3, 5)).log().flatten(2)
        by_label = torch.einsum("nfr,lf->nlr", regions, self.channel)
        return (by_label * (1 / 16 + 4 * self.region)).sum(2) + self.bias


def load_weights(model, path):
    """All but the last layer, which is for other labels. Files of 2017 have other names, and no numbers of batches."""
    if path.endswith(".safetensors"):
        import safetensors.torch

        state = safetensors.torch.load_file(path)
    else:
        state = torch.load(path, map_location="cpu", weights_only=True)
    head = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)][-1] + "."
    state = {re.sub(r"(denselayer\d+\.(?:norm|conv))\.(\d)\.", r"\1\2.", name): tensor for name, tensor in state.items()}
    state = {name: tensor for name, tensor in state.items() if not name.startswith(head)}
    missing, unknown = model.load_state_dict(state, strict=False)
    missing = [name for name in missing if not name.startswith(head) and not name.endswith("num_batches_tracked")]
    if missing or unknown:
        parser.error(f"--weights {path}: it is of another model: {(missing or unknown)[0]} is in one of them only")


def make_model():
    if args.model == "detector":
        return Detector(args.image_size)
    import torchvision

    model = torchvision.models.get_model(args.model, num_classes=len(LABELS))
    if args.weights and hvd.rank() == 0:  # the other ranks get rank 0's
        load_weights(model, args.weights)
    return model


def open_split(split, training):
    """A rank has batch / size images of a step, so the joint batch does not depend on the number of ranks."""
    return ImageDataset(
        args.folder, split=split, training=training, batch=args.batch // hvd.size(), image_size=args.image_size, whole=True,
        flip=args.flip, validation_share=args.validation_share, seed=args.seed, mean=MEAN, deviation=DEVIATION
    )  # fmt: skip


def weights_of(dataset):
    """Of the loss of positives and of negatives: the share of the other class, so that both weigh the same (CheXNet's)."""
    counts = torch.zeros(len(LABELS) + 1, dtype=torch.float64)
    for _, targets in dataset:
        counts += torch.cat([targets.double().sum(0), torch.tensor([len(targets)])])
    counts = hvd.allreduce(counts, op=hvd.Sum, name="counts")
    share = (counts[:-1] / counts[-1]).float()
    return 1 - share, share


def loss_of(logits, targets, positive, negative):
    logs = torch.nn.functional.logsigmoid
    return -(positive * targets * logs(logits) + negative * (1 - targets) * logs(-logits)).sum(1).mean()


def gather_scores(model, dataset):
    """Names, scores and targets of every image of a split, each once, in the order of the table, on every rank."""
    model.eval()
    names, scores, targets, records = [], [], [], []
    with torch.no_grad():
        for images, wanted in dataset:
            if len(images):
                scores.append(model(images.to(device)).cpu())
            targets.append(wanted.clone())
            records.append(torch.tensor(dataset.batch.records.tolist(), dtype=torch.int64))
            names += [pathlib.Path(file).name for file in dataset.batch.files]
    model.train()
    empty = torch.zeros(0, len(LABELS))
    records, scores, targets = (hvd.allgather(torch.cat(part)) for part in (records, [empty, *scores], targets))
    names = list(chain.from_iterable(hvd.allgather_object(names)))
    order = records.argsort()
    assert torch.equal(records[order], torch.arange(dataset.images.facts["records_per_epoch"])), "an image is missing or twice"
    return [names[i] for i in order.tolist()], scores[order].double().numpy(), targets[order].numpy()


def average_buffers(model):
    """Batch norm's statistics, over the ranks: what is tested is what is saved."""
    buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
    for buffer, mean in zip(buffers, hvd.grouped_allreduce(buffers, name="buffers") if buffers else [], strict=True):
        buffer.copy_(mean)


def save(path, write):
    new = path.with_suffix(".new")
    write(new)
    new.replace(path)


hvd.init()
say = print if hvd.rank() == 0 else lambda *_, **__: None
if args.batch % hvd.size():
    parser.error(f"--batch {args.batch} is no multiple of {hvd.size()} ranks")
torch.manual_seed(args.seed)
torch.set_num_threads(1)
device = torch.device("cuda", hvd.local_rank()) if torch.cuda.is_available() else torch.device("cpu")
train, validation, test = open_split("train", True), open_split("validation", False), open_split("test", False)
positive, negative = (one.to(device) for one in weights_of(open_split("train", False)))
model = make_model().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

checkpoint = args.run / "checkpoint.pt"
options = {name: str(value) for name, value in vars(args).items() if name not in ("run", "folder") and value is not None}
state = {"options": options, "epoch": 0, "best": 0.0, "since": 0, "seconds": 0.0, "best_model": None}
resumes = hvd.broadcast_object(checkpoint.exists(), root_rank=0)
if resumes:
    state = hvd.broadcast_object(torch.load(checkpoint, map_location="cpu") if hvd.rank() == 0 else None, root_rank=0)
    if state["options"] != options:
        parser.error(f"{checkpoint} is of other options: {state['options']}; use them, or another --run")
    model.load_state_dict(state.pop("model"))
    optimizer.load_state_dict(state.pop("optimizer"))
    say(f"goes on after epoch {state['epoch']}")
elif hvd.rank() == 0:
    args.run.mkdir(parents=True, exist_ok=True)


def rate_at(step, warmup=0.15):
    """Of all steps: up in a line, then down along a cosine."""
    share = step / (args.epochs * len(train))
    return args.lr * (share / warmup if share < warmup else (1 + math.cos(math.pi * (share - warmup) / (1 - warmup))) / 2)


while state["epoch"] < args.epochs and state["since"] < args.patience:
    started, epoch = time.perf_counter(), state["epoch"]
    torch.manual_seed(args.seed * 1000 + epoch)  # of dropout: the same after a restart
    train.images.start_epoch(epoch)
    total = 0.0
    for step, (images, targets) in enumerate(train, epoch * len(train)):
        if args.shuffle_labels:
            targets = targets.roll(1, 0)  # never an image's own
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step)
        optimizer.zero_grad()
        loss = loss_of(model(images.to(device)), targets.to(device), positive, negative)
        loss.backward()
        optimizer.step()
        total += loss.item()
    average_buffers(model)
    _, scores, targets = gather_scores(model, validation)
    found = stats.auroc_of_labels(targets, scores)
    mean_loss = hvd.allreduce(torch.tensor(total / len(train)), name="loss").item()
    better = found.mean > state["best"]
    state.update(
        epoch=epoch + 1, since=0 if better else state["since"] + 1, seconds=state["seconds"] + time.perf_counter() - started
    )
    if better:
        state.update(best=found.mean, best_model={name: value.cpu().clone() for name, value in model.state_dict().items()})
    say(f"epoch {epoch + 1}: loss {mean_loss:.4f}, validation AUROC {found.mean:.4f}{' (best)' if better else ''}, "
        f"{state['seconds']:.0f} s", flush=True)  # fmt: skip
    if hvd.rank() == 0:
        whole = {**state, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        save(checkpoint, lambda path, whole=whole: torch.save(whole, path))

model.load_state_dict(state["best_model"])
names, scores, targets = gather_scores(model, test)
found = stats.auroc_of_labels(targets, scores)
for label, auroc in zip(LABELS, found.labels, strict=True):
    interval = "too few images with it" if auroc is None else "{:.4f}   {:.4f} to {:.4f}".format(auroc.value, *auroc.interval())
    say(f"{label:20}{interval}")
say("{:20}{:.4f}   {:.4f} to {:.4f}".format("mean", found.mean, *found.interval()))
if hvd.rank() == 0:
    facts = {
        "ranks": hvd.size(),
        "epochs": state["epoch"],
        "seconds": round(state["seconds"]),
        "validation AUROC": state["best"],
    }
    result = {
        "format": 1,
        "title": f"CheXNet: {args.model}",
        "data": str(pathlib.Path(args.folder).resolve()),
        "split": f"test_list.txt, {len(names)} images; {args.validation_share:.0%} of the other patients for validation",
        "facts": {**options, **{name: str(value) for name, value in facts.items()}},
        "labels": LABELS,
        "images": names,
        "targets": ["".join("1" if one else "0" for one in column) for column in targets.T > 0.5],
        "scores": [[round(one, 6) for one in column] for column in scores.T.tolist()],
    }
    save(args.run / "scores.json", lambda path: path.write_text(json.dumps(result), encoding="utf-8"))
