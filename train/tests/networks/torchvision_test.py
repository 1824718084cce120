"""Every network equals torchvision's, or that of resnets.py where torchvision has none: outputs, gradients and buffers, in training and
evaluation; weights go both ways in both formats. The largest ones: outputs in evaluation.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path += [str(pathlib.Path(__file__).resolve().parents[3] / "core/testing"), str(pathlib.Path(__file__).resolve().parent)]
from peer_python import run_inside

run_inside("pytorch", "torchvision", {"OMP_NUM_THREADS": "1"})  # threads that wait for each other are slow beside other tests

import reference
import torch

BUILD = pathlib.Path(os.environ["XOE_BUILD_DIR"])
PROGRAM = BUILD / "tests" / "xoe_model_outputs"
# Of the largest number in a tensor. The versions of PyTorch may differ, and so the order of sums.
LIMITS = {torch.float64: 1e-9, torch.float32: 1e-4}


class Torchvision(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(dir=BUILD / "tests")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def test_every_network(self):
        limits = {name: LIMITS[torch.float32 if name in reference.FLOAT32 else torch.float64] for name in reference.MODELS}
        for name, limit in limits.items():
            for training, ending in reference.runs_of(name):
                with self.subTest(name, training=training):
                    found = reference.compare(PROGRAM, name, training, ending, self.folder)
                    self.assertEqual([key for key, difference in found.items() if not difference <= limit], [])
                    auxiliary = {"inception_v3": 1, "googlenet": 2}.get(name, 0) if training else 0
                    self.assertEqual(sum(key.startswith("auxiliary.") for key in found), auxiliary)

    def test_none_is_left_out(self):
        done = subprocess.run([BUILD / "bin" / "xoe", "train", "--help"], check=True, capture_output=True, text=True, timeout=60)
        (known,) = re.findall(r"--model NAME\s+([\w,\s]+): the\s+network", done.stdout)
        self.assertEqual(set(re.findall(r"\w+", known)), {*reference.MODELS, "mlp"})

    def test_a_change_is_noticed(self):
        network = reference.reference("resnet18", torch.float64)
        images, factors = torch.randn(4, 3, 64, 64, dtype=torch.float64), torch.randn(4, 10, dtype=torch.float64)
        input = {"images": images, "factors": factors}
        before = {key: tensor.clone() for key, tensor in reference.expected(network, input, training=False).items()}
        network.layer2[0].bn1.eps *= 1.01
        after = reference.expected(network, input, training=False)
        self.assertGreater(reference.difference(before["logits"], after["logits"]), 1e-9)
        self.assertGreater(reference.difference(before["gradient.conv1.weight"], after["gradient.conv1.weight"]), 1e-9)

    def refused(self, tensors, ending=".safetensors", model="resnet18"):
        weights, given = self.folder / f"bad{ending}", self.folder / "input.safetensors"
        reference.write(weights, tensors)
        reference.write(given, {"images": torch.zeros(1, 3, 64, 64), "factors": torch.zeros(1, reference.CLASSES)})
        words = [PROGRAM, model, str(reference.CLASSES), weights, given, self.folder / "output.pt", "eval"]
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr

    def test_other_weights_are_refused(self):
        state = reference.build("resnet18").state_dict()
        for ending in (".safetensors", ".pt"):
            with self.subTest(ending):
                missing = {key: tensor for key, tensor in state.items() if key != "layer4.1.bn2.running_var"}
                self.assertIn("has no layer4.1.bn2.running_var, which the model needs", self.refused(missing, ending))
                shapes = "fc.weight in .* has the shape \\[7, 512\\]; the model's is \\[10, 512\\]"
                self.assertRegex(self.refused({**state, "fc.weight": torch.zeros(7, 512)}, ending), shapes)
                self.assertIn("has a fc2.weight, which the model does not have", self.refused({**state, "fc2.weight": torch.zeros(2)}, ending))
        self.assertIn("epoch, which is no tensor", self.refused({**state, "epoch": 3}, ".pt"))
        self.assertIn("only a dictionary of tensors is read", self.refused([state["fc.weight"]], ".pt"))

    def test_views_parameters_and_types_of_state_dicts(self):
        for zipped in (True, False):  # the latter as before PyTorch 1.6
            with self.subTest(zipped=zipped):
                self.read_unusual_state_dict(zipped)

    def read_unusual_state_dict(self, zipped):
        network = reference.build("resnet18")
        state = network.state_dict(keep_vars=True)  # parameters, and an attribute of versions
        state["fc.weight"] = torch.randn(512, 20)[:, ::2].t()  # strides
        state["fc.bias"] = torch.randn(100)[7:17].to(torch.float64)
        state["conv1.weight"] = state["conv1.weight"].to(torch.bfloat16).contiguous(memory_format=torch.channels_last)
        weights, given, output = (self.folder / name for name in ("weights.pt", "input.safetensors", "output.safetensors"))
        torch.save(state, weights, _use_new_zipfile_serialization=zipped)
        output.unlink(missing_ok=True)
        reference.write(given, {"images": torch.zeros(1, 3, 64, 64), "factors": torch.zeros(1, reference.CLASSES)})
        words = [PROGRAM, "resnet18", str(reference.CLASSES), weights, given, output, "eval"]
        subprocess.run(words, check=True, timeout=60)
        own = reference.read(output)
        for key, tensor in state.items():
            self.assertTrue(torch.equal(own[key], tensor.to(own[key].dtype)), key)


    def test_names_of_2017(self):
        """torchvision's file for DenseNet-121 is that old: other names, no numbers of batches, no zip file."""
        state = reference.build("densenet121").state_dict()
        old = {
            re.sub(r"(denselayer\d+\.(?:norm|conv))(\d)", r"\1.\2", key): tensor
            for key, tensor in state.items()
            if not key.endswith("num_batches_tracked")
        }
        self.assertIn("features.denseblock1.denselayer1.norm.1.weight", old)
        weights, given, output = (self.folder / name for name in ("weights.pth", "input.safetensors", "output.safetensors"))
        torch.save(old, weights, _use_new_zipfile_serialization=False)
        reference.write(given, {"images": torch.zeros(1, 3, 64, 64), "factors": torch.zeros(1, reference.CLASSES)})
        words = [PROGRAM, "densenet121", str(reference.CLASSES), weights, given, output, "eval"]
        subprocess.run(words, check=True, timeout=60)
        own = reference.read(output)
        for key, tensor in state.items():
            self.assertTrue(torch.equal(own[key], tensor), key)


if __name__ == "__main__":
    unittest.main()
