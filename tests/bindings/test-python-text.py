# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Texts to tokens, and texts to vectors: a small model compared with NumPy in double precision, and all-MiniLM-L6-v2, if it
was fetched, with PyTorch.

minilm.json has the results of transformers 5.12 with PyTorch 2.14, both from Debian, for that model: the tokens of
BertTokenizer, truncated to 256, and the mean of the last hidden states in double precision, normalised to length 1."""
import json
import math
import os
import struct
import sys

import gi
import numpy

gi.require_version('Rlx', '1.0')
from gi.repository import Gio, GLib, Rlx

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(here), 'tools'))
import models
import tap

CONFIG = {'model_type': 'bert', 'hidden_act': 'gelu', 'hidden_size': 16, 'num_attention_heads': 2, 'num_hidden_layers': 2,
          'intermediate_size': 32, 'vocab_size': 40, 'max_position_embeddings': 48, 'layer_norm_eps': 1e-12}
POOLING = {'pooling_mode_mean_tokens': True}
MODULES = [{'type': 'sentence_transformers.models.Transformer'}, {'type': 'sentence_transformers.models.Pooling'},
           {'type': 'sentence_transformers.models.Normalize'}]
WORDS = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', 'the', 'cat', 'sat', '##s', '##ting', 'on', '.', ',', '!', 'a', 'b', '##a', '##b', '中', 'uber',
         '[', ']', 'sep']


def bytes_of(text):
    return GLib.Bytes.new(text if isinstance(text, bytes) else text.encode())


def wordpiece(words=WORDS, lower_case=True):
    return Rlx.Tokenizer.new_wordpiece(bytes_of('\n'.join(words) + '\n'), lower_case)


def refuses(part, function, *arguments):
    try:
        function(*arguments)
    except GLib.Error as error:
        tap.contains(error.message, part, 'message')
    else:
        tap.fail(f'nothing was refused, where “{part}” should be')


def make_weights():
    random = numpy.random.default_rng(13)
    width, hidden = CONFIG['hidden_size'], CONFIG['intermediate_size']
    shapes = {'embeddings.word_embeddings.weight': (40, width), 'embeddings.position_embeddings.weight': (48, width),
              'embeddings.token_type_embeddings.weight': (2, width), 'embeddings.LayerNorm.weight': (width,),
              'embeddings.LayerNorm.bias': (width,)}
    for layer in range(CONFIG['num_hidden_layers']):
        for part, shape in {'attention.self.query': (width, width), 'attention.self.key': (width, width),
                            'attention.self.value': (width, width), 'attention.output.dense': (width, width),
                            'attention.output.LayerNorm': (width,), 'intermediate.dense': (hidden, width),
                            'output.dense': (width, hidden), 'output.LayerNorm': (width,)}.items():
            shapes[f'encoder.layer.{layer}.{part}.weight'] = shape
            shapes[f'encoder.layer.{layer}.{part}.bias'] = shape[:1]
    return {name: random.normal(size=shape).astype('f4') for name, shape in shapes.items()}


WEIGHTS = make_weights()


def make_model(name, weights=None, config=None, words=WORDS, **files):
    header, data = {}, b''
    for key, value in (WEIGHTS if weights is None else weights).items():
        kind = {'f4': 'F32', 'f2': 'F16'}.get(value.dtype.str[1:], 'I32')
        header[key] = {'dtype': kind, 'shape': value.shape, 'data_offsets': [len(data), len(data) + value.nbytes]}
        data += value.tobytes()
    text = json.dumps(header).encode()
    contents = {'model.safetensors': struct.pack('<Q', len(text)) + text + data, 'vocab.txt': '\n'.join(words) + '\n',
                'config.json': json.dumps({**CONFIG, **(config or {})}), '1_Pooling/config.json': json.dumps(POOLING),
                'modules.json': json.dumps(MODULES)}
    for path, content in {**contents, **{key.replace('__', '/') + '.json': value for key, value in files.items()}}.items():
        if content is not None:
            tap.write(f'{name}/{path}', content)
    return Gio.File.new_for_path(tap.path(name))


def embed(weights, tokens):
    """As in the papers, one text at a time."""
    w = {key: value.astype(float) for key, value in weights.items()}

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + CONFIG['layer_norm_eps']) * w[name + '.weight'] + w[name + '.bias']

    def linear(x, name):
        return x @ w[name + '.weight'].T + w[name + '.bias']

    x = (w['embeddings.word_embeddings.weight'][tokens] + w['embeddings.position_embeddings.weight'][:len(tokens)] +
         w['embeddings.token_type_embeddings.weight'][0])
    x = norm(x, 'embeddings.LayerNorm')
    for layer in range(CONFIG['num_hidden_layers']):
        scope = f'encoder.layer.{layer}.'
        q, k, v = (linear(x, scope + 'attention.self.' + part) for part in ('query', 'key', 'value'))
        heads = []
        for columns in numpy.split(numpy.arange(x.shape[1]), CONFIG['num_attention_heads']):
            scores = q[:, columns] @ k[:, columns].T / math.sqrt(len(columns))
            scores = numpy.exp(scores - scores.max(-1, keepdims=True))
            heads.append(scores / scores.sum(-1, keepdims=True) @ v[:, columns])
        x = norm(linear(numpy.concatenate(heads, -1), scope + 'attention.output.dense') + x, scope + 'attention.output.LayerNorm')
        y = linear(x, scope + 'intermediate.dense')
        y = y * 0.5 * (1 + numpy.vectorize(math.erf)(y / math.sqrt(2)))
        x = norm(linear(y, scope + 'output.dense') + x, scope + 'output.LayerNorm')
    return x


def unit(vector):
    return vector / numpy.linalg.norm(vector)


@tap.test
def words_become_pieces():
    tokenizer = wordpiece()

    def pieces(text, special=False):
        return [tokenizer.get_token(token) for token in tokenizer.encode(text, special)]

    tap.equal(tokenizer.get_n_tokens(), len(WORDS))
    tap.equal(pieces('The CAT, sitting!'), ['the', 'cat', ',', '[UNK]', '!'])
    tap.equal(pieces('cats sat'), ['cat', '##s', 'sat'])
    tap.equal(pieces('satting abba', True), ['[CLS]', 'sat', '##ting', 'a', '##b', '##b', '##a', '[SEP]'])
    tap.equal(pieces(''), [])
    tap.equal(pieces('', True), ['[CLS]', '[SEP]'])
    tap.equal(pieces(' \t\n\u3000\u2028'), [])
    tap.equal(pieces('a中b'), ['a', '中', 'b'])
    tap.equal(pieces('Über'), ['uber'])
    tap.equal(pieces('U\u0308b\u200ber'), ['uber'])
    tap.equal(pieces('c\x01at'), ['cat'])
    # the spelling of a special token is not one
    tap.equal(pieces('[SEP]'), ['[', 'sep', ']'])
    tap.equal(pieces('a' * 100), ['a'] + ['##a'] * 99)
    tap.equal(pieces('a' * 101), ['[UNK]'])
    # a text of several chunks
    tap.equal(pieces('the cat ' * 20000), ['the', 'cat'] * 20000)
    tap.equal(wordpiece(lower_case=False).encode('The the', False), [1, 4])
    tap.equal(tokenizer.find('##ting'), 8)
    tap.equal(tokenizer.find('ting'), -1)
    tap.equal(tokenizer.get_token(len(WORDS)), None)
    tap.equal(tokenizer.get_token(tokenizer.find('nothing like it')), None)


@tap.test
def tokens_become_words():
    tokenizer = wordpiece()
    tap.equal(tokenizer.decode(tokenizer.encode('The cats sat.', True)), 'the cats sat .')
    tap.equal(tokenizer.decode([]), '')
    tap.equal(tokenizer.decode([8]), '##ting')
    refuses('Token 1 is 22, but the vocabulary has 22 tokens', tokenizer.decode, [4, 22])
    refuses('Token 0 is -1', tokenizer.decode, [-1])


@tap.test
def hostile_vocabularies_are_refused():
    basis = b'[UNK]\n[CLS]\n[SEP]\n'
    for text, part in {
            b'': 'The vocabulary of 0 tokens has no token “[UNK]”',
            b'[UNK]\n[CLS]\n': 'has no token “[SEP]”',
            basis + b'\n': 'At byte 18: token 3 of the vocabulary is empty',
            basis + b'a\n\nb': 'token 4 of the vocabulary is empty',
            basis + b'a\nb\na': 'At byte 22: token 5 of the vocabulary is the same as token 3',
            basis + b'\xff\xfe': 'token 3 of the vocabulary is not UTF-8',
            basis + b'\xed\xa0\x80': 'token 3 of the vocabulary is not UTF-8',
            basis + b'a\0b': 'token 3 of the vocabulary has a NUL',
            basis + b'x' * 1025: 'has 1025 bytes; the limit is 1024',
            basis + b'\n'.join(b'%d' % i for i in range(1048576)): 'more than 1048576 tokens',
            basis + b'x' * (16 << 20): 'the limit is 16777216',
    }.items():
        refuses(part, Rlx.Tokenizer.new_wordpiece, bytes_of(text), True)
    # line ends of other systems, and a missing one at the end, are valid
    tap.equal(Rlx.Tokenizer.new_wordpiece(bytes_of('[UNK]\r\n[CLS]\r\n[SEP]\r\na'), True).encode('a', False), [3])
    refuses('vocab.txt', Rlx.Tokenizer.open, Gio.File.new_for_path(tap.path('nowhere')), None)


@tap.test
def settings_are_read():
    def tokens(text, **settings):
        folder = make_model('settings', tokenizer_config=json.dumps(settings))
        return Rlx.Tokenizer.open(folder, None).encode(text, False)

    tap.equal(tokens('The ÜBER'), [4, 18])
    tap.equal(tokens('The ÜBER', do_lower_case=False), [1, 1])
    tap.equal(tokens('ÜBER', strip_accents=False), [1])
    tap.equal(tokens('a中', tokenize_chinese_chars=False), [1])
    tap.equal(tokens('中 a', tokenize_chinese_chars=False, strip_accents=None, other=[{'x': 1.5e3}]), [17, 13])
    for settings, part in ({'tokenizer_class': 'T5Tokenizer'}, '“tokenizer_class” is T5Tokenizer'), \
            ({'do_basic_tokenize': False}, '“do_basic_tokenize” is false'), \
            ({'unk_token': '[NONE]'}, 'no token “[NONE]”'), ({'do_lower_case': 3}, '“do_lower_case” is not true or false'), \
            ({'cls_token': 7}, '“cls_token” is not a string'):
        refuses(part, lambda given=settings: tokens('a', **given))
    for text, part in ('{"do_lower_case": true, "do_lower_case": false}', 'is there twice'), ('[]', "'{' is missing"), \
            ('{"a": ' + '[' * 100000, 'nested deeper'), ('{} x', 'At byte 3'), ('', "'{' is missing"):
        folder = make_model('settings', tokenizer_config=text)
        refuses(part, Rlx.Tokenizer.open, folder, None)


@tap.test
def small_models_are_right():
    encoder = Rlx.TextEncoder.open(make_model('small'), None, None)
    texts = ['the cat sat.', 'a', '', 'cats sat on the cat, on a b!', 'the ' * 40 + 'cat', 'the ' * 100, 'b', 'a b', 'uber', 'x']
    found = encoder.encode(texts, None).numpy()
    tap.equal((encoder.get_width(), encoder.get_max_tokens(), found.shape), (16, 48, (10, 16)))
    for text, row in zip(texts, found):
        tokens = encoder.get_tokenizer().encode(text, True)
        tokens = tokens[:47] + tokens[-1:] if len(tokens) > 48 else tokens
        expected = unit(embed(WEIGHTS, tokens).mean(0))
        # a text on its own gives the same result as among others, apart from rounding
        for vector in row, encoder.encode([text], None).numpy()[0]:
            tap.check(abs(vector - expected).max() < 2e-5, f'“{text[:20]}” is off by {abs(vector - expected).max()}')
    tap.equal(encoder.encode([], None).numpy().shape, (0, 16))


@tap.test
def other_forms_are_right():
    half = {'bert.' + name: value.astype('f2') for name, value in WEIGHTS.items()}
    folder = make_model('forms', half, modules=None, sentence_bert_config=json.dumps({'max_seq_length': 5}))
    with open(tap.path('forms/1_Pooling/config.json'), 'w', encoding='utf-8') as file:
        json.dump({'pooling_mode_cls_token': True, 'pooling_mode_mean_tokens': False}, file)
    encoder = Rlx.TextEncoder.open(folder, None, None)
    expected = embed({name: value.astype('f2') for name, value in WEIGHTS.items()}, [2, 4, 5, 6, 3])[0]
    found = encoder.encode(['the cat sat on a'], None).numpy()[0]
    tap.equal(encoder.get_max_tokens(), 5)
    tap.check(abs(found - expected).max() < 5e-5, f'it is off by {abs(found - expected).max()}')


@tap.test
def models_of_another_form_are_refused():
    def opens(**changes):
        return Rlx.TextEncoder.open(make_model('bad', **changes), None, None)

    for config, part in ({'model_type': 'roberta'}, '“model_type” is “roberta”'), ({'hidden_act': 'relu'}, '“hidden_act” is “relu”'), \
            ({'hidden_size': 0}, '“hidden_size” is 0'), ({'hidden_size': 15}, 'not a multiple'), ({'hidden_size': 1 << 40}, 'the limit is 65536'), \
            ({'hidden_size': -1}, 'hidden_size'), ({'hidden_size': 1.5}, 'hidden_size'), ({'hidden_size': 18}, 'does not have the shape'), \
            ({'num_hidden_layers': 3}, 'no tensor “encoder.layer.2.'), ({'vocab_size': 39}, 'does not have the shape'), \
            ({'vocab_size': 10}, 'does not have the shape'), ({'layer_norm_eps': 'x'}, '“layer_norm_eps” is not a number'), \
            ({'layer_norm_eps': -1}, 'not between 0 and 1'), ({'layer_norm_eps': 1e999}, 'a value is missing'), \
            ({'max_position_embeddings': 2}, 'the least is 3'), ({'is_decoder': True}, 'is_decoder'), \
            ({'position_embedding_type': 'relative_key'}, 'relative_key'):
        refuses(part, lambda given=config: opens(config=given))
    refuses('40', lambda: opens(words=WORDS + [f'w{i}' for i in range(19)]))
    refuses('“embeddings.LayerNorm.bias”', lambda: opens(weights={key: value for key, value in WEIGHTS.items() if key != 'embeddings.LayerNorm.bias'}))
    refuses('floating-point', lambda: opens(weights={key: value.astype('i4') for key, value in WEIGHTS.items()}))
    refuses('Dense', lambda: opens(modules=json.dumps(MODULES + [{'type': 'sentence_transformers.models.Dense'}])))
    refuses('no “type”', lambda: opens(modules='[{}]'))
    refuses('pooling_mode', lambda: opens(**{'1_Pooling__config': json.dumps({'pooling_mode_max_tokens': True})}))


@tap.test
def encoding_can_be_cancelled():
    encoder = Rlx.TextEncoder.open(make_model('cancelled'), None, None)
    cancellable = Gio.Cancellable()
    cancellable.cancel()
    refuses('cancel', encoder.encode, ['a'], cancellable)
    loop, results = GLib.MainLoop(), []

    def done(source, result):
        results.append(source.encode_finish(result).numpy())
        loop.quit()

    encoder.encode_async(['a', 'b'], None, done)
    loop.run()
    tap.check(abs(results[0] - encoder.encode(['a', 'b'], None).numpy()).max() < 1e-6, 'the vectors differ')


def minilm():
    folder = models.find('minilm')
    if folder is None:
        tap.skip('the model minilm is not there; ./dev models minilm fetches it')
    return Gio.File.new_for_path(folder)


@tap.test
def minilm_has_the_tokens_of_transformers():
    tokenizer = Rlx.Tokenizer.open(minilm(), None)
    with open(os.path.join(here, 'minilm.json'), encoding='utf-8') as file:
        for row in json.load(file):
            found = tokenizer.encode(row['text'], True)
            tap.equal(found[:255] + found[-1:] if len(found) > 256 else found, row['tokens'], row['text'][:40])


@tap.test
def minilm_has_the_vectors_of_sentence_transformers():
    encoder = Rlx.TextEncoder.open(minilm(), None, None)
    with open(os.path.join(here, 'minilm.json'), encoding='utf-8') as file:
        rows = [row for row in json.load(file) if 'embedding' in row]
    found = encoder.encode([row['text'] for row in rows], None).numpy().astype(float)
    for row, vector in zip(rows, found):
        cosine = unit(vector) @ unit(numpy.array(row['embedding']))
        print(f'# 1 - cosine is {1 - cosine:.2e}: {row["text"][:40]}')
        tap.check(cosine >= 0.99999, f'the cosine is {cosine}')
        tap.check(abs(numpy.linalg.norm(vector) - 1) < 1e-5, 'the length is not 1')


tap.main('text')
