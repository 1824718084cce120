"""Horovod's own tests of its MXNet module: see horovod_suite.py."""

import horovod_suite
import ranks

ranks.use("mxnet", "mxnet")
horovod_suite.main(__file__, ["test_mxnet1.py"], at_least=57)  # of 62; the others need GPUs
