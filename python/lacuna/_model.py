"""Trained models."""

from __future__ import annotations

import json
import os
from typing import Any

from . import _core
from ._core import Tensor


class Model:
    """A trained model, in f32: from a run (its best checkpoint), a checkpoint, or a folder of timm, transformers or
    PEFT.

    base: where the base of an adapter lies now; device: `cpu`, `cuda` or `cuda:1`.

    >>> model = lacuna.Model("runs/quickstart")
    >>> model(images=batch)["logits"].numpy()          # batch: f32 [N, H, W, C], normalised
    >>> model.parameters["head.bias"].numpy()[:] = 0   # the model's own memory
    """

    _library = ""  # that the model came from in memory

    def __init__(self, folder: str | os.PathLike[str], base: str | os.PathLike[str] = "", device: str = "cpu") -> None:
        self._core = _core.open_model(os.fspath(folder), os.fspath(base), device)

    @classmethod
    def _of(cls, core: Any) -> Model:
        model = cls.__new__(cls)
        model._core = core
        return model

    def __call__(self, **arrays: Any) -> dict[str, Tensor]:
        """The outputs by name, as `logits` [N, classes]. Arguments are the model's `inputs`: arrays [N, ...], or lists
        of N arrays of any lengths, as texts are. A language model has `logits` [tokens of all texts, vocabulary].
        Raises Error for arrays of other names, types and shapes."""
        return self._core(**arrays)

    @property
    def name(self) -> str:
        return self._core.name

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """Arrays of a sample: `name`, `kind`, `dtype` and `shape`; of texts the shape is the longest one."""
        return self._core.inputs

    @property
    def parameters(self) -> dict[str, Tensor]:
        """Parameters by name, without a copy: numbers written into their arrays are in the model."""
        return self._core.parameters

    @property
    def buffers(self) -> dict[str, Tensor]:
        """Arrays that are saved and not trained, as running means; as `parameters`."""
        return self._core.buffers

    def save(self, folder: str | os.PathLike[str], *, format: str = "", dtype: str = "f32") -> dict[str, Any]:
        """Writes a folder of timm or transformers (format; by default the one that has the model), which must not
        exist. Adapters are merged. Returns what was written."""
        return self._core.save(os.fspath(folder), format, dtype)

    def state(self, format: str = "") -> dict[str, Tensor]:
        """Parameters and buffers under the names and in the shapes of timm or transformers (format). Adapters are
        merged."""
        return self._core.state(format)

    def config(self, format: str = "") -> dict[str, Any]:
        """The config.json of timm or transformers (format)."""
        read: dict[str, Any] = json.loads(self._core.config(format))
        return read

    def __repr__(self) -> str:
        inputs = ", ".join(f"{one['name']} {one['dtype']} {list(one['shape'])}" for one in self.inputs)
        return f"Model({self.name}; {inputs})"
