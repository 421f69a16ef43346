"""Ops for losses of one's own (nn/functional.h): functions of tensors, which the tape tracks.

>>> def loss(outputs, targets):
...     return lacuna.ops.cross_entropy(outputs["logits"], targets["labels"])
"""

from ._core.ops import *  # noqa: F403
