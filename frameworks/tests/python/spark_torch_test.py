"""xoe.spark.torch: an estimator's fit and transform give what a plain training gives."""

import os

import clusters

clusters.inside(__file__, "spark", "pyspark", "torch", "lightning")

import cloudpickle
import lightning
import numpy as np
import pyarrow as pa
import torch
from checks import raises
from pyarrow import dataset, parquet
from pyspark.ml.feature import VectorAssembler
from torch.nn import functional

import xoe
from xoe.spark.backend import Backend, SparkBackend
from xoe.spark.lightning import TorchEstimator as LightningEstimator
from xoe.spark.parquet import Rows
from xoe.spark.store import Store
from xoe.spark.torch import TorchEstimator, TorchModel

cloudpickle.register_pickle_by_value(clusters)

ROWS = 40


def numbers():
    random = np.random.default_rng(3)
    x = random.normal(size=(ROWS, 3)).astype(np.float32)
    return x, np.sin(x @ np.array([1.0, -2.0, 0.5], np.float32)), random.uniform(0.5, 1.5, ROWS).astype(np.float32)


def frame(spark):
    """Columns a, b, c; features, a vector of them; y; weight; held: every fifth row."""
    x, y, weight = numbers()
    rows = [
        (*map(float, row), float(label), float(w), index % 5 == 0)
        for index, (row, label, w) in enumerate(zip(x, y, weight, strict=True))
    ]
    data = spark.createDataFrame(rows, "a float, b float, c float, y float, weight float, held boolean").coalesce(1)
    return VectorAssembler(inputCols=["a", "b", "c"], outputCol="features").transform(data)


def network():
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def plain(steps, lr, rows=None, weights=None, model=None, momentum=0.9):
    """A training in this process, of all rows in each step."""
    x, y, _ = numbers()
    rows = np.arange(ROWS) if rows is None else rows
    x, y = torch.tensor(x[rows]), torch.tensor(y[rows]).reshape(-1, 1)
    model = model or network()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    for _ in range(steps):
        optimizer.zero_grad()
        each = functional.mse_loss(model(x), y, reduction="none").reshape(-1)
        (each if weights is None else each * torch.tensor(weights[rows])).mean().backward()
        optimizer.step()
    return model


def same(model, other, rtol=2e-4):
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(one.detach().numpy(), two.detach().numpy(), rtol=rtol, atol=1e-5)


class HereBackend(Backend):
    """Starts the ranks with xoe.run."""

    def run(self, fn, args=(), kwargs=None, env=None):
        return xoe.run(fn, args, kwargs, 2, env=env)

    def num_processes(self):
        return 2


def estimator(store, **more):
    model = network()
    given = {
        "num_proc": 2,
        "store": store,
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        "loss": functional.mse_loss,
        "feature_cols": ["features"],
        "label_cols": ["y"],
        "batch_size": ROWS // 2,
        "epochs": 6,
        "shuffle": False,
        "verbose": 0,
        **more,
    }
    return TorchEstimator(**{name: value for name, value in given.items() if value is not None})


def test_fit_and_transform(folder):
    """Two ranks with half of the rows each are one process with all, whose learning rate is twice as high."""
    store = Store.create(folder)
    data = frame(spark)
    model = estimator(store).fit(data)
    expected = plain(6, 0.1)
    same(model.getModel(), expected)
    losses = [one["train"]["loss"] for one in model.getHistory()]
    assert len(losses) == 6 and losses[-1] < losses[0], losses
    found = model.transform(data)
    assert found.columns == [*data.columns, "y__output"]
    assert found.schema["y__output"].dataType.typeName() == "float"
    with torch.no_grad():
        wanted = expected(torch.tensor(numbers()[0])).reshape(-1).numpy()
    np.testing.assert_allclose([row.y__output for row in found.collect()], wanted, rtol=1e-3, atol=1e-4)
    renamed = model.setOutputCols(["guess"]).transform(data.select("features"))
    assert renamed.columns == ["features", "guess"] and renamed.count() == ROWS
    assert os.listdir(folder) == ["runs"], os.listdir(folder)  # the data is gone


def test_columns_weights_and_metrics(folder):
    class Three(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network()

        def forward(self, a, b, c):
            return self.inner(torch.cat([a, b, c], 1))

    def distance(output, label):
        return (output - label).abs().mean()

    model = Three()
    fitted = estimator(
        Store.create(folder),
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        feature_cols=["a", "b", "c"],
        input_shapes=[[-1, 1]] * 3,
        sample_weight_col="weight",
        metrics=[distance],
    ).fit(frame(spark))
    same(fitted.getModel().inner, plain(6, 0.1, weights=numbers()[2]))
    measured = fitted.getHistory()[-1]["train"]["all_metrics"]["distance"]["y"]
    assert 0 < measured < 2, measured


def test_validation(folder):
    """A column says which rows are held back; the history has their loss."""
    fitted = estimator(Store.create(folder), validation="held", batch_size=ROWS // 2 * 4 // 5).fit(frame(spark))
    rows = np.array([index for index in range(ROWS) if index % 5])
    expected = plain(6, 0.1, rows)
    same(fitted.getModel(), expected)
    x, y, _ = numbers()
    with torch.no_grad():
        loss = functional.mse_loss(expected(torch.tensor(x[::5])).reshape(-1), torch.tensor(y[::5]))
    np.testing.assert_allclose(fitted.getHistory()[-1]["validation"]["loss"], float(loss), rtol=1e-3)
    part = estimator(Store.create(folder), validation=0.25, epochs=1, random_seed=1, shuffle=True, batch_size=4).fit(
        frame(spark)
    )
    assert part.getHistory()[0]["validation"]["loss"] > 0


def test_a_run_continues(folder):
    """A second fit of the same run begins with the checkpoint of the first, with its momentum."""
    store, data = Store.create(folder), frame(spark)
    backend = HereBackend()
    first = estimator(store, backend=backend, num_proc=None, epochs=2, run_id="one").fit(data)
    assert store.exists(store.get_checkpoint_path("one") + "/checkpoint")
    second = estimator(store, backend=backend, num_proc=None, epochs=4, run_id="one").fit(data)
    same(first.getModel(), plain(2, 0.1))
    same(second.getModel(), plain(6, 0.1))
    assert second.getOptimizer().param_groups[0]["lr"] == 0.05


def test_more(folder):
    """Several passes in a step; batches that do not come out even; a transformation; a step of one's own; loss constructors."""
    store, data = Store.create(folder), frame(spark)
    backend = HereBackend()
    fitted = estimator(store, backend=backend, num_proc=None, batch_size=10, backward_passes_per_step=2).fit(data)
    same(fitted.getModel(), plain_sums(6))
    uneven = estimator(store, backend=backend, num_proc=None, batch_size=7, epochs=2, shuffle=True, random_seed=3)
    assert len(uneven.fit(data).getHistory()) == 2

    def negate(rows):
        rows["y"] = -rows["y"]
        return rows

    def step(model, optimizer, transform_outputs, loss_fn, inputs, labels, sample_weights):
        optimizer.zero_grad()
        outputs, labels = transform_outputs(model(*inputs), labels)
        loss = loss_fn(outputs, [-label for label in labels], sample_weights)
        loss.backward()
        optimizer.step()
        return outputs, loss

    own = estimator(
        store,
        backend=backend,
        num_proc=None,
        transformation_fn=negate,
        train_minibatch_fn=step,
        loss=None,
        loss_constructors=[lambda model: torch.nn.MSELoss()],
    )
    same(own.fit(data).getModel(), plain(6, 0.1))


def plain_sums(steps):
    """A step of two passes over half of the rows: gradients add up."""
    x, y, _ = numbers()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    halves = [np.r_[0:10, 20:30], np.r_[10:20, 30:40]]
    for _ in range(steps):
        optimizer.zero_grad()
        for half in halves:
            functional.mse_loss(model(torch.tensor(x[half])), torch.tensor(y[half]).reshape(-1, 1)).backward()
        optimizer.step()
    return model


def test_on_parquet(folder):
    store = Store.create(folder)
    frame(spark).select("a", "b", "c", "y").write.parquet(store.get_train_data_path())

    class Three(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network()

        def forward(self, a, b, c):
            return self.inner(torch.stack([a, b, c], 1))

    model = Three()
    made = estimator(
        store,
        backend=HereBackend(),
        num_proc=None,
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        feature_cols=["a", "b", "c"],
        inmemory_cache_all=True,
    )
    same(made.fit_on_parquet().getModel().inner, plain(6, 0.1))


def test_rows(folder):
    """Each row comes to one rank, once in an epoch, across files and row groups; ranks make as many batches; lists become dimensions."""
    for number, rows in enumerate((range(7), range(7, 30), range(30, 31))):
        lists = pa.array([[float(row), row + 0.5] for row in rows], pa.list_(pa.float32()))
        table = pa.table({"n": pa.array(rows, pa.int64()), "v": lists})
        parquet.write_table(table, f"{folder}/part{number}.parquet", row_group_size=4)
    data = dataset.dataset(folder, format="parquet")
    for ranks_, batch in ((1, 31), (2, 4), (3, 5), (40, 1)):
        shares = [Rows(data, ["n", "v"], rank, ranks_, batch, seed=4) for rank in range(ranks_)]
        assert len({share.batches for share in shares}) == 1 and shares[0].total == 31
        epochs = []
        for epoch in range(2):
            found = [list(share.epoch(epoch)) for share in shares]
            assert {len(batches) for batches in found} == {shares[0].batches}
            assert all(one["v"].shape == (len(one["n"]), 2) for batches in found for one in batches)
            assert all(np.array_equal(one["v"][:, 1], one["n"] + 0.5) for batches in found for one in batches)
            numbers_ = np.concatenate([one["n"] for batches in found for one in batches]).tolist()
            assert set(numbers_) == set(range(31)) and (ranks_ > 31 or batch * ranks_ > 31 or len(numbers_) >= 31), numbers_
            epochs.append(numbers_)
        assert ranks_ == 40 or epochs[0] != epochs[1]
    plain_ = Rows(data, ["n"], 0, 1, 10)
    assert np.concatenate([one["n"] for one in plain_.epoch(3)]).tolist() == list(range(31))
    assert len(list(plain_.epoch(0, steps=9))) == 9
    uneven = pa.table({"v": pa.array([[1.0], [1.0, 2.0]])})
    parquet.write_table(uneven, f"{folder}/uneven")
    raises(
        ValueError, lambda: list(Rows(dataset.dataset(f"{folder}/uneven"), ["v"], 0, 1, 2).epoch(0)), "column v", "from 1 to 2"
    )
    parquet.write_table(pa.table({"v": pa.array([1.0, None])}), f"{folder}/missing")
    raises(
        ValueError,
        lambda: list(Rows(dataset.dataset(f"{folder}/missing"), ["v"], 0, 1, 2).epoch(0)),
        "column v has 1 row without a value",
    )


def test_many_classes(folder):
    """An output of several numbers is a vector."""
    model = torch.nn.Linear(3, 4)
    made = TorchModel(model=model, feature_columns=["features"], label_columns=["y"], input_shapes=[[3]])
    row = made.transform(frame(spark)).first()
    np.testing.assert_allclose(
        row.y__output.toArray(), model(torch.tensor(numbers()[0][:1]))[0].detach().numpy(), rtol=1e-5, atol=1e-6
    )


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = network()

    def forward(self, x):
        return self.network(x)

    def training_step(self, batch, _):
        loss = functional.mse_loss(self(batch["features"]), batch["y"])
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def validation_step(self, batch, _):
        self.log("val_loss", functional.mse_loss(self(batch["features"]), batch["y"]), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def test_lightning(folder):
    """A Trainer on each rank; its learning rate is not changed. A second fit of a run continues from the weights of the first."""
    store, data = Store.create(folder), frame(spark)
    options = {
        "num_proc": 2,
        "store": store,
        "model": Module(),
        "feature_cols": ["features"],
        "label_cols": ["y"],
        "label_shapes": [[-1, 1]],
        "batch_size": ROWS // 2 * 4 // 5,
        "validation": "held",
        "shuffle": False,
        "verbose": 0,
        "run_id": "one",
    }
    rows = np.array([index for index in range(ROWS) if index % 5])
    fitted = LightningEstimator(epochs=4, **options).fit(data)
    expected = plain(4, 0.1, rows)
    same(fitted.getModel().network, expected)
    history = fitted.getHistory()
    assert [one["epoch"] for one in history] == [0, 1, 2, 3] and history[-1]["loss"] < history[0]["loss"], history
    x, y, _ = numbers()
    with torch.no_grad():
        loss = functional.mse_loss(expected(torch.tensor(x[::5])).reshape(-1), torch.tensor(y[::5]))
        wanted = expected(torch.tensor(x)).reshape(-1).numpy()
    np.testing.assert_allclose(history[-1]["val_loss"], float(loss), rtol=1e-3)
    np.testing.assert_allclose([row.y__output for row in fitted.transform(data).collect()], wanted, rtol=1e-3, atol=1e-4)
    again = LightningEstimator(epochs=2, **options).fit(data)
    same(again.getModel().network, plain(2, 0.1, rows, model=expected))
    raises(
        ValueError,
        lambda: LightningEstimator(**{**options, "model": network()}).fit(data),
        "LightningModule",
        "xoe.spark.torch",
    )
    raises(ValueError, lambda: LightningEstimator(loss=functional.mse_loss, **options).fit(data), "says itself what loss would")


def test_saved(folder):
    made = TorchModel(model=network(), feature_columns=["features"], label_columns=["y"])
    made.save(f"{folder}/model")
    again = TorchModel.load(f"{folder}/model")
    same(made.getModel(), again.getModel())
    assert again.getLabelColumns() == ["y"] and again.getOutputCols() == ["y__output"] and again.uid == made.uid
    one = estimator(Store.create(folder))
    one.save(f"{folder}/estimator")
    assert TorchEstimator.load(f"{folder}/estimator").getBatchSize() == ROWS // 2


def test_refusals(folder):
    store, data = Store.create(folder), frame(spark)
    raises(ValueError, lambda: estimator(None).fit(data), "needs store")
    raises(ValueError, lambda: estimator(store, feature_cols=["z"]).fit(data), "no column z", "features")
    raises(ValueError, lambda: estimator(store, loss=None).fit(data), "needs loss")
    raises(ValueError, lambda: estimator(store, validation=1.5).fit(data), "validation is 1.5")
    raises(ValueError, lambda: estimator(store, backend=SparkBackend(2)).fit(data), "either backend or num_proc")
    raises(NotImplementedError, lambda: estimator(store, data_module=object).fit(data), "data_module", "pyarrow")
    raises(TypeError, lambda: TorchEstimator(no_such=1), "no_such")
    raises(ValueError, lambda: TorchEstimator(loss=1, loss_constructors=[1]), "either loss")


if __name__ == "__main__":
    spark = clusters.spark_session(3)
    clusters.run_on_spark(globals(), spark, in_folders=True)
