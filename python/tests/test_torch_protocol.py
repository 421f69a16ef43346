"""from_torch and to_torch where torch is absent: objects with what they ask of models, over arrays of numpy."""

import json
import sys
import types

import lacuna
import pytest

numpy = pytest.importorskip("numpy")


class Array:
    """A tensor of torch, as far as it is asked."""

    is_meta = False

    def __init__(self, array):
        self.array = numpy.asarray(array)
        self.shape = self.array.shape

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def data_ptr(self):
        return self.array.ctypes.data

    def numel(self):
        return self.array.size

    def detach(self):
        return self

    def cpu(self):
        return self

    def clone(self):
        return Array(self.array.copy())


class Config:
    def __init__(self, values):
        self.values = values

    def to_json_string(self):
        return json.dumps(self.values)

    @staticmethod
    def for_model(**values):
        return Config(values)


class Theirs:
    """A module with tensors by name."""

    def __init__(self, state):
        self.state = dict(state)

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state.update(state)

    def eval(self):
        return self


class Qwen2ForCausalLM(Theirs):
    def __init__(self, config, state):
        super().__init__(state)
        self.config = config

    @classmethod
    def from_pretrained(cls, path, config, state_dict, output_loading_info, ignore_mismatched_sizes):
        assert path is None and output_loading_info and ignore_mismatched_sizes
        return cls(config, state_dict), {"missing_keys": [], "unexpected_keys": [], "mismatched_keys": []}


class ResNet(Theirs):
    num_features = 512

    def __init__(self, state, num_classes):
        super().__init__(state)
        self.num_classes = num_classes
        self.pretrained_cfg = {"architecture": "resnet18", "input_size": (3, 32, 32), "num_classes": 1000}


@pytest.fixture(autouse=True)
def libraries(monkeypatch):
    def create_model(name, num_classes):
        empty = numpy.zeros
        return ResNet({key: Array(empty(array.shape, "f")) for key, array in resnet().items()}, num_classes)

    torch = types.SimpleNamespace(from_dlpack=lambda tensor: Array(numpy.from_dlpack(tensor)))
    timm = types.SimpleNamespace(create_model=create_model, is_model=lambda name: name == "resnet18")
    transformers = types.SimpleNamespace(Qwen2ForCausalLM=Qwen2ForCausalLM, AutoConfig=Config)
    for name, module in (("torch", torch), ("timm", timm), ("transformers", transformers)):
        monkeypatch.setitem(sys.modules, name, module)


def drawn(model, data, place):
    run = lacuna.train(model=model, data=data, batch_size=4, epochs=1, output={"dir": place}, progress=False)
    return lacuna.Model(run)


def resnet():
    drawn = numpy.random.default_rng(0)
    names = {"conv1.weight": [64, 3, 7, 7], "fc.weight": [4, 512], "fc.bias": [4]}

    def norm(name, channels):
        for part in ("weight", "bias", "running_mean", "running_var"):
            names[f"{name}.{part}"] = [channels]
        names[f"{name}.num_batches_tracked"] = []

    norm("bn1", 64)
    before = 64
    for layer, channels in enumerate((64, 128, 256, 512), 1):
        for block in range(2):
            path = f"layer{layer}.{block}"
            names[f"{path}.conv1.weight"] = [channels, before, 3, 3]
            names[f"{path}.conv2.weight"] = [channels, channels, 3, 3]
            norm(f"{path}.bn1", channels)
            norm(f"{path}.bn2", channels)
            if before != channels:
                names[f"{path}.downsample.0.weight"] = [channels, before, 1, 1]
                norm(f"{path}.downsample.1", channels)
            before = channels
    return {name: numpy.asarray(drawn.random(shape), "f" if shape else "l") for name, shape in names.items()}


def test_a_model_of_timm_comes_and_goes():
    arrays = resnet()
    theirs = ResNet({name: Array(array) for name, array in arrays.items()}, 4)
    ours = lacuna.from_torch(theirs)
    assert ours.inputs[0]["shape"] == (32, 32, 3)
    ours.parameters["fc.bias"].numpy()[:] += 1
    again = lacuna.to_torch(ours).state
    assert set(again) == set(arrays)
    for name, array in arrays.items():
        numpy.testing.assert_array_equal(again[name].array, array + 1 if name == "fc.bias" else array)
    assert lacuna.to_torch(ours, into=theirs) is theirs
    theirs.state["fc.bias"] = Array(numpy.zeros(5, "f"))
    with pytest.raises(lacuna.Error, match=r"fc.bias: expected \[5\], got \[4\]"):
        lacuna.to_torch(ours, into=theirs)


def test_a_model_of_transformers_with_a_tied_table_comes_and_goes(tmp_path):
    model = drawn({"name": "decoder", "vocab_size": 50, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
                   "num_attention_heads": 2, "max_position_embeddings": 12},
                  {"train_size": 8, "val_size": 4, "length": 8}, tmp_path / "run")  # fmt: skip
    state = {name: Array(tensor.numpy()) for name, tensor in model.state().items()}
    config = Config(model.config())
    (kind,) = model.config()["architectures"]
    theirs = type(kind, (Qwen2ForCausalLM,), {})(config, state)
    ours = lacuna.from_torch(theirs)
    setattr(sys.modules["transformers"], kind, type(theirs))
    again = lacuna.to_torch(ours)
    assert type(again) is type(theirs) and set(again.state) == set(state)
    for name, array in state.items():
        numpy.testing.assert_array_equal(again.state[name].array, array.array)


def test_what_does_not_fit_says_why():
    def refused(match, change=lambda state: None, classes=4):
        state = {name: Array(array) for name, array in resnet().items()}
        change(state)
        with pytest.raises(lacuna.Error, match=match):
            lacuna.from_torch(ResNet(state, classes))

    refused("reset_classifier", classes=0)
    refused(r"conv1.weight.*\[64, 3, 7, 7\].*\[64, 1, 7, 7\]",
            lambda state: state.update({"conv1.weight": Array(numpy.zeros((64, 1, 7, 7), "f"))}))  # fmt: skip
    refused("fc.weight", lambda state: state.pop("fc.weight"))
    refused("4 classes", classes=9)
    with pytest.raises(lacuna.Error, match="dict"):
        lacuna.from_torch({})
    on_meta = ResNet({"fc.bias": type("Meta", (Array,), {"is_meta": True})(numpy.zeros(4, "f"))}, 4)
    with pytest.raises(lacuna.Error, match="meta"):
        lacuna.from_torch(on_meta)
