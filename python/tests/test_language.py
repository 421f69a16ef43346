import json
import pathlib

import lacuna
import pytest

numpy = pytest.importorskip("numpy")
tokenizers = pathlib.Path(__file__).parents[2] / "tests" / "data" / "text" / "tokenizers.json"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small decoder with a tokenizer."""
    place = tmp_path_factory.mktemp("decoder")
    run = lacuna.train(
        model={"name": "decoder", "vocab_size": 400, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
               "num_attention_heads": 2, "max_position_embeddings": 64},
        data={"train_size": 16, "val_size": 4, "length": 12}, batch_size=4, epochs=1, output={"dir": place / "run"},
        progress=False,
    )  # fmt: skip
    lacuna.export(run, place / "model")
    tokenizer = json.loads(tokenizers.read_text())["tokenizers"]["llama2"]["file"]
    (place / "model" / "tokenizer.json").write_text(json.dumps(tokenizer))
    return place / "model"


def test_generate_goes_on_with_texts(folder):
    one, two = lacuna.generate(folder, ["hello there", "-1"], greedy=True, max_new_tokens=5)
    assert len(one["ids"]) == len(two["ids"]) == 5 and one["ended_by"] == "length"
    drawn = lacuna.generate(folder, "hello", temperature=1.0, seed=3, max_new_tokens=5)
    assert drawn == lacuna.generate(folder, "hello", sample=True, seed=3, max_new_tokens=5)


def test_predict_goes_through_texts(folder):
    texts = ["hello there", "once"]
    assert [line["text"] for line in lacuna.predict(folder, texts)] == texts
    with pytest.raises(lacuna.Error):
        lacuna.predict(folder / "nowhere", texts)


def test_texts_of_any_lengths_are_inputs(folder):
    model = lacuna.Model(folder)
    name = model.inputs[0]["name"]
    logits = model(**{name: [[1, 2, 3], [4, 5]]})["logits"].numpy()
    alone = model(**{name: [numpy.array([4, 5])]})["logits"].numpy()
    assert logits.shape[-1] == 400
    numpy.testing.assert_allclose(logits.reshape(-1, 400)[3:], alone.reshape(-1, 400), rtol=1e-4, atol=1e-5)
    with pytest.raises(lacuna.Error, match=f"sample 1: {name}.*400"):
        model(**{name: [[1], [400]]})
