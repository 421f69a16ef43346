"""Prints the rows of the table in tests/ops/rotary.cpp: frequencies of transformers.

    python tests/ops/make_rotary.py
"""
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

D, SHORT, LONG = 8, [1.0, 1.5, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]
YARN = dict(factor=4.0, original_max_position_embeddings=64)
CASES = [  # name, theta, max_position_embeddings, longest, rope_scaling, RotaryScaling in C++
    ("default", 1e4, 64, 64, None, "{}"),
    ("linear", 1e4, 64, 64, dict(rope_type="linear", factor=4.0), "{.kind = Kind::linear, .factor = 4}"),
    ("dynamic within", 1e4, 64, 64, dict(rope_type="dynamic", factor=2.0), "{.kind = Kind::dynamic, .factor = 2}"),
    ("llama3", 1e4, 512, 512, dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                   original_max_position_embeddings=256),
     "{.kind = Kind::llama3, .factor = 8, .original_positions = 256}"),
    ("yarn", 1e4, 256, 256, dict(rope_type="yarn", **YARN), "{.kind = Kind::yarn, .factor = 4, .original_positions = 64}"),
    ("yarn, other ramp", 1e4, 256, 256, dict(rope_type="yarn", truncate=False, beta_fast=8.0, beta_slow=2.0, **YARN),
     "{.kind = Kind::yarn, .factor = 4, .original_positions = 64, .beta_fast = 8, .beta_slow = 2, .truncate = false}"),
    ("yarn, mscales", 1e4, 256, 256, dict(rope_type="yarn", mscale=1.0, mscale_all_dim=0.7, **YARN),
     "{.kind = Kind::yarn, .factor = 4, .original_positions = 64, .mscale = 1, .mscale_all_dimensions = 0.7}"),
    ("yarn, attention factor", 1e4, 256, 256, dict(rope_type="yarn", attention_factor=1.25, **YARN),
     "{.kind = Kind::yarn, .factor = 4, .original_positions = 64, .attention_factor = 1.25}"),
] + [(f"longrope, {name}", 1e4, 256, longest, dict(rope_type="longrope", short_factor=SHORT, long_factor=LONG,
                                                   original_max_position_embeddings=64),
      "{.kind = Kind::longrope, .original_positions = 64, .short_factors = {1, 1.5, 2, 3}, .long_factors = {4, 5, 6, 7}}")
     for name, longest in (("short", 64), ("long", 65))]

for name, theta, positions, longest, scaling, text in CASES:
    config = LlamaConfig(hidden_size=D, num_attention_heads=1, head_dim=D, max_position_embeddings=positions,
                         rope_theta=theta, rope_scaling=scaling)
    if scaling is None:
        inverse, factor = 1.0 / theta ** (torch.arange(0, D, 2) / D), 1.0
    else:
        if scaling["rope_type"] == "longrope":
            config.original_max_position_embeddings = scaling["original_max_position_embeddings"]
        inverse, factor = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config, torch.device("cpu"), seq_len=longest)
    numbers = ", ".join(f"{v:.9g}" for v in inverse.tolist())
    print(f'      {{"{name}", {D}, {theta:g}, {positions}, {longest}, {text}, {factor:.9g}, {{{numbers}}}}},')
