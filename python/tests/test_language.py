import lacuna
import pytest

numpy = pytest.importorskip("numpy")


def test_generate_goes_on_with_texts(decoder):
    one, two = lacuna.generate(decoder, ["hello there", "-1"], greedy=True, max_new_tokens=5)
    assert len(one["ids"]) == len(two["ids"]) == 5 and one["ended_by"] == "length"
    drawn = lacuna.generate(decoder, "hello", temperature=1.0, seed=3, max_new_tokens=5)
    assert drawn == lacuna.generate(decoder, "hello", sample=True, seed=3, max_new_tokens=5)


def test_predict_goes_through_texts(decoder):
    texts = ["hello there", "once", "new\u2028line", "next\u0085line"]
    assert [line["text"] for line in lacuna.predict(decoder, texts)] == texts
    with pytest.raises(lacuna.Error):
        lacuna.predict(decoder / "nowhere", texts)


def test_texts_of_any_lengths_are_inputs(decoder):
    model = lacuna.Model(decoder)
    name = model.inputs[0]["name"]
    logits = model(**{name: [[1, 2, 3], [4, 5]]})["logits"].numpy()
    alone = model(**{name: [numpy.array([4, 5])]})["logits"].numpy()
    assert logits.shape[-1] == 400
    numpy.testing.assert_allclose(logits.reshape(-1, 400)[3:], alone.reshape(-1, 400), rtol=1e-4, atol=1e-5)
    with pytest.raises(lacuna.Error, match=f"sample 1: {name}.*400"):
        model(**{name: [[1], [400]]})
