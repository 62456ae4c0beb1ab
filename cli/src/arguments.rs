//! What may be typed.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use tilewright::DType;
use tilewright::family::Tensor;
use tilewright::text::MAX_TEXT;

use super::failure::{Failure, Result};
use super::mlir;

/// Moves tensors between host memory and accelerator memory layouts.
///
/// Layout texts are those of tt-mlir, TTNN, torch-spyre and MLIR memrefs. A text may be given as @FILE,
/// or as @FILE.mlir#NAME where an MLIR file gives it a name.
/// TILEWRIGHT_ISA=scalar|base|v3|v4 forces an instruction set level.
#[derive(Parser)]
#[command(name = "tilewright", arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Print the version and the instruction set level in use
    #[arg(short = 'V', long)]
    pub(crate) version: bool,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Convert one tensor into a layout
    Convert(ConvertArgs),
    /// Say what a layout looks like and how it would be filled
    Explain(ExplainArgs),
    /// Say where an element lies, or what lies at a byte
    Locate(LocateArgs),
    /// Draw a layout, as a page or an image
    Draw(DrawArgs),
    /// Turn a mesh mapper into TT-Mesh's ShardedBufferConfig
    Lower(LowerArgs),
    /// List every layout in the IR of a compiler
    Scan(ScanArgs),
    /// Pack a whole checkpoint into files of accelerator layouts
    Pack(PackArgs),
    /// List the tensors of a checkpoint
    List(ListArgs),
    /// Compare a packed directory with its manifest
    Verify(VerifyArgs),
    /// Say what a packed directory, a .tensorbin file or a checkpoint holds
    Inspect(ListArgs),
    /// Say how one packed directory differs from another
    Diff(DiffArgs),
    /// Measure conversions against memcpy on this machine
    Bench(BenchArgs),
    /// Measure which numbers of the scheduler suit this machine, and keep them
    Tune(TuneArgs),
    /// Print what a shell needs to complete arguments
    Completions(CompletionsArgs),
    /// Write manual pages, one for each command
    Man(ManArgs),
}

#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// Whose completions
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args)]
pub(crate) struct ManArgs {
    /// Where to put them; the folder is made if it is not there
    pub(crate) directory: PathBuf,
}

#[derive(Args)]
pub(crate) struct PackArgs {
    /// A .safetensors, .gguf or .npy file, a .safetensors.index.json, or a folder of them
    pub(crate) model: PathBuf,
    /// What each tensor becomes: a file of [[rule]] tables in TOML, or a ready-made set, ttnn-bfp8 or spyre
    #[arg(long, value_name = "RULES")]
    pub(crate) rules: String,
    /// Directory for the files; with --dry-run it is not needed
    #[arg(short, long, value_name = "DIR", required_unless_present = "dry_run")]
    pub(crate) out: Option<PathBuf>,
    /// Say what would be made, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Keep files of an earlier run that are complete and not stale
    #[arg(long)]
    pub(crate) resume: bool,
    /// Read every file again and compare its hash
    #[arg(long)]
    pub(crate) verify: bool,
    /// Memory for buffers, e.g. 512M; what cannot fit is refused
    #[arg(long, value_name = "BYTES", default_value = "8G", value_parser = bytes)]
    pub(crate) max_memory: u64,
    /// Threads that convert [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Of tensors on a mesh, only the shards of these devices, counted row-major, e.g. 0-3
    #[arg(long, value_name = "A-B", value_parser = devices)]
    pub(crate) only_devices: Option<(u64, u64)>,
    /// How block floats are rounded
    #[arg(long, value_enum, default_value_t)]
    pub(crate) rounding: Rounding,
    /// Let bfloat8_b and bfloat4_b take the lower exponent where that errs less
    #[arg(long)]
    pub(crate) search: bool,
    /// How SEN169_FP16 is encoded
    #[arg(long, value_enum, default_value_t)]
    pub(crate) codec: Codec,
    /// Put the nearest integer where one does not fit, instead of refusing it
    #[arg(long)]
    pub(crate) saturate: bool,
    /// Which share of the files this process makes, from 0
    #[arg(long, value_name = "R", requires = "world")]
    pub(crate) rank: Option<u64>,
    /// How many shares there are; all may go to one directory
    #[arg(long, value_name = "N", requires = "rank")]
    pub(crate) world: Option<u64>,
    /// Print what happens as JSON objects, one a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// What to look at
    pub(crate) path: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// A packed directory
    pub(crate) directory: PathBuf,
    /// Also make everything again with the scalar reference from the checkpoint [default: the one that was packed]
    #[arg(long, value_name = "MODEL", num_args = 0..=1, require_equals = true)]
    pub(crate) full: Option<Option<PathBuf>>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct DiffArgs {
    /// A packed directory
    pub(crate) a: PathBuf,
    /// Another one
    pub(crate) b: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A number of bytes: `512M`, `8GiB`, `1000000`. Units are powers of 1024.
fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].trim_start() {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return Err("needed a number with K, M, G or T behind it".to_owned()),
    };
    let number = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift));
    number.ok_or_else(|| "needed a number below 2^64 with K, M, G or T behind it".to_owned())
}

/// The first and the last of some devices: `0-3`, or `5`.
fn devices(text: &str) -> Result<(u64, u64), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let ends = first.trim().parse().ok().zip(last.trim().parse().ok());
    ends.filter(|(first, last)| first <= last && *last < u64::MAX)
        .ok_or_else(|| "needed the first device and the last, e.g. 0-3".to_owned())
}

#[derive(Args)]
pub(crate) struct ScanArgs {
    /// An .mlir file, or a folder of them
    pub(crate) path: PathBuf,
    /// Take the written memref as what is meant where a text contradicts itself
    #[arg(long)]
    pub(crate) lenient: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Also draw every layout into this directory, with an index.html, the most padding first
    #[arg(long, value_name = "DIR")]
    pub(crate) draw: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct BenchArgs {
    /// Only cases whose name contains this; pairs are called "bf16 -> bfp8 tiles"
    pub(crate) filter: Option<String>,
    /// Every pair of 18 layouts, and views as sources, on one thread, the slowest first
    #[arg(long)]
    pub(crate) pairs: bool,
    /// Side of the matrices of pairs, a multiple of 256; 512 takes seconds
    #[arg(long, value_name = "N", default_value = "2048", requires = "pairs")]
    pub(crate) size: u64,
    /// Tensors begin so many bytes behind a boundary of cache lines; large arrays of malloc and numpy do by 16
    #[arg(long, value_name = "BYTES", default_value = "0", conflicts_with = "pairs", value_parser = clap::value_parser!(u64).range(..4096))]
    pub(crate) offset: u64,
    /// By turns with the numbers of another profile, whose speed is printed beside: a built-in name, a file, or a text such as
    /// "direct_pair = 512; direct_runs = 4"; can be given several times
    #[arg(long, value_name = "PROFILE")]
    pub(crate) against: Vec<String>,
    /// Print an object for programs
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct TuneArgs {
    /// Where the profile goes, a file that TILEWRIGHT_PROFILE can name [default: the user's configuration folder, where every
    /// later run finds it]
    #[arg(short, long, value_name = "FILE", conflicts_with = "dry_run")]
    pub(crate) out: Option<PathBuf>,
    /// How long to measure, at most; what there is no time for stays as it is
    #[arg(long, value_name = "S", default_value = "25", value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) seconds: u64,
    /// Print what was found, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Args)]
pub(crate) struct ConvertArgs {
    /// A .npy, .safetensors or .tensorbin file, or raw bytes with --shape and --dtype; - for stdin (.npy, raw, or
    /// safetensors with --tensor); without it a small built-in tensor
    pub(crate) input: Option<PathBuf>,
    /// Write all buffers here, one after the other; a .npy name where the result is one dense host array, a .tensorbin
    /// name for a file of TTNN, - for stdout. A file that is there is replaced once the new one is complete
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Refuse to replace a file
    #[arg(long)]
    pub(crate) no_clobber: bool,
    /// Logical shape of a raw input, e.g. 2,3,4
    #[arg(long, value_name = "a,b,c")]
    pub(crate) shape: Option<String>,
    /// Element type of a raw input, or of a file whose format cannot name it (bf16 in .npy)
    #[arg(long, value_name = "D")]
    pub(crate) dtype: Option<String>,
    /// Which tensor of a .safetensors file
    #[arg(long, value_name = "NAME")]
    pub(crate) tensor: Option<String>,
    /// Which device's tensor of a .tensorbin file, by its place in the mesh [default: the whole tensor]
    #[arg(long, value_name = "a,b")]
    pub(crate) coordinate: Option<String>,
    /// Of a .tensorbin result, only the shards of these devices, counted row-major, e.g. 0..4
    #[arg(long, value_name = "A..B")]
    pub(crate) devices: Option<String>,
    /// Layout of a raw input [default: dense row-major]
    #[arg(long, value_name = "LAYOUT")]
    pub(crate) from: Option<String>,
    #[command(flatten)]
    pub(crate) layouts: LayoutArgs,
    /// What padding holds, encoded like data
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub(crate) pad_value: Option<f64>,
    #[command(flatten)]
    pub(crate) numbers: NumberArgs,
    /// Also run the scalar reference and compare every byte
    #[arg(long)]
    pub(crate) check: bool,
    /// Threads to use [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Print the summary as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How numbers that the destination does not have are replaced.
#[derive(Args, Clone, Copy, Default)]
pub(crate) struct NumberArgs {
    /// How block floats are rounded
    #[arg(long, value_enum, default_value_t)]
    pub(crate) rounding: Rounding,
    /// Let bfloat8_b and bfloat4_b take the lower exponent where that errs less
    #[arg(long)]
    pub(crate) search: bool,
    /// Decode block floats as ttnn's host code does, errors included, or as the device does
    #[arg(long, value_enum, value_name = "WHOSE", num_args = 0..=1, require_equals = true, default_missing_value = "host")]
    pub(crate) compat_unpack: Option<Compat>,
    /// How SEN169_FP16 is encoded
    #[arg(long, value_enum, default_value_t)]
    pub(crate) codec: Codec,
    /// Put the nearest integer where one does not fit, instead of refusing it
    #[arg(long)]
    pub(crate) saturate: bool,
}

#[derive(Args)]
pub(crate) struct ExplainArgs {
    /// A .tensorbin file to explain, instead of a layout
    #[arg(conflicts_with_all = ["TensorArgs", "LayoutArgs", "from"])]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tensor: TensorArgs,
    /// Layout of the source [default: dense row-major]
    #[arg(long, value_name = "LAYOUT")]
    pub(crate) from: Option<String>,
    #[command(flatten)]
    pub(crate) layouts: LayoutArgs,
    /// Also show the layout as a picture, in colour on a terminal
    #[arg(long, conflicts_with_all = ["json", "dci", "file"])]
    pub(crate) picture: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the copy from the host array as torch-spyre's DataConversionInfo, in JSON
    #[arg(long, conflicts_with = "json")]
    pub(crate) dci: bool,
}

#[derive(Args)]
pub(crate) struct LocateArgs {
    #[command(flatten)]
    pub(crate) tensor: TensorArgs,
    #[command(flatten)]
    pub(crate) layouts: LayoutArgs,
    #[command(flatten)]
    pub(crate) question: Question,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct DrawArgs {
    /// A .tensorbin file to draw, instead of a layout
    #[arg(conflicts_with_all = ["TensorArgs", "LayoutArgs", "from"])]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tensor: TensorArgs,
    #[command(flatten)]
    pub(crate) layouts: LayoutArgs,
    /// Another layout of the same tensor, drawn beside the first with what moves from this one to it
    #[arg(long, value_name = "LAYOUT")]
    pub(crate) from: Option<String>,
    /// Where the picture goes: .html or .svg
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Question {
    /// An element by its logical index, e.g. 1,1,6,100
    #[arg(long, value_name = "a,b,c")]
    pub(crate) index: Option<String>,
    /// A byte of a buffer, both counted from 0, e.g. 2:1088
    #[arg(long, value_name = "BUFFER:BYTE")]
    pub(crate) offset: Option<String>,
}

#[derive(Args)]
pub(crate) struct LowerArgs {
    #[command(flatten)]
    pub(crate) tensor: TensorArgs,
    /// The mesh mapper
    #[arg(long, value_name = "MAPPER")]
    pub(crate) mesh: String,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A tensor without its elements.
#[derive(Args)]
pub(crate) struct TensorArgs {
    /// Logical shape, e.g. 2,3,4 [default: what the layout text says of it]
    #[arg(long, value_name = "a,b,c")]
    shape: Option<String>,
    /// Logical element type [default: what the layout text says of it]
    #[arg(long, value_name = "D")]
    dtype: Option<String>,
}

impl TensorArgs {
    /// The tensor; what is left out is what the layout texts say of it, where there is no mesh.
    pub(crate) fn read(&self, layouts: Option<&LayoutArgs>, from: Option<&str>) -> Result<Tensor> {
        let shape = self.shape.as_deref().map(|text| numbers("--shape", text)).transpose()?;
        let dtype = self.dtype.as_deref().map(dtype).transpose()?;
        tensor(shape, dtype, layouts, from)?.ok_or_else(|| {
            let needed = "both, as no layout text says shape and element type of the tensor";
            Failure::usage("--shape and --dtype", "not both", needed)
        })
    }
}

/// The tensor of a shape and an element type; what is not given is what the text of the source says of it, or that of
/// the result, where there is no mesh. None where no text says it.
pub(crate) fn tensor(
    shape: Option<Vec<u64>>,
    dtype: Option<DType>,
    layouts: Option<&LayoutArgs>,
    from: Option<&str>,
) -> Result<Option<Tensor>> {
    if let (Some(shape), Some(dtype)) = (&shape, dtype) {
        return Ok(Some(Tensor { shape: shape.clone(), dtype }));
    }
    let to = layouts.filter(|l| l.mesh.is_none()).and_then(|l| l.to.as_deref());
    for argument in [from, to].into_iter().flatten() {
        if let Some(said) = tilewright::text::parse(&text(argument)?)?.descriptor.tensor() {
            let (shape, dtype) = (shape.unwrap_or(said.shape), dtype.unwrap_or(said.dtype));
            return Ok(Some(Tensor { shape, dtype }));
        }
    }
    Ok(None)
}

/// The texts that say where elements of the result lie.
#[derive(Args, Clone)]
pub(crate) struct LayoutArgs {
    /// Layout of the result, with --mesh of what one device gets [default with --mesh: dense row-major]
    #[arg(long, value_name = "LAYOUT")]
    pub(crate) to: Option<String>,
    /// A #tt.device that places the cores of the grid
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// A mesh mapper that hands the tensor out to devices
    #[arg(long, value_name = "MAPPER")]
    pub(crate) mesh: Option<String>,
    /// Take the written memref as what is meant where a text of tt-mlir contradicts itself
    #[arg(long)]
    pub(crate) lenient: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rounding {
    /// As ttnn's host packer: to nearest, ties to even
    #[default]
    Host,
    /// As the device's packer in a typecast: to 7 bits, ties away from zero, then cut
    Device,
    /// As the device's packer by default: first to 6 fraction bits, then as in a typecast
    DeviceOp,
    /// Cut
    Truncate,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compat {
    /// As ttnn's host code
    Host,
    /// As the device's unpacker
    Device,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Codec {
    /// The nearest value
    #[default]
    Nearest,
    /// With the quirks of deeptools
    Deeptools,
}

/// The text of an argument, read from a file where it begins with `@`; of `@FILE#NAME` what the MLIR file defines.
pub(crate) fn text(argument: &str) -> Result<String> {
    let Some(path) = argument.strip_prefix('@').map(Path::new) else { return Ok(argument.to_owned()) };
    if let Some(at) = argument.rfind(['#', '!'])
        && !path.exists()
    {
        return Ok(mlir::read(Path::new(&argument[1..at]))?.alias(&argument[at..])?);
    }
    Ok(tilewright_files::read_text(path, MAX_TEXT)?)
}

/// A shape or an index as it is typed, `2,3,4`, `2x3x4`, `(2, 3, 4)` or `[2, 3, 4]`; nothing at all is that of a scalar.
pub(crate) fn numbers(option: &str, text: &str) -> Result<Vec<u64>> {
    let wrong = || {
        let needed = "numbers from 0 to 2^63 - 1 with commas between them, e.g. 2,3,4";
        Failure::usage(option, format!("`{}`", beginning(text)), needed)
    };
    let inside = |open, close| text.trim().strip_prefix(open)?.strip_suffix(close);
    let list = match inside('(', ')').or_else(|| inside('[', ']')) {
        // Python has a comma behind the one extent of a shape.
        Some(list) => list.strip_suffix(',').filter(|list| !list.contains(',')).unwrap_or(list),
        None => text,
    };
    if list.trim().is_empty() {
        return Ok(Vec::new());
    }
    let between = if list.contains(',') { ',' } else { 'x' };
    let number =
        |part: &str| part.trim().parse::<i64>().ok().and_then(|n| u64::try_from(n).ok()).ok_or_else(wrong);
    list.split(between).map(number).collect()
}

/// How many threads an option asks for; as many as there are processors where it does not.
pub(crate) fn threads(asked: Option<u16>) -> usize {
    asked.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
}

/// As much of an argument as an error repeats.
pub(crate) fn beginning(text: &str) -> String {
    let mut shown: String = text.chars().take(40).collect();
    if shown.len() < text.len() {
        shown += "...";
    }
    shown
}

/// An element type by its name: `bf16`, or what torch, numpy and MLIR call it.
pub(crate) fn dtype(name: &str) -> Result<DType> {
    let plain = name.rsplit_once('.').map_or(name, |(_, plain)| plain);
    let found = DType::from_name(plain)
        .or_else(|| DType::from_mlir_name(plain))
        .or_else(|| ALIASES.iter().find(|alias| alias.0 == plain).map(|alias| alias.1));
    found.ok_or_else(|| {
        let names: Vec<&str> = DType::all().map(DType::name).collect();
        let meant = match VAGUE.iter().find(|vague| vague.0 == plain) {
            Some((_, meant)) => format!(" (did you mean {meant}?)"),
            None => String::new(),
        };
        let needed = format!("one of {}{meant}", names.join(", "));
        Failure::usage("--dtype", format!("`{}`", beginning(name)), needed)
    })
}

/// What torch and numpy call element types.
const ALIASES: [(&str, DType); 14] = [
    ("float64", DType::F64),
    ("float32", DType::F32),
    ("float16", DType::F16),
    ("bfloat16", DType::Bf16),
    ("float8_e4m3fn", DType::F8E4M3),
    ("float8_e5m2", DType::F8E5M2),
    ("int64", DType::I64),
    ("int32", DType::I32),
    ("int16", DType::I16),
    ("int8", DType::I8),
    ("uint64", DType::U64),
    ("uint32", DType::U32),
    ("uint16", DType::U16),
    ("uint8", DType::U8),
];

/// Names that mean different types to different people, and what most of them mean.
const VAGUE: [(&str, &str); 8] = [
    ("float", "f32"),
    ("double", "f64"),
    ("half", "f16"),
    ("int", "i32"),
    ("long", "i64"),
    ("fp32", "f32"),
    ("fp16", "f16"),
    ("fp64", "f64"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_and_devices() {
        assert_eq!((bytes("512M"), bytes("3 GiB"), bytes("7")), (Ok(512 << 20), Ok(3 << 30), Ok(7)));
        assert!(bytes("8X").is_err() && bytes("G").is_err() && bytes("99999999999T").is_err());
        assert_eq!((devices("0-3"), devices("5")), (Ok((0, 3)), Ok((5, 5))));
        assert!(devices("3-0").is_err() && devices("a").is_err());
    }

    #[test]
    fn element_types_have_the_names_that_people_use() {
        for (name, same) in [
            ("float32", DType::F32),
            ("torch.bfloat16", DType::Bf16),
            ("np.uint32", DType::U32),
            ("ui32", DType::U32),
            ("f8E4M3FN", DType::F8E4M3),
            ("i1", DType::Bool),
        ] {
            assert_eq!(dtype(name).unwrap(), same, "{name}");
        }
        assert!(dtype("float").unwrap_err().to_string().contains("did you mean f32?"));
        assert!(dtype("").is_err() && dtype("x.y").is_err());
    }

    #[test]
    fn shapes() {
        assert_eq!(numbers("--shape", "").unwrap(), [0_u64; 0]);
        assert_eq!(numbers("--shape", "2, 3,4").unwrap(), [2, 3, 4]);
        assert_eq!(numbers("--shape", "9223372036854775807").unwrap(), [i64::MAX as u64]);
        for same in ["2x3x4", "(2, 3, 4)", "[2,3,4]", " (2x3x4) "] {
            assert_eq!(numbers("--shape", same).unwrap(), [2, 3, 4], "{same}");
        }
        assert_eq!(numbers("--shape", "(64,)").unwrap(), [64]);
        assert_eq!(numbers("--shape", "()").unwrap(), [0_u64; 0]);
        for wrong in [
            ",",
            "2,",
            "2x",
            "x",
            "2x3,4",
            "(2,3",
            "(2,3,)x",
            "(2,,)",
            "-1",
            "9223372036854775808",
            "99999999999999999999999",
        ] {
            assert_eq!(numbers("--shape", wrong).unwrap_err().status(), 2, "{wrong}");
        }
    }
}
