import pytest


@pytest.fixture
def small():
    """A model that trains in a second."""
    return {
        "model": {"name": "vit", "image_size": 16, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2},
        "data": {"name": "shapes", "image_size": 16, "train_size": 128, "val_size": 32},
        "train": {"epochs": 1, "batch_size": 32, "threads": 2},
    }
