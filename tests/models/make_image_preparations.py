#!/usr/bin/env python3
"""Writes tests/models/image_preparations.txt: what timm's default weights of our presets want of images.

    make_image_preparations.py NAME...    # as `lacuna models` lists them
"""
import pathlib
import sys

from timm.models import get_pretrained_cfg

lines = []
for name in sys.argv[1:]:
    cfg = get_pretrained_cfg(name)
    if cfg is not None:
        lines.append(" ".join(map(str, [name, cfg.crop_pct, cfg.crop_mode, cfg.interpolation, *cfg.mean, *cfg.std])))
pathlib.Path(__file__).with_suffix("").with_name("image_preparations.txt").write_text("\n".join(lines) + "\n")
