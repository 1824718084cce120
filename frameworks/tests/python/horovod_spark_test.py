"""horovod.spark on packages/xoe-horovod: names and defaults, programs as Horovod's documentation writes them, and what is refused."""

import subprocess
import sys
import tempfile

import clusters

clusters.inside(
    __file__,
    "spark",
    "pyspark",
    "keras",
    "torch",
    "tensorflow",
    KERAS_BACKEND="tensorflow",
    TF_CPP_MIN_LOG_LEVEL="3",
    CUDA_VISIBLE_DEVICES="-1",
)

import horovod.spark
import horovod.spark.keras
import horovod.spark.torch
from checks import raises
from horovod.spark.common.backend import Backend, SparkBackend
from horovod.spark.common.estimator import HorovodEstimator, HorovodModel
from horovod.spark.common.params import EstimatorParams, ModelParams
from horovod.spark.common.store import DBFSLocalStore, FilesystemStore, HDFSStore, LocalStore, Store
from horovod.spark.keras import KerasEstimator, KerasModel
from horovod.spark.lightning import TorchEstimator as LightningEstimator
from horovod.spark.torch import TorchEstimator, TorchModel
from pyspark.ml.feature import VectorAssembler

import xoe
import xoe.spark.keras

# Arguments in Horovod's order, with its defaults.
SIGNATURES = {
    horovod.spark.run: "fn|args=()|kwargs={}|num_proc=None|start_timeout=None|use_mpi=None|use_gloo=None|extra_mpi_args=None|env=None"
    "|stdout=None|stderr=None|verbose=1|nics=None|prefix_output_with_timestamp=False|executable=None",
    HorovodEstimator.fit: "self|dataset|params=None",
    HorovodEstimator.fit_on_parquet: "self|params=None|dataset_idx=None",
    Backend.run: "self|fn|args=()|kwargs=None|env=None",
    SparkBackend: "num_proc=None|env=None",
    FilesystemStore: "prefix_path|train_path=None|val_path=None|test_path=None|runs_path=None|save_runs=True|storage_options=None",
}
# Parameters, which Horovod takes by name only, with their defaults.
PARAMETERS = {
    HorovodEstimator: "num_proc=None|store=None|backend=None|model=None|optimizer=None|loss=None|loss_weights=None|sample_weight_col=None"
    "|metrics=[]|feature_cols=None|label_cols=None|continuous_cols=None|categorical_cols=None|validation=None|gradient_compression=None"
    "|compress_sparse_cols=False|batch_size=32|val_batch_size=None|epochs=1|verbose=1|callbacks=[]|random_seed=None"
    "|shuffle_buffer_size=None|shuffle=True|partitions_per_process=10|run_id=None|train_steps_per_epoch=None"
    "|validation_steps_per_epoch=None|transformation_fn=None|transformation_edit_fields=None|transformation_removed_fields=None"
    "|train_reader_num_workers=2|val_reader_num_workers=2|reader_pool_type='thread'|label_shapes=None|inmemory_cache_all=False"
    "|use_gpu=True|mp_start_method=None|backward_passes_per_step=1|tensorflow_dataset_prefetch_buffer_size=0",
    TorchEstimator: "input_shapes=None|loss_constructors=None|train_minibatch_fn=None",
    LightningEstimator: "input_shapes=None|loss_constructors=None|train_minibatch_fn=None|trainer_args=None|num_gpus=None|logger=None"
    "|log_every_n_steps=50|loader_num_epochs=None|terminate_on_nan=False|profiler=None|debug_data_loader=False"
    "|train_async_data_loader_queue_size=None|val_async_data_loader_queue_size=None",
    KerasEstimator: "custom_objects={}|checkpoint_callback=None",
    HorovodModel: "history=None|model=None|feature_columns=None|label_columns=None|run_id=None|_metadata=None",
    TorchModel: "optimizer=None|input_shapes=None|loss=None|loss_constructors=None",
    KerasModel: "custom_objects={}",
}
# fmt: off
GETTERS = (
    "NumProc", "Model", "Backend", "Store", "Loss", "LossWeights", "SampleWeightCol", "Metrics", "FeatureCols", "LabelCols", "ContinuousCols",
    "CategoricalCols", "Validation", "Callbacks", "BatchSize", "ValBatchSize", "Epochs", "TrainStepsPerEpoch", "ValidationStepsPerEpoch",
    "Verbose", "GradientCompression", "CompressSparseCols", "RandomSeed", "ShufflingBufferSize", "Shuffle", "Optimizer",
    "PartitionsPerProcess", "RunId", "TransformationFn", "TransformationEditFields", "TransformationRemovedFields", "TrainReaderNumWorker",
    "ValReaderNumWorker", "ReaderPoolType", "LabelShapes", "InMemoryCacheAll", "UseGpu", "MpStartMethod", "BackwardPassesPerStep",
    "TensorflowDatasetPrefetchBufferSize",
)
STORE = (
    "is_parquet_dataset", "get_parquet_dataset", "get_train_data_path", "get_val_data_path", "get_test_data_path", "saving_runs",
    "get_runs_path", "get_run_path", "get_checkpoint_path", "get_checkpoints", "get_logs_path", "get_checkpoint_filename",
    "get_logs_subdir", "exists", "read", "write_text", "get_local_output_dir_fn", "sync_fn",
)
# fmt: on


def test_names_and_defaults():
    clusters.compare_signatures(SIGNATURES)
    made = {HorovodEstimator: TorchEstimator, HorovodModel: TorchModel}
    for kind, listed in PARAMETERS.items():
        one = made.get(kind, kind)()
        for name, default in (entry.split("=") for entry in listed.split("|")):
            found = one.getOrDefault(name)
            assert found == eval(default), f"{kind}: {name} is {found!r} unless given, not {default}"
    for word in GETTERS:
        assert hasattr(EstimatorParams, f"get{word}") and hasattr(EstimatorParams, f"set{word}"), word
    one = TorchEstimator(batch_size=3).setEpochs(7).setInMemoryCacheAll(True)
    assert (one.getBatchSize(), one.getEpochs(), one.getInMemoryCacheAll()) == (3, 7, True)
    for word in ("History", "Model", "FeatureColumns", "LabelColumns", "RunId"):
        assert hasattr(ModelParams, f"get{word}"), word


def test_stores():
    for method in STORE:
        assert callable(getattr(FilesystemStore, method)), method
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(folder)
        assert type(store) is FilesystemStore and isinstance(LocalStore(folder), FilesystemStore)
        assert store.get_train_data_path(3) == f"file://{folder}/intermediate_train_data.3"
        assert (
            store.get_checkpoint_path("r") == f"file://{folder}/runs/r"
            and store.get_logs_path("r") == f"file://{folder}/runs/r/logs"
        )
        assert not store.exists(store.get_run_path("r")) and store.get_checkpoints("r") == []
        store.write_text(f"{store.get_run_path('r')}/a.ckpt", "words")
        assert store.read(f"{store.get_run_path('r')}/a.ckpt") == b"words" and store.get_checkpoints("r") == ["a.ckpt"]
        with store.get_local_output_dir_fn("r")() as local:
            with open(f"{local}/log", "w") as file:
                file.write("line")
            store.sync_fn("r")(local)
        assert store.read(f"{store.get_run_path('r')}/log") == b"line"
        assert FilesystemStore(folder, save_runs=False).get_checkpoint_path("r") is None
    assert type(Store.create("hdfs://host:9000/a")) is HDFSStore
    assert Store.create("hdfs://host:9000/a").get_train_data_path() == "hdfs://host:9000/a/intermediate_train_data"
    for path in ("dbfs:/a/b", "/dbfs/a/b", "file:///dbfs/a/b"):
        store = Store.create(path)
        assert type(store) is DBFSLocalStore and store.get_runs_path() == "file:///dbfs/a/b/runs", path


def test_run():
    def train(factor):
        import horovod.torch as hvd
        import torch

        hvd.init()
        return hvd.allreduce(torch.ones(1) * hvd.rank() * factor, op=hvd.Sum).item()

    assert horovod.spark.run(train, args=(3,), num_proc=2, verbose=2) == [3.0, 3.0]
    assert horovod.spark.run(lambda: 0, start_timeout=60, nics="lo") == [0, 0]


def test_estimators():
    """As Horovod's documentation writes them. Keras's estimator is Xoe's, which spark_keras_test.py tests: TensorFlow and PyTorch do not go
    together in this process."""
    assert KerasEstimator is xoe.spark.keras.KerasEstimator and KerasModel is xoe.spark.keras.KerasModel
    import torch
    from torch.nn import functional

    rows = [(0.0, 0.0, 0.0), (0.0, 1.0, 1.0), (1.0, 0.0, 1.0), (1.0, 1.0, 0.0)] * 8
    data = VectorAssembler(inputCols=["x1", "x2"], outputCol="features").transform(
        spark.createDataFrame(rows, "x1 float, x2 float, y float")
    )
    with tempfile.TemporaryDirectory() as folder:
        store = LocalStore(folder)
        network = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1), torch.nn.Sigmoid())
        fitted = TorchEstimator(
            num_proc=2,
            store=store,
            model=network,
            optimizer=torch.optim.SGD(network.parameters(), lr=0.1),
            loss=functional.binary_cross_entropy,
            input_shapes=[[-1, 2]],
            feature_cols=["features"],
            label_cols=["y"],
            batch_size=4,
            epochs=2,
            verbose=0,
        ).fit(data)
        assert isinstance(fitted, TorchModel) and fitted.setOutputCols(["p"]).transform(data).select("p").count() == len(rows)


SERVICE = """
import horovod.tensorflow.data.compute_service as service
import xoe
for call in (lambda: service.TfDataServiceConfig(1, 1, "training", {}, b""), lambda: service.TfDataServiceConfig.read("f"),
             lambda: service.tf_data_service(None, 0)):
    try:
        call()
    except xoe.UnsupportedError as error:
        assert "DispatchServer" in str(error)
        print("refused")
"""


def test_refusals():
    raises(xoe.UnsupportedError, lambda: horovod.spark.run_elastic(lambda: 0), "horovod.spark.run")
    done = subprocess.run([sys.executable, "-c", SERVICE], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["refused"] * 3, done.stderr


if __name__ == "__main__":
    spark = clusters.spark_session(2)
    clusters.run_on_spark(globals(), spark)
