"""The Trainer of transformers, Accelerate's own test scripts, and the tests of PyTorch Ignite and itwinai for Horovod, unchanged.

The Trainer and Accelerate ask PyTorch for gloo, and get Xoe (XOE_TORCH_REPLACES).
"""

import json
import re

import adopted
import ranks

ranks.use("adopted", "transformers")
ROWS = 16  # of all ranks' batches together
INSTEAD = {"XOE_TORCH_REPLACES": "gloo"}

TRAINER = """
import json, os, sys
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

torch.set_num_threads(1)
set_seed(1)
kept = {"resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}
model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2, **kept))
rows = torch.randint(0, 32, (64, 8), generator=torch.Generator().manual_seed(2))
arguments = TrainingArguments(
    output_dir=sys.argv[1], per_device_train_batch_size=int(sys.argv[2]), max_steps=8, learning_rate=1e-2, logging_steps=1,
    report_to=[], use_cpu=True, save_steps=8, seed=3, lr_scheduler_type="constant", disable_tqdm=True,
)
trainer = Trainer(model=model, args=arguments, train_dataset=[{"input_ids": row, "labels": row} for row in rows])
trainer.train()
if trainer.is_world_process_zero():
    losses = [step["loss"] for step in trainer.state.log_history if "loss" in step]
    print("SAID", json.dumps([arguments.world_size, torch.distributed.get_backend(), losses]))
"""


def test_trainer_is_one_process(folder):
    program = folder / "trainer.py"
    program.write_text(TRAINER)
    losses, weights = {}, {}
    for size in (1, 2, 4):
        saved = folder / f"saved-{size}"
        printed, weights[size] = adopted.train(size, [program, saved, ROWS // size], folder / str(size), **INSTEAD)
        of, backend, losses[size] = json.loads(re.search(r"SAID (.*)", printed)[1])
        assert (of, backend, len(losses[size])) == (size, "xoe", 8), printed
        assert (saved / "checkpoint-8" / "model.safetensors").exists(), printed
    assert losses[1][-1] < losses[1][0], losses
    for size in (2, 4):
        adopted.close(losses[size], losses[1], 1e-4)
        adopted.close(weights[size], weights[1], 1e-3)
    print(
        f"  losses {losses[1][0]:.4f} to {losses[1][-1]:.4f}, on 4 ranks {losses[4][0]:.4f} to {losses[4][-1]:.4f}", flush=True
    )


def test_accelerates_scripts(folder):
    """Without test_distributed_data_loop.py, which has uneven batches without a join on CPUs, and waits forever on gloo."""
    for name in ("test_script", "test_sync", "test_ops", "external_deps/test_metrics"):
        program = adopted.checkout("accelerate", f"src/accelerate/test_utils/scripts/{name}.py")
        printed = adopted.run_together(2, [program], folder, ACCELERATE_USE_CPU="true", **INSTEAD)
        assert "[0] " in printed and "[1] " in printed, printed


def test_ignites_tests_for_horovod(folder):
    """Each calls horovod.run() of a function that calls hvd.init() on 4 ranks. One test compares the words of an error."""
    tests = adopted.checkout("ignite", "tests/ignite/distributed/comp_models/test_horovod.py")
    source = adopted.checkout("ignite")
    words = [ranks.interpreter(), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", source, tests]
    chosen = ["-k", "not no_dist"]
    variables = adopted.environment(folder)
    path = f"{source}:{variables['PYTHONPATH']}"
    printed = adopted.call(["env", f"PYTHONPATH={path}", *words, *chosen], folder)
    passed = re.search(r"(\d+) passed", printed)
    assert passed and int(passed[1]) == 4, printed


def test_itwinais_tests_for_horovod(folder):
    adopted.need("ray")
    tests = adopted.checkout("itwinai", "tests/torch/test_distributed.py")
    words = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        adopted.checkout("itwinai"),
        "-m",
        "horovod_dist",
        tests,
    ]
    printed = adopted.run(2, words, folder)
    assert len(re.findall(r"^\[[01]\] 7 passed", printed, re.MULTILINE)) == 2, printed


ranks.drive(globals())
