"""Images in an elastic state of JAX, TensorFlow and Keras: whatever is killed and joins, an epoch is each image exactly once."""

import elastic_images_job
import ranks

ranks.use("frameworks", "jax")

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}


def test_jax(folder):
    elastic_images_job.kill_and_join(folder, "jax", **QUIET)


def test_tensorflow(folder):
    elastic_images_job.kill_and_join(folder, "tensorflow", **QUIET)


def test_keras_on_tensorflow(folder):
    elastic_images_job.kill_and_join(folder, "keras", KERAS_BACKEND="tensorflow", **QUIET)


def test_keras_on_jax(folder):
    elastic_images_job.kill_and_join(folder, "keras", KERAS_BACKEND="jax", **QUIET)


ranks.drive(globals())
