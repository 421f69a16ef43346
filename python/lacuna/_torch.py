"""Models of PyTorch, in memory."""

from __future__ import annotations

import importlib
import json
from typing import Any

from . import _core
from ._model import Model


def _kind(model: Any) -> str:
    return f"{type(model).__module__}.{type(model).__name__}"


def _library_of(model: Any) -> str:
    """`transformers` or `timm`."""
    if hasattr(getattr(model, "config", None), "to_json_string"):
        return "transformers"
    if getattr(model, "pretrained_cfg", None):
        return "timm"
    wrapped = "; `.module` is the model in it" if hasattr(model, "module") else ""
    raise _core.Error(f"expected a model of timm or transformers, got {_kind(model)}{wrapped}")


def _config_of(model: Any) -> dict[str, Any]:
    """The config.json that the model's library would write."""
    if _library_of(model) == "transformers":
        return {**json.loads(model.config.to_json_string()), "architectures": [type(model).__name__]}
    if model.num_classes == 0:
        raise _core.Error(
            f"{_kind(model)}: expected a classifier, got num_classes=0: `reset_classifier(N)` draws one of N classes"
        )
    pretrained = {key: value for key, value in dict(model.pretrained_cfg).items() if value is not None}
    config = {
        "architecture": pretrained["architecture"],
        "num_classes": model.num_classes,
        "num_features": model.num_features,
        "pretrained_cfg": {**pretrained, "num_classes": model.num_classes},
    }
    size = getattr(getattr(model, "patch_embed", None), "img_size", None)
    if size and "input_size" in pretrained and tuple(size) != tuple(pretrained["input_size"][1:]):
        config["model_args"] = {"img_size": list(size)}
        config["pretrained_cfg"]["input_size"] = [pretrained["input_size"][0], *size]
    return config


def from_torch(model: Any, device: str = "cpu") -> Model:
    """A model of timm or transformers that lies in memory, as a model of Lacuna with a copy of its weights. Weights in
    bf16 and f16 become f32. device: `cpu`, `cuda` or `cuda:1`.

    Raises Error, which names tensors and shapes, for architectures that Lacuna lacks, base models without a head, and
    models whose tensors are not those of their configuration: timm's says nothing of arguments of `create_model` other
    than `num_classes` and `img_size`, and none of a part that was replaced.
    """
    config = json.dumps(_config_of(model), default=str)
    state: dict[str, Any] = {}
    seen = set()
    for name, tensor in model.state_dict().items():
        if tensor.is_meta:
            raise _core.Error(f"{name}: expected values, got a tensor on meta")
        key = (tensor.data_ptr(), tuple(tensor.shape))
        if tensor.numel() > 0 and key in seen:
            continue  # a tied table has two names
        seen.add(key)
        state[name] = tensor.detach().cpu()
    made = Model._of(_core.model_of(config, state, type(model).__name__, device))
    made._library = _library_of(model)
    return made


def to_torch(model: Model, into: Any = None) -> Any:
    """A model of timm or transformers with a copy of the weights, in evaluation mode; into: one to set in its place.

    The library is that of `into`, else the one that the model came from, else timm for images and transformers for
    texts. A model of transformers is made by `from_pretrained`. Raises Error, with the names that differ, where `into`
    is another model.
    """
    library = model._library if into is None else _library_of(into)
    state = {name: tensor.torch().clone() for name, tensor in model.state(library).items()}
    if library == "transformers" or (not library and "architecture" not in model.config()):
        made, differences = _set_transformers(model, into, state)
    else:
        made, differences = _set_timm(model, into, state)
    if differences:
        kind = _kind(made if into is None else into)
        more = f"; and {len(differences) - 8} more" if len(differences) > 8 else ""
        raise _core.Error(f"into: expected the model {model.name}, got {kind}: " + "; ".join(differences[:8]) + more)
    return made.eval()


def _set_transformers(model: Model, into: Any, state: dict[str, Any]) -> tuple[Any, list[str]]:
    """A model with the weights, and how the names differ. `from_pretrained` knows the names of each version."""
    if into is None:
        transformers = importlib.import_module("transformers")
        config = model.config("transformers")
        kind, settings = getattr(transformers, config["architectures"][0]), transformers.AutoConfig.for_model(**config)
    else:
        kind, settings = type(into), into.config
    made, found = kind.from_pretrained(
        None, config=settings, state_dict=state, output_loading_info=True, ignore_mismatched_sizes=True
    )
    differences = [f"{name}: missing" for name in found["missing_keys"]]
    differences += [f"{name}: unknown" for name in found["unexpected_keys"]]
    differences += [f"{name[0]}: of another shape" for name in found["mismatched_keys"]]
    if into is None or differences:
        return made, differences
    into.load_state_dict(made.state_dict())
    return into, []


def _set_timm(model: Model, into: Any, state: dict[str, Any]) -> tuple[Any, list[str]]:
    if into is None:
        config = model.config("timm")
        timm = importlib.import_module("timm")
        if not timm.is_model(config["architecture"]):
            missing = config["architecture"]
            raise _core.Error(f"timm has no architecture {missing}: to_torch(model, into=…) sets a model")
        arguments = config.get("model_args", {})
        into = timm.create_model(config["architecture"], num_classes=config["num_classes"], **arguments)
    theirs = into.state_dict()
    differences = [f"{name}: missing" for name in theirs if name not in state]
    differences += [f"{name}: unknown" for name in state if name not in theirs]
    for name, tensor in state.items():
        if name in theirs and tuple(theirs[name].shape) != tuple(tensor.shape):
            differences.append(f"{name}: expected {list(theirs[name].shape)}, got {list(tensor.shape)}")
    if not differences:
        into.load_state_dict(state)
    return into, differences
