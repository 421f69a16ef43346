import threading

import lacuna
import pytest

numpy = pytest.importorskip("numpy")


@pytest.fixture
def run(small, tmp_path):
    return lacuna.train(small, output={"dir": tmp_path / "run"}, progress=False)


def test_parameters_are_views(run):
    model = lacuna.Model(run)
    weight = model.parameters["head.weight"]
    assert weight.dtype == "f32" and len(weight.shape) == 2
    array = weight.numpy()
    assert array.shape == weight.shape
    array[:] = 3
    assert (numpy.asarray(model.parameters["head.weight"]) == 3).all()
    assert (numpy.from_dlpack(weight) == 3).all()
    assert memoryview(weight).shape == weight.shape
    del model, weight
    assert (array == 3).all()  # the array keeps the memory alive


def test_forward_takes_arrays_by_name(run):
    model = lacuna.Model(run)
    assert [one["name"] for one in model.inputs] == ["images"]
    images = numpy.random.default_rng(0).normal(size=(3, 16, 16, 3)).astype("f")
    logits = model(images=images)["logits"].numpy()
    assert logits.shape == (3, 10)
    one = model(images=images[1:2])["logits"].numpy()
    numpy.testing.assert_allclose(one[0], logits[1], rtol=1e-4, atol=1e-5)
    numpy.testing.assert_array_equal(model(images=images.astype("d"))["logits"].numpy(), logits)

    model.parameters["head.weight"].numpy()[:] = 0
    model.parameters["head.bias"].numpy()[:] = numpy.arange(10)
    assert (model(images=images)["logits"].numpy() == numpy.arange(10)).all()

    with pytest.raises(lacuna.Error, match="images"):
        model(pictures=images)
    with pytest.raises(lacuna.Error, match=r"\[16, 16, 3\].*\[3, 16, 16\]"):
        model(images=images.transpose(0, 3, 1, 2).copy())
    with pytest.raises(lacuna.Error, match="f32.*u8"):
        model(images=images.astype("u1"))
    for other in (3, numpy.array(3.0), {"images": images}, {3}):
        with pytest.raises(lacuna.Error, match="images"):
            model(images=other)
    assert model(images=lacuna.Tensor(images))["logits"].tolist() == model(images=images)["logits"].tolist()


def test_tensors_of_plans_have_no_values(run, small):
    model = lacuna.Model(run)

    def loss(outputs, targets):
        if outputs["logits"].device == "meta":
            for read in (lacuna.Tensor, lambda tensor: model(images=[tensor]), lambda tensor: tensor.numpy()):
                with pytest.raises(lacuna.Error, match="meta"):
                    read(outputs["logits"])
        return lacuna.ops.cross_entropy(outputs["logits"], targets["labels"])

    assert lacuna.plan(small, loss=loss).saved > 0


def test_an_entry_has_a_gradient(small, tmp_path):
    def loss(outputs, targets):
        logits = outputs["logits"]
        if logits.requires_grad:
            assert logits[0].requires_grad and logits[0].shape == logits.shape[1:]
        return lacuna.ops.cross_entropy(logits, targets["labels"])

    lacuna.train(small, loss=loss, output={"dir": tmp_path / "run"}, progress=False)


def test_a_model_waits_for_the_run_of_another_thread(run, small, tmp_path):
    model, order = lacuna.Model(run), []
    images = numpy.zeros((1, 16, 16, 3), "f")
    begun, waits = threading.Event(), threading.Event()

    def step(line):
        model(images=images)  # in the turn of the run
        order.append(line["step"])
        begun.set()
        waits.wait()

    changes = {"on_step": step, "output": {"dir": tmp_path / "other"}, "progress": False}
    run = threading.Thread(target=lacuna.train, args=(small,), kwargs=changes)
    run.start()
    begun.wait()
    waits.set()
    model(images=images)
    order.append("model")
    run.join()
    assert order == [1, 2, 3, 4, "model"]


def test_a_model_is_saved_as_it_is_now(run, tmp_path):
    model = lacuna.Model(run)
    model.parameters["head.bias"].numpy()[:] = 7
    model.save(tmp_path / "saved")
    again = lacuna.Model(tmp_path / "saved")
    assert (again.parameters["head.bias"].numpy() == 7).all()
    with pytest.raises(lacuna.Error, match="exists"):
        model.save(tmp_path / "saved")


def test_tensors_of_torch_go_in_and_out(run):
    torch = pytest.importorskip("torch")
    model = lacuna.Model(run)
    view = model.parameters["head.weight"].torch()
    view.fill_(2)
    assert (torch.from_dlpack(model.parameters["head.weight"]) == 2).all()
    logits = model(images=torch.zeros(2, 16, 16, 3))["logits"].torch()
    assert logits.shape == (2, 10)
    half = lacuna.Tensor(torch.ones(3, dtype=torch.bfloat16))
    assert half.dtype == "bf16" and half.torch().dtype == torch.bfloat16


def test_tensors_are_made_of_arrays_and_lists():
    assert lacuna.Tensor([[1, 2], [3, 4]]).dtype == "i64"
    assert lacuna.Tensor([1.5, 2]).numpy().tolist() == [1.5, 2]
    with pytest.raises(lacuna.Error, match="one length"):
        lacuna.Tensor([[1], [2, 3]])
    assert lacuna.Tensor([2**60 + 1]).tolist() == [2**60 + 1]
    assert lacuna.Tensor([numpy.float32(1.5)]).tolist() == [1.5]
    assert lacuna.Tensor(numpy.int64(3)).shape == () and lacuna.Tensor(numpy.int64(3)).dtype == "i64"
    assert lacuna.Tensor(numpy.array([1, 65535], "u2")).tolist() == [1, 65535]
    with pytest.raises(lacuna.Error, match="complex|128"):
        lacuna.Tensor(numpy.ones(3, complex))


def test_ops_compute():
    a, b = lacuna.Tensor([[1.0, 2.0]]), lacuna.Tensor([[3.0], [4.0]])
    assert (a @ b).item() == 11
    assert lacuna.ops.mean(a * a - a).item() == 1
    assert ((2 * a + a) / 3).numpy().tolist() == [[1, 2]]
    logits = lacuna.Tensor([[0.0, 0.0]])
    assert lacuna.ops.cross_entropy(logits, lacuna.Tensor([1])).item() == pytest.approx(numpy.log(2))
    with pytest.raises(lacuna.Error):
        a + lacuna.Tensor([1.0, 2.0, 3.0])
