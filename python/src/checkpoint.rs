//! Whole checkpoints: packed into files, or handed over tensor by tensor.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use tilewright::family::Tensor;
use tilewright::family::tenstorrent::mesh::{Mapper, Uneven};
use tilewright::stage::Cancel;
use tilewright::text::MAX_TEXT;
use tilewright::{DType, Result};
use tilewright_checkpoint::job::{Job, Request, Share};
use tilewright_checkpoint::model::Model;
use tilewright_checkpoint::pack::{Event, Packing, Run};
use tilewright_checkpoint::{rules, stream};

use crate::error::{exception, value};
use crate::layout::warn;
use crate::memory::Bytes;
use crate::plan::{HostArray, host_array, options};

/// How often a call that waits looks whether it was interrupted.
const STEP: Duration = Duration::from_millis(100);

/// Events that have happened and were not told yet; more than these make packing wait.
const UNTOLD: usize = 64;

/// Choices of numbers: rounding, search, codec, saturate.
type Numbers = (String, bool, String, bool);

/// Name, file, glob of the rule, layout, mesh, shape, element type, bytes of the file and of its elements.
type File = (String, String, String, String, Option<String>, Vec<u64>, &'static str, u64, u64);

/// Files made, their bytes, files kept, bytes of elements read, seconds, and all files.
type Report = (u64, u64, u64, u64, f64, Vec<File>);

/// Name, layout, mesh, shape and element type of a tensor; its buffers, the bytes of each, and what host array they are.
type Streamed =
    (String, String, Option<String>, Vec<u64>, &'static str, (u64, u64), Option<HostArray>, Py<Bytes>);

/// Rules: a ready-made set by its name, a text in TOML, or a file of one.
#[pyclass(frozen, module = "tilewright._tilewright")]
pub(crate) struct Rules(rules::Rules);

#[pymethods]
impl Rules {
    /// A text of several lines is rules; any other is the name of a ready-made set, or else of a file.
    #[new]
    fn new(py: Python<'_>, text: &str) -> PyResult<Rules> {
        let read = || match rules::Rules::ready_made(text) {
            Some(text) => rules::Rules::parse(text),
            None if text.contains('\n') => rules::Rules::parse(text),
            None => rules::Rules::parse(&tilewright_files::read_text(Path::new(text), MAX_TEXT)?),
        };
        py.detach(read).map(Rules).map_err(exception)
    }

    /// An error if a rule makes one tensor of several, or several of one.
    fn check_single(&self) -> PyResult<()> {
        match self.0.iter().find(|r| r.stack.is_some() || r.fuse.is_some() || !r.split.is_empty()) {
            Some(rule) => {
                let needed = "rules that see one tensor at a time: no stack, fuse or split";
                Err(value("rule", format!("`{}`", rule.name), needed))
            }
            None => Ok(()),
        }
    }

    /// What a tensor becomes: layout, mesh, and whether its last two dimensions change places before; None where it is
    /// left out.
    fn of(
        &self,
        name: &str,
        shape: Vec<u64>,
        dtype: &str,
    ) -> PyResult<Option<(String, Option<String>, bool)>> {
        let dtype = DType::from_name(dtype).ok_or_else(|| value("dtype", dtype, "an element type"))?;
        let mut tensor = Tensor { shape, dtype };
        let rank = tensor.shape.len();
        let rule = self.0.matching(name, rank).map(|i| self.0.rule(i));
        let rule = rule.ok_or_else(|| value("rules", format!("none for `{name}`"), "one that matches it"))?;
        if rule.skip {
            return Ok(None);
        }
        if rule.transpose && rank < 2 {
            return Err(value("transposition", format!("{rank} dimensions of `{name}`"), "two or more"));
        } else if rule.transpose {
            tensor.shape.swap(rank - 2, rank - 1);
        }
        let mapper: Option<Mapper> = rule.mesh.as_deref().map(str::parse).transpose().map_err(exception)?;
        let part = match mapper {
            Some(mapper) => mapper.part(&tensor, Uneven::Refuse).map_err(exception)?,
            None => tensor,
        };
        Ok(Some((rule.layout_of(&part), rule.mesh.clone(), rule.transpose)))
    }
}

fn request(
    share: Option<(u64, u64)>,
    devices: Option<(u64, u64)>,
    (rounding, search, codec, saturate): Numbers,
) -> PyResult<Request> {
    Ok(Request {
        options: options(&rounding, search, &codec, saturate)?,
        devices: devices.map(|(first, end)| first..end),
        share: share.map(|(rank, world)| Share { rank, world }),
    })
}

/// Packs a model into the directory `out`; without one only says what would be made. `progress` is called with bytes
/// written, bytes in all, and the name of a file that has just become complete, if any.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "named by the Python half, which says which are optional")]
pub(crate) fn pack(
    py: Python<'_>,
    model: PathBuf,
    rules: &Bound<'_, Rules>,
    out: Option<PathBuf>,
    max_memory: u64,
    resume: bool,
    share: Option<(u64, u64)>,
    devices: Option<(u64, u64)>,
    numbers: Numbers,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<Report> {
    let rules = &rules.get().0;
    let begin = Instant::now();
    let name = model.display().to_string();
    let model = py.detach(|| Model::open(&model)).map_err(exception)?;
    let request = request(share, devices, numbers)?;
    let prepare = || Packing::prepare(&model, &name, rules, request, max_memory);
    let packing = py.detach(prepare).map_err(exception)?;
    warn_of(py, packing.jobs())?;
    let files = packing.jobs().iter().map(|job| file(job, rules)).collect();
    let Some(out) = out else { return Ok((0, 0, 0, 0, 0.0, files)) };
    let cancel = Arc::new(Cancel::default());
    let work = |sender: SyncSender<Told>| {
        let listener = Arc::new(move |event: Event<'_>| {
            // Who has gone away has cancelled.
            let _ = sender.send(Told::of(event));
        });
        packing.run(&out, &Run { threads, resume, listener, cancel: Arc::clone(&cancel) })
    };
    let (mut written, mut total) = (0, 0);
    let tell = |told| {
        let mut complete = None;
        match told {
            Told::Begin(bytes) => total = bytes,
            Told::Wrote(bytes) => written += bytes,
            Told::Made(file) => complete = Some(file),
            Told::Other => return Ok(()),
        }
        let Some(progress) = &progress else { return Ok(()) };
        Python::attach(|py| progress.call1(py, (written, total, complete)).map(|_| ()))
    };
    let summary = py.detach(|| attended(&cancel, work, tell))?;
    let seconds = begin.elapsed().as_secs_f64();
    Ok((summary.made, summary.bytes, summary.kept, summary.read, seconds, files))
}

fn file(job: &Job, rules: &rules::Rules) -> File {
    (
        job.name.clone(),
        job.file.clone(),
        rules.rule(job.rule).name.clone(),
        job.conversion.text.clone(),
        job.mesh.clone(),
        job.tensor.shape.clone(),
        job.tensor.dtype.name(),
        job.conversion.container.bytes,
        job.source_bytes(),
    )
}

/// What layout texts have and nobody understands, once each.
fn warn_of(py: Python<'_>, jobs: &[Job]) -> PyResult<()> {
    let mut warnings: Vec<&String> = jobs.iter().flat_map(|job| &job.conversion.warnings).collect();
    warnings.sort();
    warnings.dedup();
    warnings.into_iter().try_for_each(|warning| warn(py, warning, 2))
}

/// What packing says, to whoever calls Python.
enum Told {
    Begin(u64),
    Wrote(u64),
    Made(String),
    Other,
}

impl Told {
    fn of(event: Event<'_>) -> Told {
        match event {
            Event::Begin { bytes, .. } => Told::Begin(bytes),
            Event::Wrote(bytes) => Told::Wrote(bytes),
            Event::Made(record) => Told::Made(record.file.clone()),
            _ => Told::Other,
        }
    }
}

/// Works on a thread of its own while this one, which is detached from the interpreter, tells what happens. An exception,
/// or an interruption, cancels the work and is raised when that has ended.
fn attended<T: Send>(
    cancel: &Cancel,
    work: impl FnOnce(SyncSender<Told>) -> Result<T> + Send,
    mut tell: impl FnMut(Told) -> PyResult<()>,
) -> PyResult<T> {
    let (sender, events) = sync_channel(UNTOLD);
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || work(sender));
        let mut failure = None;
        loop {
            let told = match events.recv_timeout(STEP) {
                Ok(told) if failure.is_none() => tell(told),
                Err(RecvTimeoutError::Disconnected) => break,
                _ => Ok(()),
            };
            if failure.is_none() {
                failure = told.and_then(|()| Python::attach(|py| py.check_signals())).err();
                if failure.is_some() {
                    cancel.cancel();
                }
            }
        }
        let outcome = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        failure.map_or_else(|| outcome.map_err(exception), Err)
    })
}

/// The tensors that rules make of a model, one after another.
#[pyclass(frozen, module = "tilewright._tilewright")]
pub(crate) struct Stream {
    jobs: Arc<Vec<Job>>,
    /// None once it is closed.
    inner: Mutex<Option<Taken>>,
}

/// A stream, and how many tensors were taken from it.
struct Taken {
    stream: stream::Stream,
    count: usize,
}

impl Stream {
    /// Does something with the stream, with nobody waiting for the interpreter meanwhile.
    fn with<T: Send>(&self, py: Python<'_>, body: impl FnOnce(&mut Option<Taken>) -> T + Send) -> T {
        py.detach(|| body(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[pymethods]
impl Stream {
    #[new]
    fn new(
        py: Python<'_>,
        model: PathBuf,
        rules: &Bound<'_, Rules>,
        memory: u64,
        devices: Option<(u64, u64)>,
        numbers: Numbers,
        threads: usize,
    ) -> PyResult<Stream> {
        let (rules, request) = (&rules.get().0, request(None, devices, numbers)?);
        let begin = || stream::Stream::begin(Model::open(&model)?, rules, &request, memory, threads);
        let stream = py.detach(begin).map_err(exception)?;
        warn_of(py, stream.jobs())?;
        let jobs = Arc::clone(stream.jobs());
        Ok(Stream { jobs, inner: Mutex::new(Some(Taken { stream, count: 0 })) })
    }

    fn __len__(&self) -> usize {
        self.jobs.len()
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Streamed>> {
        loop {
            let next = self.with(py, |taken| {
                let Some(Taken { stream, count }) = taken else { return Poll::Ready(None) };
                let next = stream.next_within(STEP);
                next.map_ok(|bytes| {
                    *count += 1;
                    (*count - 1, bytes)
                })
            });
            match next {
                Poll::Ready(None) => return Ok(None),
                Poll::Ready(Some(next)) => {
                    let (which, bytes) = next.map_err(exception)?;
                    return self.streamed(py, &self.jobs[which], bytes).map(Some);
                }
                Poll::Pending => py.check_signals()?,
            }
        }
    }

    /// Ends the work behind it; there are no more tensors then.
    fn close(&self, py: Python<'_>) {
        self.with(py, |taken| drop(taken.take()));
    }
}

impl Stream {
    fn streamed(&self, py: Python<'_>, job: &Job, bytes: Vec<u8>) -> PyResult<Streamed> {
        let layout = &job.conversion.destination;
        let buffer_bytes = layout.buffer_bytes();
        let buffers = job.conversion.container.places.iter().flatten().count() as u64;
        let descriptor = job.conversion.text.parse().map_err(exception)?;
        let whole = buffers == layout.buffers();
        let host = if whole { host_array(&descriptor, job.mesh.is_some(), layout) } else { None };
        Ok((
            job.name.clone(),
            job.conversion.text.clone(),
            job.mesh.clone(),
            job.tensor.shape.clone(),
            job.tensor.dtype.name(),
            (buffers, buffer_bytes),
            host,
            Py::new(py, Bytes::from(bytes))?,
        ))
    }
}
