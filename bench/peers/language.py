#!/usr/bin/env python3
"""PyTorch's side of bench/language.py: a language model of transformers, drawn from its configuration.

    language.py step MODEL BATCH [--compile] --length N --threads N --steps N
    language.py write MODEL FOLDER
    language.py generate FOLDER --tokens N --threads N

MODEL is qwen (Qwen2-0.5B with 6 layers, frozen, PEFT's LoRA of rank 16 on all linear layers) or gpt2 (small, all weights
trained). `step` trains in f32: forward, loss, backward and fused AdamW, and prints one line with `X samples/s best, Y median;
kept K MiB; peak RSS P MiB` in it, as bench/peers/bert.py does. `write` saves the drawn model, without an adapter, and a tokenizer
of single bytes. `generate` goes on with a prompt of 64 ones, greedily, and prints `ids [...]` and `X tokens/s` without the
prompt.
"""
import argparse
import time

import torch
import transformers

from steps import kept_bytes, print_line


def drawn(name):
    torch.manual_seed(1)
    if name == "qwen":
        return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
            vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=6, num_attention_heads=14,
            num_key_value_heads=2, max_position_embeddings=32768, rope_theta=1e6, rms_norm_eps=1e-6,
            tie_word_embeddings=True, bos_token_id=None, eos_token_id=None))
    return transformers.GPT2LMHeadModel(transformers.GPT2Config())


def with_adapter(model):
    import peft

    linear = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    return peft.get_peft_model(model, peft.LoraConfig(r=16, lora_alpha=32, target_modules=linear))


def step(a):
    model = drawn(a.model)
    vocabulary = model.config.vocab_size
    net = (with_adapter(model) if a.model == "qwen" else model).train()
    trained = [p for p in net.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, weight_decay=0.0, fused=True)
    run = torch.compile(net) if a.compile else net
    ids = torch.randint(0, vocabulary, (a.batch, a.length), generator=torch.Generator().manual_seed(1))
    kept = kept_bytes([*net.parameters(), *net.buffers()], lambda: run(input_ids=ids, labels=ids).loss)
    seconds = []
    for _ in range(a.steps + 2):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        run(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    seconds = seconds[2:]
    print_line(a.batch, seconds, kept)


def write(a):
    import tokenizers

    drawn(a.model).save_pretrained(a.folder)
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.save(f"{a.folder}/tokenizer.json")


def generate(a):
    import tokenizers

    model = transformers.AutoModelForCausalLM.from_pretrained(a.folder, dtype=torch.float32).eval()
    prompt = tokenizers.Tokenizer.from_file(f"{a.folder}/tokenizer.json").encode("1" * 64).ids
    ids = torch.tensor([prompt])

    def seconds(tokens):
        begin = time.perf_counter()
        made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False, pad_token_id=0,
                              eos_token_id=None)
        return time.perf_counter() - begin, made[0, ids.shape[1]:].tolist()

    with torch.inference_mode():
        seconds(4)
        first, _ = seconds(1)
        all_of_them, made = seconds(1 + a.tokens)
    print("ids", made)
    print(f"{a.tokens / (all_of_them - first):.3f} tokens/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)

    def command(what, *positional):
        added = commands.add_parser(what.__name__)
        for name in positional:
            added.add_argument(name, type=int if name == "batch" else str)
        added.add_argument("--threads", type=int, default=2)
        added.set_defaults(command=what)
        return added

    stepping = command(step, "model", "batch")
    stepping.add_argument("--compile", action="store_true")
    stepping.add_argument("--length", type=int, default=512)
    stepping.add_argument("--steps", type=int, default=6)
    command(write, "model", "folder")
    command(generate, "folder").add_argument("--tokens", type=int, default=64)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    a.command(a)


if __name__ == "__main__":
    main()
