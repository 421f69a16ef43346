import types

import lacuna
import pytest

numpy = pytest.importorskip("numpy")


class Rows:
    """Dark and bright images."""

    def __init__(self, count, seed):
        self._random, self._count = seed, count

    def __len__(self):
        return self._count

    def __getitem__(self, index):
        if index >= self._count:
            raise IndexError
        random = numpy.random.default_rng((self._random, index))
        label = index % 2
        images = random.integers(0, 60, (16, 16, 3), dtype=numpy.uint8)
        images += numpy.uint8(150 * label)
        return {"images": images, "labels": label}


@pytest.fixture
def model(small):
    return {"model": {**small["model"], "num_classes": 2}, "optimizer": {"lr": 0.003}}


def test_a_sequence_of_dictionaries_is_a_data_set(model, tmp_path):
    run = lacuna.train(model, data=Rows(256, 0), validation=Rows(64, 1), epochs=6, batch_size=32,
                       output={"dir": tmp_path}, progress=False)  # fmt: skip
    assert run.best["value"] > 0.9
    again = lacuna.evaluate(run, data=Rows(256, 0), validation=Rows(64, 1))
    assert again["val_accuracy"] == run.best["value"]


def test_samples_that_do_not_fit_are_refused(model, tmp_path):
    good, other = Rows(64, 0), list(Rows(64, 1))
    other[5] = {"images": other[5]["images"][:8], "labels": 0}

    def refused(match, **changes):
        with pytest.raises(lacuna.Error, match=match):
            lacuna.train(model, epochs=1, batch_size=32, output={"dir": tmp_path}, overwrite=True, progress=False,
                         **changes)  # fmt: skip

    refused(r"validation\[5\]: images.*\[16, 16, 3\].*\[8, 16, 3\]", data=good, validation=other)
    refused("validation", data=good)
    refused("labels", data=[{"images": row["images"]} for row in good], validation=good)
    other[5] = {"images": other[4]["images"]}
    refused(r"validation\[5\].*labels", data=good, validation=other)
    refused("dictionary", data=[1, 2, 3], validation=good)
    refused(r"data\[0\].*7", data=[{7: 1}] * 32, validation=good)


def test_samples_are_mappings(model):
    def saved(rows):
        return lacuna.plan(model, data=rows, validation=rows, batch_size=32).saved

    assert saved([types.MappingProxyType(row) for row in Rows(64, 0)]) == saved(Rows(64, 0))


def test_a_sample_may_come_from_a_model_and_from_no_command(model, tmp_path):
    first = lacuna.train(model, data=Rows(64, 0), validation=Rows(32, 1), epochs=1, batch_size=32, progress=False,
                         output={"dir": tmp_path / "first"})  # fmt: skip
    teacher, calls = lacuna.Model(first), []

    class Taught(Rows):
        def __getitem__(self, index):
            row = super().__getitem__(index)
            logits = teacher(images=row["images"][None] / numpy.float32(255))["logits"].numpy()
            if len(calls) == 40:
                lacuna.plan(model, data=Rows(64, 0), validation=Rows(32, 1))
            calls.append(0)
            return {**row, "labels": int(logits[0].argmax())}

    with pytest.raises(lacuna.Error, match="plan"):
        lacuna.train(model, data=Taught(64, 0), validation=Rows(32, 1), epochs=1, batch_size=32, progress=False,
                     output={"dir": tmp_path / "second"})  # fmt: skip


def test_what_a_sequence_raises_arrives(model, tmp_path):
    class Broken(Rows):
        def __getitem__(self, index):
            if index == 40:
                raise ZeroDivisionError("sample 40")
            return super().__getitem__(index)

    with pytest.raises(ZeroDivisionError, match="sample 40"):
        lacuna.train(model, data=Broken(64, 0), validation=Rows(32, 1), epochs=1, batch_size=32,
                     output={"dir": tmp_path}, progress=False)  # fmt: skip


def test_a_loss_of_ones_own_is_trained_by(model, tmp_path):
    def loss(outputs, targets):
        return lacuna.ops.cross_entropy(outputs["logits"], targets["labels"])

    own = lacuna.train(model, data=Rows(128, 0), validation=Rows(64, 1), loss=loss, epochs=2, batch_size=32,
                       output={"dir": tmp_path / "own"}, progress=False)  # fmt: skip
    usual = lacuna.train(model, data=Rows(128, 0), validation=Rows(64, 1), epochs=2, batch_size=32,
                         output={"dir": tmp_path / "usual"}, progress=False)  # fmt: skip
    assert own.metrics["val_loss"] == usual.metrics["val_loss"]
    assert own.metrics["val_objective"] == pytest.approx(own.metrics["val_loss"])
    assert lacuna.plan(model, data=Rows(64, 0), validation=Rows(64, 1), loss=loss, batch_size=32).saved > 0


def test_a_loss_stands_in_for_the_task(small):
    def loss(outputs, targets):
        return lacuna.ops.cross_entropy(outputs["logits"], targets["labels"])

    for named in ({"task": {"label_smoothing": 0.1, "name": "classification"}}, {"task": "classification"},
                  {"task.name": "classification"}):  # fmt: skip
        with pytest.raises(lacuna.Error, match="task.*classification"):
            lacuna.plan(small, loss=loss, **named)
    assert lacuna.plan({**small, "task": {"name": "classification"}}, loss=loss).saved > 0
    assert lacuna.plan(small, loss=loss, task={"name": "python"}).saved > 0


def test_a_loss_has_one_element(model, tmp_path):
    with pytest.raises(lacuna.Error, match="loss: expected a Tensor of one element"):
        lacuna.train(model, data=Rows(64, 0), validation=Rows(32, 1), loss=lambda outputs, targets: outputs["logits"],
                     batch_size=32, output={"dir": tmp_path}, progress=False)  # fmt: skip


def test_samples_are_arrays_and_numbers_of_any_kind(model, tmp_path):
    class Others(Rows):
        def __getitem__(self, index):
            row = super().__getitem__(index)
            wide = numpy.zeros((16, 32, 3), "u1")
            wide[:, ::2] = row["images"]
            wide.flags.writeable = False
            return {"images": wide[:, ::2], "labels": numpy.int64(row["labels"])}

    def trained(rows, folder):
        return lacuna.train(model, data=rows(64, 0), validation=rows(32, 1), epochs=1, batch_size=32, progress=False,
                            output={"dir": tmp_path / folder}).metrics["val_loss"]  # fmt: skip

    assert trained(Others, "others") == trained(Rows, "rows")


def test_a_generator_is_no_sequence(model):
    with pytest.raises(lacuna.Error, match="data: .*generator"):
        lacuna.plan(model, data=(row for row in Rows(64, 0)), validation=Rows(32, 1))
    with pytest.raises(lacuna.Error, match="validation: .*generator"):
        lacuna.plan(model, data=Rows(64, 0), validation=(row for row in Rows(64, 0)))


def test_a_folder_that_cannot_be_written_is_named(model):
    with pytest.raises(lacuna.Error, match="/proc/nowhere"):
        lacuna.train(model, data=Rows(64, 0), validation=Rows(32, 1), batch_size=32, progress=False,
                     output={"dir": "/proc/nowhere"})  # fmt: skip
