import lacuna
import pytest

numpy = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")


def difference(one, other):
    return float((one - other).abs().max())


def test_a_model_of_timm_comes_and_goes():
    timm = pytest.importorskip("timm")
    theirs = timm.create_model("vit_tiny_patch16_224", num_classes=3).eval()
    ours = lacuna.from_torch(theirs)
    images = torch.randn(2, 3, 224, 224)
    with torch.no_grad():
        expected = theirs(images)
    logits = ours(images=images.permute(0, 2, 3, 1).contiguous())["logits"].torch()
    assert difference(logits, expected) < 1e-4
    ours.parameters["head.bias"].numpy()[:] += 1
    with torch.no_grad():
        assert difference(lacuna.to_torch(ours)(images), expected + 1) < 1e-5
        assert lacuna.to_torch(ours, theirs) is theirs
        assert difference(theirs(images), expected + 1) < 1e-5


def test_models_of_transformers_come_and_go():
    transformers = pytest.importorskip("transformers")
    sizes = {
        "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    }  # fmt: skip
    ids = torch.tensor([[3, 4, 5]])
    bert = transformers.BertForSequenceClassification(transformers.BertConfig(**sizes, num_labels=3)).eval()
    qwen = transformers.Qwen2ForCausalLM(
        transformers.Qwen2Config(**sizes, num_key_value_heads=1, tie_word_embeddings=True)
    ).eval()
    for theirs in (bert, qwen):
        ours = lacuna.from_torch(theirs)
        with torch.no_grad():
            expected = theirs(ids).logits
            again = lacuna.to_torch(ours)
            assert difference(again(ids).logits, expected) < 1e-5
        inputs = {one["name"]: numpy.zeros((1, 3), "l") for one in ours.inputs}
        inputs["tokens"] = ids
        logits = ours(**inputs)["logits"].torch()
        assert difference(logits.reshape(expected.shape), expected) < 1e-4


def test_models_of_other_sizes_come_and_go():
    timm, transformers = pytest.importorskip("timm"), pytest.importorskip("transformers")
    vit = transformers.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
                                 image_size=32, patch_size=8, num_channels=1, num_labels=4)  # fmt: skip
    swin = timm.create_model("swin_tiny_patch4_window7_224", img_size=112, num_classes=5)
    swin.reset_classifier(3)
    for theirs in (
        timm.create_model("vit_tiny_patch16_224", img_size=96, num_classes=5),
        swin,
        transformers.ViTForImageClassification(vit),
    ):
        ours = lacuna.from_torch(theirs.eval())
        height, width, channels = ours.inputs[0]["shape"]
        images = torch.randn(2, channels, height, width)
        logits = ours(images=images.permute(0, 2, 3, 1).contiguous())["logits"].torch()
        with torch.no_grad():
            expected, again = (getattr(out, "logits", out) for out in (theirs(images), lacuna.to_torch(ours)(images)))
        assert difference(logits, expected) < 1e-4 and difference(again, expected) < 1e-5
        ours.parameters[next(reversed(ours.parameters))].torch().add_(1)
        assert lacuna.to_torch(ours, theirs) is theirs
        with torch.no_grad():
            assert difference(getattr(theirs(images), "logits", theirs(images)), expected) > 0.5


def test_what_is_no_such_model_says_why():
    timm = pytest.importorskip("timm")

    def refused(match, model):
        with pytest.raises(lacuna.Error, match=match):
            lacuna.from_torch(model)

    refused("Linear", torch.nn.Linear(2, 2))
    refused("efficientnet_b0", timm.create_model("efficientnet_b0"))
    refused("reset_classifier", timm.create_model("resnet18", num_classes=0))
    refused(r"conv1.weight.*\[64, 1, 7, 7\]", timm.create_model("resnet18", in_chans=1))
    changed = timm.create_model("resnet18", num_classes=5)
    changed.fc = torch.nn.Sequential(torch.nn.Linear(512, 9), torch.nn.Linear(9, 5))
    refused("fc.weight", changed)
    refused("module", torch.nn.DataParallel(changed))
    with pytest.raises(lacuna.Error, match="fc.weight"):
        lacuna.to_torch(lacuna.from_torch(timm.create_model("resnet18", num_classes=3)), changed)
