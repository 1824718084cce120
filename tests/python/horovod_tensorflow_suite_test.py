"""Horovod's own tests of its TensorFlow and Keras modules: see horovod_suite.py."""

import os

import horovod_suite
import ranks

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ranks.use("frameworks", "tensorflow")
horovod_suite.main(
    __file__,
    ["test_tensorflow.py", "test_tensorflow_process_sets.py", "test_tensorflow2_keras.py"],
    at_least=0,
)
