"""Images and plain records in an elastic state of PyTorch: whatever is killed and joins, an epoch is each image exactly once."""

import random

import elastic_images_job
import ranks


def test_a_killed_rank_joins_again(folder):
    elastic_images_job.kill_and_join(folder, "torch")


def test_plain_records(folder):
    elastic_images_job.kill_and_join(folder, "records")


def test_one_of_three_is_left(folder):
    job = elastic_images_job.Job(folder, "torch", "--min-np", "1")
    victims = random.sample(range(3), 2)
    for left, slot in zip((3, 2), victims, strict=True):
        job.until(rf"step \d+ by {left}\n", times=random.randrange(20, 200))
        job.kill(slot)
    job.until(r"step \d+ by 1\n", times=random.randrange(1, 100))
    proof = job.end()
    assert job.text().count("each record once an epoch") == 1, job.text()
    assert all(epoch["exact"] and epoch["records"] == elastic_images_job.RECORDS for epoch in proof["epochs"]), proof


ranks.drive(globals())
