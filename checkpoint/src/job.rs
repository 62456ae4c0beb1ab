//! What packing will do, all of it known and checked before a byte is written: one [`Job`] for each file to be made.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use tilewright::dtype::BlockFormat;
use tilewright::family::host::panels::Panels;
use tilewright::family::host::strided::{Memref, row_major};
use tilewright::family::tenstorrent::mesh::{Mapper, Uneven};
use tilewright::family::tenstorrent::ttnn::{PageLayout, Ttnn};
use tilewright::{DType, Descriptor, Error, Format, Layout, Options, Placement, Plan, Result, Tensor};
use tilewright_files::tensorbin::TensorBin;

use crate::array::{self, Array};
use crate::model::Model;
use crate::rules::{Output, Rules};

/// The longest name of a file, in bytes, on the file systems in use.
const MAX_FILE_NAME: usize = 255;

/// What is packed, and for whom. Two runs with equal requests, models and rules make the same files.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// How numbers are rounded.
    pub options: Options,
    /// Only the shards of these devices, counted row-major over the mesh; all of them without.
    pub devices: Option<Range<u64>>,
    /// Which share of the files, of how many, both counted by the bytes of their sources; all of them without.
    pub share: Option<Share>,
}

/// One of several equal parts of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Which one, from 0.
    pub rank: u64,
    /// Of how many.
    pub world: u64,
}

/// The conversion from the elements of an array to the buffers of a file. Tensors of one shape under one rule share it.
#[derive(Debug)]
pub struct Conversion {
    /// The layout of the array, whose dimensions a rule may exchange.
    pub source: Layout,
    /// The layout of the buffers.
    pub destination: Layout,
    /// How one becomes the other.
    pub plan: Plan,
    /// The file.
    pub container: Container,
    /// The text of the layout.
    pub text: String,
    /// What the text has and nobody understands.
    pub warnings: Vec<String>,
}

/// What a file holds beside the buffers of the layout, and where it holds them.
#[derive(Debug, Clone)]
pub struct Container {
    /// What comes first.
    pub head: Vec<u8>,
    /// The bytes of the file that hold each buffer, in ascending order; `None` for those of other devices.
    pub places: Vec<Option<Range<u64>>>,
    /// The length of the file.
    pub bytes: u64,
    /// What comes behind the name of the tensor in the name of the file.
    suffix: String,
}

/// One file to be made.
#[derive(Clone)]
pub struct Job {
    /// The name of the tensor.
    pub name: String,
    /// The name of the file, inside of the directory.
    pub file: String,
    /// Which rule made it, from 0.
    pub rule: usize,
    /// How the tensor is handed out to a mesh of devices.
    pub mesh: Option<String>,
    /// Shape and element type, after any transposition.
    pub tensor: Tensor,
    /// Whether the last two dimensions of the array have changed places.
    pub transposed: bool,
    /// The elements, before any transposition.
    pub array: Arc<dyn Array>,
    /// The names of the tensors of the model that it is made from.
    pub sources: Vec<String>,
    /// What is done.
    pub conversion: Arc<Conversion>,
}

/// Conversions from panels, by that from the whole and the width of a panel.
pub(crate) type InPanels = HashMap<(*const Conversion, u64), Arc<Conversion>>;

/// What two tensors have in common that share a conversion.
type Key = (Vec<u64>, DType, String, Option<String>, bool);

/// Every file that rules make of a model, in the order of the model's files.
///
/// # Errors
/// Those of [`Rules::apply`]; [`Error::Value`] that names the tensor, where its layout does not fit it, cannot be
/// planned, or a file cannot hold it or be named after it.
pub fn jobs(model: &Model, rules: &Rules, request: &Request) -> Result<Vec<Job>> {
    let mut known = HashMap::new();
    let mut jobs = Vec::new();
    for output in rules.apply(model)? {
        let name = output.name.clone();
        jobs.push(job(output, rules, request, &mut known).map_err(|e| about(&name, e))?);
    }
    match request.share {
        Some(share) => share.of(jobs),
        None => Ok(jobs),
    }
}

fn job(
    output: Output,
    rules: &Rules,
    request: &Request,
    known: &mut HashMap<Key, Arc<Conversion>>,
) -> Result<Job> {
    let Output { name, rule: number, array, sources, .. } = output;
    let rule = rules.rule(number);
    let mut tensor = array.tensor().clone();
    if rule.transpose {
        let n = tensor.shape.len();
        if n < 2 {
            return Err(Error::value("transposition", format!("{n} dimensions"), "two or more"));
        }
        tensor.shape.swap(n - 2, n - 1);
    }
    let mapper: Option<Mapper> = rule.mesh.as_deref().map(str::parse).transpose()?;
    let part = match &mapper {
        Some(mapper) => mapper.part(&tensor, Uneven::Refuse)?,
        None => tensor.clone(),
    };
    let text = rule.layout_of(&part);
    let key = (tensor.shape.clone(), tensor.dtype, text, rule.mesh.clone(), rule.transpose);
    let conversion = match known.get(&key) {
        Some(conversion) => Arc::clone(conversion),
        None => {
            let made = Conversion::new(&tensor, rule.transpose, &key.2, mapper.as_ref(), request);
            let made = Arc::new(made.map_err(|e| in_text(&key.2, e))?);
            known.insert(key, Arc::clone(&made));
            made
        }
    };
    let file = file_name(&name, &conversion.container.suffix)?;
    let (mesh, transposed) = (rule.mesh.clone(), rule.transpose);
    Ok(Job { name, file, rule: number, mesh, tensor, transposed, array, sources, conversion })
}

impl Conversion {
    fn new(
        tensor: &Tensor,
        transposed: bool,
        text: &str,
        mesh: Option<&Mapper>,
        request: &Request,
    ) -> Result<Conversion> {
        let parsed = tilewright::text::parse(text)?;
        let (container, destination) = match &parsed.descriptor {
            Descriptor::Ttnn(ttnn) => tensor_file(tensor, ttnn, mesh, request.devices.clone())?,
            other => {
                if mesh.is_some() && request.devices.is_some() {
                    let needed = "a ttnn(..) layout, as only a .tensorbin file says which part it holds";
                    return Err(Error::value("layout of a part of the devices", other, needed));
                }
                raw(&other.layout(tensor, &Placement { mesh, ..Placement::default() })?)
            }
        };
        let array = match transposed {
            true => exchanged(tensor),
            false => Memref::of(tensor),
        };
        let source = Descriptor::from(array).layout(tensor, &Placement::default())?;
        let plan = Plan::compile(&source, &destination, &request.options)?;
        let (text, warnings) = (parsed.descriptor.to_string(), parsed.warnings);
        Ok(Conversion { source, destination, plan, container, text, warnings })
    }
}

/// A dense array whose last two dimensions lie the other way round in memory.
fn exchanged(tensor: &Tensor) -> Memref {
    let n = tensor.shape.len();
    let mut stored = tensor.shape.clone();
    stored.swap(n - 2, n - 1);
    let mut strides = row_major(&stored);
    strides.swap(n - 2, n - 1);
    Memref::of(tensor).with_strides(strides)
}

/// A `.tensorbin` file, named as `ttnn.as_tensor` names what it keeps.
fn tensor_file(
    tensor: &Tensor,
    ttnn: &Ttnn,
    mesh: Option<&Mapper>,
    devices: Option<Range<u64>>,
) -> Result<(Container, Layout)> {
    let mut file = TensorBin::new(tensor, ttnn, mesh)?;
    // What is on one device only is in the part of whoever asks.
    if let (Some(devices), Some(_)) = (devices, mesh) {
        file.keep(devices)?;
    }
    let whole = file.whole(ttnn.pad_value.map(|value| value.get()))?;
    let page = match ttnn.layout {
        PageLayout::RowMajor => "ROW_MAJOR",
        PageLayout::Tile { .. } => "TILE",
    };
    let suffix = format!("_dtype_{}_layout_{page}.tensorbin", dtype_name(ttnn.dtype));
    let bytes = whole.parts.iter().flatten().map(|place| place.end).max().unwrap_or(file.payload);
    let container = Container { head: file.head(), places: whole.parts, bytes, suffix };
    Ok((container, whole.layout))
}

/// All buffers one after another.
fn raw(layout: &Layout) -> (Container, Layout) {
    let size = layout.buffer_bytes();
    let places = (0..layout.buffers()).map(|i| Some(i * size..(i + 1) * size)).collect();
    let bytes = layout.total_bytes();
    (Container { head: Vec::new(), places, bytes, suffix: ".bin".to_owned() }, layout.clone())
}

/// What `ttnn.DataType` calls a format.
fn dtype_name(format: Format) -> String {
    let known = match format {
        Format::Plain(DType::Bf16) => "BFLOAT16",
        Format::Plain(DType::F32) => "FLOAT32",
        Format::Plain(DType::U32) => "UINT32",
        Format::Plain(DType::U16) => "UINT16",
        Format::Plain(DType::U8) => "UINT8",
        Format::Plain(DType::I32) => "INT32",
        Format::Plain(DType::I8) => "INT8",
        Format::Block(BlockFormat::Bfp8B) => "BFLOAT8_B",
        Format::Block(BlockFormat::Bfp4B) => "BFLOAT4_B",
        other => return other.to_string().to_uppercase(),
    };
    known.to_owned()
}

/// The name of a file that holds a tensor. Characters that mean something in a path are written as `%2F`.
fn file_name(tensor: &str, suffix: &str) -> Result<String> {
    let mut name = String::with_capacity(tensor.len() + suffix.len());
    for (i, c) in tensor.chars().enumerate() {
        if matches!(c, '/' | '\\' | ':' | '%') || c.is_control() || (c == '.' && i == 0) {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().for_each(|b| name += &format!("%{b:02X}"));
        } else {
            name.push(c);
        }
    }
    name += suffix;
    if name.len() > MAX_FILE_NAME {
        return Err(Error::value("bytes of a file name", name.len(), format!("at most {MAX_FILE_NAME}")));
    }
    Ok(name)
}

/// An error of one tensor, with its name.
fn about(name: &str, error: Error) -> Error {
    match error {
        Error::Io { .. } => error,
        Error::Value { what, given, needed } => Error::value(format!("`{name}`: {what}"), given, needed),
        other => Error::value(format!("`{name}`"), "what its rule says", other.to_string()),
    }
}

/// An error of a layout, with its text.
fn in_text(text: &str, error: Error) -> Error {
    match error {
        Error::Io { .. } | Error::Value { .. } => error,
        other => Error::value("layout", text, format!("one that fits ({other})")),
    }
}

impl Share {
    /// The jobs of this share: a run of them, so that shares one after another are all jobs in order.
    ///
    /// # Errors
    /// [`Error::Value`] where there is no such share.
    fn of(self, jobs: Vec<Job>) -> Result<Vec<Job>> {
        let Share { rank, world } = self;
        if rank >= world {
            return Err(Error::value("rank", rank, format!("less than the world, {world}")));
        }
        let total: u128 = jobs.iter().map(|job| u128::from(job.source_bytes())).sum();
        let mut before = 0;
        let mine = |job: &Job| {
            let middle = 2 * before + u128::from(job.source_bytes());
            before += u128::from(job.source_bytes());
            middle * u128::from(world) / (2 * total).max(1) == u128::from(rank)
        };
        // A model of empty tensors is the first one's.
        Ok(jobs.into_iter().filter(mine).collect())
    }
}

impl Job {
    /// Bytes of the array, decoded.
    pub fn source_bytes(&self) -> u64 {
        self.conversion.plan.source_bytes() as u64
    }

    /// Columns of the stored array; 1 where it has no rows and columns.
    pub(crate) fn columns(&self) -> u64 {
        match self.array.tensor().shape.as_slice() {
            [.., _, columns] => *columns,
            _ => 1,
        }
    }

    /// The same file of the same elements, which are read in panels of so many columns: what is made of a few columns of
    /// all rows needs a panel then, and no longer everything. `known` holds the conversions that were made before.
    ///
    /// # Errors
    /// Where the array has no rows and columns, or nothing can be planned from panels.
    pub(crate) fn in_panels(&self, width: u64, options: &Options, known: &mut InPanels) -> Result<Job> {
        let array: Arc<dyn Array> = Arc::new(array::Panels::new(Arc::clone(&self.array), width)?);
        let key = (Arc::as_ptr(&self.conversion), width);
        let conversion = match known.get(&key) {
            Some(conversion) => Arc::clone(conversion),
            None => {
                let n = self.tensor.shape.len();
                let dim = if self.transposed { n - 2 } else { n - 1 };
                let source = Panels { dim, width }.layout(&self.tensor)?;
                let old = &*self.conversion;
                let destination = old.destination.clone();
                let plan = Plan::compile(&source, &destination, options)?;
                let (container, text) = (old.container.clone(), old.text.clone());
                let warnings = old.warnings.clone();
                let new = Arc::new(Conversion { source, destination, plan, container, text, warnings });
                known.insert(key, Arc::clone(&new));
                new
            }
        };
        Ok(Job { array, conversion, ..self.clone() })
    }

    /// The share of the elements of the file that are padding, 0 to 1.
    pub fn waste(&self) -> f64 {
        let padding = self.conversion.destination.padding_elements() as f64;
        let elements = self.tensor.shape.iter().product::<u64>() as f64;
        let copies = self.conversion.destination.copies() as f64;
        if padding == 0.0 { 0.0 } else { padding / (padding + elements * copies) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        assert_eq!(file_name("a.b", ".bin").unwrap(), "a.b.bin");
        assert_eq!(file_name("../a/b%", ".bin").unwrap(), "%2E.%2Fa%2Fb%25.bin");
        assert!(file_name(&"a".repeat(252), ".bin").is_err());
    }

    #[test]
    fn names_of_dtypes_are_those_of_the_runtime() {
        assert_eq!(dtype_name(Format::Block(BlockFormat::Bfp8B)), "BFLOAT8_B");
        assert_eq!(dtype_name(Format::Plain(DType::Bf16)), "BFLOAT16");
    }
}
