"""Writes cases.jsonl: conversations as ids with their loss mask, by Transformers and NeMo-RL's rule (README.md).

usage: python make.py TOKENIZER_FOLDER >cases.jsonl     (tests/data/text/tokenizers/kind_llama3)
"""
import itertools, json, os, sys
from transformers import PreTrainedTokenizerFast

tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(sys.argv[1], "tokenizer.json"),
                                    bos_token="<|begin_of_text|>", eos_token="<|im_end|>")
templates = {
    "chatml": "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
              "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "words": "{% for m in messages %}{%- if m['role'] == 'system' %}{{ 'Context: ' + m['content'].strip() }}"
             "{%- elif m['role'] == 'user' %}{{ ' Question: ' + m['content'].strip() + ' Answer:' }}"
             "{%- elif m['role'] == 'assistant' %}{{ ' ' + m['content'].strip() }}{%- endif %}{% endfor %}",
    "bos": "{{ bos_token }}{% for m in messages %}{{ m['content'] }}{% endfor %}",
}
conversations = [
    [("user", "What is 2 + 2?"), ("assistant", "It is 4.")],
    [("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello"), ("user", "And now\n"), ("assistant", " näch über 漢字\n")],
    [("user", "one"), ("assistant", "")],
]


def cases():
    flags = [(1, 1, 0, 0), (1, 1, 1, 0), (0, 1, 1, 0), (1, 0, 0, 0), (0, 0, 0, 0), (1, 1, 1, 1)]
    for (name, template), conversation, four in itertools.product(templates.items(), conversations, flags):
        bos, eos, prompt, final = map(bool, four)
        messages = [{"role": role, "content": content} for role, content in conversation]
        ids, mask, before = [], [], ""
        for i, message in enumerate(messages):
            text = tokenizer.apply_chat_template(messages[:i + 1], chat_template=template, tokenize=False,
                                                 add_generation_prompt=prompt and message["role"] == "user")
            if not text.startswith(before):
                raise SystemExit(f"{name}: not a continuation")
            piece, before = text[len(before):], text
            if i == 0 and bos and not piece.startswith(tokenizer.bos_token):
                piece = tokenizer.bos_token + piece
            if i == len(messages) - 1 and eos and not piece.rstrip("\n").endswith(tokenizer.eos_token):
                piece += tokenizer.eos_token
            new = tokenizer(piece, add_special_tokens=False)["input_ids"]
            ids += new
            mask += [int(i == len(messages) - 1 if final else message["role"] == "assistant")] * len(new)
        yield {"template": template, "messages": messages, "add_bos": bos, "add_eos": eos,
               "add_generation_prompt": prompt, "only_unmask_final": final, "ids": ids, "mask": mask}


for case in cases():
    print(json.dumps(case, ensure_ascii=False))
