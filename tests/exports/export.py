# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes models of transformers and torchvision as ONNX files, with inputs and ONNX Runtime's results for them:
python3 export.py FOLDER [NAME…], in the root that `./dev peers` makes. NAME is one below; the weights are random."""
import json
import logging
import os
import subprocess
import sys
import warnings

import numpy as np
import torch
import transformers as t

# Tiny sizes: the structure is that of the real ones.
SMALL = {'hidden_size': 64, 'num_hidden_layers': 2, 'num_attention_heads': 4, 'intermediate_size': 128}
TOKENS = {0: 'batch', 1: 'tokens'}


def ids(*shape):
    return torch.randint(3, 99, shape)


def last(output):
    return output.last_hidden_state


def logits(output):
    return output.logits


def bert(large=False):
    """Also a benchmark workload: BERT of four layers for a sentence of 128 tokens."""
    size = {'hidden_size': 512, 'num_hidden_layers': 4, 'num_attention_heads': 8, 'intermediate_size': 2048} if large else SMALL
    model = t.BertModel(t.BertConfig(vocab_size=99, **size), add_pooling_layer=False)
    mask = torch.ones(1 if large else 2, 128 if large else 12, dtype=torch.long)
    mask[-1, 100 if large else 9:] = 0
    return model, {'input_ids': ids(*mask.shape), 'attention_mask': mask}, last, TOKENS


def bert_small():
    return bert(large=True)


def causal(model, config, **more):
    config = config(vocab_size=99, num_key_value_heads=2, max_position_embeddings=64, use_cache=False, **SMALL, **more)
    mask = torch.tensor([[1] * 12, [0] * 3 + [1] * 9])
    return model(config), {'input_ids': ids(2, 12), 'attention_mask': mask}, logits, TOKENS


def llama():
    return causal(t.LlamaForCausalLM, t.LlamaConfig)


def qwen3():
    return causal(t.Qwen3ForCausalLM, t.Qwen3Config, head_dim=32)


def vit():
    config = t.ViTConfig(image_size=64, patch_size=16, **SMALL)
    return t.ViTModel(config, add_pooling_layer=False), {'pixel_values': torch.randn(2, 3, 64, 64)}, last, {0: 'batch'}


def whisper():
    config = t.WhisperConfig(d_model=64, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
                             encoder_ffn_dim=128, decoder_ffn_dim=64, num_mel_bins=80, max_source_positions=150, vocab_size=99,
                             pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    return t.WhisperModel(config).encoder, {'input_features': torch.randn(1, 80, 300)}, last, {0: 'batch'}


def wav2vec2():
    config = t.Wav2Vec2Config(vocab_size=32, conv_dim=(32, 32, 32), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 2),
                              num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, **SMALL)
    return t.Wav2Vec2Model(config), {'input_values': torch.randn(2, 1600)}, last, {0: 'batch', 1: 'samples'}


def swin():
    config = t.SwinConfig(image_size=64, patch_size=4, embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=4)
    return t.SwinModel(config, add_pooling_layer=False), {'pixel_values': torch.randn(1, 3, 64, 64)}, last, {0: 'batch'}


def detr():
    backbone = t.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], layer_type='basic',
                              out_features=['stage4'])
    config = t.DetrConfig(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone,
                          d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                          encoder_ffn_dim=128, decoder_ffn_dim=128, num_queries=10, num_labels=7)
    return (t.DetrForObjectDetection(config), {'pixel_values': torch.randn(1, 3, 96, 128)},
            lambda output: (output.logits, output.pred_boxes), {0: 'batch'})


def mobilenet():
    from torchvision.models import mobilenet_v2
    return mobilenet_v2(weights=None), {'x': torch.randn(1, 3, 224, 224)}, lambda output: output, {0: 'batch'}


MODELS = {function.__name__.replace('_', '-'): function
          for function in (bert, bert_small, llama, qwen3, vit, whisper, wav2vec2, swin, detr, mobilenet)}


class Called(torch.nn.Module):
    """A model with positional arguments."""

    def __init__(self, model, names, pick):
        super().__init__()
        self.model, self.names, self.pick = model, names, pick

    def forward(self, *arguments):
        return self.pick(self.model(**dict(zip(self.names, arguments))))


def randomise(model):
    """Scaled so that activations neither grow nor vanish from layer to layer, and no two biases are equal."""
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=parameter[0].numel() ** -0.5)
        elif name.endswith('bias'):
            torch.nn.init.normal_(parameter, std=0.1)


def export(name, folder):
    torch.manual_seed(7)
    model, inputs, pick, dynamic = MODELS[name]()
    randomise(model)
    model = Called(model, list(inputs), pick).eval()
    path = os.path.join(folder, name + '.onnx')
    torch.onnx.export(model, tuple(inputs.values()), path, input_names=list(inputs), opset_version=17, dynamo=False,
                      dynamic_axes={key: dynamic for key in inputs})
    return path, {key: value.numpy() for key, value in inputs.items()}


def run(path, inputs, results):
    """Writes ONNX Runtime's results for a model to a file. In a process of its own: both it and `onnx` register operators,
    and complain about each other's."""
    np.savez(results, **inputs)
    subprocess.run([sys.executable, __file__, '--run', path, results], check=True)
    return [*np.load(results).values()]


def run_here(path, results):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = ort.InferenceSession(path, options, providers=['CPUExecutionProvider'])
    known = {value.name for value in session.get_inputs()}
    outputs = session.run(None, {key: value for key, value in np.load(results).items() if key in known})
    np.savez(results, **{f'{i:04}': value for i, value in enumerate(outputs)})


def quantise(path, inputs, to):
    """As 8-bit integers between QuantizeLinear and DequantizeLinear, as ONNX Runtime's own tool does it: a scale per channel
    of a filter, and one per activation tensor."""
    import onnx
    from onnx import helper, numpy_helper
    model = onnx.load(path)
    graph = model.graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    readers = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    # Values that the next node clamps need no levels before that.
    quantised = [graph.input[0].name] + [
        node.output[0] for node in graph.node if node.op_type in ('Conv', 'Clip', 'Add', 'GlobalAveragePool') and
        [reader.op_type for reader in readers.get(node.output[0], [])] != ['Clip']]
    original = list(graph.output)
    graph.output.extend(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in quantised[1:])
    onnx.save(model, to)
    ranges = dict(zip(quantised, [inputs[quantised[0]], *run(to, inputs, to + '.npz')[len(original):]]))
    os.unlink(to + '.npz')

    nodes, scales, made = [], {}, {}

    def constant(name, value):
        if name not in made:
            made[name] = numpy_helper.from_array(np.asarray(value), name)
        return name

    def back(name, integers, scale, zero, axis=0):
        nodes.append(helper.make_node('DequantizeLinear', [integers, scale, zero], [name], axis=axis))
        return name

    def through(name):
        low, high = min(float(ranges[name].min()), 0.0), max(float(ranges[name].max()), 0.0)
        scales[name] = np.float32((high - low) / 255)
        scale = constant(name + '.scale', scales[name])
        zero = constant(name + '.zero', np.uint8(np.rint(-low / scales[name])))
        nodes.append(helper.make_node('QuantizeLinear', [name, scale, zero], [name + '.levels']))
        back(name + '.back', name + '.levels', scale, zero)

    def weight(name, axis):
        w = constants[name]
        scale = np.maximum(np.abs(w).max(axis=tuple(i for i in range(w.ndim) if i != axis)), 1e-6).astype('f') / 127
        scales[name] = scale
        shape = [-1 if i == axis else 1 for i in range(w.ndim)]
        return back(name + '.back', constant(name + '.levels', np.rint(w / scale.reshape(shape)).astype(np.int8)),
                    constant(name + '.scale', scale), constant(name + '.zero', np.zeros(len(scale), np.int8)), axis)

    def bias(name, x, w):
        scale = (scales[x] * scales[w]).astype('f')
        return back(name + '.back', constant(name + '.levels', np.rint(constants[name] / scale).astype(np.int32)),
                    constant(name + '.scale', scale), constant(name + '.zero', np.zeros(len(scale), np.int32)))

    through(quantised[0])
    for node in graph.node:
        sources = list(node.input)
        if node.op_type in ('Conv', 'Gemm'):
            x = sources[0] if sources[0] in scales else None
            names = [f'{name}.back' if name in scales else name for name in sources[:1]]
            names.append(weight(sources[1], 0))
            if len(sources) > 2:
                names.append(bias(sources[2], x, sources[1]) if x else sources[2])
            node.input[:] = names
        else:
            node.input[:] = [f'{name}.back' if name in scales else name for name in sources]
        nodes.append(node)
        if node.output[0] in quantised:
            through(node.output[0])
    kept = [tensor for tensor in graph.initializer if any(tensor.name in node.input for node in nodes)]
    graph = helper.make_graph(nodes, graph.name, list(graph.input), original, kept + list(made.values()))
    onnx.save(helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version), to)


def main(folder, *names):
    if folder == '--run':
        return run_here(*names)
    warnings.filterwarnings('ignore')
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    for name in names or MODELS:
        path, inputs = export(name, folder)
        files = {name: path}
        if name == 'mobilenet':
            files['mobilenet-qdq'] = os.path.join(folder, 'mobilenet-qdq.onnx')
            quantise(path, inputs, files['mobilenet-qdq'])
        for each, file in files.items():
            results = os.path.join(folder, each + '.npz')
            outputs = run(file, inputs, results)
            np.savez(results, **{f'in.{key}': value for key, value in inputs.items()},
                     **{f'out.{i}': value for i, value in enumerate(outputs)})
        print(json.dumps(list(files)), flush=True)


if __name__ == '__main__':
    main(*sys.argv[1:])
