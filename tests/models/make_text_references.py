#!/usr/bin/env python3
"""Small references of models of text from transformers, one safetensors file a case, as `lacuna verify` reads them.

    pip install torch transformers safetensors
    make_text_references.py [OUT [CASE ...]]     OUT is by default references/ beside this script

Sequences have unequal lengths, and the files hold them padded, as transformers reads them. Logits are those of real
tokens: of the tokens with a label, or of all for a span. The softmax over the positions of a span leaves padding out,
where transformers' own loss counts it.
"""
import fnmatch, json, os, sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import (BertConfig, BertForMaskedLM, BertForQuestionAnswering, BertForSequenceClassification,
                          BertForTokenClassification, DistilBertConfig, DistilBertForMaskedLM,
                          DistilBertForQuestionAnswering, DistilBertForSequenceClassification, ModernBertConfig,
                          ModernBertForMaskedLM, ModernBertForQuestionAnswering,
                          ModernBertForSequenceClassification, ModernBertForTokenClassification, RobertaConfig,
                          RobertaForMaskedLM, RobertaForQuestionAnswering, RobertaForSequenceClassification,
                          RobertaForTokenClassification)

BERT = dict(family="bert", vocab_size=40, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
            intermediate_size=20, max_position_embeddings=12, num_classes=3)
DISTIL = dict(family="distilbert", vocab_size=40, dim=12, n_layers=2, n_heads=2, hidden_dim=20,
              max_position_embeddings=12, num_classes=3)
ROBERTA = dict(BERT, family="roberta", max_position_embeddings=14, pad_token_id=1, type_vocab_size=1, layer_norm_eps=1e-5)
# Layers 0 and 2 see all tokens, 1 and 3 two on each side.
MODERN = dict(family="modernbert", vocab_size=40, hidden_size=12, num_hidden_layers=4, num_attention_heads=3,
              intermediate_size=10, max_position_embeddings=12, pad_token_id=0, global_attn_every_n_layers=2,
              local_attention=5, global_rope_theta=500.0, local_rope_theta=20.0, num_classes=3)
ADAMW = dict(name="adamw", lr=1e-3, weight_decay=0.05, betas=[0.9, 0.999], eps=1e-8)
CASES = {  # model, optimizer, trained (None: all), lengths
    "bert-classification": (BERT, ADAMW, None, [9, 4, 2, 9]),
    "bert-one-layer": (dict(BERT, num_hidden_layers=1, hidden_act="gelu_new", num_attention_heads=1), None, None, [3, 12]),
    "bert-tokens": (dict(BERT, head="tokens", hidden_act="relu"), None, None, [5, 7, 2]),
    "bert-span": (dict(BERT, head="span"), ADAMW, None, [8, 3, 6]),
    "bert-masked-lm": (dict(BERT, head="masked_lm"), ADAMW, None, [9, 6]),
    "bert-only-bias": (BERT, None, ["*bias", "classifier*"], [4, 9]),
    "bert-only-query": (BERT, None, ["*query*", "*word_embeddings*"], [4, 9]),
    "roberta-classification": (ROBERTA, ADAMW, None, [9, 4, 2, 12]),
    "roberta-tokens": (dict(ROBERTA, head="tokens"), None, None, [5, 7, 2]),
    "roberta-span": (dict(ROBERTA, head="span"), None, None, [8, 3, 6]),
    "roberta-masked-lm": (dict(ROBERTA, head="masked_lm", hidden_act="relu"), ADAMW, None, [9, 6]),
    "modernbert-classification": (dict(MODERN, num_hidden_layers=3), ADAMW, None, [9, 4, 1, 12]),
    "modernbert-last-window": (dict(MODERN, hidden_activation="silu", classifier_activation="relu"), None, None, [12, 7]),
    "modernbert-mean": (dict(MODERN, classifier_pooling="mean", norm_bias=True, attention_bias=True, mlp_bias=True,
                             classifier_bias=True, hidden_activation="gelu_new"), ADAMW, None, [9, 4, 2, 12]),
    "modernbert-tokens": (dict(MODERN, head="tokens"), None, None, [5, 11, 2]),
    "modernbert-span": (dict(MODERN, head="span"), None, None, [8, 3, 6]),
    "modernbert-masked-lm": (dict(MODERN, head="masked_lm"), ADAMW, None, [9, 6]),
    "modernbert-only-qkv": (MODERN, None, ["*Wqkv*", "classifier*"], [4, 9]),
    "distilbert-classification": (DISTIL, ADAMW, None, [7, 3, 9]),
    "distilbert-span": (dict(DISTIL, head="span"), None, None, [7, 4]),
    "distilbert-masked-lm": (dict(DISTIL, head="masked_lm"), None, None, [9, 5]),
}
CLASSES = {
    ("bert", "classification"): BertForSequenceClassification, ("bert", "tokens"): BertForTokenClassification,
    ("bert", "span"): BertForQuestionAnswering, ("bert", "masked_lm"): BertForMaskedLM,
    ("roberta", "classification"): RobertaForSequenceClassification,
    ("roberta", "tokens"): RobertaForTokenClassification, ("roberta", "span"): RobertaForQuestionAnswering,
    ("roberta", "masked_lm"): RobertaForMaskedLM,
    ("modernbert", "classification"): ModernBertForSequenceClassification,
    ("modernbert", "tokens"): ModernBertForTokenClassification, ("modernbert", "span"): ModernBertForQuestionAnswering,
    ("modernbert", "masked_lm"): ModernBertForMaskedLM,
    ("distilbert", "classification"): DistilBertForSequenceClassification,
    ("distilbert", "span"): DistilBertForQuestionAnswering, ("distilbert", "masked_lm"): DistilBertForMaskedLM,
}


def build(m):
    keys = {key: value for key, value in m.items() if key not in ("family", "head", "num_classes")}
    labels = 2 if m.get("head") == "span" else m["num_classes"]
    if m["family"] in ("bert", "roberta"):
        made = BertConfig if m["family"] == "bert" else RobertaConfig
        config = made(**keys, num_labels=labels, hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    elif m["family"] == "modernbert":
        config = ModernBertConfig(**keys, num_labels=labels)
    else:
        config = DistilBertConfig(**keys, num_labels=labels, dropout=0, attention_dropout=0,
                                  seq_classif_dropout=0, qa_dropout=0)
    return CLASSES[m["family"], m.get("head", "classification")](config)


def outcome(m, net, inputs, mask, target):
    """Logits and loss as the file has them."""
    out = net(**inputs)
    head = m.get("head", "classification")
    if head == "classification":
        return out.logits, F.cross_entropy(out.logits, target)
    if head == "span":
        logits = torch.stack([out.start_logits, out.end_logits], -1)
        hidden = logits.masked_fill(mask[..., None] == 0, float("-inf"))
        loss = sum(F.cross_entropy(hidden[..., c], target[:, c], ignore_index=-100) for c in range(2)) / 2
        return logits[mask > 0][None], loss
    logits = out.logits[mask > 0]
    return logits[target >= 0], F.cross_entropy(logits, target)


def floating(state, prefix):
    return {prefix + name: value.detach().clone() for name, value in state.items()
            if value.is_floating_point() and ("decoder" not in name or name == "decoder.bias")
            and name != "vocab_projector.weight"}


def write(path, m, opt, trained, lengths):
    torch.manual_seed(1)
    net = build(m)
    with torch.no_grad():
        for p in net.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    for name, p in net.named_parameters():
        p.requires_grad_(trained is None or any(fnmatch.fnmatch(name, pattern) for pattern in trained))
    tensors = floating(net.state_dict(), "weight/")
    lengths = torch.tensor(lengths)
    batch, longest = len(lengths), int(lengths.max())
    mask = (torch.arange(longest)[None] < lengths[:, None]).long()
    padding = m.get("pad_token_id", 0)  # positions of RoBERTa follow from it
    ids = torch.randint(padding + 1, m["vocab_size"], (batch, longest))
    tensors["input/ids"] = torch.where(mask > 0, ids, padding)
    tensors["input/mask"] = mask
    inputs = dict(input_ids=tensors["input/ids"], attention_mask=mask)
    if m["family"] == "bert":
        tensors["input/types"] = (torch.arange(longest)[None] >= lengths[:, None] // 2).long() * mask
        inputs["token_type_ids"] = tensors["input/types"]
    head = m.get("head", "classification")
    tokens = int(mask.sum())
    if head == "classification":
        target = torch.randint(0, m["num_classes"], (batch,))
    elif head == "span":
        target = torch.stack([torch.zeros(batch, dtype=torch.long), lengths - 1], -1)
        target[-1, 0] = -100
    else:
        target = torch.randint(0, m["vocab_size"] if head == "masked_lm" else m["num_classes"], (tokens,))
        target[::3] = -100
    tensors["target"] = target
    with torch.no_grad():
        tensors["eval/logits"] = outcome(m, net.eval(), inputs, mask, target)[0].clone()
    logits, loss = outcome(m, net.train(), inputs, mask, target)
    loss.backward()
    tensors["output/logits"], tensors["output/loss"] = logits.detach().clone(), loss.detach().clone()
    tensors.update({"grad/" + n: p.grad.clone() for n, p in net.named_parameters() if p.grad is not None})
    metadata = {"model": json.dumps(m)}
    if trained is not None:
        metadata["trainable"] = json.dumps(trained)
    if opt is not None:
        metadata["optimizer"] = json.dumps(opt)
        kept = dict(opt)
        kept.pop("name")
        torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], **kept).step()
        tensors.update(floating(net.state_dict(), "after/"))
    save_file({name: value.contiguous() for name, value in tensors.items()}, path, metadata=metadata)
    print(f"{path}: {os.path.getsize(path)} bytes, loss {loss.item():.6f}")


out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "references")
os.makedirs(out, exist_ok=True)
for case, arguments in CASES.items():
    if len(sys.argv) > 2 and case not in sys.argv[2:]:
        continue
    write(os.path.join(out, case + ".safetensors"), *arguments)
