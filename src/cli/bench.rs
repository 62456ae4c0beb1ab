//! `tilewright bench`: conversions beside memcpy of the same bytes, in the same run.

use std::time::{Duration, Instant};

use crate::run::{AlignedBuffer, Executor, Inline, Pool, reference};
use crate::target::mesh::Mapper;
use crate::target::{Placement, Tensor};
use crate::text::Descriptor;
use crate::{DType, Layout, Options, Plan};
use kernels::Isa;
use serde_json::json;

use super::arguments::BenchArgs;
use super::failure::Result;
use super::print;

/// Each figure is the best of as many repetitions as this allows, and of three at least.
const BUDGET: Duration = Duration::from_millis(350);

/// One conversion, at a size that only memory holds and at one that a core's own cache holds.
struct Case {
    name: &'static str,
    dtype: DType,
    /// Shapes: at least 256 MiB of source (or destination, for unpacking), and 64 to 512 KiB.
    shapes: [Vec<u64>; 2],
    from: String,
    to: String,
    mesh: Option<&'static str>,
}

fn cases() -> Vec<Case> {
    let dense = |dtype: DType| format!("memref<SHAPEx{}>", dtype.mlir_name());
    let tile = |name: &str| format!("ttnn(dtype={name}, layout=TILE)");
    let square = |n: u64, small: u64| [vec![n, n], vec![small, small]];
    let case =
        |name, dtype, shapes, from: String, to: String| Case { name, dtype, shapes, from, to, mesh: None };
    let (f32_, bf16, f16) = (DType::F32, DType::Bf16, DType::F16);
    let sticks =
        "SpyreTensorLayout(device_size=[STICKS], dim_map=[1, 2, 0, 2], device_dtype=DataFormats.IEEE_FP16)";
    let stick = || [vec![8, 4096, 4096], vec![2, 128, 512]];
    let columns = |dtype: DType| format!("memref<SHAPEx{}, strided<[1, ROWS]>>", dtype.mlir_name());
    let big_bf16 = || [vec![8192, 16384], vec![256, 512]];
    let big_f32 = || square(8192, 256);
    let grid = |dtype: &str| {
        format!(
            "metal(shape=(DIMS), collapse=[], grid=(8, 8), tile=(32, 32), dtype={dtype}, oob=undef, memory=l1)"
        )
    };
    let mut all = vec![
        case("tilize bf16", bf16, big_bf16(), dense(bf16), tile("bfloat16")),
        case("tilize f32", f32_, big_f32(), dense(f32_), tile("float32")),
        case("untilize bf16", bf16, big_bf16(), tile("bfloat16"), dense(bf16)),
        case("untilize f32", f32_, big_f32(), tile("float32"), dense(f32_)),
        case("stickify f16", f16, stick(), dense(f16), sticks.into()),
        case("unstickify f16", f16, stick(), sticks.into(), dense(f16)),
        case(
            "pad rows f32",
            f32_,
            [vec![8192, 8190], vec![256, 250]],
            dense(f32_),
            "memref<SHAPExf32, strided<[PITCH, 1]>>".into(),
        ),
        case("tilize bf16 onto 8x8 cores", bf16, big_bf16(), dense(bf16), grid("bf16")),
        Case {
            mesh: Some("ShardTensor2dMesh(mesh_shape=(2, 4), dims=(0, 1))"),
            ..case("tilize bf16 onto a 2x4 mesh", bf16, big_bf16(), dense(bf16), tile("bfloat16"))
        },
        case("f32 to bf16 tiles", f32_, big_f32(), dense(f32_), tile("bfloat16")),
        case("transpose 2-byte", bf16, [vec![8192, 16384], vec![256, 512]], dense(bf16), columns(bf16)),
        case("transpose 4-byte", f32_, square(8192, 256), dense(f32_), columns(f32_)),
        case(
            "transpose 2-byte, ragged",
            bf16,
            [vec![8191, 16387], vec![251, 509]],
            dense(bf16),
            columns(bf16),
        ),
        case(
            "transpose 4-byte, ragged",
            f32_,
            [vec![8191, 8195], vec![251, 255]],
            dense(f32_),
            columns(f32_),
        ),
        case(
            "restickify f16",
            f16,
            [vec![8192, 16384], vec![256, 512]],
            "SpyreTensorLayout((DIMS), torch.float16)".into(),
            "SpyreTensorLayout((DIMS), torch.float16, [1, 0])".into(),
        ),
    ];
    for (name, dtype, format) in [
        ("f32 to bfp8 tiles", f32_, "bfloat8_b"),
        ("bf16 to bfp8 tiles", bf16, "bfloat8_b"),
        ("f32 to bfp4 tiles", f32_, "bfloat4_b"),
        ("f32 to bfp2 tiles", f32_, "bfloat2_b"),
        ("f32 to mxfp8_e4m3 tiles", f32_, "mxfp8_e4m3"),
        ("f32 to mxfp4 tiles", f32_, "mxfp4"),
        ("f32 to mxint8 tiles", f32_, "mxint8"),
    ] {
        let shapes = if dtype == bf16 { big_bf16() } else { big_f32() };
        all.push(case(name, dtype, shapes, dense(dtype), tile(format)));
    }
    for (name, format) in [
        ("bfp8 tiles to f32", "bfloat8_b"),
        ("bfp4 tiles to f32", "bfloat4_b"),
        ("mxfp8_e4m3 tiles to f32", "mxfp8_e4m3"),
        ("mxfp4 tiles to f32", "mxfp4"),
        ("mxint8 tiles to f32", "mxint8"),
    ] {
        all.push(case(name, f32_, big_f32(), tile(format), dense(f32_)));
    }
    all
}

/// A layout text for one shape.
fn text(pattern: &str, shape: &[u64]) -> String {
    let list = |separator: &str| shape.iter().map(u64::to_string).collect::<Vec<_>>().join(separator);
    let sticks = match *shape {
        [a, b, c] => format!("{b}, {}, {a}, 64", c.div_ceil(64)),
        _ => String::new(),
    };
    pattern
        .replace("SHAPE", &list("x"))
        .replace("DIMS", &list(", "))
        .replace("STICKS", &sticks)
        .replace("ROWS", &shape[0].to_string())
        .replace("PITCH", &shape[1].next_multiple_of(64).to_string())
}

fn layout(pattern: &str, tensor: &Tensor, mesh: Option<&Mapper>) -> Result<Layout> {
    let descriptor: Descriptor = text(pattern, &tensor.shape).parse()?;
    Ok(descriptor.layout(tensor, &Placement { mesh, ..Placement::default() })?)
}

/// One line of the table.
struct Row {
    name: &'static str,
    size: &'static str,
    threads: usize,
    /// Bytes that the rate counts: the source's, or the destination's where it is the larger by unpacking.
    bytes: usize,
    ours: Duration,
    memcpy: Duration,
}

impl Row {
    fn rate(&self, time: Duration) -> f64 {
        self.bytes as f64 / time.as_secs_f64() / 1e9
    }

    fn ratio(&self) -> f64 {
        self.memcpy.as_secs_f64() / self.ours.as_secs_f64()
    }
}

pub(crate) fn run(arguments: &BenchArgs, isa: Isa) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let pool = Pool::new(cores)?;
    let mut rows = Vec::new();
    if !arguments.json {
        print(&format!("cpu: {}\nlevel: {}, threads: 1 and {cores}\n", cpu(), isa.name()))?;
        print(&format!(
            "{:<30} {:>5} {:>7} {:>9} {:>9} {:>6}\n",
            "case", "size", "threads", "GB/s", "memcpy", "ratio"
        ))?;
    }
    let mut memory = [AlignedBuffer::new(0)?, AlignedBuffer::new(0)?];
    for case in cases() {
        if arguments.filter.as_ref().is_some_and(|f| !case.name.contains(f.as_str())) {
            continue;
        }
        for (size, shape) in ["DRAM", "L2"].into_iter().zip(&case.shapes) {
            let all: [(usize, &dyn Executor); 2] = [(1, &Inline), (cores, &pool)];
            let take = if size == "DRAM" && cores > 1 { 2 } else { 1 };
            for &(threads, executor) in &all[..take] {
                let row = measure(&case, size, shape, threads, executor, isa, &mut memory)?;
                if !arguments.json {
                    let (ours, memcpy, ratio) = (row.rate(row.ours), row.rate(row.memcpy), row.ratio());
                    print(&format!(
                        "{:<30} {:>5} {:>7} {ours:>9.1} {memcpy:>9.1} {ratio:>6.2}\n",
                        row.name, row.size, row.threads
                    ))?;
                }
                rows.push(row);
            }
        }
    }
    if arguments.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|r| {
                json!({"case": r.name, "size": r.size, "threads": r.threads, "bytes": r.bytes,
                    "gb_per_s": r.rate(r.ours), "memcpy_gb_per_s": r.rate(r.memcpy), "ratio": r.ratio()})
            })
            .collect();
        print(&format!(
            "{:#}\n",
            json!({"cpu": cpu(), "isa": isa.name(), "page_bytes": 2 << 20, "rows": rows})
        ))?;
    }
    Ok(())
}

fn measure(
    case: &Case,
    size: &'static str,
    shape: &[u64],
    threads: usize,
    executor: &dyn Executor,
    isa: Isa,
    [source, destination]: &mut [AlignedBuffer; 2],
) -> Result<Row> {
    let tensor = Tensor { shape: shape.to_vec(), dtype: case.dtype };
    let mesh: Option<Mapper> = case.mesh.map(str::parse).transpose()?;
    let from = layout(&case.from, &tensor, None)?;
    let to = match &mesh {
        Some(mesh) => layout(&case.to, &tensor, Some(mesh))?,
        None => layout(&case.to, &tensor, None)?,
    };
    let options = Options { isa: Some(isa), ..Options::default() };
    let plan = Plan::compile(&from, &to, &options)?;
    source.resize(plan.source_bytes())?;
    destination.resize(plan.destination_bytes().max(plan.source_bytes()))?;
    fill(source, &from);
    let bytes =
        plan.source_bytes().max(if case.from.starts_with("ttnn") { plan.destination_bytes() } else { 0 });
    // memcpy reads and writes as many bytes as the rate counts.
    let copied = bytes.min(source.len().max(destination.len()));
    let mut other = AlignedBuffer::new(copied)?;
    other.fill(1);

    let out = plan.destination_bytes();
    let mut ours = Duration::MAX;
    let mut memcpy = Duration::MAX;
    let begun = Instant::now();
    let mut turns = 0;
    let batch = if size == "L2" { 64 } else { 1 };
    while turns < 3 || begun.elapsed() < 2 * BUDGET {
        let start = Instant::now();
        for _ in 0..batch {
            plan.run_on(executor, source, &mut destination[..out])?;
        }
        ours = ours.min(start.elapsed() / batch);
        let start = Instant::now();
        for _ in 0..batch {
            copy(
                executor,
                threads,
                if copied <= source.len() { &source[..copied] } else { &destination[..copied] },
                &mut other,
            );
        }
        memcpy = memcpy.min(start.elapsed() / batch);
        turns += 1;
    }
    if size == "L2" {
        let expect = reference(&from, &to, &options, source)?;
        if expect != destination[..out] {
            return Err(
                crate::Error::Unverified { fact: "V1", what: format!("{}: wrong bytes", case.name) }.into()
            );
        }
    }
    Ok(Row { name: case.name, size, threads, bytes, ours, memcpy })
}

/// Finite numbers of mixed magnitude, in whatever the format is: no exponent of all ones.
fn fill(bytes: &mut [u8], _layout: &Layout) {
    let mut x = 0x2545_F491_4F6C_DD1D_u64;
    for chunk in bytes.chunks_exact_mut(8) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        // The exponents of two f32, four bf16 or four f16 stay near that of 1.
        chunk.copy_from_slice(&((x & 0x83FF_83FF_83FF_83FF) | 0x3C00_3C00_3C00_3C00).to_le_bytes());
    }
}

/// memcpy by as many threads.
fn copy(executor: &dyn Executor, threads: usize, from: &[u8], to: &mut [u8]) {
    if threads == 1 {
        to.copy_from_slice(from);
        return;
    }
    let part = from.len().div_ceil(threads * 4).next_multiple_of(4096);
    let parts: Vec<std::sync::Mutex<(&[u8], &mut [u8])>> =
        from.chunks(part).zip(to.chunks_mut(part)).map(std::sync::Mutex::new).collect();
    executor.run(parts.len(), &|i| {
        if let Ok(mut part) = parts[i].lock() {
            let (from, to) = &mut *part;
            to.copy_from_slice(from);
        }
    });
}

/// What the system calls the processor.
fn cpu() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|l| l.strip_prefix("model name")).and_then(|l| l.split(':').nth(1));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |n| n.trim().to_owned())
}
