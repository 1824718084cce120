"""Horovod's own tests of its TensorFlow and Keras modules: see horovod_suite.py."""

import os

import horovod_suite
import ranks

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ranks.use("frameworks", "tensorflow")
horovod_suite.main(
    __file__,
    ["test_tensorflow.py", "test_tensorflow_process_sets.py", "test_tensorflow2_keras.py"],
    at_least=105,  # of 183; 60 need GPUs
    # docs/guide/from-horovod.md has the reasons.
    different=(
        "test_horovod_allreduce_indexed_slices_prescale_postscale_error",
        "test_horovod_allreduce_process_set_id_error",
        "test_horovod_reducescatter_grad_cpu_process_sets",
        "test_horovod_syncbn_cpu",
        "test_legacy_DistributedOptimizer_process_sets",
        "test_partial_distributed_gradient_tape",
        "test_grad_aggregation_with_inf_grad",
        "test_gradient_aggregation",
        "test_gradient_aggregation_with_local_vars",
        "test_partial_distributed_optimizer",
        "test_sparse_as_dense_with_grad_aggregation",
    ),
    variables={"test_tensorflow2_keras.py": {"TF_USE_LEGACY_KERAS": "1"}},  # they are of Keras 2
)
