"""Ranks in tasks of Spark, and estimators that train on Spark's data frames.

``run(function, args, num_proc=4)`` calls a function on four ranks, as :func:`xoe.run` does, each in a task of one barrier
stage::

    import xoe.spark
    results = xoe.spark.run(train, [3], num_proc=4)

``xoe.spark.torch``, ``.keras`` and ``.lightning`` have estimators: ``fit(data_frame)`` trains a network on ranks, and gives a
model whose ``transform(data_frame)`` adds its predictions. PySpark itself is imported on first use.
"""

from xoe.spark.job import default_num_proc, run

__all__ = ["default_num_proc", "run"]
