#!/usr/bin/env python3
"""Small references of decoder language models from transformers and PEFT, one safetensors file a case, as
`lacuna verify` reads them.

    pip install torch transformers peft safetensors
    make_decoder_references.py [OUT [CASE ...]]     OUT is by default references/ beside this script

`model` is the type of transformers and its config.json in the words of version 4, for odd cases in those of version 5.
Weights have the names of transformers' files. Greedy continuations whose best two logits are close are drawn again.
"""
import json, os, sys, tempfile

import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, logging

ADAMW = dict(name="adamw", lr=1e-3, weight_decay=0.05, betas=[0.9, 0.999], eps=1e-8)
SIZES = dict(vocab_size=23, hidden_size=12, intermediate_size=14, num_hidden_layers=1, num_attention_heads=2,
             max_position_embeddings=64)
SHARED = dict(SIZES, num_attention_heads=4, hidden_size=16, num_key_value_heads=2)
IDS = dict(pad_token_id=0, bos_token_id=2, eos_token_id=1)
GEMMA = dict(SHARED, **IDS, head_dim=6, intermediate_size=10, num_hidden_layers=2)
CAPPED = dict(GEMMA, query_pre_attn_scalar=11, sliding_window=3)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
LONG = dict(type="longrope", short_factor=[1.0, 1.3], long_factor=[1.5, 3.0])
GPT2 = dict(vocab_size=23, n_embd=12, n_head=2, n_layer=1, n_positions=32, bos_token_id=1, eos_token_id=1,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
FALCON = dict(vocab_size=23, hidden_size=16, ffn_hidden_size=20, num_hidden_layers=1, num_attention_heads=4,
              bos_token_id=1, eos_token_id=1)
GLM = dict(padded_vocab_size=23, hidden_size=16, ffn_hidden_size=10, num_layers=1, num_attention_heads=4,
           kv_channels=6, multi_query_attention=True, multi_query_group_num=2, add_qkv_bias=True,
           add_bias_linear=False, rmsnorm=True, layernorm_epsilon=1e-5, seq_length=64, rope_ratio=2)
CASES = {  # type, config, lengths of sequences, and: packed, adapter, trained, optimizer, version
    "llama": ("llama", dict(SHARED, head_dim=6, intermediate_size=12, rms_norm_eps=1e-5), [9, 4], {}),
    "llama-rope": ("llama", dict(SHARED, rope_scaling=LLAMA3, attention_bias=True, mlp_bias=True,
                                 tie_word_embeddings=True), [12, 5], dict(version=5)),
    "llama-yarn": ("llama", dict(SIZES, rope_scaling=dict(YARN, mscale=0.7, mscale_all_dim=1.2, truncate=False)), [20],
                   {}),
    "llama-dynamic-packed": ("llama", dict(SIZES, rope_scaling=dict(type="dynamic", factor=2.0)), [5, 1, 4],
                             dict(packed=True)),
    "llama-lora": ("llama", SHARED, [8, 5], dict(adapter=dict(r=2, lora_alpha=5, use_rslora=True,
                                                              target_modules="all-linear"))),
    "mistral-window": ("mistral", dict(SHARED, sliding_window=3), [9, 5], dict(packed=True)),
    "qwen2-windows": ("qwen2", dict(SHARED, num_hidden_layers=2, use_sliding_window=True, sliding_window=3,
                                    max_window_layers=1, tie_word_embeddings=True), [9, 4], dict(step=False)),
    "qwen3": ("qwen3", dict(SHARED, head_dim=6, intermediate_size=12), [9, 4], dict(version=5)),
    "gemma": ("gemma", dict(GEMMA, num_hidden_layers=1), [9, 4], {}),
    "gemma2": ("gemma2", dict(CAPPED, attn_logit_softcapping=1.5, final_logit_softcapping=2.5), [9, 4],
               dict(step=False)),
    "gemma3": ("gemma3_text", dict(CAPPED, num_attention_heads=2, num_key_value_heads=1, sliding_window_pattern=2,
                                   rope_scaling=dict(rope_type="linear", factor=4.0)),
               [9, 4], dict(version=5, step=False)),
    "phi": ("phi", dict(SIZES, hidden_size=16, intermediate_size=10, partial_rotary_factor=0.5,
                            qk_layernorm=True), [9, 4], {}),
    "phi3-long": ("phi3", dict(SIZES, hidden_size=12, num_attention_heads=2, num_key_value_heads=1, pad_token_id=0,
                               partial_rotary_factor=0.67, rope_scaling=LONG, max_position_embeddings=64,
                               original_max_position_embeddings=8), [12, 4], {}),
    "gpt2": ("gpt2", dict(GPT2, n_inner=14), [9, 4], {}),
    "gpt2-lora": ("gpt2", GPT2, [8, 5], dict(adapter=dict(r=2, lora_alpha=5, fan_in_fan_out=True,
                                                          target_modules=["c_attn", "c_proj"]))),
    "gpt_neox": ("gpt_neox", dict(SIZES, rotary_pct=0.5), [9, 4], {}),
    "gpt_neox-odd": ("gpt_neox", dict(SIZES, hidden_size=24, intermediate_size=8, use_parallel_residual=False,
                                      attention_bias=False, rotary_pct=0.25), [9, 4], dict(version=5, step=False)),
    "bloom": ("bloom", dict(vocab_size=23, hidden_size=12, n_layer=1, n_head=3), [9, 4], {}),
    "falcon-7b": ("falcon", FALCON, [9, 4], {}),
    "falcon-40b": ("falcon", dict(FALCON, new_decoder_architecture=True, num_kv_heads=2), [9, 4], {}),
    "falcon-alibi": ("falcon", dict(FALCON, hidden_size=12, num_attention_heads=3, multi_query=False, bias=True,
                                    parallel_attn=False, alibi=True), [9, 4], {}),
    "smollm3": ("smollm3", dict(SHARED, **IDS, num_hidden_layers=2, no_rope_layer_interval=2, use_sliding_window=True,
                                sliding_window=3), [9, 4], dict(step=False)),
    "olmo2": ("olmo2", dict(SHARED, **IDS), [9, 4], {}),
    "chatglm": ("chatglm", GLM, [9, 4], {}),
}
GLM_NAMES = [("model.embed_tokens.", "transformer.embedding.word_embeddings."),
             ("lm_head.", "transformer.output_layer."),
             ("model.norm.", "transformer.encoder.final_layernorm."), ("model.layers.", "transformer.encoder.layers."),
             ("self_attn.o_proj.", "self_attention.dense."), ("mlp.gate_up_proj.", "mlp.dense_h_to_4h."),
             ("mlp.down_proj.", "mlp.dense_4h_to_h.")]


def config_of(kind, config):
    if kind != "chatglm":
        return AutoConfig.for_model(kind, **config)
    return AutoConfig.for_model(  # its own code is in no library; GLM of transformers is the same with other names
        "glm", vocab_size=config["padded_vocab_size"], hidden_size=config["hidden_size"],
        intermediate_size=config["ffn_hidden_size"], num_hidden_layers=config["num_layers"],
        num_attention_heads=config["num_attention_heads"], head_dim=config["kv_channels"],
        num_key_value_heads=config["multi_query_group_num"], rms_norm_eps=config["layernorm_epsilon"],
        max_position_embeddings=config["seq_length"], partial_rotary_factor=0.5, tie_word_embeddings=False,
        rope_theta=1e4 * config["rope_ratio"], attention_bias=config["add_qkv_bias"], pad_token_id=None)


def as_saved(kind, tensors):
    """Names of memory as those of the file."""
    if kind == "gpt_neox":
        return {("embed_out.weight" if name == "lm_head.weight" else name): t for name, t in tensors.items()}
    if kind != "chatglm":
        return tensors
    saved = {}
    for name, tensor in tensors.items():
        for theirs, own in GLM_NAMES:
            name = name.replace(theirs, own)
        saved[name] = tensor
    for name in [name for name in saved if "self_attn.q_proj." in name]:
        rows = [saved.pop(name.replace("q_proj", part)) for part in ("q_proj", "k_proj", "v_proj")]
        saved[name.replace("self_attn.q_proj", "self_attention.query_key_value")] = torch.cat(rows)
    return saved


def make(path, case, seed):
    kind, config, lengths, more = case
    torch.manual_seed(seed)
    # transformers' eager attention adds Falcon's ALiBi twice.
    net = AutoModelForCausalLM.from_config(config_of(kind, config),
                                           attn_implementation="sdpa" if config.get("alibi") else "eager")
    net.generation_config.eos_token_id = None
    with torch.no_grad():
        for p in net.parameters():
            p.add_(torch.randn_like(p) * (0.15 if p.dim() > 1 else 0.1))
    named = lambda: {name: p.detach().clone() for name, p in net.named_parameters()}
    tensors = {"weight/" + name: t for name, t in as_saved(kind, named()).items()}
    model = dict(family=kind, config=config)
    if more.get("version") == 5:
        with tempfile.TemporaryDirectory() as folder:
            net.save_pretrained(folder)
            model["config"] = json.load(open(os.path.join(folder, "config.json")))
    meta = {"model": json.dumps(model)}
    adapted = "adapter" in more
    if adapted:
        lora = LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, **more["adapter"])
        net = get_peft_model(net, lora)
        with torch.no_grad():
            for name, p in net.named_parameters():
                if "lora_" in name:
                    p.copy_(torch.randn_like(p) * 0.2)
        named = lambda: {name: t.clone() for name, t in get_peft_model_state_dict(net).items()}
        tensors |= {"adapter/" + name: t for name, t in named().items()}
        meta["adapter"] = json.dumps(lora.to_dict(), default=lambda v: sorted(v) if isinstance(v, set) else str(v))
        meta["trainable"] = json.dumps(["*lora_*"])

    vocab, longest, packed = net.config.vocab_size, max(lengths), more.get("packed")
    if packed:
        ids = torch.randint(0, vocab, (1, sum(lengths)))
        tensors["input/offsets"] = torch.tensor([0] + lengths).cumsum(0)
        positions = tensors["input/positions"] = torch.cat([torch.arange(n) for n in lengths])[None]
        labels, there = ids.clone(), torch.ones_like(ids).bool()
        labels[0, tensors["input/offsets"][:-1]] = -100
        run = lambda: net(input_ids=ids, position_ids=positions, use_cache=False).logits
    else:
        mask = tensors["input/mask"] = (torch.arange(longest)[None] < torch.tensor(lengths)[:, None]).long()
        there = mask.bool()
        ids = torch.where(there, torch.randint(0, vocab, mask.shape), 0)
        labels = torch.where(there, ids, -100)
        labels[:, :2] = -100
        run = lambda: net(input_ids=ids, attention_mask=mask, use_cache=False).logits
    tensors["input/ids"], tensors["target"] = ids, labels
    tensors["target_next"] = wanted = F.pad(labels, (0, 1), value=-100)[:, 1:].contiguous()
    shown = lambda logits: torch.where(there[..., None], logits, 0.0).detach().clone()

    net.eval()
    with torch.no_grad():
        tensors["eval/logits"] = shown(run())
    prompt = ids[0, :4]
    made = net.generate(input_ids=prompt[None], attention_mask=torch.ones(1, 4, dtype=torch.long), do_sample=False,
                        max_new_tokens=6, pad_token_id=0, return_dict_in_generate=True, output_logits=True)
    best = torch.stack([logits[0] for logits in made.logits]).topk(2).values
    tensors["generate/prompt"], tensors["generate/ids"] = prompt.clone(), made.sequences[0, 4:].clone()

    net.train()
    logits = run()
    loss = F.cross_entropy(logits.reshape(-1, vocab), wanted.reshape(-1), ignore_index=-100)
    loss.backward()
    tensors["output/logits"], tensors["output/loss"] = shown(logits), loss.detach().clone()
    short = (lambda name: name.replace(".default.", ".")) if adapted else (lambda name: name)
    grads = {short(name): p.grad.clone() for name, p in net.named_parameters() if p.grad is not None}
    tensors |= {"grad/" + name: t for name, t in as_saved(kind, grads).items()}
    if more.get("step", True):
        meta["optimizer"] = json.dumps(ADAMW)
        torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=ADAMW["lr"], betas=ADAMW["betas"],
                          weight_decay=ADAMW["weight_decay"], eps=ADAMW["eps"]).step()
        tensors |= {"after/" + name: t for name, t in as_saved(kind, named()).items()}
    save_file({name: t.contiguous() for name, t in tensors.items()}, path, metadata=meta)
    print(f"{path}: {os.path.getsize(path) / 1e3:.0f} kB, loss {loss.item():.4f}")
    return (best[:, 0] - best[:, 1]).min().item()


def main():
    logging.set_verbosity_error(); logging.disable_progress_bar(); torch.set_num_threads(1)
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "references")
    for name in sys.argv[2:] or CASES:
        for seed in range(1, 9):
            if make(os.path.join(out, f"decoder-{name}.safetensors"), CASES[name], seed) > 0.005:
                break


if __name__ == "__main__":
    main()
