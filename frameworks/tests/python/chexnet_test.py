"""examples/chexnet in PyTorch and in C++, on phantoms: killed and continued, other numbers of ranks, shuffled labels.

The phantoms are few, so what is learnt is little: `make chexnet-demo` shows how close to the ideal observer it comes.
"""

import json
import re
import signal
import subprocess

import ranks

ROOT = ranks.ROOT
OPTIONS = ["--model", "detector", "--image-size", "32", "--epochs", "3", "--lr", "0.01"]


def programs():
    """The command of each example, after `xoe run`."""
    yield "PyTorch", [ranks.interpreter(), str(ROOT / "examples" / "chexnet" / "chexnet.py")]
    if (ranks.BUILD / "bin" / "example_chexnet").exists():
        yield "C++", [str(ranks.BUILD / "bin" / "example_chexnet")]


def launch(size, command, folder, run, *more):
    words = [str(ranks.BUILD / "bin" / "xoe"), "run", "-np", str(size), "--no-panel", "--timeout", str(ranks.HANGS), *command]
    return subprocess.Popen(
        [*words, str(folder), "--run", str(run), *OPTIONS, *more],
        env=ranks.environment(OMP_NUM_THREADS="1"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )  # fmt: skip


def train(size, command, folder, run, *more):
    process = launch(size, command, folder, run, *more)
    output, _ = process.communicate(timeout=ranks.HANGS)
    assert process.returncode == 0, output
    return json.loads((run / "scores.json").read_text()), output


def kill_after_an_epoch(command, folder, run):
    process = launch(2, command, folder, run)
    for line in process.stdout:
        if "epoch 1:" in line:
            break
    # The checkpoint comes after the line; the next epoch is under way then.
    while not (run / "checkpoint.pt").exists():
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()


def mean_of(output):
    return [float(one) for one in re.findall(r"mean +([\d.]+) +([\d.]+) to ([\d.]+)", output)[0]]


def distance(a, b):
    """The largest between two tables."""
    return max(abs(x - y) for one, other in zip(a, b, strict=True) for x, y in zip(one, other, strict=True))


def make(folder, *options, images=2400):
    program = [str(ranks.BUILD / "bin" / "xoe-data"), "make-xray", str(folder), "--size", "32", "--samples", "1000"]
    subprocess.run(
        [*program, "--images", str(images), *options], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def test_examples(folder):
    make(folder / "set")
    listed = (folder / "set" / "test_list.txt").read_text().split()
    for name, command in programs():
        whole, output = train(2, command, folder / "set", folder / f"{name}-whole")
        assert whole["images"] == listed  # each once, in the table's order
        kill_after_an_epoch(command, folder / "set", folder / f"{name}-killed")
        resumed, told = train(2, command, folder / "set", folder / f"{name}-killed")
        assert re.search(r"goes on after epoch [12]", told), told
        assert resumed["scores"] == whole["scores"] and resumed["targets"] == whole["targets"], name
        for size in (1, 4):
            other, _ = train(size, command, folder / "set", folder / f"{name}-{size}")
            # Sums are rounded in another order.
            assert distance(other["scores"], whole["scores"]) < 0.02, (name, size)
        print(f"{name}: mean AUROC {mean_of(output)[0]}", flush=True)


def test_shuffled_labels_teach_nothing(folder):
    make(folder / "set", "--test", "6000")
    for name, command in programs():
        _, output = train(2, command, folder / "set", folder / name, "--shuffle-labels")
        mean, low, high = mean_of(output)
        reach = 2 * (high - low)  # four deviations
        assert abs(mean - 0.5) < reach, output


# Writes torchvision's network as its users have it: as now, as in 2017, as safetensors; and another network.
WRITE = """
import re, sys, pathlib, safetensors.torch, torch, torchvision
folder = pathlib.Path(sys.argv[1])
torch.manual_seed(3)
state = torchvision.models.densenet121().state_dict()
torch.save(state, folder / "new.pth")
safetensors.torch.save_file(state, folder / "new.safetensors")
old = {re.sub(r"(denselayer\\d+[.](?:norm|conv))(\\d)", r"\\1.\\2", name): tensor for name, tensor in state.items()}
old = {name: tensor for name, tensor in old.items() if not name.endswith("num_batches_tracked")}
assert "features.denseblock1.denselayer1.norm.1.weight" in old
torch.save(old, folder / "old.pth", _use_new_zipfile_serialization=False)
torch.save(torchvision.models.resnet18().state_dict(), folder / "other.pth")
"""
# Compares what was trained at a rate of nearly 0.
COMPARE = """
import sys, torch
wanted = torch.load(sys.argv[1])
if sys.argv[3] == "C++":
    found = dict(torch.jit.load(sys.argv[2] + "/best.pt").named_parameters())
else:
    found = torch.load(sys.argv[2] + "/checkpoint.pt")["best_model"]
names = [name for name in wanted if name.endswith(("weight", "bias")) and not name.startswith("classifier.")]
assert len(names) == 362, len(names)
for name in names:
    assert torch.allclose(found[name], wanted[name], rtol=0, atol=1e-20), name
assert found["classifier.weight"].shape == (14, 1024)
"""


def test_weights_of_torchvision_begin_the_training(folder):
    ranks.need("torchvision")
    make(folder / "set", images=160)
    python = [ranks.interpreter(), "-c"]
    subprocess.run([*python, WRITE, str(folder)], check=True)
    few = ["--model", "densenet121", "--epochs", "1", "--lr", "1e-30", "--batch", "32"]
    for name, command in programs():
        for file in ("new.pth", "new.safetensors", "old.pth"):
            run = folder / f"{name}-{file}"
            result, _ = train(2, command, folder / "set", run, *few, "--weights", str(folder / file))
            assert result["facts"]["weights"] == str(folder / file)
            subprocess.run([*python, COMPARE, str(folder / "new.pth"), str(run), name], check=True)
        for options, words in (
            ([*few, "--weights", str(folder / "other.pth")], "of another model"),
            (["--weights", str(folder / "new.pth")], "not of the detector"),
        ):
            process = launch(2, command, folder / "set", folder / f"{name}-refused", *options)
            output, _ = process.communicate(timeout=ranks.HANGS)
            assert process.returncode != 0 and words in output, output


def test_other_options_and_ranks_are_refused(folder):
    make(folder / "set", images=400)
    for name, command in programs():
        run = folder / name
        train(1, command, folder / "set", run, "--epochs", "1", "--validation-share", "0.3")
        for options, words in ((["--epochs", "2"], "of other options"), (["--batch", "63"], "no multiple")):
            process = launch(2, command, folder / "set", run, *options)
            output, _ = process.communicate(timeout=ranks.HANGS)
            assert process.returncode != 0 and words in output, output


ranks.drive(globals())
