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


def test_other_modules_are_refused():
    with pytest.raises(lacuna.Error, match="Linear"):
        lacuna.from_torch(torch.nn.Linear(2, 2))
