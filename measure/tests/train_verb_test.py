"""`xoe bench train` as users meet it."""

import json
import re
import unittest

from program import BIN, SMALL, BenchTest, outputs, xoe

STEP = re.compile(r"^(\d+)\timages/sec: \d+\.\d \+/- \d+\.\d \(jitter = \d+\.\d\)\t(\d+\.\d{3})$", re.M)


class TrainVerb(BenchTest):
    def assert_reduces_all_gradients(self, result):
        """Float32, and a few sums of the steps beside them."""
        gradients = result["parameters"] * 4
        self.assertGreaterEqual(result["reduced_bytes_per_step"], gradients)
        self.assertLess(result["reduced_bytes_per_step"], gradients + 1000)

    def test_prints_the_lines_of_tf_cnn_benchmarks(self):
        out = xoe("bench", "train", *SMALL, "--num_batches=20", "--num_warmup_batches", "2", "--data_name", "cifar10")
        self.assertIn("Step\tImg/sec\ttotal_loss\n", out)
        self.assertEqual([step for step, _ in STEP.findall(out)], ["1", "10", "20"])
        self.assertRegex(out, r"(?m)^total images/sec: \d+\.\d\d$")
        self.assertIn("Num batches: 20, after 2 of warm-up", out)
        losses = [float(loss) for _, loss in STEP.findall(out)]
        self.assertLess(losses[-1], losses[0], "it trains")

    def test_two_ranks_repeat_and_write_json(self):
        path = self.folder / "a.json"
        out = xoe("run", "-np", "2", BIN / "xoe", "bench", "train", *SMALL, "--num-batches", "6", "--num-warmup-batches", "1",
                  "--repeat", "3", "--output", path)
        self.assertEqual(out.count("total images/sec: "), 3)
        self.assertIn("3 runs: ", out)
        result = self.json("a.json")
        self.assertEqual(result["topology"]["ranks"], 2)
        self.assertEqual(len(result["repeats"]), 3)
        self.assertGreater(result["train_samples_per_sec"], 0)
        self.assertEqual((result["train_batch_size"], result["train_img_size"]), (4, 8))
        self.assert_reduces_all_gradients(result)
        parts = result["step_parts_ms"]
        self.assertGreaterEqual(parts.pop("communication_hidden"), 0)
        times = [one["step_ms"] for one in result["repeats"]]
        self.assertAlmostEqual(sum(parts.values()), sum(times) / 3, delta=0.3 * max(times))
        self.assertGreater(result["peak_memory_bytes"], 1 << 20)
        environment = result["environment"]
        self.assertEqual(environment["command"][:3], ["xoe", "bench", "train"])
        self.assertLessEqual({"host", "system", "processor", "processors", "memory", "xoe", "libtorch", "variables", "options"},
                             environment.keys())
        self.assertIn("--num-batches", environment["command"])
        for column in ("train_samples_per_sec", "train_step_time", "train_fwd_time", "train_bwd_time", "train_opt_time",
                       "train_batch_size", "train_img_size", "param_count"):
            self.assertIn(column, result)
        self.assertEqual(list(self.folder.iterdir()), [path], "no timeline is left")

    def test_neither_mode_without_backward_changes_the_model(self):
        for flag, mode in (("--forward_only", "forward-only"), ("--eval", "evaluation")):
            out = xoe("bench", "train", *SMALL, "--num-batches", "10", "--num-warmup-batches", "0", flag)
            losses = [loss for _, loss in STEP.findall(out)]
            self.assertEqual(losses[0], losses[-1])
            result = json.loads(xoe("bench", "train", *SMALL, "--num-batches", "2", flag, "--json"))
            self.assertEqual(result["mode"], mode)
            self.assertGreater(result["infer_samples_per_sec"], 0)

    def test_real_images_and_their_held_out_part(self):
        data = self.folder / "data"
        xoe("data", "make", "--images", "24", "--validation", "8", "--classes", "4", "--side", "16", data)
        out = xoe("bench", "train", *SMALL, "--data_dir", data, "--num-batches", "3", "--num-warmup-batches", "0")
        self.assertIn(f"{data}, images 8", out)
        self.assertNotIn("Accuracy", out)
        out = xoe("bench", "train", *SMALL, "--data-dir", data, "--num-batches", "5", "--eval")
        self.assertRegex(out, r"Accuracy @ 1 = [01]\.\d{4}\n")

    def test_an_emulated_accelerator_moves_real_gradients(self):
        out = xoe("run", "-np", "3", BIN / "xoe", "bench", "train", *SMALL, "--num-batches", "3", "--num-warmup-batches", "1",
                  "--emulate-accelerator", "400", "--output", self.folder / "a.json")
        self.assertEqual(out.count("EMULATION"), 2)
        result = self.json("a.json")
        self.assertEqual(result["emulated_images_per_s"], 400)
        self.assert_reduces_all_gradients(result)
        # It never computes faster than it says: 4 images of each rank in 10 ms.
        self.assertLessEqual(result["train_samples_per_sec"], 3 * 400)

    def test_a_page_has_the_timeline_of_the_traced_run(self):
        for ranks in ("1", "2"):
            page = self.folder / f"{ranks}.html"
            xoe("run", "-np", ranks, BIN / "xoe", "bench", "train", *SMALL, "--num-batches", "4", "--num-warmup-batches", "1",
                "--repeat", "2", "--html", page)
            html = page.read_text()
            for part in ('id="timeline"', "<svg", "Parts of a step", "Environment", "<h2>Configuration</h2>"):
                self.assertIn(part, html)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["1.html", "2.html"])

    def test_results_are_compared(self):
        a, b = self.folder / "a.json", self.folder / "b.json"
        for path in (a, b):
            xoe("bench", "train", *SMALL, "--num-batches", "2", "--num-warmup-batches", "0", "--repeat", "5", "--output", path)
        page = self.folder / "page.html"
        out = xoe("bench", "compare", a, b, "--html", page)
        self.assertRegex(out, r"(?m)^\S+a\.json +5 .* baseline$")
        self.assertRegex(out, r"(?m)^\S+b\.json +5 .* (faster|slower|noise)$")
        self.assertIn("<svg", page.read_text())
        result = json.loads(xoe("bench", "compare", a, b, a, "--json"))
        self.assertEqual([one["change"] == 0 for one in result["results"]], [True, False, True])
        self.assertEqual(result["results"][2]["verdict"], "noise")
        self.assertIn("page.html is there already, and no page", self.refused_page(a))
        page = self.folder / "articles.html"
        self.assertIn("note: model differs: mlp in", xoe("bench", "compare", a, "--against", "articles", "--html", page))
        self.assertIn("VM, one GPU a node", page.read_text())
        self.assertIn("this is no result", xoe("bench", "compare", page, code=2))
        self.assertIn("cannot read it", xoe("bench", "compare", self.folder / "none.json", code=2))

    def refused_page(self, result):
        page = self.folder / "page.html"
        page.write_text("mine")
        error = xoe("bench", "compare", result, "--html", page, code=2)
        self.assertEqual(page.read_text(), "mine")
        page.write_text("{}")
        return error

    def test_command_lines_of_tf_cnn_benchmarks(self):
        line = "--data_format=NCHW --batch_size=4 --model=resnet20 --image_size=16 --optimizer=momentum --momentum=0.8 --noxla " \
               "--variable_update=replicated --nodistortions --gradient_repacking=8 --num_gpus=1 --num_batches=3 " \
               "--num_warmup_batches=1 --weight_decay=1e-4 --use_fp16 --data_name=cifar10 --fp16_enable_auto_loss_scale " \
               "--gradient_clip=0.5 --print_training_accuracy --tf_random_seed=5 --device=CPU --num_intra_threads=1 " \
               "--piecewise_learning_rate_schedule=0.1;2;0.01 --num_learning_rate_warmup_epochs=1"
        path = self.folder / "a.json"
        out, err = outputs("run", "-np", "2", BIN / "xoe", "bench", "train", *line.split(" "), f"--train_dir={self.folder / 'kept'}",
                           f"--trace_file={self.folder / 'trace.json'}", "--output", path)
        self.assertIn("Step\tImg/sec\ttotal_loss\ttop_1_accuracy\n", out)
        self.assertRegex(out, r"(?m)1\timages/sec: \S+ \+/- \S+ \(jitter = \S+\)\t\d+\.\d{3}\t[01]\.\d{3}$")
        self.assertEqual(err.count("--gradient-repacking: gradients are reduced in buckets"), 1, err)
        self.assertEqual(err.count("--fp16-enable-auto-loss-scale: bfloat16 needs no loss scale"), 1, err)
        self.assertNotIn("--xla", err)
        result = self.json("a.json")
        options = result["environment"]["options"]
        self.assertEqual(result["model"], "resnet20")
        for name, value in {"momentum": 0.8, "weight_decay": 1e-4, "clip_value": 0.5, "seed": 5, "precision": "bf16",
                            "memory_format": "nchw", "lr_schedule": "0.1;2;0.01", "threads": 1, "device": "cpu"}.items():
            self.assertEqual(options[name], value, name)
        self.assertEqual([file.suffix for file in (self.folder / "kept").iterdir()], [".ckpt"])
        trace = json.loads((self.folder / "trace.json").read_text())
        self.assertTrue(trace)
        out, err = outputs("bench", "train", *SMALL, "--variable_update=horovod", "--horovod_device=cpu", "--mkl",
                           "--num_inter_threads=2", "--kmp_blocktime=0", "--num_batches=2", "--num_warmup_batches=0", "--xla")
        self.assertEqual([line.split(": ")[1] for line in err.splitlines() if line.startswith("xoe bench train: ")],
                         ["--horovod-device", "--mkl", "--num-inter-threads", "--kmp-blocktime", "--xla"])
        self.assertIn("Num batches: 2, after 0 of warm-up", out)

    def test_epochs_are_steps(self):
        data = self.folder / "data"
        xoe("data", "make", "--images", "24", "--validation", "8", "--classes", "4", "--side", "16", data)
        few = [*SMALL, "--num-warmup-batches", "1"]
        out = xoe("run", "-np", "2", BIN / "xoe", "bench", "train", *few, "--data_dir", data, "--num_epochs=2.5")
        self.assertIn("Num batches: 8, after 1 of warm-up", out)  # 24 images, 2 ranks of 4: 3 steps an epoch
        out = xoe("bench", "train", *few, "--data_name=cifar10", "--num_epochs=0.0004")
        self.assertIn("Num batches: 5, after", out)  # 50,000 images
        out = xoe("bench", "train", *few, "--num_epochs=0.00001")
        self.assertIn("Num batches: 4, after", out)  # 1,281,167 images
        self.assertIn("exclude each other", xoe("bench", "train", *few, "--num_epochs=1", "--num_batches=3", code=2))
        self.assertIn("these are nan steps", xoe("bench", "train", *few, "--num_epochs=nan", code=1))

    def test_epochs_of_an_evaluation_are_of_held_out_images(self):
        data = self.folder / "data"
        xoe("data", "make", "--images", "24", "--validation", "8", "--classes", "4", "--side", "16", data)
        few = [*SMALL, "--num-warmup-batches", "1", "--eval"]
        out = xoe("run", "-np", "2", BIN / "xoe", "bench", "train", *few, "--data_dir", data, "--num_epochs=2.5")
        self.assertIn("Num batches: 3, after 1 of warm-up", out)  # 8 images, 2 ranks of 4: 1 step an epoch
        out = xoe("bench", "train", *few, "--data_name=cifar10", "--num_epochs=9", "--num_eval_epochs=0.0012")
        self.assertIn("Num batches: 3, after", out)  # 10,000 images
        out = xoe("bench", "train", *few, "--num_epochs=0.0002")
        self.assertIn("Num batches: 3, after", out)  # 50,000 images

    def test_a_warm_up_is_of_epochs_of_synthetic_data(self):
        def losses(*flags):
            return [loss for _, loss in STEP.findall(xoe("bench", "train", *SMALL, "--num-batches=12", "--display_every=1", "--data_name=cifar10",
                                                         "--init_learning_rate=3", "--num_warmup_batches=0", *flags))]

        none, few = losses("--lr-warmup=0"), losses("--num_learning_rate_warmup_epochs=0.00032")  # 4 of 12,500 steps
        self.assertEqual(none[0], few[0])
        self.assertNotEqual(none[2:], few[2:])
        self.assertEqual(losses("--num_learning_rate_warmup_epochs=1"), losses("--lr-warmup=2"), "at most half of the run")
        self.assertNotEqual(few, losses("--lr-warmup=1"))

    def test_an_evaluation_has_a_batch_and_a_length_of_its_own(self):
        small = [word if word != "--batch-size" else "--batch_size" for word in SMALL]
        for flags in (["--num_batches=100", "--eval", "--num_eval_batches=2"], ["--num_epochs=1", "--eval", "--num_eval_batches=2"]):
            out = xoe("bench", "train", *small, "--eval_batch_size=3", *flags, "--num_warmup_batches=0", "--output", self.folder / "a.json")
            self.assertIn("Num batches: 2, after 0", out)
            self.assertEqual(self.json("a.json")["infer_batch_size"], 3)
            (self.folder / "a.json").unlink()

    def test_switches_that_are_off_and_empty_values_are_as_if_left_out(self):
        for flags, mode in ((["--eval", "--noforward_only"], "evaluation"), (["--forward_only", "--noeval"], "forward-only"),
                            (["--trace_file=", "--eval=yes"], "evaluation")):
            result = json.loads(xoe("bench", "train", *SMALL, *flags, "--num_batches=2", "--json"))
            self.assertEqual((result["mode"], result["num_batches"]), (mode, 2))

    def test_runs_that_would_be_others_are_refused(self):
        for flags, said in (
            (["--num_gpus=4"], "start `xoe run -np 4 xoe bench train ...`"),
            (["--num_gpu=4"], "unknown option --num-gpu; did you mean --num-gpus?"),
            (["--gradient_repackin=4"], "did you mean --gradient-repacking?"),
            (["--job_name=worker"], "xoe run -np N -H HOST:SLOTS"),
            (["--model=nasnet"], "this network of tf_cnn_benchmarks is not here; efficientnet_b0 is near"),
            (["--model=resnet51"], "did you mean resnet50"),
            (["--optimizer=adam"], "choose sgd, momentum, adamw"),
            (["--data_dir", "--eval"], "--data-dir needs a value, but --eval, an option, follows it"),
            (["--save_model_steps=5"], "--save-model-steps) needs --train-dir DIR"),
            (["--eval", "--train_dir=x"], "--eval trains nothing that could be kept"),
            (["--repeat=2", "--train_dir=x"], "--train-dir has room for one run"),
            (["--trace_file=x", "--traced-batches=0"], "leaves out"),
            (["--piecewise_learning_rate_schedule=0.1;x;2"], '"x" is no number'),
        ):
            with self.subTest(flags):
                self.assertIn(said, xoe("bench", "train", *flags, code=2))
        two = ["run", "-np", "2", BIN / "xoe", "bench", "train", *SMALL, "--num-batches", "2", "--variable_update=independent"]
        self.assertEqual(xoe(*two, code=1).count("[0] error: invalid_argument: --variable-update=independent: 2 ranks of a job"), 1)
        self.assertIn("total images/sec", xoe("bench", "train", *SMALL, "--num-batches", "2", "--variable_update=independent"))

    def test_mistakes_are_told_once(self):
        self.assertIn("did you mean --model?", xoe("bench", "train", "--modle", "x", code=2))
        self.assertIn("--emulate-accelerator trains; leave out --eval",
                      xoe("bench", "train", "--emulate-accelerator", "9", "--eval", code=2))
        self.assertIn("--batch-size 0: expected a whole number, 1 to 1048576", xoe("bench", "train", "--batch-size", "0", code=2))
        self.assertIn("nowhere", xoe("bench", "train", *SMALL, "--data-dir", self.folder / "nowhere", code=1))
        self.assertIn("xoe bench train", xoe("bench", "--help") + xoe("bench", "train", "--help"))


if __name__ == "__main__":
    unittest.main()
