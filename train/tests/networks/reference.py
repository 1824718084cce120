"""Compares Xoe's networks with torchvision's, and with resnets.py where torchvision has none: the same weights, images and loss, exchanged in files.

    reference.py --program build/release/tests/xoe_model_outputs [MODEL...]

prints a JSON line for each: the largest difference of an output, gradient or buffer, as a share of the largest number in its tensor. Needs
torchvision and safetensors. Weights are random.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import tempfile

import resnets
import safetensors.torch
import torch
import torchvision

CLASSES = 10
BATCH = 4
# Width, heads, layers, pixels of a patch.
VITS = {"vit_tiny": (192, 3, 12, 16), "vit_s16": (384, 6, 12, 16), "vit_b16": (768, 12, 12, 16), "vit_l16": (1024, 16, 24, 16),
        "vit_h14": (1280, 16, 32, 14)}  # fmt: skip
SIZES = {"inception_v3": 299, **dict.fromkeys(VITS, 128), "vit_l16": 64, "vit_h14": 56, **dict.fromkeys(resnets.CIFAR, 32)}  # others: 64
VGGS = ("vgg11", "vgg13", "vgg16", "vgg19")
MODELS = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", *resnets.V2, *resnets.CIFAR, "densenet121", "alexnet", *VGGS,
          "googlenet", "inception_v3", "mobilenet_v2", *(f"efficientnet_b{i}" for i in range(8)), "efficientnet_v2_s", *VITS)  # fmt: skip
# Gradients and weights in files would take ten gigabytes: only logits in evaluation are compared.
LARGE = ("vit_l16", "vit_h14")
# In float64 their files take gigabytes.
FLOAT32 = (*VGGS, *LARGE)
ROUNDING = 1e-5
# Parts of timm's names for vision transformers, and torchvision's.
TIMM = (
    (r"^cls_token$", "class_token"),
    (r"^pos_embed$", "encoder.pos_embedding"),
    (r"^patch_embed\.proj\.", "conv_proj."),
    (r"^blocks\.(\d+)\.", r"encoder.layers.encoder_layer_\1."),
    (r"\.norm([12])\.", r".ln_\1."),
    (r"\.attn\.qkv\.", ".self_attention.in_proj_"),
    (r"\.attn\.proj\.", ".self_attention.out_proj."),
    (r"\.mlp\.fc1\.", ".mlp.0."),
    (r"\.mlp\.fc2\.", ".mlp.3."),
    (r"^norm\.", "encoder.ln."),
    (r"^head\.", "heads.head."),
)


def build(name, classes=CLASSES, size=None):
    """torchvision's network, or that of resnets.py."""
    size = size or SIZES.get(name, 64)
    if name in VITS:
        width, heads, layers, patch = VITS[name]
        return torchvision.models.VisionTransformer(size, patch, layers, heads, width, 4 * width, num_classes=classes)
    if name in resnets.V2 or name in resnets.CIFAR:
        return resnets.build(name, classes)
    options = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    if name == "inception_v3":
        options["aux_logits"] = size >= 299
    return getattr(torchvision.models, name)(num_classes=classes, **options)


def torchvision_name(name, key):
    """The name in torchvision of what Xoe calls `key`."""
    for pattern, other in TIMM if name in VITS else ():
        key = re.sub(pattern, other, key)
    return key


def reference(name, dtype):
    """A network in which every number matters: where torchvision begins with zeros and ones, these are others. Nothing is dropped."""
    torch.manual_seed(1)
    network = build(name).to(dtype)
    with torch.no_grad():
        for key, tensor in network.state_dict().items():
            if key.endswith("running_var"):
                tensor.uniform_(0.5, 1.5)
            elif tensor.is_floating_point() and (tensor.dim() < 2 or tensor.count_nonzero() == 0):
                tensor.add_(0.1 * torch.randn_like(tensor))
    for module in network.modules():
        if isinstance(module, (torch.nn.Dropout, torchvision.ops.StochasticDepth)):
            module.p = 0
    return network


def write(path, tensors):
    if path.suffix == ".pt":
        torch.save(tensors, path)
    else:
        safetensors.torch.save_file({key: tensor.detach().contiguous() for key, tensor in tensors.items()}, path)


def read(path):
    return torch.load(path, weights_only=True) if path.suffix == ".pt" else safetensors.torch.load_file(path)


def outputs_of(found):
    """The logits, and those of auxiliary classifiers from the first one in the network to the last."""
    if not isinstance(found, tuple):
        return found, []
    return found.logits, [getattr(found, name) for name in sorted(found._fields) if name.startswith("aux")]


def expected(network, input, training):
    """What xoe_model_outputs should write, by torchvision's names; and the state dict before."""
    network.train(training)
    network.zero_grad()
    found = network(input["images"])
    logits, auxiliary = outputs_of(found)
    loss = (logits * input["factors"]).sum()
    results = {"logits": logits.detach()}
    for i, other in enumerate(auxiliary):
        loss = loss + (other * input[f"auxiliary_factors.{i}"]).sum()
        results[f"auxiliary.{i}"] = other.detach()
    loss.backward()
    for key, parameter in network.named_parameters():
        if parameter.grad is not None:
            results[f"gradient.{key}"] = parameter.grad
    return results | network.state_dict()


def difference(own, other, least=0):
    """The largest, as a share of the largest number, or of `least` if that is more."""
    if own.shape != other.shape:
        raise AssertionError(f"shapes {tuple(own.shape)} and {tuple(other.shape)}")
    scale = max(other.abs().max().item(), least)
    return (own - other).abs().max().item() / scale if scale else own.abs().max().item()


def compare(program, name, training, ending, folder):
    """The differences by torchvision's names of tensors; the names are the same on both sides, or this raises AssertionError."""
    dtype = torch.float32 if name in FLOAT32 else torch.float64
    network = reference(name, dtype)
    size = SIZES.get(name, 64)
    input = {
        "images": torch.randn(BATCH, 3, size, size, dtype=dtype),
        "factors": torch.randn(BATCH, CLASSES, dtype=dtype),
        "auxiliary_factors.0": torch.randn(BATCH, CLASSES, dtype=dtype),
        "auxiliary_factors.1": torch.randn(BATCH, CLASSES, dtype=dtype),
    }
    weights, given, output = (folder / f"{what}{ending}" for what in ("weights", "input", "output"))
    state = network.state_dict()
    names = {torchvision_name(name, key): key for key in own_names(name, state)}
    write(weights, type(state)((names[key], tensor) for key, tensor in state.items()))
    write(given, input)
    words = [program, name, CLASSES, weights, given, output, "logits" if name in LARGE else "train" if training else "eval"]
    subprocess.run([str(word) for word in words], check=True, timeout=900)
    own = read(output)
    if name in LARGE:
        network.eval()
        with torch.no_grad():
            return {"logits": difference(own["logits"], network(input["images"]))}
    if list(own)[-len(state) :] != [names[key] for key in state] and ending == ".pt" and name not in VITS:
        raise AssertionError("the order of the state dict is another")
    own = {
        ("gradient." if key.startswith("gradient.") else "") + torchvision_name(name, key.removeprefix("gradient.")): tensor
        for key, tensor in own.items()
    }
    other = expected(network, input, training)
    if set(own) != set(other):
        raise AssertionError(f"names differ: {sorted(set(own) ^ set(other))[:8]}")
    network.load_state_dict({key: own[key] for key in state}, strict=True)
    for file in (weights, given, output):
        file.unlink()
    # Some gradients would be zero but for rounding: of a bias before batch norm.
    largest = max(tensor.abs().max().item() for key, tensor in other.items() if key.startswith("gradient."))
    least = {key: ROUNDING * largest if key.startswith("gradient.") else 0 for key in other}
    return {key: difference(own[key].to(dtype), other[key].to(dtype), least[key]) for key in other}


def runs_of(name):
    """Whether a run of the comparison trains, and the ending of its files."""
    return ((False, ".safetensors"),) if name in LARGE else ((False, ".safetensors"), (True, ".pt"))


def own_names(name, state):
    """Xoe's names of the tensors of torchvision's state dict."""
    if name not in VITS:
        return list(state)
    blocks = [f"blocks.{i}.{part}" for i in range(VITS[name][2]) for part in ("norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2")]
    parts = [f"{part}.{what}" for part in ("patch_embed.proj", *blocks, "norm", "head") for what in ("weight", "bias")]
    return ["cls_token", "pos_embed", *parts]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("models", nargs="*", default=MODELS)
    options = parser.parse_args()
    for name in options.models:
        for training, ending in runs_of(name):
            with tempfile.TemporaryDirectory(dir=os.environ.get("XOE_TEST_DIR")) as folder:
                found = compare(options.program, name, training, ending, pathlib.Path(folder))
            worst = max(found, key=found.get)
            print(json.dumps({"model": name, "training": training, "tensors": len(found), "worst": worst, "difference": found[worst]}), flush=True)


if __name__ == "__main__":
    main()
