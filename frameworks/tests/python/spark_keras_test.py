"""xoe.spark.keras: an estimator's fit and transform give what a plain training gives."""

import os
import shutil
import tempfile

import clusters

clusters.inside(
    __file__,
    "spark",
    "pyspark",
    "keras",
    "tensorflow",
    KERAS_BACKEND="tensorflow",
    TF_CPP_MIN_LOG_LEVEL="3",
    CUDA_VISIBLE_DEVICES="-1",
)

import keras
import numpy as np
from checks import raises
from pyspark.ml.feature import VectorAssembler

import xoe
from xoe.spark.backend import Backend
from xoe.spark.keras import KerasEstimator, KerasModel
from xoe.spark.store import Store

ROWS = 40


def numbers():
    random = np.random.default_rng(3)
    x = random.normal(size=(ROWS, 3)).astype(np.float32)
    return x, np.sin(x @ np.array([1.0, -2.0, 0.5], np.float32)), random.uniform(0.5, 1.5, ROWS).astype(np.float32)


def frame():
    x, y, weight = numbers()
    rows = [
        (*map(float, row), float(label), float(w), index % 5 == 0)
        for index, (row, label, w) in enumerate(zip(x, y, weight, strict=True))
    ]
    data = spark.createDataFrame(rows, "a float, b float, c float, y float, weight float, held boolean").coalesce(1)
    return VectorAssembler(inputCols=["a", "b", "c"], outputCol="features").transform(data)


def network():
    keras.utils.set_random_seed(5)
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)])


def plain(epochs, rows=None, weights=None):
    """A training in this process, of all rows in each step."""
    x, y, _ = numbers()
    rows = np.arange(ROWS) if rows is None else rows
    model = network()
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    model.fit(
        x[rows], y[rows], len(rows), epochs, verbose=0, shuffle=False, sample_weight=None if weights is None else weights[rows]
    )
    return model


def same(model, other):
    for one, two in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(one, two, rtol=2e-4, atol=1e-5)


class HereBackend(Backend):
    """Starts the ranks with xoe.run."""

    def run(self, fn, args=(), kwargs=None, env=None):
        return xoe.run(fn, args, kwargs, 2, env=env)

    def num_processes(self):
        return 2


def estimator(store, **more):
    given = {
        "num_proc": 2,
        "store": store,
        "model": network(),
        "optimizer": keras.optimizers.SGD(0.05, momentum=0.9),
        "loss": "mse",
        "feature_cols": ["features"],
        "label_cols": ["y"],
        "batch_size": ROWS // 2,
        "epochs": 6,
        "shuffle": False,
        "verbose": 0,
        **more,
    }
    return KerasEstimator(**{name: value for name, value in given.items() if value is not None})


def test_fit_and_transform(folder):
    """Two ranks with half of the rows each are one process with all, whose learning rate is twice as high."""
    store, data = Store.create(folder), frame()
    model = estimator(store, validation="held", batch_size=ROWS // 2 * 4 // 5, metrics=["mae"]).fit(data)
    rows = np.array([index for index in range(ROWS) if index % 5])
    expected = plain(6, rows)
    same(model.getModel(), expected)
    history = model.getHistory()
    assert len(history["loss"]) == 6 and history["loss"][-1] < history["loss"][0] and "mae" in history, history
    x, y, _ = numbers()
    np.testing.assert_allclose(history["val_loss"][-1], expected.evaluate(x[::5], y[::5], verbose=0), rtol=1e-3)
    found = model.transform(data)
    assert found.columns == [*data.columns, "y__output"]
    np.testing.assert_allclose(
        [row.y__output for row in found.collect()], expected.predict(x, verbose=0)[:, 0], rtol=1e-3, atol=1e-4
    )
    with tempfile.TemporaryDirectory() as other:
        saved = os.path.join(other, "model.keras")
        shutil.copy(store.get_checkpoint_path(model.getRunId()).removeprefix("file://") + "/checkpoint", saved)
        assert abs(float(keras.models.load_model(saved).optimizer.learning_rate) - 0.05) < 1e-6
    assert os.listdir(folder) == ["runs"], os.listdir(folder)


def test_columns_and_weights(folder):
    inputs = [keras.Input((1,), name=name) for name in "abc"]
    inner = network()
    model = keras.Model(inputs, inner(keras.layers.Concatenate()(inputs)))
    made = estimator(
        Store.create(folder),
        backend=HereBackend(),
        num_proc=None,
        model=model,
        feature_cols=["a", "b", "c"],
        sample_weight_col="weight",
    )
    same(made.fit(frame()).getModel(), plain(6, weights=numbers()[2]))


def test_a_run_continues(folder):
    store, data = Store.create(folder), frame()
    options = {"backend": HereBackend(), "num_proc": None, "run_id": "one", "optimizer": keras.optimizers.SGD(0.05)}
    first = estimator(store, epochs=2, **options).fit(data).getModel()
    second = estimator(store, epochs=4, **options).fit(data).getModel()
    model = network()
    model.compile(keras.optimizers.SGD(0.1), "mse")
    x, y, _ = numbers()
    model.fit(x, y, ROWS, 2, verbose=0, shuffle=False)
    same(first, model)
    model.fit(x, y, ROWS, 4, verbose=0, shuffle=False)
    same(second, model)


def test_many_classes(folder):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
    made = KerasModel(model=model, feature_columns=["features"], label_columns=["y"]).setOutputCols(["p"])
    np.testing.assert_allclose(
        made.transform(frame()).first().p.toArray(), model.predict(numbers()[0][:1], verbose=0)[0], rtol=1e-5
    )
    made.save(f"{folder}/model")
    same(KerasModel.load(f"{folder}/model").getModel(), model)


def test_refusals(folder):
    store, data = Store.create(folder), frame()
    raises(ValueError, lambda: estimator(store, model=object()).fit(data), "model is a builtins.object", "Keras 3")
    raises(ValueError, lambda: estimator(store, loss=None).fit(data), "needs loss")
    raises(NotImplementedError, lambda: estimator(store, data_module=object).fit(data), "data_module")


if __name__ == "__main__":
    spark = clusters.spark_session(3)
    clusters.run_on_spark(globals(), spark, in_folders=True)
