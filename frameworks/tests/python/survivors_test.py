"""`xoe run --min-np`: ranks that are killed are left behind, the others go on in their processes, and those that are restarted come back."""

import json
import os
import re
import signal
import subprocess
import time

import ranks
import running_job

TRAINING = ranks.ROOT / "frameworks/tests/python/resize_training.py"


class Job(running_job.RunningJob):
    """A job of three ranks, of which two must be left."""

    def __init__(self, folder, *options, program=None, size=3, least=2):
        self.stop, self.output = folder / "stop", folder / "output"
        program = program or [ranks.interpreter(), str(TRAINING), str(self.stop)]
        command = [
            str(ranks.BUILD / "bin" / "xoe"),
            "run",
            "-np",
            str(size),
            "--min-np",
            str(least),
            "--timeout",
            str(ranks.HANGS),
        ]
        with self.output.open("w") as out:
            self.process = subprocess.Popen(
                [*command, *options, *program], env=ranks.environment(), stdout=out, stderr=subprocess.STDOUT
            )

    def end(self):
        code = self.process.wait(timeout=ranks.HANGS)
        return code, self.text()


def steps_by(text, slot):
    return [(int(step), int(by)) for step, by in re.findall(rf"\[{slot}\] step (\d+) by (\d+)", text)]


def test_survivors_go_on_until_too_few_are_left(folder):
    job = Job(folder)
    pids = [job.begins(slot, 3) for slot in range(3)]
    job.until(r"\[2\] step 5 ")
    killed = time.monotonic()
    os.kill(pids[1], signal.SIGKILL)
    assert [job.begins(0, 2), job.begins(2, 2)] == [pids[0], pids[2]]
    job.until(r"\[0\] step \d+ by 2", times=3)
    print(f"three steps after {time.monotonic() - killed:.2f} s", flush=True)
    os.kill(pids[0], signal.SIGKILL)
    code, text = job.end()
    assert code == 128 + signal.SIGKILL, text
    assert re.search(rf"xoe run: rank 1 \(.*pid {pids[1]}\) was killed by SIGKILL.*; 2 ranks go on\n", text), text
    assert "the job goes on with 2 ranks" in text
    assert re.findall(r"xoe run: rank (\d) \(.*pid \d+\) was killed by SIGKILL", text)[-1] == "0", text
    steps = steps_by(text, 2)
    assert [by for _, by in steps] == sorted((by for _, by in steps), reverse=True), text


def test_a_rank_that_is_restarted_comes_back(folder):
    job = Job(folder, "--restarts", "1")
    pids = [job.begins(slot, 3) for slot in range(3)]
    os.kill(pids[2], signal.SIGKILL)
    job.begins(0, 2)
    again = job.begins(2, 3, times=2)
    assert again != pids[2]
    job.until(r"\[0\] step \d+ by 3", times=8)
    job.stop.touch()
    code, text = job.end()
    assert code == 0, text
    assert "2 ranks go on, and it is restarted: 0 of 1 restarts left" in text
    assert len(re.findall(r"(?m)^\[\d\] ended$", text)) == 3, text
    sizes = [by for _, by in steps_by(text, 0)]
    changes = [b for a, b in zip([None, *sizes], sizes, strict=False) if a != b]
    assert changes in ([3, 2, 3], [2, 3]), changes


def test_the_first_one_is_named_where_the_others_cannot_go_on(folder):
    script = folder / "program.py"
    script.write_text(
        "import os, signal, time, torch, xoe.torch as hvd\n"
        "hvd.init()\n"
        "for step in range(100000):\n"
        "    hvd.allreduce(torch.ones(1))\n"
        "    if step == 20 and os.environ['XOE_RANK'] == '1': os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    job = Job(folder, program=[ranks.interpreter(), str(script)], size=4, least=2)
    code, text = job.end()
    assert code == 128 + signal.SIGKILL, text
    last = [line for line in text.splitlines() if line.startswith("xoe run: rank")][-1]
    assert last.startswith("xoe run: rank 1 ") and "SIGKILL" in last, text


def test_a_rank_that_ends_well_ends_the_job_as_ever(folder):
    job = Job(folder, program=["sh", "-c", "[ $XOE_RANK = 0 ] && exit 0; sleep 0.5"])
    code, text = job.end()
    assert code == 0, text


def steps_of(run):
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line["step"] for line in lines if line["event"] == "report"]


def assert_all_reported(steps, doubtful):
    """Each step once; the loss of a rank may have come between a step and its report."""
    assert sorted(set(steps) | doubtful) == list(range(1, max(steps) + 1)) and len(steps) == len(set(steps)), steps


def images_of(folder):
    sizes = ["--images", "240", "--classes", "3", "--size-min", "32", "--size-max", "32"]
    subprocess.run([ranks.BUILD / "bin/xoe", "data", "make", *sizes, folder / "data"], check=True, capture_output=True)
    return (
        f"{ranks.BUILD}/bin/xoe train --data {folder}/data --model resnet18 --image-size 32 --device cpu --batch 4 --report-every 1"
        f" --checkpoint-every 1 --checkpoint-keep 100 --threads 1 --lr 0.02 --ema 0.9"
    )


def weights(checkpoints, step, file):
    subprocess.run(
        [ranks.BUILD / "bin/xoe", "train", "export", checkpoints / f"step-{step:08}.ckpt", file],
        check=True,
        capture_output=True,
    )
    return file.read_bytes()


def test_a_training_goes_on_after_the_step_that_it_has_finished(folder):
    if not (ranks.BUILD / "bin" / "xoe-trainer").exists():
        return
    train, run, checkpoints = images_of(folder), folder / "run", folder / "checkpoints"
    program = f"echo pid $$ started; exec {train} --steps 20 --run-dir {run} --checkpoint {checkpoints}"
    job = Job(folder, program=["sh", "-c", program], size=2, least=1)
    job.until(r"\[0\] +6 ")
    os.kill(int(re.search(r"\[1\] pid (\d+) started", job.text())[1]), signal.SIGKILL)
    killed = time.monotonic()
    job.until(r"step \d+ is the first with 1 rank")
    print(f"one rank goes on after {time.monotonic() - killed:.2f} s", flush=True)
    code, text = job.end()
    assert code == 0, text
    # The same weights, to the bit, as from a checkpoint of that step, with which one rank goes on.
    step = int(re.search(r"step (\d+) is the first with 1 rank", text)[1]) - 1
    assert_all_reported(steps_of(run), {step})
    (folder / "other").mkdir()
    (checkpoints / f"step-{step:08}.ckpt").rename(folder / f"other/step-{step:08}.ckpt")
    program = f"exec {train} --steps 20 --checkpoint {folder}/other --resume"
    code, text = Job(folder, program=["sh", "-c", program], size=1, least=1).end()
    assert code == 0 and f"resumed from step {step}" in text, text
    found = (
        weights(checkpoints, 20, folder / "found.safetensors"),
        weights(folder / "other", 20, folder / "expected.safetensors"),
    )
    assert found[0] == found[1]


def test_the_first_rank_of_a_training_is_lost_and_comes_back(folder):
    if not (ranks.BUILD / "bin" / "xoe-trainer").exists():
        return
    run, checkpoints = folder / "run", folder / "checkpoints"
    program = f"echo pid $$ started; exec {images_of(folder)} --steps 1000000 --run-dir {run} --checkpoint {checkpoints}"
    job = Job(folder, "--restarts", "2", program=["sh", "-c", program])
    job.until(r"\[0\] +12 ")
    for slot, size in ((0, 2), (2, 2)):
        found = re.findall(rf"\[{slot}\] pid (\d+) started", job.text())
        worlds = job.text().count("is the first with 3 ranks")
        os.kill(int(found[-1]), signal.SIGKILL)
        job.until(rf"step \d+ is the first with {size} ranks")
        job.until(r"step \d+ is the first with 3 ranks", times=worlds + 1)
    count = len(steps_of(run))
    end = time.monotonic() + ranks.HANGS
    while len(steps_of(run)) < count + 5:
        assert time.monotonic() < end, job.text()
        time.sleep(0.02)
    job.process.terminate()
    _, text = job.end()
    steps = steps_of(run)
    assert_all_reported(steps, {int(step) - 1 for step in re.findall(r"step (\d+) is the first with", text)})
    assert (checkpoints / f"step-{steps[-1]:08}.ckpt").exists(), text


def test_a_sharded_training_says_that_its_state_is_lost(folder):
    if not (ranks.BUILD / "bin" / "xoe-trainer").exists():
        return
    train = [
        str(ranks.BUILD / "bin" / "xoe"),
        "train",
        "--synthetic",
        "--model",
        "mlp",
        "--image-size",
        "8",
        "--device",
        "cpu",
        "--sharded",
    ]
    script = f"echo pid $$ started; exec {' '.join(train)} --batch 4 --steps 1000000 --report-every 1"
    job = Job(folder, program=["sh", "-c", script])
    job.until(r"\[0\] +12 ")
    os.kill(int(re.search(r"\[1\] pid (\d+) started", job.text())[1]), signal.SIGKILL)
    code, text = job.end()
    assert code == 128 + signal.SIGKILL, text
    assert "with --sharded, a rank takes its part of the optimizer's state with it" in text


def test_a_training_that_too_few_are_left_of_ends_at_once_and_keeps_its_state(folder):
    if not (ranks.BUILD / "bin" / "xoe-trainer").exists():
        return
    checkpoints = folder / "checkpoints"
    train = f"{ranks.BUILD}/bin/xoe train --synthetic --model mlp --image-size 8 --device cpu --batch 4 --report-every 1"
    program = f"echo pid $$ started; exec {train} --steps 1000000 --checkpoint {checkpoints}"
    job = Job(folder, "--grace", "60", program=["sh", "-c", program], size=2, least=2)
    job.until(r"\[0\] +12 ")
    os.kill(int(re.search(r"\[1\] pid (\d+) started", job.text())[1]), signal.SIGKILL)
    killed = time.monotonic()
    code, text = job.end()
    assert code == 128 + signal.SIGKILL and time.monotonic() - killed < 50, text
    assert "xoe run: rank 1 " in text.splitlines()[-2] + text.splitlines()[-1], text
    kept = re.search(r"the state is in (\S+)", text)
    assert kept and os.path.exists(kept[1]), text


def test_two_that_are_lost_at_once(folder):
    if not (ranks.BUILD / "bin" / "xoe-trainer").exists():
        return
    train = f"{ranks.BUILD}/bin/xoe train --synthetic --model mlp --image-size 8 --device cpu --batch 4 --report-every 1"
    options = "--precision fp16 --accumulate 2 --ema 0.9"
    job = Job(folder, program=["sh", "-c", f"echo pid $$ started; exec {train} {options} --steps 1000000"], size=4, least=2)
    job.until(r"\[0\] +12 ")
    pids = [int(re.search(rf"\[{slot}\] pid (\d+) started", job.text())[1]) for slot in range(4)]
    for slot in (0, 2):
        os.kill(pids[slot], signal.SIGKILL)
    job.until(r"step \d+ is the first with 2 ranks")
    step = int(re.findall(r"step (\d+) is the first with 2 ranks", job.text())[-1])
    job.until(rf"\[1\] +{step + 5} ")
    job.process.terminate()
    code, text = job.end()
    assert code == 130, text


PLAIN = """
import os, sys, time
import torch
import xoe.torch as hvd
hvd.init()
print(f"pid {os.getpid()} rank {hvd.rank()} of {hvd.size()} from step 0", flush=True)
while hvd.allreduce(torch.tensor([float(os.path.exists(sys.argv[1]))]), op=hvd.Sum, name="stop").item() == 0:
    time.sleep(0.01)
"""


def test_a_program_that_is_not_elastic_begins_again_with_all_ranks(folder):
    (folder / "plain.py").write_text(PLAIN)
    program = [ranks.interpreter(), str(folder / "plain.py"), str(folder / "stop")]
    job = Job(folder, "--restarts", "9", program=program, least=1)
    pids = [job.begins(slot, 3) for slot in range(3)]
    os.kill(pids[1], signal.SIGKILL)
    again = [job.begins(slot, 3, times=2) for slot in range(3)]
    assert not set(again) & set(pids)
    job.stop.touch()
    code, text = job.end()
    assert code == 0, text
    assert "no rank is left of those that went on: all 3 ranks begin again" in text, text


SLOW_TO_RUN = """
import os, sys, time
import xoe.torch as hvd
stop, hold = sys.argv[1:]
hvd.init()
print(f"pid {os.getpid()} has joined", flush=True)
while os.path.exists(hold):
    time.sleep(0.01)
@hvd.elastic.run
def train(state):
    print(f"pid {os.getpid()} rank {hvd.rank()} of {hvd.size()} from step {state.step}", flush=True)
    while not any(hvd.allgather_object(os.path.exists(stop))):
        state.step += 1
        state.commit()
        time.sleep(0.01)
train(hvd.elastic.ObjectState(step=0))
"""


def test_a_newcomer_counts_once_it_has_the_state(folder):
    (folder / "slow.py").write_text(SLOW_TO_RUN)
    hold = folder / "hold"
    program = [ranks.interpreter(), str(folder / "slow.py"), str(folder / "stop"), str(hold)]
    job = Job(folder, "--restarts", "1", program=program, size=2, least=1)
    pids = [job.begins(slot, 2) for slot in range(2)]
    hold.touch()
    os.kill(pids[1], signal.SIGKILL)
    job.until(r"\[1\] pid \d+ has joined", times=2)
    time.sleep(1)
    assert "the job goes on with 2 ranks" not in job.text(), job.text()
    # The other one is lost before it has given its state away: there is nothing to go on from.
    os.kill(pids[0], signal.SIGKILL)
    code, text = job.end()
    assert code == 128 + signal.SIGKILL and "of 1 from step" not in text.split("has joined")[-1], text


def test_what_cannot_be_is_refused(folder):
    for words, said in (
        (["-np", "2", "--min-np", "3", "true"], "--min-np 3 is more than -np 2"),
        (["-np", "2", "--min-np", "0", "true"], "--min-np 0: expected a number of ranks"),
        (["-H", "nodeA:2", "-np", "2", "--min-np", "1", "--host-discovery-script", "x", "true"], "the script says which hosts"),
        (["-np", "4", "--min-np", "1", "--max-np", "2", "true"], "-np 4 is more than --max-np 2"),
        (["-np", "2", "--max-np", "2", "true"], "Add --min-np"),
        (["-np", "2", "--min-np", "1", "--max-np", "4", "true"], "where are the slots?"),
        (["-np", "2", "--min-np", "1", "--resize", "0:2", "true"], "--resize"),
        (["--pool", "--gpus", "1", "--min-np", "1", "true"], "--gpus MIN:MAX"),
    ):
        done = subprocess.run([ranks.BUILD / "bin" / "xoe", "run", *words], capture_output=True, text=True, check=False)
        assert done.returncode != 0 and said in done.stderr, (words, done.stderr)


ranks.drive(globals())
