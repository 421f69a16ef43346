#!/usr/bin/env python3
"""Folders of decoders that transformers and PEFT write, and what they make of those that Lacuna writes.

    decoder_folders.py make IN           IN/NAME: each model of make_decoder_references.py; NAME+v4, +sharded, +bf16,
                                         +f16, +no-base: the same in other forms; NAME+adapter, NAME+default: PEFT's,
                                         the latter on the layers that it chooses itself
    decoder_folders.py check IN OUT      OUT/NAME must give the logits of IN/NAME within 1e-5 and its greedy tokens;
                                         OUT/NAME+adapter, of PEFT, and OUT/NAME+merged those of IN/NAME+adapter
"""
import json, os, shutil, sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, logging

from make_decoder_references import CASES, config_of

IDS = torch.tensor([[3, 5, 7, 9, 11, 4, 2, 8]])
MODELS = {name: case for name, case in CASES.items() if "adapter" not in case[3] and case[0] != "chatglm"}
BASES = {"llama": "model.", "gpt2": "transformer.", "gemma2": "model.", "bloom": "transformer."}
ADAPTERS = {
    "llama": dict(target_modules="all-linear", use_rslora=True, rank_pattern={"k_proj": 3, "0.mlp.up_proj": 1},
                  alpha_pattern={"down_proj": 7}, modules_to_save=["embed_tokens", "lm_head"]),
    "qwen2-windows": dict(target_modules=["q_proj", "o_proj"], layers_to_transform=[1], bias="lora_only"),
    "gpt2": dict(target_modules=["c_attn", "c_proj"], fan_in_fan_out=True, bias="all"),
    "phi3-long": dict(target_modules=["qkv_proj", "gate_up_proj"], modules_to_save=["norm"]),
    "falcon-40b": dict(target_modules=["query_key_value", "dense"]),
    "gpt_neox": dict(target_modules=["query_key_value"], modules_to_save=["lm_head"]),
    "gemma2": dict(target_modules=["q_proj", "v_proj"], modules_to_save=["embed_tokens"], ensure_weight_tying=True)}


def attention(name):  # transformers' eager attention adds Falcon's ALiBi twice
    return "sdpa" if MODELS[name][1].get("alibi") else "eager"


def load(folder, name):
    return AutoModelForCausalLM.from_pretrained(folder, attn_implementation=attention(name), dtype=torch.float32).eval()


def make(root):
    for name, (kind, config, _, _) in MODELS.items():
        torch.manual_seed(3)
        net = AutoModelForCausalLM.from_config(config_of(kind, config), attn_implementation=attention(name))
        with torch.no_grad():
            for p in net.parameters():
                p.add_(torch.randn_like(p) * 0.15)
        whole = os.path.join(root, name)
        net.save_pretrained(whole)
        shutil.copytree(whole, whole + "+v4")
        json.dump(dict(config, model_type=kind), open(os.path.join(whole + "+v4", "config.json"), "w"))
        usual = TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
        adapters = {"+default": dict(fan_in_fan_out=kind == "gpt2")} if kind in usual else {}
        if name in ADAPTERS:
            adapters["+adapter"] = ADAPTERS[name]
        for end, given in adapters.items():
            net = get_peft_model(load(whole, name), LoraConfig(task_type="CAUSAL_LM", r=2, lora_alpha=5, **given))
            with torch.no_grad():
                for p in net.parameters():
                    if p.requires_grad:
                        p.add_(torch.randn_like(p) * 0.2)
            net.save_pretrained(whole + end)
        if name in BASES:
            net = load(whole, name)
            net.save_pretrained(whole + "+sharded", max_shard_size="5KB")
            net.bfloat16().save_pretrained(whole + "+bf16")
            tensors = load_file(os.path.join(whole, "model.safetensors"))
            others = {"+f16": {key: t.half() for key, t in tensors.items()}}
            if "lm_head.weight" not in tensors:
                others["+no-base"] = {key.removeprefix(BASES[name]): t for key, t in tensors.items()}
            for end, changed in others.items():
                shutil.copytree(whole, whole + end)
                save_file(changed, os.path.join(whole + end, "model.safetensors"), metadata={"format": "pt"})


def same(ours, theirs, what):
    with torch.no_grad():
        apart = (ours(input_ids=IDS).logits - theirs(input_ids=IDS).logits).abs().max().item()
    greedy = [net.generate(input_ids=IDS[:, :4], attention_mask=torch.ones_like(IDS[:, :4]), do_sample=False,
                           max_new_tokens=8, pad_token_id=0).tolist() for net in (ours, theirs)]
    if apart > 1e-5 or greedy[0] != greedy[1]:
        failed.append(f"{what}: logits differ by {apart}, greedy tokens {greedy}")


failed = []


def check(root, out):
    for folder in sorted(os.listdir(root)):
        name, _, form = folder.partition("+")
        if form == "default":
            continue
        theirs = load(os.path.join(root, name if form == "adapter" else folder), name)
        if form == "adapter":
            theirs = PeftModel.from_pretrained(theirs, os.path.join(root, folder)).eval()
            same(load(os.path.join(out, name + "+merged"), name), theirs, name + ", merged")
            unmerged = PeftModel.from_pretrained(load(os.path.join(root, name), name), os.path.join(out, folder))
            same(unmerged.eval(), theirs, folder)
        else:
            same(load(os.path.join(out, folder), name), theirs, folder)
    sys.exit("\n".join(failed) or 0)


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    logging.set_verbosity_error(); logging.disable_progress_bar(); torch.set_num_threads(1)
    make(sys.argv[2]) if sys.argv[1] == "make" else check(sys.argv[2], sys.argv[3])
