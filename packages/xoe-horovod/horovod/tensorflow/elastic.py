"""``xoe.tensorflow.elastic`` by Horovod's name."""

from xoe.tensorflow.elastic import ObjectState, TensorFlowKerasState, TensorFlowState, run

__all__ = ["ObjectState", "TensorFlowKerasState", "TensorFlowState", "run"]
