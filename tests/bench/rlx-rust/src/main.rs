// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// One process of the Rust crate rlx-wgpu: rlx-rust-bench CONFIGURATION, which is JSON with
//   folder    where the data is               seconds  how long to measure
//   workload  of the manifest                 output   the file to write the result to
// Prints what all contenders print: one line of JSON. `host` says which steps it computes without the device.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Instant;

use rlx_ir::op::{Activation, BinaryOp, MaskKind};
use rlx_ir::quant::QuantScheme;
use rlx_ir::{DType, Graph, NodeId, Shape};
use rlx_wgpu::backend::WgpuExecutable;
use serde_json::{Value, json};

const NO_ADAPTER: i32 = 77;
const EPSILON: f32 = 1e-5;

type Failure = Box<dyn Error>;

struct Tensor {
    name: String,
    role: String,
    kind: String,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Tensor {
    /// In the form that the crate wants: its devices do not support integers.
    fn floats(&self) -> Vec<f32> {
        let words = self.bytes.chunks_exact(4).map(|word| [word[0], word[1], word[2], word[3]]);
        if self.kind == "i32" {
            words.map(|word| i32::from_le_bytes(word) as f32).collect()
        } else {
            words.map(f32::from_le_bytes).collect()
        }
    }
}

fn numbers(value: &Value) -> Vec<usize> {
    value.as_array().into_iter().flatten().filter_map(Value::as_u64).map(|n| n as usize).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The inputs; `qkv` is for contenders that want three weights as one.
fn read_tensors(workload: &Value, folder: &Path) -> Result<Vec<Tensor>, Failure> {
    let mut tensors = Vec::new();
    for tensor in workload["tensors"].as_array().into_iter().flatten() {
        let role = text(&tensor["role"]);
        if role != "input" && role != "constant" {
            continue;
        }
        let file = fs::read(folder.join(text(&tensor["file"])))?;
        let offset = tensor["offset"].as_u64().unwrap_or(0) as usize;
        let length = tensor["length"].as_u64().unwrap_or(0) as usize;
        let bytes = file.get(offset..offset + length).ok_or("a file of the data is too short")?.to_vec();
        tensors.push(Tensor {
            name: text(&tensor["name"]),
            role,
            kind: text(&tensor["type"]),
            shape: numbers(&tensor["shape"]),
            bytes,
        });
    }
    Ok(tensors)
}

// ---- graphs -----------------------------------------------------------------------------------------------------------

struct Builder<'a> {
    graph: Graph,
    tensors: &'a [Tensor],
}

fn f32_shape(shape: &[usize]) -> Shape {
    Shape::new(shape, DType::F32)
}

impl Builder<'_> {
    fn leaf_of(&mut self, name: &str, shape: Shape) -> NodeId {
        let input = self.tensors.iter().any(|tensor| tensor.name == name && tensor.role == "input");
        if input { self.graph.input(name, shape) } else { self.graph.param(name, shape) }
    }

    fn leaf(&mut self, name: &str) -> NodeId {
        let tensor = self.tensors.iter().find(|tensor| tensor.name == name);
        let tensor = tensor.unwrap_or_else(|| panic!("the workload has no tensor {name}"));
        let shape = if tensor.kind == "q4_k" { Shape::new(&[tensor.bytes.len()], DType::U8) } else { f32_shape(&tensor.shape) };
        self.leaf_of(name, shape)
    }

    fn norm(&mut self, x: NodeId, name: &str, shape: &[usize]) -> NodeId {
        let (scale, bias) = (self.leaf(&format!("{name}.scale")), self.leaf(&format!("{name}.bias")));
        self.graph.layer_norm(x, scale, bias, -1, EPSILON, f32_shape(shape))
    }

    fn linear(&mut self, x: NodeId, name: &str, rows: usize, columns: usize) -> NodeId {
        let (weight, bias) = (self.leaf(&format!("{name}.weight")), self.leaf(&format!("{name}.bias")));
        let product = self.graph.matmul(x, weight, f32_shape(&[rows, columns]));
        self.graph.binary(BinaryOp::Add, product, bias, f32_shape(&[rows, columns]))
    }

    fn add(&mut self, x: NodeId, y: NodeId, shape: &[usize]) -> NodeId {
        self.graph.binary(BinaryOp::Add, x, y, f32_shape(shape))
    }

    fn reshape(&mut self, x: NodeId, shape: &[usize]) -> NodeId {
        self.graph.reshape(x, shape.iter().map(|&n| n as i64).collect(), f32_shape(shape))
    }

    /// For a single sequence; its tokens are the rows.
    fn encoder(&mut self, size: &[usize]) -> NodeId {
        let (rows, width, heads, hidden, layers) = (size[1], size[2], size[3], size[4], size[5]);
        let flat = [rows, width];
        let split = [1, rows, heads, width / heads];
        let words = self.leaf("words");
        let tokens = self.leaf_of("tokens", f32_shape(&[rows]));
        let positions = self.leaf("positions");
        let x = self.graph.gather(words, tokens, 0, f32_shape(&flat));
        let x = self.add(x, positions, &flat);
        let mut x = self.norm(x, "norm", &flat);
        for i in 0..layers {
            let parts = ["query", "key", "value"].map(|part| {
                let y = self.linear(x, &format!("{i}.{part}"), rows, width);
                self.reshape(y, &split)
            });
            let y =
                self.graph.attention_kind(parts[0], parts[1], parts[2], heads, width / heads, MaskKind::None, f32_shape(&split));
            let y = self.reshape(y, &flat);
            let y = self.linear(y, &format!("{i}.out"), rows, width);
            let y = self.add(x, y, &flat);
            x = self.norm(y, &format!("{i}.norm1"), &flat);
            let y = self.linear(x, &format!("{i}.up"), rows, hidden);
            let y = self.graph.activation(Activation::Gelu, y, f32_shape(&[rows, hidden]));
            let y = self.linear(y, &format!("{i}.down"), rows, width);
            let y = self.add(x, y, &flat);
            x = self.norm(y, &format!("{i}.norm2"), &flat);
        }
        x
    }

    fn build(&mut self, family: &str, size: &[usize]) -> Result<NodeId, Failure> {
        Ok(match family {
            "matmul" => {
                let (x, w) = (self.leaf("x"), self.leaf("w"));
                self.graph.matmul(x, w, f32_shape(&[size[0], size[2]]))
            }
            "packed" => {
                let (x, w) = (self.leaf("x"), self.leaf("w"));
                self.graph.dequant_matmul_packed(x, w, QuantScheme::GgufQ4K, f32_shape(&[size[0], size[2]]))
            }
            "softmax" => {
                let x = self.leaf("x");
                self.graph.softmax(x, -1, f32_shape(&size[..2]))
            }
            "layer-norm" => {
                let x = self.leaf("x");
                self.norm(x, "norm", &size[..2])
            }
            "encoder" => self.encoder(size),
            other => return Err(format!("there is no graph for the family {other}").into()),
        })
    }
}

// ---- measuring --------------------------------------------------------------------------------------------------------

/// The processor time of all threads of this process.
fn cpu_ms() -> f64 {
    // SAFETY: getrusage() fills the whole struct, for which every bit pattern is valid.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let ms = |time: libc::timeval| time.tv_sec as f64 * 1e3 + time.tv_usec as f64 * 1e-3;
    ms(usage.ru_utime) + ms(usage.ru_stime)
}

fn ms_since(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e3
}

fn measure(configuration: &Value) -> Result<Value, Failure> {
    let workload = &configuration["workload"];
    let seconds = configuration["seconds"].as_f64().unwrap_or(0.5);
    let tensors = read_tensors(workload, Path::new(&text(&configuration["folder"])))?;
    let mut builder = Builder { graph: Graph::new("bench"), tensors: &tensors };
    let y = builder.build(&text(&workload["family"]), &numbers(&workload["size"]))?;
    builder.graph.set_outputs(vec![y]);
    let mut executable = WgpuExecutable::compile(builder.graph);

    let mut inputs = Vec::new();
    for tensor in &tensors {
        match (tensor.role.as_str(), tensor.kind.as_str()) {
            ("input", _) => inputs.push((tensor.name.as_str(), tensor.floats())),
            (_, "q4_k") => executable.set_param_bytes(&tensor.name, &tensor.bytes),
            _ => executable.set_param(&tensor.name, &tensor.floats()),
        }
    }
    let feeds: Vec<(&str, &[f32])> = inputs.iter().map(|(name, values)| (*name, values.as_slice())).collect();
    let first = executable.run(&feeds).into_iter().next().ok_or("there is no result")?;
    fs::write(text(&configuration["output"]), first.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())?;

    let mut from = Instant::now();
    for _ in 0..2 {
        if ms_since(from) < 1000.0 {
            executable.run(&feeds);
        }
    }
    from = Instant::now();
    let before = cpu_ms();
    let mut times = Vec::new();
    let limit = |n: usize| 1000.0 * seconds * if n < 7 { 4.0 } else { 1.0 };
    while times.len() < 3 || times.len() < 2000 && ms_since(from) < limit(times.len()) {
        let begin = Instant::now();
        // The result must have been read back.
        if executable.run(&feeds)[0].len() != first.len() {
            return Err("a result is incomplete".into());
        }
        times.push(ms_since(begin));
    }
    let cpu = (cpu_ms() - before) / times.len() as f64;
    times.sort_by(f64::total_cmp);
    let ms = (times[(times.len() - 1) / 2] + times[times.len() / 2]) / 2.0;
    let host = match executable.host_summary() {
        Some(summary) if executable.blocks_on_host() => summary,
        _ => "no step on the host".to_owned(),
    };
    Ok(json!({"ms": ms, "runs": times.len(), "cpu_ms": cpu, "host": host}))
}

fn main() {
    // One line for the caller.
    std::panic::set_hook(Box::new(|info| {
        eprintln!("error: {}", info.to_string().replace('\n', " "));
        std::process::exit(1);
    }));
    let configuration = std::env::args().nth(1).and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let Some(configuration) = configuration else {
        eprintln!("error: usage: rlx-rust-bench CONFIGURATION");
        std::process::exit(2);
    };
    let Some(device) = rlx_wgpu::wgpu_device() else {
        eprintln!("error: there is no adapter");
        std::process::exit(NO_ADAPTER);
    };
    match measure(&configuration) {
        Ok(mut result) => {
            result["adapter"] = json!(device.name);
            println!("{result}");
        }
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    }
}
