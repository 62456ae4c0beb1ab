//! The tensor to convert: in a file, behind a pipe, or the built-in one. Only headers are read here.

use std::path::Path;
use std::sync::Arc;

use tilewright::family::Tensor;
use tilewright::stage::ReadAt;
use tilewright::{DType, Layout};
use tilewright_files::{Elements, Order, Source, byte_len, npy, safetensors};

use super::arguments::{self, ConvertArgs};
use super::failure::{Failure, Result};
use super::pipe::Pipe;
use super::tensorbin;

/// Shape of the built-in tensor: two tiles by three.
const BUILT_IN: [usize; 2] = [64, 96];

/// A tensor, and where its bytes are.
pub(crate) struct Input {
    /// What people call it.
    pub(crate) name: String,
    pub(crate) tensor: Tensor,
    /// The order of its elements, where nothing else says how they lie.
    pub(crate) order: Order,
    /// How they lie, where the file says it.
    pub(crate) stored: Option<Layout>,
    pub(crate) elements: Elements,
    /// Whether they can be read more than once.
    pub(crate) again: bool,
    /// stdin, of which the elements are all there is.
    pub(crate) pipe: Option<Arc<Pipe>>,
}

/// What is known of a tensor without its file.
struct Said {
    shape: Option<Vec<u64>>,
    dtype: Option<DType>,
}

impl Said {
    fn of(args: &ConvertArgs) -> Result<Said> {
        let shape = args.shape.as_deref().map(|text| arguments::numbers("--shape", text)).transpose()?;
        let dtype = args.dtype.as_deref().map(arguments::dtype).transpose()?;
        Ok(Said { shape, dtype })
    }

    /// The tensor of raw bytes.
    fn raw(self, name: &str, args: &ConvertArgs) -> Result<Tensor> {
        let tensor = arguments::tensor(self.shape, self.dtype, Some(&args.layouts), args.from.as_deref())?;
        tensor.ok_or_else(|| {
            let needed = "--shape and --dtype, as it is no .npy, .safetensors or .tensorbin";
            Failure::usage("input", name, needed)
        })
    }

    /// An error where a file holds something else, or says itself how it is laid out.
    fn check(self, name: &str, tensor: &Tensor, args: &ConvertArgs) -> Result<()> {
        if let Some(shape) = self.shape.filter(|shape| *shape != tensor.shape) {
            return Err(mismatch("--shape", &format!("{shape:?}"), &format!("{:?}", tensor.shape)));
        }
        if let Some(dtype) = self.dtype.filter(|dtype| *dtype != tensor.dtype) {
            return Err(mismatch("--dtype", dtype.name(), tensor.dtype.name()));
        }
        match args.from {
            None => Ok(()),
            Some(_) => {
                let needed = "a raw file: this one says itself how it is laid out";
                Err(Failure::usage("--from", name, needed))
            }
        }
    }
}

fn mismatch(option: &str, given: &str, stored: &str) -> Failure {
    Failure::usage(option, given, format!("{stored}, which is what the file holds"))
}

/// What the arguments ask for: a file, or stdin, where `-` is named. Bytes of raw data are not measured here: the layout
/// says how many there must be. With `again` the elements can be read more than once.
pub(crate) fn open(path: &Path, args: &ConvertArgs, again: bool) -> Result<Input> {
    let said = Said::of(args)?;
    if path.as_os_str() == "-" {
        return from_stdin(said, args, again);
    }
    let kind = path.extension().and_then(|e| e.to_str()).unwrap_or("");
    if args.tensor.is_some() && kind != "safetensors" {
        return Err(Failure::usage("--tensor", path.display(), "a .safetensors file"));
    }
    if args.coordinate.is_some() && kind != "tensorbin" {
        return Err(Failure::usage("--coordinate", path.display(), "a .tensorbin file"));
    }
    from_source(kind, Source::open(path)?, said, args)
}

/// A tensor of a file of a kind, which is the suffix of its name.
fn from_source(kind: &str, source: Source<'static>, said: Said, args: &ConvertArgs) -> Result<Input> {
    let (name, source) = (source.name().to_owned(), Arc::new(source));
    let elements = |parts| Elements::new(Arc::clone(&source) as Arc<dyn ReadAt + Send>, parts);
    let input = |tensor, order, stored, elements| Input {
        name: name.clone(),
        tensor,
        order,
        stored,
        elements,
        again: true,
        pipe: None,
    };
    let input = match kind {
        "npy" => {
            let found = npy::find(&source, said.dtype)?;
            input(found.tensor.clone(), found.order, None, npy_elements(Arc::clone(&source) as _, &found)?)
        }
        "safetensors" => {
            let (tensor, range) = safetensors::find(&source, args.tensor.as_deref())?;
            input(tensor, Order::RowMajor, None, elements(vec![range]))
        }
        "tensorbin" => {
            let (tensor, layout, parts) = tensorbin::find(&source, args.coordinate.as_deref())?;
            input(tensor, Order::RowMajor, Some(layout), elements(parts))
        }
        _ => {
            let all = 0..source.len();
            return Ok(input(said.raw(&name, args)?, Order::RowMajor, None, elements(vec![all])));
        }
    };
    said.check(&name, &input.tensor, args)?;
    Ok(input)
}

fn npy_elements(of: Arc<dyn ReadAt + Send>, found: &npy::Described) -> Result<Elements> {
    let Tensor { shape, dtype } = &found.tensor;
    let all = found.data..found.data + byte_len(shape, *dtype)?;
    let elements = Elements::new(of, vec![all]);
    Ok(if found.big_endian { elements.big_endian(dtype.size()) } else { elements })
}

/// A tensor behind a pipe: of numpy, where it begins so, else raw. What has to be read again is kept in memory.
fn from_stdin(said: Said, args: &ConvertArgs, again: bool) -> Result<Input> {
    if args.coordinate.is_some() {
        return Err(Failure::usage("--coordinate", "stdin", "a .tensorbin file"));
    }
    let pipe = Pipe::stdin();
    let head = pipe.head(npy::HEADER_CAP)?;
    let is_npy = head.starts_with(npy::MAGIC);
    if again || args.tensor.is_some() {
        let kind = match args.tensor {
            Some(_) => "safetensors",
            None if is_npy => "npy",
            None => "raw",
        };
        return from_source(kind, Source::from_vec("stdin", pipe.all()?), said, args);
    }
    let (name, pipe) = ("stdin".to_owned(), Arc::new(pipe));
    let of = Arc::clone(&pipe) as Arc<dyn ReadAt + Send>;
    if !is_npy {
        let all = 0..pipe.size();
        let elements = Elements::new(of, vec![all]);
        let (tensor, order) = (said.raw(&name, args)?, Order::RowMajor);
        return Ok(Input { name, tensor, order, stored: None, elements, again: false, pipe: Some(pipe) });
    }
    let found = npy::describe(&name, &head, said.dtype)?;
    said.check(&name, &found.tensor, args)?;
    let elements = npy_elements(of, &found)?;
    let (tensor, order) = (found.tensor, found.order);
    Ok(Input { name, tensor, order, stored: None, elements, again: false, pipe: None })
}

/// A ramp with a few values that conversions treat in a special way.
pub(crate) fn built_in(args: &ConvertArgs) -> Result<Input> {
    let options = [
        ("--shape", &args.shape),
        ("--dtype", &args.dtype),
        ("--tensor", &args.tensor),
        ("--from", &args.from),
        ("--coordinate", &args.coordinate),
    ];
    if let Some((option, _)) = options.iter().find(|option| option.1.is_some()) {
        return Err(Failure::usage(option, "no input", "a file that it describes"));
    }
    let [rows, cols] = BUILT_IN;
    let mut values: Vec<f32> = (0..rows * cols).map(|i| (i as f32 - 3072.0) / 256.0).collect();
    // Negative zero, a subnormal, the smallest and a large normal number, one in each of four rows.
    for (row, special) in [-0.0, 1e-40, f32::MIN_POSITIVE, 1e30].into_iter().enumerate() {
        values[row * cols + row] = special;
    }
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let (name, all) = ("a built-in ramp".to_owned(), 0..bytes.len() as u64);
    Ok(Input {
        tensor: Tensor { shape: vec![rows as u64, cols as u64], dtype: DType::F32 },
        order: Order::RowMajor,
        stored: None,
        elements: Elements::new(Arc::new(Source::from_vec(&name, bytes)), vec![all]),
        name,
        again: true,
        pipe: None,
    })
}
