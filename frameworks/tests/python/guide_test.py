"""The guide of data: its program in Python runs as it stands, and its table of a batch is complete."""

import re
import subprocess

import ranks

GUIDE = (ranks.ROOT / "docs" / "guide" / "data.md").read_text(encoding="utf-8")


def test_the_program_trains(folder):
    (program,) = re.findall(r"```python\n(# train\.py.*?)```", GUIDE, re.DOTALL)
    (folder / "train.py").write_text(program)
    make = [str(ranks.BUILD / "bin" / "xoe"), "data", "make", "photos", "--format", "folder", "--images", "200"]
    subprocess.run([*make, "--classes", "4"], cwd=folder, check=True, capture_output=True)
    done = subprocess.run(
        ranks.command(2, "train.py", options=("--timeout", str(ranks.HANGS))),
        cwd=folder,
        env=ranks.environment(OMP_NUM_THREADS="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    shares = re.findall(r"epoch \d: ([\d.]+) of 40 held-out images are right", done.stdout)
    assert len(shares) == 3, done.stdout


def test_every_attribute_of_a_batch_is_in_the_table(folder):
    ask = "import dataclasses, xoe.data; print(*(f.name for f in dataclasses.fields(xoe.data.Batch)), *vars(xoe.data.Batch))"
    said = subprocess.run(
        [ranks.interpreter(), "-c", ask], env=ranks.environment(), check=True, capture_output=True, text=True
    ).stdout.split()
    table = GUIDE.split("| attribute of a batch |")[1].split("\n\n")[0]
    listed = set(re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines()[2:] if line)))
    assert listed == {name for name in said if not name.startswith("_")}, (listed, said)


ranks.drive(globals())
