#!/usr/bin/env python3
"""Small decoders as bitsandbytes quantized them, with what PEFT computes on them: tests/models/coded_decoders.

    pip install torch transformers peft safetensors bitsandbytes
    coded_decoders.py [OUT]     OUT/NAME: config.json and model.safetensors by transformers, expected.safetensors

expected.safetensors: `dequantized/…`, a weight as bitsandbytes decodes it, and of the model with those in f32
`base/logits` [2, 9, V] of `input/ids`; `adapter/…`, a LoRA on all linear layers (`adapter` in the metadata), with
`output/logits`, `output/loss` and `grad/…` of it.
"""
import copy, json, os, sys, tempfile

import bitsandbytes.functional
import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig, logging

SIZES = dict(vocab_size=23, hidden_size=64, intermediate_size=72, num_hidden_layers=1, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=32, pad_token_id=0, bos_token_id=1, eos_token_id=2)
# bitsandbytes 0.50 decodes rows of 32 · an odd number wrongly on the CPU: none here.
GPT2 = dict(vocab_size=23, n_embd=64, n_head=4, n_layer=1, n_positions=32, n_inner=72, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, bos_token_id=1, eos_token_id=2)
CASES = {
    "qwen2-nf4-double": ("qwen2", SIZES, dict(load_in_4bit=True, bnb_4bit_quant_type="nf4",
                                              bnb_4bit_use_double_quant=True)),
    "phi3-fp4": ("phi3", SIZES, dict(load_in_4bit=True, bnb_4bit_quant_type="fp4")),
    "gpt2-int8": ("gpt2", GPT2, dict(load_in_8bit=True)),
    "gpt2-nf4": ("gpt2", GPT2, dict(load_in_4bit=True, bnb_4bit_quant_type="nf4")),
}


def decoded(weight):
    """The values of a quantized weight, [out, in], in the type they are computed in; nothing of another."""
    if hasattr(weight, "quant_state") and weight.quant_state is not None:
        return bitsandbytes.functional.dequantize_4bit(weight.data, weight.quant_state)
    if hasattr(weight, "SCB"):
        return bitsandbytes.functional.int8_vectorwise_dequant(weight.CB, weight.SCB)


def make(folder, kind, config, quantization):
    torch.manual_seed(1)
    plain = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **config), attn_implementation="eager")
    with torch.no_grad():
        for p in plain.parameters():
            p.copy_((p + torch.randn_like(p) * 0.1).bfloat16())
    with tempfile.TemporaryDirectory() as whole:
        copy.deepcopy(plain).bfloat16().save_pretrained(whole)  # not itself: rotary frequencies would be rounded, too
        coded = AutoModelForCausalLM.from_pretrained(whole, quantization_config=BitsAndBytesConfig(**quantization),
                                                     device_map="cpu", dtype=torch.bfloat16)
    coded.save_pretrained(folder)
    os.remove(os.path.join(folder, "generation_config.json"))
    plain.eval()
    tensors = {}
    with torch.no_grad():
        for name, weight in coded.named_parameters():
            values = decoded(weight)
            if values is None:
                continue
            tensors.setdefault("dequantized/" + name, values.float().contiguous())
            own = plain.get_parameter(name)
            own.copy_(values if kind != "gpt2" else values.T)
    smallest = min(tensors, key=lambda name: tensors[name].numel())
    tensors = {smallest: tensors[smallest]}

    ids = torch.randint(0, config["vocab_size"], (2, 9))
    labels = ids.clone()
    labels[:, :3] = -100
    tensors |= {"input/ids": ids, "target": labels, "base/logits": plain(input_ids=ids).logits.detach().clone()}
    lora = LoraConfig(task_type="CAUSAL_LM", r=2, lora_alpha=5, target_modules="all-linear",
                      fan_in_fan_out=kind == "gpt2")
    net = get_peft_model(plain, lora)
    with torch.no_grad():
        for p in net.parameters():
            if p.requires_grad:
                p.copy_(torch.randn_like(p) * 0.2)
    tensors |= {"adapter/" + name: p.detach().clone() for name, p in get_peft_model_state_dict(net).items()}
    result = net(input_ids=ids, labels=labels)
    result.loss.backward()
    tensors |= {"output/logits": result.logits.detach(), "output/loss": result.loss.detach()}
    tensors |= {"grad/" + name.replace(".default.", "."): p.grad
                for name, p in net.named_parameters() if p.requires_grad}
    adapter = json.dumps(dict(peft_type="LORA", r=lora.r, lora_alpha=lora.lora_alpha))
    save_file({name: t.contiguous() for name, t in tensors.items()}, os.path.join(folder, "expected.safetensors"),
              metadata={"adapter": adapter})


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    logging.set_verbosity_error(); logging.disable_progress_bar(); torch.set_num_threads(1)
    here = os.path.dirname(os.path.abspath(__file__))
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "coded_decoders")
    for name, case in CASES.items():
        make(os.path.join(out, name), *case)
