import json
import pathlib

import lacuna
import pytest

tokenizers = pathlib.Path(__file__).parents[2] / "tests" / "data" / "text" / "tokenizers.json"


@pytest.fixture
def small():
    """A model that trains in a second."""
    return {
        "model": {"name": "vit", "image_size": 16, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2},
        "data": {"name": "shapes", "image_size": 16, "train_size": 128, "val_size": 32},
        "train": {"epochs": 1, "batch_size": 32, "threads": 2},
    }


@pytest.fixture(scope="session")
def decoder(tmp_path_factory):
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
