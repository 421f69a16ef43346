#!/usr/bin/env python3
"""Chat templates, conversations, and what transformers' sandbox of jinja2 makes of them.

    make_chat_templates.py chat_templates.json    tests/data/chat_templates.cpp compares with it
"""
import datetime
import json
import sys

from transformers.utils import chat_template_utils as chat

TEMPLATES = {
    "turns": "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>\n{{ m['content'] | trim }}<|end|>\n{% endfor %}"
             "{% if add_generation_prompt %}<|assistant|>\n{% else %}{{ eos_token }}{% endif %}",
    "answers": """{%- for message in messages %}
    {{- '<|' ~ message.role ~ '|>' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}
        {%- set inner = message.content %}
        {{- inner + '<|end|>' }}
        {%- endgeneration %}
        {{- '\\n' if inner is undefined else '?' }}
    {%- else %}
        {{- message.content }}<|end|>
    {%- endif %}
{%- endfor %}
""",
    "alternate": """{% if messages[0]['role'] == 'system' %}
{% set loop_messages = messages[1:] %}
{% set system = '[' + messages[0]['content'] + '] ' %}
{% else %}
{% set loop_messages = messages %}
{% set system = '' %}
{% endif %}
{% for message in loop_messages %}
    {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception('users and assistants alternate: ' ~ loop.index) }}
    {% endif %}
  {# not shown #}  {{ system if loop.first }}{{ message.content }}
    {%+ if loop.last %}  last  {% endif +%}

{%- endfor %}

""",
    "tools": """{%- macro shown(tool, level=1, sign='-') %}
{{ sign * level }} {{ tool.name }}{% for key, value in tool.parameters | dictsort %} {{ key }}={{ value }}{% endfor %}
{% endmacro -%}
{%- if tools %}{% for tool in tools %}{{ shown(tool.function, sign='*', level=2) }}{{ tool | tojson }}
{{ tool.function.parameters | tojson(indent=2) }}{% endfor %}{% elif tools is none %}no tools{% endif %}
{%- for m in messages if m.tool_calls %}{% for call in m.tool_calls %}
<{{ call.function.name }}>{{ call.function.arguments | tojson if call.function.arguments is mapping }}
{%- for k, v in call.function.arguments.items() %} {{ k }}:{{ v }}{% endfor %}{% endfor %}{% else %} no calls{% endfor %}
""",
    "loops": """{% set ns = namespace(count=0, last=none, text='') %}
{%- for m in messages[::-1] if m.role in ('user', 'assistant') -%}
  {%- if loop.index > 3 %}{% break %}{% endif -%}
  {%- if not m.content %}{% continue %}{% endif -%}
  {%- set ns.count = ns.count + 1 %}{% set ns.text = ns.text ~ m.role[0] %}
  {{- loop.index }}/{{ loop.length }}/{{ loop.revindex }}/{{ loop.revindex0 }}{{ ',' if not loop.last }}
  {{- loop.previtem.role if loop.previtem is defined else '^' }}{{ loop.nextitem.role | default('$') }}
  {%- for c in m.content[:2] %}{{ loop.depth }}{{ c }}{% endfor %}
{%- endfor %} {{ ns.count }}{{ ns.text }}
{% set block %}
  {{ messages | map(attribute='role') | join('-') }}
{% endset %}[{{ block }}]{% set a, b = 1, [2] %}{{ a }}{{ b }}
{% for x in [] %}{% else %}none{% endfor %}""",
    "space": "  {% if true %}  \n x {%- if true %} y {% endif -%}  \n\n z\n{% endif %}\n{{ 1 -}} \n {{- 2 }}\n  {{ 3 }}\n\n"
             "\t{%- set q = 1 %}\n{#- c -#}  w {# d #}\n  {#+ e #}v\n{% if false %}a{% endif %}\n",
    "lines": "{% for m in messages %}\r\n  {{ m.content }}\r\n{% endfor %}\r\nend\r\n\n",
    "date": "{{ strftime_now('%d %b %Y') }}|{{ strftime_now('%Y-%m-%d, %A') }}",
}
EXPRESSIONS = """messages | length; messages[0].missing is defined; messages[-1]['content'] | string | length; missing | default('d', true)
'' | default('x'); none | default('x', true); messages[0].get('role'); messages[0].get('q', 'none'); messages[0].get('q')
[3, 1, 2] | sort; ['b', 'A', 'c'] | sort; ['b', 'A'] | sort(case_sensitive=true); [1, 2] | sort(reverse=true) | first
{'b': 1, 'a': [true, none, 1.5, 'é"\\n']} | tojson; {'b': 1, 'A': 2} | dictsort; {'b': 1} | items | list; {'b': 1}.items() | list
7 // 2; -7 // 2; 7 % 3; -7 % 3; 7 % -3; 2 ** 5; 2 ** -1; 7 / 2; 6 / 2; 1e3; 1_000; -3 | abs; 2 + 3 * 4 - 1; (2 + 3) * 4; -2 ** 2; 7.5 // 2; -7.5 % 2
'x' * 3; 2 * [1]; 'a' ~ 1 ~ none ~ true ~ 1.0; 'a' 'b'; [1, 2] + [3]; 1 < 2 < 3; 1 < 3 < 2; 1 == 1.0; true == 1; 'a' < 'b'; [1] == [1]; none == none
1 < 2 and not 3 <= 2; 1 and 2; 0 or 'x'; not 1; 'a' in 'cat'; 'q' not in ['r']; 'k' in {'k': 1}; 1 if false; 1 if true else 2; 1 if false else 2 if false else 3
'a,b,,c'.split(','); ' a  b c '.split(); 'a b c'.split(' ', 1); ' a b c '.split(none, 1); '  a '.strip() + '|'; 'xxaxx'.strip('x'); 'xa'.lstrip('x'); 'ax'.rstrip('x')
'abc'.startswith('ab'); 'abc'.endswith(('x', 'c')); 'Äb'.upper(); 'ÄB'.lower(); 'äB c'.capitalize(); 'hello big (world)-wide' | title; 'ÄB' | lower; 'straight' | upper
'日本語'[1]; '日本語'[::-1]; 'abcdef'[1:-1:2]; 'abcdef'[-2:]; [1, 2, 3][-1]; [1, 2, 3][5] is defined; [0, 1, 2, 3][3:0:-1]; '日本' | length; 'abc'[5:]; 'abc'[::2]
'aXbXc' | replace('X', '-'); 'aXbXc' | replace('X', '-', 1); 'aXb'.replace('X', 'é'); [1, none, 'a\\'b', "q\\"", 'b\\\\'] ; {'a': {'b': (1, 2)}}; (1,); ()
range(3) | list; range(1, 6, 2) | list; range(3, 0, -1) | list; messages | map(attribute='role') | list; ['a ', ' b'] | map('trim') | join(',')
messages | selectattr('role', 'equalto', 'user') | list | length; messages | rejectattr('role', 'in', ['user']) | map(attribute='role') | join
[1, 2, 3, 4] | select('odd') | list; [1, 2, 0] | select | list; [1, 2, 1] | reject('equalto', 1) | list; [1, 2] | last; [] | first is defined; [1, 2] | reverse | list
1 is number; 'a' is string; [] is iterable; {} is mapping; {} is sequence; none is none; 1 is none; true is boolean; 1 is boolean; 1.0 is float; 1 is integer; 3 is odd; 2 is even
x is undefined; messages is not string; true is true; 1 is true; 0 is false; false is false; 1 is in [1]; 'a' is eq 'a'; 1 is ne 2; undefined_one; undefined_one | length
'it\\'s'; "a\\tb\\x41\\u00e9\\101\\q"; 'a\\nb' | tojson; [] | tojson; {} | tojson(indent=4); {'a': [1, {'b': []}]} | tojson(indent=1); 1e16; 1e-5; 0.1 + 0.2; 123456789.0; 1e22
'3' | int; '3.7' | int; 'x' | int; 3.9 | int; 'x' | int(default=7); dict(a=1, b='x'); {'items': 1}.items is defined; {'items': 1}['items']; ' a ' | trim ~ '|'; 'é\\u00a0' | trim ~ '|'
'<b>' | safe; ['a', 'b'] | join; [1, 2] | join(', '); [{'a': 1}] | join(',', attribute='a'); 'abc' | list; {'a': 1} | list; {'a': 1} | length; messages[0].role.upper()
messages[0].content[0] + '!'; messages.0.role; (messages | first).role; ('a' if messages) ~ 'b'; not messages is none; 'a' ~ ('b' | upper); [1, [2, [3]]]; namespace(a=1).a"""
# Errors in both.
ERRORS = """1 + 'a'; missing.attribute; missing + 1; raise_exception('no ' ~ 1); missing(); 1 / 0; 'a' < 1; none | join; 1 in 2; [1].append(2); 'a' | nothing
messages[0].role(); 1 is something; {} | dictsort('a', 'b'); strftime_now(1); [1, 2] | length(3); {'a': 1} ! 2; 'a' % ; (1; namespace(1); {}.a.b; 1.5 ~ [] + {}; range(0)[1].a"""
# Errors here, though Jinja knows them: syntax and functions beyond the supported ones.
REFUSED = ["{% include 'x' %}", "{% call f() %}{% endcall %}", "{% raw %}{% endraw %}", "{{ 'a' | md5 }}", "{{ 'a' | round }}",
           "{% for x in y recursive %}{% endfor %}", "{{ 'a'.format(1) }}", "{{ f(*x) }}", "{{ lipsum() }}", "{% set x | upper %}a{% endset %}",
           "{{ '%s' % 1 }}", "{% filter upper %}a{% endfilter %}", "{{ loop.cycle(1) }}", "{% do 1 %}", "{% with a = 1 %}{% endwith %}",
           "{% for m in [1] %}{{ loop.cycle(1, 2) }}{% endfor %}", "{% for x in [1] %}{% macro f() %}{% endmacro %}{% endfor %}",
           "{% macro f() %}{% generation %}a{% endgeneration %}{% endmacro %}{{ f() }}"]
TOOL = {"type": "function", "function": {"name": "weather", "description": "The \"weather\" <é>", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": ["integer", "null"], "default": 3}}, "required": ["city"]}}}
CONVERSATIONS = [
    {"messages": [{"role": "user", "content": "Hello"}], "tools": None},
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Été?\n"}, {"role": "assistant", "content": " 日本 😀 "},
                  {"role": "user", "content": "c"}, {"role": "assistant", "content": "d\n"}], "tools": None},
    {"messages": [{"role": "user", "content": "Rome?"},
                  {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "weather", "arguments": {"city": "Rome", "n": 1.5}}}]},
                  {"role": "tool", "content": "22"}, {"role": "assistant", "content": "<|end|>22."}], "tools": [TOOL]},
]


class Day(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 2, 3)


def rendered(template, conversation, prompt):
    """Text, with the spans of generation blocks in bytes, or None for an error."""
    try:
        text, spans = chat._render_with_assistant_indices(chat._compile_jinja_template(template), conversation["messages"], conversation["tools"], None,
                                                          prompt, bos_token="<s>", eos_token="</s>")
    except Exception:
        return None
    return {"text": text, "spans": [len(text[:at].encode()) for span in spans for at in span]}


def split(lines):
    return [one.strip() for line in lines.split("\n") for one in line.split("; ")]


def main():
    chat.datetime = Day
    templates = [[name, text] for name, text in TEMPLATES.items()]
    templates += [[one, "{{ " + one + " }}"] for one in split(EXPRESSIONS)]
    cases = [{"name": name, "template": template,
              "rendered": [[rendered(template, c, prompt) for prompt in ((False, True) if name in TEMPLATES else (False,))]
                           for c in (CONVERSATIONS if name in TEMPLATES else CONVERSATIONS[1:2])]} for name, template in templates]
    for case in cases[len(TEMPLATES):]:
        assert case["rendered"][0][0] is not None, case["name"]
    errors = ["{{ " + one + " }}" for one in split(ERRORS)]
    for error in errors:
        assert rendered(error, CONVERSATIONS[1], False) is None, error
    with open(sys.argv[1], "w") as out:
        out.write(json.dumps({"conversations": CONVERSATIONS, "cases": cases, "errors": errors, "refused": REFUSED}, ensure_ascii=False, indent=0) + "\n")


main()
