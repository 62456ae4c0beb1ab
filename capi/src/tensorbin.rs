//! TTNN's tensor files behind the C face.

use std::ffi::c_void;
use std::path::Path;

use tilewright::family::{Descriptor, MAX_RANK, Tensor};
use tilewright::{Layout, Options, Plan};
use tilewright_files::Source;
use tilewright_files::tensorbin::{Payload, TensorBin, Writer};

use crate::border::{self, Extent, Failure, Out, OutStruct, Result, call, check_apart, slice, slice_out};
use crate::handle::{self, Opaque, inner};
use crate::request::{self, Described};
use crate::types::*;
use crate::{check_length, check_room, executor};

/// An opened tensor file: immutable, usable from any thread, made by tw_tensorbin_open and freed by tw_tensorbin_free.
pub struct tw_tensorbin(());

impl Opaque for tw_tensorbin {
    type Inner = Inner;
    const MARK: u64 = 0x7477_5f66_696c_6531;
    const NAME: &str = "file";
    const MAKER: &str = "tw_tensorbin_open";
}

/// A file, and where its payload is read from.
pub(crate) struct Inner {
    file: TensorBin,
    source: Source<'static>,
}

impl Inner {
    /// The tensor of one device, or all of it where the place has no numbers.
    fn payload(&self, device: &[u64]) -> Result<Payload> {
        if !device.is_empty() {
            return Ok(self.file.shard(device)?);
        }
        self.file.check_replicas(&self.source)?;
        Ok(self.file.whole(None)?)
    }
}

/// A path of the caller.
///
/// # Safety
/// As [`border::text`].
unsafe fn path<'a>(path: tw_string) -> Result<&'a Path> {
    // SAFETY: passed on.
    let path = unsafe { border::text(path, "path") }?;
    path.map(Path::new).ok_or_else(|| Failure::value("path", "no text", "the name of a file"))
}

/// Opens a .tensorbin file of TTNN and checks its header against its length. The new handle goes to `file`, which must
/// be freed by tw_tensorbin_free; NULL goes there on failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_tensorbin_open(
    path: tw_string,
    file: *mut *mut tw_tensorbin,
    message: *mut tw_text,
) -> tw_status {
    // SAFETY: pointers are as the header says.
    let body = || unsafe {
        let out = Out::new(file, "file")?;
        out.set(std::ptr::null_mut());
        let source = Source::open(self::path(path)?)?;
        let file = TensorBin::read(&source)?;
        out.set(handle::new(Inner { file, source }));
        Ok(())
    };
    // SAFETY: as above.
    unsafe { call(message, body) }
}

/// Closes a file that no call is using any more. NULL is allowed, and does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_tensorbin_free(file: *mut tw_tensorbin) -> tw_status {
    // SAFETY: pointers are as the header says, and there is no message.
    unsafe { call(std::ptr::null_mut(), || handle::free(file)) }
}

/// Writes what the header of a file says to `info`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_tensorbin_query(
    file: *const tw_tensorbin,
    info: *mut tw_tensorbin_info,
    message: *mut tw_text,
) -> tw_status {
    // SAFETY: pointers are as the header says.
    let body = || unsafe {
        let file = &inner(file)?.file;
        let whole = file.whole(None).and_then(|whole| whole.complete());
        OutStruct::new(info, "info")?.set(|struct_size| tw_tensorbin_info {
            struct_size,
            dtype: request::code(tilewright::Format::Plain(file.spec.dtype())),
            format: request::code(file.spec.format),
            complete: whole.is_ok().into(),
            rank: file.spec.shape.len() as u64,
            mesh_rank: file.mesh_shape.len() as u64,
            shards: file.shards.len() as u64,
            payload: file.payload,
        });
        Ok(())
    };
    // SAFETY: as above.
    unsafe { call(message, body) }
}

/// Writes the shape of a tensor to `shape`: of that on the device at `device`, a place of `device_rank` numbers in the
/// mesh, or with 0 of them of the whole tensor. TW_SHORT if `capacity` numbers are too few.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_tensorbin_shape(
    file: *const tw_tensorbin,
    device: *const u64,
    device_rank: usize,
    shape: *mut u64,
    capacity: usize,
    message: *mut tw_text,
) -> tw_status {
    // SAFETY: pointers are as the header says.
    let body = || unsafe {
        let file = &inner(file)?.file;
        let device = border::bounded(device, device_rank, MAX_RANK, "device")?;
        check_apart(&[
            Extent::new("device", device.as_ptr(), device.len()),
            Extent::new("shape", shape, capacity),
        ])?;
        let tensor = if device.is_empty() { file.whole(None)?.tensor } else { file.shard(device)?.tensor };
        let out = slice_out(shape, capacity, "shape")?;
        for (out, &n) in out.iter_mut().zip(&tensor.shape) {
            out.write(n);
        }
        check_room("shape", capacity, tensor.shape.len() as u64)
    };
    // SAFETY: as above.
    unsafe { call(message, body) }
}

/// Shard number `index` of a file: the place of its device in the mesh goes to `device`, and the bytes of the file that
/// hold it to `begin` and `length`. TW_SHORT if `capacity` numbers are too few for the place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_tensorbin_shard(
    file: *const tw_tensorbin,
    index: u64,
    device: *mut u64,
    capacity: usize,
    begin: *mut u64,
    length: *mut u64,
    message: *mut tw_text,
) -> tw_status {
    // SAFETY: pointers are as the header says.
    let body = || unsafe {
        let shards = &inner(file)?.file.shards;
        let shard = usize::try_from(index).ok().and_then(|index| shards.get(index));
        let shard =
            shard.ok_or_else(|| Failure::value("index", index, format!("less than {}", shards.len())))?;
        let (begin, length) = (Out::new(begin, "begin")?, Out::new(length, "length")?);
        check_apart(&[Extent::new("device", device, capacity), begin.extent(), length.extent()])?;
        let out = slice_out(device, capacity, "device")?;
        begin.set(shard.range.start);
        length.set(shard.range.end - shard.range.start);
        for (out, &i) in out.iter_mut().zip(&shard.coordinate) {
            out.write(i);
        }
        check_room("device", capacity, shard.coordinate.len() as u64)
    };
    // SAFETY: as above.
    unsafe { call(message, body) }
}

/// Reads a tensor into `destination`, all buffers of the layout one after another; with `layout` NULL it is a row-major
/// host array of the element type of tw_tensorbin_info. `device` is as for tw_tensorbin_shape: with 0 numbers a tensor on a mesh
/// is put together, which must be complete and have equal replicas. With `executor` NULL everything is done on the
/// calling thread. Memory for the bytes that are read is taken meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_tensorbin_read(
    file: *const tw_tensorbin,
    device: *const u64,
    device_rank: usize,
    layout: *const tw_layout,
    destination: *mut c_void,
    destination_length: usize,
    executor: *const tw_executor,
    message: *mut tw_text,
) -> tw_status {
    // SAFETY: pointers are as the header says.
    let body = || unsafe {
        let inner = inner(file)?;
        let device = border::bounded(device, device_rank, MAX_RANK, "device")?;
        check_apart(&[
            Extent::new("device", device.as_ptr(), device.len()),
            Extent::new("destination", destination.cast::<u8>(), destination_length),
        ])?;
        let payload = inner.payload(device)?;
        let (layout, _) = request::layout(layout, "layout", &payload.tensor, &mut Vec::new())?;
        let plan = Plan::compile(&payload.layout, &layout, &Options::default())?;
        check_length("destination", destination_length, plan.destination_bytes())?;
        let destination = slice_out(destination.cast::<u8>(), destination_length, "destination")?;
        let bytes = payload.bytes(&inner.source)?;
        executor::with(executor, |executor| plan.execute_uninit_on(executor, &bytes, destination).map(|_| ()))
    };
    // SAFETY: as above.
    unsafe { call(message, body) }
}

/// Writes a tensor as a .tensorbin file, which appears under its name when it is complete. The destination of the
/// request is the layout of what one device gets: TTNN's, as struct or text, with a mesh or without. Its memory
/// configuration is recorded, and does not change the bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_tensorbin_save(
    path: tw_string,
    request: *const tw_request,
    source: *const c_void,
    source_length: usize,
    executor: *const tw_executor,
    message: *mut tw_text,
) -> tw_status {
    // SAFETY: pointers are as the header says.
    let body = || unsafe {
        let path = self::path(path)?;
        let (tensor, from, to, options) = request::described_both(request)?;
        let (file, stored) = describe(&tensor, &to)?;
        let plan = Plan::compile(&from, &stored, &options)?;
        check_length("source", source_length, plan.source_bytes())?;
        let source = slice(source.cast::<u8>(), source_length, "source")?;
        let mut bytes = Vec::new();
        let room = bytes.try_reserve_exact(plan.destination_bytes());
        room.map_err(|_| Failure::new(TW_IO, format!("no memory for {} bytes", plan.destination_bytes())))?;
        let mut writer = Writer::create(path, &file)?;
        let room = &mut bytes.spare_capacity_mut()[..plan.destination_bytes()];
        executor::with(executor, |executor| {
            writer.write(plan.execute_uninit_on(executor, source, room)?)?;
            writer.commit()
        })
    };
    // SAFETY: as above.
    unsafe { call(message, body) }
}

/// The file of a tensor, and the layout of what it stores.
fn describe(tensor: &Tensor, to: &Described) -> Result<(TensorBin, Layout)> {
    let (Descriptor::Ttnn(ttnn), None) = (&to.descriptor, &to.device) else {
        return Err(Failure::value("destination", &to.descriptor, "a layout of TTNN, without a device"));
    };
    let file = TensorBin::new(tensor, ttnn, to.mesh.as_ref())?;
    let stored = file.whole(to.pad_value)?.layout;
    Ok((file, stored))
}
