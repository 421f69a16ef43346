#!/usr/bin/env python3
"""Tables of relative position biases as timm resamples them, which tests/models/bias_table.cpp reads.

    pip install torch timm safetensors numpy
    make_bias_tables.py OUT.safetensors     `stored` [81, 2], of 5x5 windows, and `<height>x<width>` for each size
"""
import sys

import torch
from safetensors.torch import save_file
from timm.layers import resize_rel_pos_bias_table

torch.manual_seed(1)
stored = torch.randn(81, 2)
sizes = [(8, 8), (12, 12), (3, 3), (6, 9), (1, 5)]
tables = {f"{h}x{w}": resize_rel_pos_bias_table(stored, (h, w), ((2 * h - 1) * (2 * w - 1), 2)) for h, w in sizes}
save_file({"stored": stored, **{name: table.float().contiguous() for name, table in tables.items()}}, sys.argv[1])
