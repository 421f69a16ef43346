"""Models of PyTorch, in memory."""

from __future__ import annotations

import importlib
import json
from typing import Any

from . import _core
from ._model import Model


def _config_of(model: Any) -> dict[str, Any]:
    """What the model's library would write into config.json."""
    config: Any = getattr(model, "config", None)
    if hasattr(config, "to_json_string"):
        return {**json.loads(config.to_json_string()), "architectures": [type(model).__name__]}
    pretrained = getattr(model, "pretrained_cfg", None)
    if not pretrained:
        kind = type(model)
        raise _core.Error(f"expected a model of timm or transformers, got {kind.__module__}.{kind.__name__}")
    pretrained = {key: value for key, value in dict(pretrained).items() if value is not None}
    return {
        "architecture": pretrained["architecture"],
        "num_classes": model.num_classes,
        "num_features": model.num_features,
        "pretrained_cfg": {**pretrained, "num_classes": model.num_classes},
    }


def from_torch(model: Any, device: str = "cpu") -> Model:
    """A model of timm or transformers that lies in memory, as a model of Lacuna with a copy of its weights.

    Arguments that timm's `create_model` was given beside `num_classes` are not in the model's configuration: a model
    whose tensors have other shapes than its architecture says is refused.
    """
    state, seen = {}, set()
    for name, tensor in model.state_dict().items():
        key = (tensor.data_ptr(), tuple(tensor.shape))
        if tensor.numel() > 0 and key in seen:
            continue  # a tied table has two names
        seen.add(key)
        state[name] = tensor.detach()
    config = json.dumps(_config_of(model), default=str)
    return Model._of(_core.model_of(config, state, type(model).__name__, device))


def to_torch(model: Model, into: Any = None) -> Any:
    """A model of timm or transformers with a copy of the weights, in evaluation mode; into: one to set in its place."""
    if into is None:
        into = _made_by_library(model.config())
    state = {name: tensor.torch().clone() for name, tensor in model.state().items()}
    tied = set(into.state_dict()) - set(state)
    result = into.load_state_dict(state, strict=False)
    shared = {tensor.data_ptr() for name, tensor in into.state_dict().items() if name not in tied}
    missing = [name for name in result.missing_keys if into.state_dict()[name].data_ptr() not in shared]
    if missing or result.unexpected_keys:
        unknown = result.unexpected_keys
        raise _core.Error(f"into: expected the model {model.name}: {missing} are missing, {unknown} are unknown")
    return into.eval()


def _made_by_library(config: dict[str, Any]) -> Any:
    if "architecture" in config:
        arguments = config.get("model_args", {})
        timm = importlib.import_module("timm")
        return timm.create_model(config["architecture"], num_classes=config["num_classes"], **arguments)
    transformers = importlib.import_module("transformers")
    settings = transformers.AutoConfig.for_model(**config)
    return getattr(transformers, config["architectures"][0])(settings)
