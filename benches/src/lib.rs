//! The conversions that `tilewright bench` and the benches in `benches/` time, and what they time them beside.
#![forbid(unsafe_code)]

pub mod pairs;
mod roof;
mod turns;

use std::ops::{Deref, DerefMut};

use kernels::Isa;
use tilewright::family::Descriptor;
use tilewright::family::tenstorrent::mesh::Mapper;
use tilewright::family::{Placement, Tensor};
use tilewright::run::{AlignedBuffer, Executor, reference};
use tilewright::tuning::{Tuning, in_force};
use tilewright::{DType, Error, Layout, Options, Plan, Result};

pub use roof::{Roof, Shortest};
pub use turns::Turns;

/// One conversion of a tensor of two or three dimensions.
#[derive(Debug)]
pub struct Case {
    /// What it is called in tables.
    pub name: &'static str,
    dtype: DType,
    /// A shape of 128 MiB or more, which only memory holds.
    pub dram: Vec<u64>,
    /// A shape of 64 to 512 KiB, which a core's own cache holds.
    pub l2: Vec<u64>,
    /// Layout texts with words in capitals for what depends on the shape; see [`text`].
    from: String,
    to: String,
    mesh: Option<&'static str>,
    search: bool,
}

/// All of them.
pub fn cases() -> Vec<Case> {
    let dense = |dtype: DType| format!("memref<SHAPEx{}>", dtype.mlir_name());
    let columns = |dtype: DType| format!("memref<SHAPEx{}, strided<[1, ROWS]>>", dtype.mlir_name());
    let tile = |name: &str| format!("ttnn(dtype={name}, layout=TILE)");
    let case = |name, dtype, [dram, l2]: [&[u64]; 2], from: String, to: String| {
        let (dram, l2) = (dram.to_vec(), l2.to_vec());
        Case { name, dtype, dram, l2, from, to, mesh: None, search: false }
    };
    let (f32_, bf16, f16) = (DType::F32, DType::Bf16, DType::F16);
    let two_bytes: [&[u64]; 2] = [&[8192, 16384], &[256, 512]];
    let four_bytes: [&[u64]; 2] = [&[8192, 8192], &[256, 256]];
    let stick: [&[u64]; 2] = [&[8, 4096, 4096], &[2, 128, 512]];
    // What torch-spyre makes of binary16, and the same move without a conversion.
    let sticks =
        "SpyreTensorLayout(device_size=[STICKS], dim_map=[1, 2, 0, 2], device_dtype=DataFormats.SEN169_FP16)";
    let plain =
        "SpyreTensorLayout(device_size=[STICKS], dim_map=[1, 2, 0, 2], device_dtype=DataFormats.IEEE_FP16)";
    let cores =
        "metal(shape=(DIMS), collapse=[], grid=(8, 8), tile=(32, 32), dtype=bf16, oob=undef, memory=l1)";
    let mut all = vec![
        case("tilize bf16", bf16, two_bytes, dense(bf16), tile("bfloat16")),
        case("tilize f32", f32_, four_bytes, dense(f32_), tile("float32")),
        case("untilize bf16", bf16, two_bytes, tile("bfloat16"), dense(bf16)),
        case("untilize f32", f32_, four_bytes, tile("float32"), dense(f32_)),
        case("stickify f16", f16, stick, dense(f16), sticks.into()),
        case("unstickify f16", f16, stick, sticks.into(), dense(f16)),
        case("stickify f16, plain copy", f16, stick, dense(f16), plain.into()),
        case("unstickify f16, plain copy", f16, stick, plain.into(), dense(f16)),
        case(
            "pad rows f32",
            f32_,
            [&[8192, 8190], &[256, 250]],
            dense(f32_),
            "memref<SHAPExf32, strided<[PITCH, 1]>>".into(),
        ),
        case("tilize bf16 onto 8x8 cores", bf16, two_bytes, dense(bf16), cores.into()),
        Case {
            mesh: Some("ShardTensor2dMesh(mesh_shape=(2, 4), dims=(0, 1))"),
            ..case("tilize bf16 onto a 2x4 mesh", bf16, two_bytes, dense(bf16), tile("bfloat16"))
        },
        case("f32 to bf16 tiles", f32_, four_bytes, dense(f32_), tile("bfloat16")),
        case("transpose 2-byte", bf16, two_bytes, dense(bf16), columns(bf16)),
        case("transpose 4-byte", f32_, four_bytes, dense(f32_), columns(f32_)),
        case("transpose 2-byte, ragged", bf16, [&[8191, 16387], &[251, 509]], dense(bf16), columns(bf16)),
        case("transpose 4-byte, ragged", f32_, [&[8191, 8195], &[251, 255]], dense(f32_), columns(f32_)),
        case(
            "restickify f16",
            f16,
            two_bytes,
            "SpyreTensorLayout((DIMS), torch.float16)".into(),
            "SpyreTensorLayout((DIMS), torch.float16, [1, 0])".into(),
        ),
        Case {
            search: true,
            ..case("f32 to bfp8 tiles, search", f32_, four_bytes, dense(f32_), tile("bfloat8_b"))
        },
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
        let shapes = if dtype == bf16 { two_bytes } else { four_bytes };
        all.push(case(name, dtype, shapes, dense(dtype), tile(format)));
    }
    for (name, format) in [
        ("bfp8 tiles to f32", "bfloat8_b"),
        ("bfp4 tiles to f32", "bfloat4_b"),
        ("mxfp8_e4m3 tiles to f32", "mxfp8_e4m3"),
        ("mxfp4 tiles to f32", "mxfp4"),
        ("mxint8 tiles to f32", "mxint8"),
    ] {
        all.push(case(name, f32_, four_bytes, tile(format), dense(f32_)));
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

impl Case {
    /// The case of this name.
    pub fn named(name: &str) -> Option<Case> {
        cases().into_iter().find(|case| case.name == name)
    }

    /// The case at a shape of as many dimensions as its own have, compiled by the profile in force.
    ///
    /// # Errors
    /// Where the shape does not suit it.
    pub fn at(&self, shape: &[u64], isa: Option<Isa>) -> Result<Job> {
        self.at_with(shape, isa, &in_force()?.tuning())
    }

    /// The same, compiled by these numbers.
    ///
    /// # Errors
    /// As [`Case::at`].
    pub fn at_with(&self, shape: &[u64], isa: Option<Isa>, tuning: &Tuning) -> Result<Job> {
        let tensor = Tensor { shape: shape.to_vec(), dtype: self.dtype };
        let mesh: Option<Mapper> = self.mesh.map(str::parse).transpose()?;
        let layout = |pattern: &str, mesh: Option<&Mapper>| -> Result<Layout> {
            let descriptor: Descriptor = text(pattern, shape).parse()?;
            descriptor.layout(&tensor, &Placement { mesh, ..Placement::default() })
        };
        let (from, to) = (layout(&self.from, None)?, layout(&self.to, mesh.as_ref())?);
        let options = Options::default().with_search(self.search).with_isa(isa);
        let plan = Plan::compile_with(&from, &to, &options, tuning)?;
        let unpacks = self.from.starts_with("ttnn");
        let bytes =
            if unpacks { plan.source_bytes().max(plan.destination_bytes()) } else { plan.source_bytes() };
        // What was never packed has exponents that are rare in packed tiles, and take longer.
        let packing = unpacks.then(|| Plan::compile(&to, &from, &options)).transpose()?;
        Ok(Job { name: self.name, from, to, plan, packing, bytes })
    }
}

/// A case ready to run.
#[derive(Debug)]
pub struct Job {
    name: &'static str,
    from: Layout,
    to: Layout,
    /// The conversion.
    pub plan: Plan,
    /// What makes the source of numbers, if it is made of others.
    packing: Option<Plan>,
    /// Bytes that rates count: the source's, or the destination's where it is the larger one by unpacking.
    pub bytes: usize,
}

/// Bytes that begin somewhere in a cache line.
#[derive(Debug)]
pub struct Bytes {
    buffer: AlignedBuffer,
    begin: usize,
}

impl Bytes {
    fn new(begin: usize) -> Result<Bytes> {
        Ok(Bytes { buffer: AlignedBuffer::new(0)?, begin })
    }

    fn resize(&mut self, bytes: usize) -> Result<()> {
        self.buffer.resize(self.begin + bytes)
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.begin..]
    }
}

impl DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.begin..]
    }
}

/// What jobs run on, kept from one to the next: first touch of fresh memory costs more than most of them.
#[derive(Debug)]
pub struct Memory {
    /// All buffers of the source.
    pub source: Bytes,
    /// All buffers of the destination.
    pub destination: Bytes,
    /// Where memcpy goes.
    copy: AlignedBuffer,
}

impl Memory {
    /// None yet. What jobs read and write will begin `offset` bytes behind a boundary of a page, and so of a cache line.
    ///
    /// # Errors
    /// As [`AlignedBuffer::new`].
    pub fn new(offset: usize) -> Result<Memory> {
        let bytes = || Bytes::new(offset);
        Ok(Memory { source: bytes()?, destination: bytes()?, copy: AlignedBuffer::new(0)? })
    }

    /// Makes room for a job, with numbers in its source.
    ///
    /// # Errors
    /// As [`AlignedBuffer::new`], and as [`Plan::execute`].
    pub fn prepare(&mut self, job: &Job) -> Result<()> {
        self.source.resize(job.plan.source_bytes())?;
        self.destination.resize(job.plan.destination_bytes())?;
        self.copy.resize(job.bytes)?;
        match &job.packing {
            None => numbers(&mut self.source),
            Some(packing) => {
                numbers(&mut self.destination);
                packing.execute(&self.destination, &mut self.source)?;
            }
        }
        // Pages of the system come with the first store.
        self.destination.fill(1);
        self.copy.fill(1);
        Ok(())
    }

    /// Goes each way of a roof, as [`Roof::turn`], between boundaries of lines wherever jobs begin.
    ///
    /// # Errors
    /// As [`Plan::execute`].
    pub fn roof(
        &mut self,
        roof: &Roof,
        executor: &dyn Executor,
        batch: u32,
        shortest: &mut Shortest,
    ) -> Result<()> {
        roof.turn(executor, &self.source.buffer, &mut self.destination.buffer, batch, shortest)
    }

    /// Runs the job.
    ///
    /// # Errors
    /// As [`Plan::execute`].
    pub fn convert(&mut self, job: &Job, executor: &dyn Executor) -> Result<()> {
        job.plan.execute_on(executor, &self.source, &mut self.destination)
    }

    /// memcpy of as many bytes as the rate of the job counts, by as many threads.
    pub fn memcpy(&mut self, executor: &dyn Executor) {
        let len = self.copy.len();
        let larger = if self.source.len() < len { &self.destination } else { &self.source };
        copy(executor, &larger[..len], &mut self.copy);
    }

    /// Runs the job once and compares every byte with the reference, which takes its time: some 100 ns an element.
    ///
    /// # Errors
    /// [`Error::Unverified`] where a byte differs.
    pub fn check(&mut self, job: &Job, executor: &dyn Executor) -> Result<()> {
        self.destination.fill(0xA5);
        self.convert(job, executor)?;
        let expected = reference(&job.from, &job.to, job.plan.options(), &self.source)?;
        if *expected != *self.destination {
            return Err(Error::Unverified { fact: "V1", what: format!("{}: wrong bytes", job.name) });
        }
        Ok(())
    }
}

/// Finite numbers of mixed magnitude, in whatever the format is: no exponent of all ones.
pub fn numbers(bytes: &mut [u8]) {
    let mut x = 0x2545_F491_4F6C_DD1D_u64;
    for chunk in bytes.chunks_exact_mut(8) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        // The exponents of two f32, four bf16 or four f16 stay near that of 1; no byte is a NaN of 8 bits.
        chunk.copy_from_slice(&((x & 0x83BF_83BF_83BF_83BF) | 0x3C00_3C00_3C00_3C00).to_le_bytes());
    }
}

/// memcpy by all threads of an executor.
fn copy(executor: &dyn Executor, from: &[u8], to: &mut [u8]) {
    if executor.threads() == 1 {
        to.copy_from_slice(from);
        return;
    }
    let part = from.len().div_ceil(executor.threads() * 4).next_multiple_of(4096);
    let parts: Vec<std::sync::Mutex<(&[u8], &mut [u8])>> =
        from.chunks(part).zip(to.chunks_mut(part)).map(std::sync::Mutex::new).collect();
    executor.run(parts.len(), &|i| {
        if let Ok(mut part) = parts[i].lock() {
            let (from, to) = &mut *part;
            to.copy_from_slice(from);
        }
    });
}
