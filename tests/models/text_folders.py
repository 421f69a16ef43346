#!/usr/bin/env python3
"""Small random models of text as folders of transformers, and what transformers makes of folders.

    text_folders.py make OUT          # folders OUT/NAME and what they give: OUT/NAME.safetensors
    text_folders.py read FOLDER CASE  # prints the largest difference of the folder's logits from those of CASE

OUT is tests/models/text_folders for the fixtures, made with transformers 5.24 and bitsandbytes 0.50. A case holds
`input/ids`, `input/mask`, `input/types` and `logits` [N, classes].
"""
import json
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import (AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification,
                          BitsAndBytesConfig, DistilBertConfig, DistilBertForSequenceClassification,
                          ModernBertConfig, ModernBertForSequenceClassification, RobertaConfig,
                          RobertaForSequenceClassification, XLMRobertaConfig,
                          XLMRobertaForSequenceClassification)

LABELS = {0: "bad", 1: "fair", 2: "good"}
SMALL = dict(vocab_size=40, max_position_embeddings=12, id2label=LABELS, label2id={v: k for k, v in LABELS.items()})


def inputs():
    generator = torch.Generator().manual_seed(3)
    lengths = torch.tensor([9, 4, 7])
    mask = (torch.arange(9)[None] < lengths[:, None]).long()
    ids = torch.randint(1, 40, mask.shape, generator=generator) * mask
    return {"input/ids": ids, "input/mask": mask, "input/types": (torch.arange(9)[None] > 3).long() * mask}


def logits_of(model, case):
    given = dict(input_ids=case["input/ids"], attention_mask=case["input/mask"])
    if model.config.model_type == "bert":
        given["token_type_ids"] = case["input/types"]
    with torch.no_grad():
        return model.eval()(**given).logits


def randomize(model):
    torch.manual_seed(1)
    for p in model.parameters():
        p.data.add_(torch.randn_like(p) * 0.2)
    return model


def make(out):
    bert = randomize(BertForSequenceClassification(BertConfig(
        hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20, **SMALL)))
    distil = randomize(DistilBertForSequenceClassification(DistilBertConfig(
        dim=12, n_layers=2, n_heads=2, hidden_dim=20, **SMALL)))
    sizes = dict(SMALL, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20,
                 max_position_embeddings=13, pad_token_id=0, type_vocab_size=1)
    roberta = randomize(RobertaForSequenceClassification(RobertaConfig(**sizes)))
    xlm_roberta = randomize(XLMRobertaForSequenceClassification(XLMRobertaConfig(**sizes)))
    for name, model in {"hf-bert": bert, "hf-bert-old": bert, "hf-distilbert": distil, "hf-roberta": roberta,
                        "hf-xlm-roberta": xlm_roberta}.items():
        model.save_pretrained(out / name)
        case = inputs()
        save_file({**case, "logits": logits_of(model, case)}, out / f"{name}.safetensors")
    # As TensorFlow's files name norms, with a buffer and the heads that BERT was trained with.
    file = out / "hf-bert-old" / "model.safetensors"
    state = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
             for name, tensor in load_file(file).items()}
    state["bert.embeddings.position_ids"] = torch.arange(12)[None]
    state["cls.seq_relationship.weight"] = torch.zeros(2, 12)
    state["cls.predictions.bias"] = torch.zeros(40)
    save_file(state, file, {"format": "pt"})


def make_modern(out):
    """hf-modernbert as version 5 writes it; hf-modernbert-old in the words of version 4, without the base's name."""
    model = randomize(ModernBertForSequenceClassification(ModernBertConfig(
        hidden_size=12, num_hidden_layers=3, num_attention_heads=3, intermediate_size=10, pad_token_id=0,
        global_attn_every_n_layers=2, local_attention=4, global_rope_theta=300.0, local_rope_theta=30.0,
        classifier_pooling="mean", bos_token_id=1, cls_token_id=1, eos_token_id=2, sep_token_id=2, **SMALL)))
    for name in ("hf-modernbert", "hf-modernbert-old"):
        model.save_pretrained(out / name)
        case = inputs()
        save_file({**case, "logits": logits_of(model, case)}, out / f"{name}.safetensors")
    file = out / "hf-modernbert-old" / "model.safetensors"
    state = {name.removeprefix("model."): tensor for name, tensor in load_file(file).items()}
    save_file({**state, "decoder.bias": torch.zeros(40)}, file, {"format": "pt"})
    file = out / "hf-modernbert-old" / "config.json"
    config = json.loads(file.read_text())
    del config["layer_types"], config["rope_parameters"]
    config.update(global_attn_every_n_layers=2, global_rope_theta=300.0, local_rope_theta=30.0,
                  position_embedding_type="sans_pos")
    file.write_text(json.dumps(config, indent=2) + "\n")


def make_quantized(out):
    """hf-bert-nf4 and hf-bert-int8 as bitsandbytes stores them; their logits are those of the dequantized weights."""
    import bitsandbytes.functional
    plain = randomize(BertForSequenceClassification(BertConfig(
        hidden_size=64, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64, **SMALL)))
    kinds = {"hf-bert-nf4": dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True),
             "hf-bert-int8": dict(load_in_8bit=True)}
    for name, kind in kinds.items():
        with tempfile.TemporaryDirectory() as folder:
            plain.save_pretrained(folder)
            quantized = BertForSequenceClassification.from_pretrained(
                folder, quantization_config=BitsAndBytesConfig(**kind), device_map="cpu", dtype=torch.float32)
        quantized.save_pretrained(out / name)
        state = plain.state_dict()
        for path, weight in quantized.named_parameters():
            if hasattr(weight, "quant_state"):
                state[path] = bitsandbytes.functional.dequantize_4bit(weight.data, weight.quant_state)
            elif hasattr(weight, "SCB"):
                state[path] = weight.CB.float() * weight.SCB[:, None] / 127
        dequantized = BertForSequenceClassification(plain.config)
        dequantized.load_state_dict(state)
        case = inputs()
        save_file({**case, "logits": logits_of(dequantized, case)}, out / f"{name}.safetensors")


def main():
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]))
        make_modern(Path(sys.argv[2]))
        make_quantized(Path(sys.argv[2]))
        return
    model = AutoModelForSequenceClassification.from_pretrained(sys.argv[2])
    case = load_file(sys.argv[3])
    print((logits_of(model, case) - case["logits"]).abs().max().item())


if __name__ == "__main__":
    main()
