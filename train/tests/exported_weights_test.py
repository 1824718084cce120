"""What `xoe train export` writes, read by PyTorch, torchvision and safetensors: the same weights, by the names they know."""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "core/testing"))
from peer_python import run_inside

run_inside("pytorch", "torchvision", {})

import torch
import torchvision

BIN = pathlib.Path(os.environ["XOE_BIN_DIR"])
CLASSES = 7


def xoe(*words):
    return subprocess.run([BIN / "xoe", *words], check=True, capture_output=True, text=True, timeout=300).stdout


def read_safetensors(path):
    """By its description alone."""
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    metadata = header.pop("__metadata__")
    types = {"F32": torch.float32, "I64": torch.int64}
    rest = content[8 + size :]
    tensors, end = {}, 0
    for name, entry in header.items():
        begin, after = entry["data_offsets"]
        assert begin == end, name
        end = after
        tensors[name] = torch.frombuffer(bytearray(rest[begin:after]), dtype=types[entry["dtype"]]).reshape(entry["shape"])
    assert end == len(rest)
    return tensors, metadata


class ExportedWeights(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def trained(self, model):
        """The state dict of a short run, read both ways."""
        run, weights, tensors = self.folder / "run", self.folder / "w.pt", self.folder / "w.safetensors"
        options = ["--model", model, "--classes", str(CLASSES), "--image-size", "32", "--batch", "4", "--steps", "2"]
        options += ["--device", "cpu", "--checkpoint", self.folder / "checkpoints", "--run-dir", run]
        xoe("run", "-np", "2", BIN / "xoe", "train", "--synthetic", *options)
        said = xoe("train", "export", run, weights)
        self.assertIn(f"of {model}, step 2", said)
        xoe("train", "export", self.folder / "checkpoints", tensors)
        state = torch.load(weights, weights_only=True)
        other, metadata = read_safetensors(tensors)
        facts = {"model": model, "classes": "7", "image_size": "32x32", "step": "2", "weights": "of the step"}
        self.assertEqual(metadata, {"format": "pt", **facts})
        self.assertEqual(list(state), list(other))
        for name, tensor in state.items():
            self.assertEqual(tensor.dtype, other[name].dtype, name)
            self.assertFalse(tensor.requires_grad, name)
            torch.testing.assert_close(tensor, other[name], rtol=0, atol=0)
        try:
            from safetensors.torch import load_file
        except ImportError:
            return state
        loaded = load_file(tensors)
        self.assertEqual(set(loaded), set(state))
        for name, tensor in loaded.items():
            torch.testing.assert_close(tensor, state[name], rtol=0, atol=0)
        return state

    def test_resnets_are_those_of_torchvision(self):
        for name in ("resnet18", "resnet50"):
            with self.subTest(name):
                self.setUp()
                state = self.trained(name)
                model = getattr(torchvision.models, name)(num_classes=CLASSES)
                self.assertEqual(list(state), list(model.state_dict()))
                model.load_state_dict(state, strict=True)
                self.assertEqual(state["bn1.num_batches_tracked"].item(), 2)
                self.assertTrue(torch.isfinite(model.eval()(torch.zeros(1, 3, 32, 32))).all())

    def test_vit_tiny_has_the_names_of_timm(self):
        state = self.trained("vit_tiny")
        shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
        self.assertEqual(shapes["cls_token"], (1, 1, 192))
        self.assertEqual(shapes["pos_embed"], (1, 17, 192))
        self.assertEqual(shapes["patch_embed.proj.weight"], (192, 3, 8, 8))
        self.assertEqual(shapes["head.weight"], (CLASSES, 192))
        parts = ("norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2")
        for layer in range(12):
            for part in parts:
                self.assertIn(f"blocks.{layer}.{part}.weight", shapes)
        self.assertEqual(len(shapes), 2 * 12 * len(parts) + 8)

    def test_an_mlp(self):
        state = self.trained("mlp")
        self.assertEqual(list(state), [f"fc{i}.{what}" for i in (1, 2, 3) for what in ("weight", "bias")])


if __name__ == "__main__":
    unittest.main()
