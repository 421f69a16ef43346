#!/usr/bin/env python3
"""Writes the small file that tests/models/safetensors.cpp reads, with the reference implementation of the format.

    pip install safetensors numpy
    make_safetensors_reference.py OUT.safetensors
"""
import sys

import numpy as np
from safetensors.numpy import save_file

save_file(
    {
        "weight": np.arange(6, dtype=np.float32).reshape(2, 3) / 4,
        "half": np.array([1.5, -2.0, 65504.0], dtype=np.float16),
        "wide": np.array([[1e300], [-1e-300]], dtype=np.float64),
        "index": np.array([-1, 2**40], dtype=np.int64),
        "small": np.array([-7, 7], dtype=np.int32),
        "bytes": np.array([0, 255, 3], dtype=np.uint8),
        "mask": np.array([True, False]),
        "scalar": np.array(0.25, dtype=np.float32),
        "empty": np.zeros((0, 4), dtype=np.float32),
    },
    sys.argv[1],
    metadata={"format": "pt", "ünïcode": "ja"},
)
