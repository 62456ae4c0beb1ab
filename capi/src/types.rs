//! What crosses the border: numbers, views and structs, as C sees them.

use std::ffi::{c_char, c_void};

/// Version of the binary interface that this header describes. Libraries with another one are not compatible.
pub const TW_ABI_VERSION: u32 = 1;

/// The outcome of a call. Positive: the content of the arguments is wrong. Negative: the call itself is. Numbers never
/// change their meaning; later versions may return new ones.
pub type tw_status = i32;

/// Done.
pub const TW_OK: tw_status = 0;
/// A layout text does not parse, or says something impossible.
pub const TW_TEXT: tw_status = 1;
/// A value that is not allowed where it stands.
pub const TW_VALUE: tw_status = 2;
/// A declared shape is not the one that follows from the rest of the layout.
pub const TW_DERIVED: tw_status = 3;
/// A size or an address does not fit 63 bits.
pub const TW_OVERFLOW: tw_status = 4;
/// Two elements of the destination would lie on one place.
pub const TW_COLLISION: tw_status = 5;
/// The layouts break into more pieces than the limit allows.
pub const TW_TOO_COMPLEX: tw_status = 6;
/// There is no conversion between the element formats.
pub const TW_CONVERSION: tw_status = 7;
/// A value does not fit the integer type of the destination.
pub const TW_OUT_OF_RANGE: tw_status = 8;
/// A buffer has the wrong length.
pub const TW_LENGTH: tw_status = 9;
/// The instruction set level is not available on this machine.
pub const TW_ISA: tw_status = 10;
/// The plan was refused by its verifier: a defect of the library.
pub const TW_UNVERIFIED: tw_status = 11;
/// A file could not be read or written.
pub const TW_IO: tw_status = 12;
/// Staging was cancelled, ran out of time, or was let down by its sink.
pub const TW_STAGING: tw_status = 13;
/// A pointer is NULL that must not be.
pub const TW_NULL: tw_status = -1;
/// A pointer is not aligned for what it points to.
pub const TW_MISALIGNED: tw_status = -2;
/// A `struct_size` is less than the struct had in the first version, or a field that this library does not know is not zero.
pub const TW_STRUCT_SIZE: tw_status = -3;
/// What is written overlaps what is read.
pub const TW_OVERLAP: tw_status = -4;
/// An array or text of the caller is too short; what fits was written, and the length or count that is needed.
pub const TW_SHORT: tw_status = -5;
/// The executor failed, or did not run every task exactly once. The destination is undefined.
pub const TW_EXECUTOR: tw_status = -6;
/// The pointer is to something else than a plan, a file or a stager.
pub const TW_HANDLE: tw_status = -7;
/// A defect of the library, which it survived. What was to be written is undefined.
pub const TW_INTERNAL: tw_status = -8;

/// An element format: of tensors TW_F64 to TW_BOOL, of layouts any.
pub type tw_format = u32;

#[allow(missing_docs)]
mod formats {
    use super::tw_format;
    pub const TW_F64: tw_format = 1;
    pub const TW_F32: tw_format = 2;
    pub const TW_F16: tw_format = 3;
    pub const TW_BF16: tw_format = 4;
    pub const TW_F8E4M3: tw_format = 5;
    pub const TW_F8E5M2: tw_format = 6;
    pub const TW_I64: tw_format = 7;
    pub const TW_I32: tw_format = 8;
    pub const TW_I16: tw_format = 9;
    pub const TW_I8: tw_format = 10;
    pub const TW_U64: tw_format = 11;
    pub const TW_U32: tw_format = 12;
    pub const TW_U16: tw_format = 13;
    pub const TW_U8: tw_format = 14;
    pub const TW_BOOL: tw_format = 15;
    pub const TW_BFP8_B: tw_format = 64;
    pub const TW_BFP4_B: tw_format = 65;
    pub const TW_BFP2_B: tw_format = 66;
    pub const TW_BFP8_A: tw_format = 67;
    pub const TW_BFP4_A: tw_format = 68;
    pub const TW_BFP2_A: tw_format = 69;
    pub const TW_MXFP8_E4M3: tw_format = 70;
    pub const TW_MXFP8_E5M2: tw_format = 71;
    pub const TW_MXFP6_E3M2: tw_format = 72;
    pub const TW_MXFP6_E2M3: tw_format = 73;
    pub const TW_MXFP4: tw_format = 74;
    pub const TW_MXINT8: tw_format = 75;
    pub const TW_MXINT4: tw_format = 76;
    pub const TW_MXINT2: tw_format = 77;
}
pub use formats::*;

/// `tw_ttnn.page_layout`: a page is a row.
pub const TW_ROW_MAJOR: u32 = 0;
/// `tw_ttnn.page_layout`: a page is a tile.
pub const TW_TILE: u32 = 1;

/// `tw_ttnn.memory`: one buffer, as on the host.
pub const TW_SINGLE: u32 = 0;
/// `tw_ttnn.memory`: pages dealt to `banks` banks, each padded to `alignment` bytes.
pub const TW_INTERLEAVED: u32 = 1;
/// `tw_ttnn.memory`: full rows on the cores of `grid`.
pub const TW_HEIGHT_SHARDED: u32 = 2;
/// `tw_ttnn.memory`: full columns on the cores of `grid`.
pub const TW_WIDTH_SHARDED: u32 = 3;
/// `tw_ttnn.memory`: shard (i, j) on core (i, j) of `grid`.
pub const TW_BLOCK_SHARDED: u32 = 4;
/// `tw_ttnn.memory`: shards of any rank, dealt to the cores of `grid`.
pub const TW_ND_SHARDED: u32 = 5;

/// `tw_metal.fill`: padding is zero bytes.
pub const TW_FILL_UNDEF: u32 = 0;
/// `tw_metal.fill`: 0.
pub const TW_FILL_ZERO: u32 = 1;
/// `tw_metal.fill`: 1.
pub const TW_FILL_ONE: u32 = 2;
/// `tw_metal.fill`: infinity.
pub const TW_FILL_INF: u32 = 3;
/// `tw_metal.fill`: minus infinity.
pub const TW_FILL_NEGINF: u32 = 4;

/// `tw_request.rounding`: block floats as ttnn makes them on the host.
pub const TW_ROUND_HOST: u32 = 0;
/// `tw_request.rounding`: block floats as the device's packer makes them.
pub const TW_ROUND_DEVICE: u32 = 1;
/// `tw_request.rounding`: block floats cut off.
pub const TW_ROUND_TRUNCATE: u32 = 2;
/// `tw_request.rounding`: block floats as the device's packer makes them by default, which rounds twice.
pub const TW_ROUND_DEVICE_OP: u32 = 3;

/// `tw_request.flags`: block floats also try the next lower shared exponent and keep the better one.
pub const TW_SEARCH: u32 = 1;
/// `tw_request.flags`: block floats decode with the quirks of the device's library.
pub const TW_COMPAT_UNPACK: u32 = 2;
/// `tw_request.flags`: Spyre's 16-bit float as deeptools makes it, instead of to nearest.
pub const TW_SEN169_DEEPTOOLS: u32 = 4;
/// `tw_request.flags`: integers that do not fit become the nearest that does, instead of TW_OUT_OF_RANGE.
pub const TW_SATURATE: u32 = 8;
/// `tw_request.flags`: block floats decode as the device's unpacker does; not together with TW_COMPAT_UNPACK.
pub const TW_COMPAT_UNPACK_DEVICE: u32 = 16;

/// `tw_request.store`: past the caches where the destination is too large to stay in them.
pub const TW_STORE_AUTO: u32 = 0;
/// `tw_request.store`: through the caches, for a destination that is read again soon.
pub const TW_STORE_CACHED: u32 = 1;
/// `tw_request.store`: past the caches, whole lines at a time, as write-combined memory wants it.
pub const TW_STORE_STREAMED: u32 = 2;

/// `isa`: what the environment variable TILEWRIGHT_ISA says, or else the best level of the machine.
pub const TW_ISA_BEST: u32 = 0;
/// `isa`: plain loops.
pub const TW_ISA_SCALAR: u32 = 1;
/// `isa`: vector code that every machine of the architecture runs.
pub const TW_ISA_BASE: u32 = 2;
/// `isa`: x86-64-v3.
pub const TW_ISA_V3: u32 = 3;
/// `isa`: x86-64-v4.
pub const TW_ISA_V4: u32 = 4;

/// Which layout of a plan: where tensors come from.
pub const TW_SOURCE: u32 = 0;
/// Which layout of a plan: where tensors go.
pub const TW_DESTINATION: u32 = 1;

/// `tw_owner.kind`: the codes of elements.
pub const TW_OWNER_ELEMENTS: u32 = 0;
/// `tw_owner.kind`: the exponent or scale that elements share.
pub const TW_OWNER_SHARED: u32 = 1;
/// `tw_owner.kind`: the fill.
pub const TW_OWNER_PADDING: u32 = 2;
/// `tw_owner.kind`: zero: bytes of a block's header that no group uses, or between pages.
pub const TW_OWNER_GAP: u32 = 3;

/// `tw_place.shared` of a format whose elements share nothing.
pub const TW_NONE: u64 = 0xffff_ffff_ffff_ffff;

/// UTF-8 text of the caller; no NUL at the end is needed. All zero: no text.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_string {
    /// First byte; may be NULL if `length` is 0.
    pub data: *const c_char,
    /// Bytes.
    pub length: usize,
}

/// Memory of the caller for a text that the library writes: UTF-8, cut at a character if it does not fit, with a NUL
/// at its end unless `capacity` is 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_text {
    /// Where the text goes; may be NULL if `capacity` is 0.
    pub data: *mut c_char,
    /// Bytes that `data` has room for, the NUL included.
    pub capacity: usize,
    /// Written: bytes of the whole text, without the NUL.
    pub length: usize,
}

/// A host array with strides.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_strided {
    /// `sizeof(tw_strided)`.
    pub struct_size: u32,
    /// Element type; 0: that of the tensor.
    pub dtype: tw_format,
    /// Elements from one index to the next, for each dimension; NULL: row-major without gaps.
    pub strides: *const i64,
    /// How many strides; the rank of the tensor, or 0 with NULL.
    pub rank: usize,
    /// Elements in front of the first one.
    pub offset: i64,
}

/// A TTNN tensor.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_ttnn {
    /// `sizeof(tw_ttnn)`.
    pub struct_size: u32,
    /// What the pages hold.
    pub format: tw_format,
    /// TW_ROW_MAJOR or TW_TILE.
    pub page_layout: u32,
    /// Rows of a tile; 0 with `tile_columns` 0: 32 x 32.
    pub tile_rows: u32,
    /// Columns of a tile.
    pub tile_columns: u32,
    /// 1: tiles are stored transposed.
    pub transpose_tile: u32,
    /// TW_SINGLE to TW_ND_SHARDED.
    pub memory: u32,
    /// 1: shards go down the columns of the grid first.
    pub column_major: u32,
    /// Interleaved: how many banks.
    pub banks: u64,
    /// Interleaved: alignment of a page in bytes.
    pub alignment: u64,
    /// Sharded: rows and columns of cores.
    pub grid: [u64; 2],
    /// Sharded: shape of a shard in elements.
    pub shard: *const u64,
    /// Dimensions of a shard.
    pub shard_rank: usize,
}

/// A metal_layout of tt-mlir, by its constructor.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_metal {
    /// `sizeof(tw_metal)`.
    pub struct_size: u32,
    /// What the shards hold; a block float needs a tile.
    pub format: tw_format,
    /// Rows of a tile; 0 with `tile_columns` 0: shards of single elements.
    pub tile_rows: u32,
    /// Columns of a tile.
    pub tile_columns: u32,
    /// TW_FILL_UNDEF to TW_FILL_NEGINF.
    pub fill: u32,
    /// Must be 0.
    pub reserved: u32,
    /// Cores along each dimension.
    pub grid: *const u64,
    /// Dimensions of the grid.
    pub grid_rank: usize,
    /// Begin and end of each interval of dimensions that becomes one; negative numbers count from the end.
    pub collapse: *const [i64; 2],
    /// How many intervals.
    pub collapse_count: usize,
}

/// A SpyreTensorLayout. All zero but `struct_size`: the default rule for the tensor.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_spyre {
    /// `sizeof(tw_spyre)`.
    pub struct_size: u32,
    /// Number of the element format in the runtime's `DataFormats`.
    pub data_format: u32,
    /// Size of each device dimension, the stick last.
    pub device_size: *const u64,
    /// Host stride in elements of each device dimension; 0 repeats an element, -1 carries none.
    pub stride_map: *const i64,
    /// How many device dimensions.
    pub rank: usize,
}

/// How a tensor lies in memory. At most one of `text`, `strided`, `ttnn`, `metal` and `spyre` is given; none: a
/// row-major host array.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_layout {
    /// `sizeof(tw_layout)`.
    pub struct_size: u32,
    /// Must be 0.
    pub reserved: u32,
    /// A layout text of any family.
    pub text: tw_string,
    /// A host array.
    pub strided: *const tw_strided,
    /// A TTNN tensor.
    pub ttnn: *const tw_ttnn,
    /// A metal_layout.
    pub metal: *const tw_metal,
    /// A Spyre tensor.
    pub spyre: *const tw_spyre,
    /// The device on whose cores a metal_layout is placed, as text.
    pub device: tw_string,
    /// How the tensor is handed out to a mesh, as text; the layout is then what one device gets.
    pub mesh: tw_string,
    /// Value of padding instead of the layout's own.
    pub pad_value: *const f64,
}

/// A conversion that is asked for.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_request {
    /// `sizeof(tw_request)`.
    pub struct_size: u32,
    /// Element type of the tensor: TW_F64 to TW_BOOL; 0: what the text of the source says, or else that of the
    /// destination, if they have no mesh.
    pub dtype: tw_format,
    /// Logical shape, outermost dimension first; where both `dtype` and `rank` are 0, it is what the text says too.
    pub shape: *const u64,
    /// How many dimensions.
    pub rank: usize,
    /// Where the tensor comes from; NULL: a row-major host array.
    pub source: *const tw_layout,
    /// Where it goes; NULL: a row-major host array.
    pub destination: *const tw_layout,
    /// TW_ROUND_HOST to TW_ROUND_DEVICE_OP.
    pub rounding: u32,
    /// TW_SEARCH, TW_COMPAT_UNPACK, TW_SEN169_DEEPTOOLS, TW_SATURATE and TW_COMPAT_UNPACK_DEVICE, or-ed.
    pub flags: u32,
    /// TW_ISA_BEST to TW_ISA_V4.
    pub isa: u32,
    /// TW_STORE_AUTO to TW_STORE_STREAMED.
    pub store: u32,
}

/// What there is to know of a plan.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_plan_info {
    /// Set by the caller: `sizeof(tw_plan_info)`.
    pub struct_size: u32,
    /// TW_ISA_SCALAR to TW_ISA_V4.
    pub isa: u32,
    /// Buffers of the source, which are equal in size and lie one after another.
    pub source_buffers: u64,
    /// Bytes of each.
    pub source_buffer_bytes: u64,
    /// Bytes of all: the length of the source.
    pub source_bytes: u64,
    /// Copies of the tensor in the source.
    pub source_copies: u64,
    /// Buffers of the destination, which are equal in size and lie one after another.
    pub destination_buffers: u64,
    /// Bytes of each.
    pub destination_buffer_bytes: u64,
    /// Bytes of all: the length of the destination.
    pub destination_bytes: u64,
    /// Copies of the tensor in the destination.
    pub destination_copies: u64,
    /// Chunks begin and end at multiples of so many bytes of the destination, or at its end.
    pub chunk_alignment: u64,
    /// Loop nests.
    pub nests: u64,
    /// Dimensions of the tensor.
    pub rank: u64,
}

/// What the header of a tensor file says.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_tensorbin_info {
    /// Set by the caller: `sizeof(tw_tensorbin_info)`.
    pub struct_size: u32,
    /// Element type of the tensor: that of `format`, TW_F32 for a block float.
    pub dtype: tw_format,
    /// What the shards hold.
    pub format: tw_format,
    /// 1 if the file has all parts of the tensor, 0 if it is one of several.
    pub complete: u32,
    /// Dimensions of the tensor.
    pub rank: u64,
    /// Dimensions of the mesh.
    pub mesh_rank: u64,
    /// Devices that have a shard in the file.
    pub shards: u64,
    /// The byte of the file at which the shards begin.
    pub payload: u64,
}

/// Where an element lies.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_place {
    /// The buffer.
    pub buffer: u64,
    /// The byte of the buffer at which the element, or its code, begins.
    pub byte: u64,
    /// The byte of the buffer that holds the exponent or scale it shares, or TW_NONE.
    pub shared: u64,
    /// The lowest bit of the code in its byte.
    pub bit: u32,
    /// 0.
    pub reserved: u32,
}

/// What lies at a byte.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_owner {
    /// TW_OWNER_ELEMENTS to TW_OWNER_GAP.
    pub kind: u32,
    /// 0.
    pub reserved: u32,
    /// How many elements have bits there, or share what is there.
    pub elements: u64,
}

/// One task of an execution, given to `tw_executor.run`.
pub type tw_task = Option<unsafe extern "C" fn(arg: *mut c_void, index: u32)>;

/// Threads of the caller.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_executor {
    /// `sizeof(tw_executor)`.
    pub struct_size: u32,
    /// How many tasks can run at once. With 0 or 1, and for small tensors, the library does everything on the calling
    /// thread and does not call `run`.
    pub threads: u32,
    /// Passed to `run` as it is.
    pub ctx: *mut c_void,
    /// Calls `task(arg, 0)` to `task(arg, tasks - 1)`, each once, in any order and from any threads, and returns when
    /// all of them have returned: 0, or any other number for a failure, after which no task may be running or run
    /// any more. It must not throw or jump out.
    pub run:
        Option<unsafe extern "C" fn(ctx: *mut c_void, tasks: u32, task: tw_task, arg: *mut c_void) -> i32>,
}

/// One conversion of a batch. It never grows.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_conversion {
    /// What is done.
    pub plan: *const super::tw_plan,
    /// All bytes of the plan's source.
    pub source: *const c_void,
    /// How many they are.
    pub source_length: usize,
    /// Memory for all bytes of the plan's destination, which need not be initialised.
    pub destination: *mut c_void,
    /// How many they are.
    pub destination_length: usize,
}

/// What `tw_sink.wait` returns when the time has passed and no slot has arrived.
pub const TW_PENDING: i32 = 1;

/// `tw_stage_report.slowest`: reading sources.
pub const TW_SIDE_SOURCE: u32 = 0;
/// `tw_stage_report.slowest`: converting.
pub const TW_SIDE_CONVERSION: u32 = 1;
/// `tw_stage_report.slowest`: the sink.
pub const TW_SIDE_SINK: u32 = 2;

/// Bytes that can be read by ranges: a file, the memory of a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_reader {
    /// `sizeof(tw_reader)`.
    pub struct_size: u32,
    /// Reads begin at multiples of so many bytes, end there or behind the last byte, and go to memory aligned to as
    /// many: a power of two up to 4096; 0: 1.
    pub alignment: u32,
    /// How many bytes there are.
    pub size: u64,
    /// Passed to `read_at` as it is.
    pub ctx: *mut c_void,
    /// Puts `length` bytes from `at` on to `into`: 0, or any other number for a failure. What lies behind the last byte is
    /// left as it is. It is called from a thread of the library's, one call at a time, and must not throw or jump out.
    pub read_at:
        Option<unsafe extern "C" fn(ctx: *mut c_void, at: u64, into: *mut c_void, length: usize) -> i32>,
}

/// One tensor to be staged. It never grows.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_transfer {
    /// The conversion.
    pub plan: *const super::tw_plan,
    /// All bytes of the plan's source, or NULL with a reader.
    pub source: *const c_void,
    /// How many they are.
    pub source_length: usize,
    /// What the source is read from, or NULL. Transfers in a row that name one reader share its reads.
    pub reader: *const tw_reader,
    /// With a reader: where the source begins in it.
    pub begin: u64,
}

/// A part of a slot: a chunk of the destination of one tensor. It never grows.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_piece {
    /// Its bytes.
    pub data: *const c_void,
    /// How many they are.
    pub length: usize,
    /// Which of the transfers it belongs to.
    pub transfer: u64,
    /// Its first byte in the destination, all buffers one after another.
    pub destination: u64,
    /// The buffer of the destination in which all of it lies.
    pub buffer: u64,
    /// Its first byte in that buffer.
    pub buffer_offset: u64,
}

/// Where slots go. The functions are called from the thread that called tw_stager_run, and must not throw or jump out.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_sink {
    /// `sizeof(tw_sink)`.
    pub struct_size: u32,
    /// Must be 0.
    pub reserved: u32,
    /// Passed to the functions as it is.
    pub ctx: *mut c_void,
    /// Begins to move the pieces of a slot: 0, or any other number if it cannot, which ends the run. The array `pieces` is
    /// valid during the call; the bytes stay as they are until `wait` has named the ticket.
    pub submit: Option<
        unsafe extern "C" fn(ctx: *mut c_void, ticket: u64, pieces: *const tw_piece, count: usize) -> i32,
    >,
    /// Waits for at most `limit_ms` milliseconds until the bytes of some ticket have arrived, in any order: puts it to
    /// `ticket` and returns 0; TW_PENDING if none has by then; any other number if that of `ticket` has failed, which ends the
    /// run. Its memory is used again in any case. NULL: bytes have arrived when `submit` returns.
    pub wait: Option<unsafe extern "C" fn(ctx: *mut c_void, limit_ms: u64, ticket: *mut u64) -> i32>,
}

/// How a run is done. All zero but `struct_size`: as without it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_stage_options {
    /// `sizeof(tw_stage_options)`.
    pub struct_size: u32,
    /// Must be 0.
    pub reserved: u32,
    /// How long to wait for one slot to arrive; 0: 2 minutes.
    pub wait_limit_ms: u64,
    /// Bytes of a window of a source that is read; 0: 32 MiB.
    pub read_bytes: usize,
    /// The most bytes of both windows; 0: no limit.
    pub window_limit: usize,
}

/// What a run did. Times are in nanoseconds.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_stage_report {
    /// Set by the caller: `sizeof(tw_stage_report)`.
    pub struct_size: u32,
    /// The side on which most of the time went: TW_SIDE_SOURCE to TW_SIDE_SINK.
    pub slowest: u32,
    /// Bytes of destinations that were produced.
    pub bytes: u64,
    /// Bytes that were read through readers.
    pub bytes_read: u64,
    /// Slots that were submitted.
    pub slots: u64,
    /// Bytes of memory for windows of sources, beside the ring.
    pub window_bytes: u64,
    /// From the first moment to the last.
    pub wall_ns: u64,
    /// Inside of reads, beside everything else.
    pub reading_ns: u64,
    /// Converting.
    pub converting_ns: u64,
    /// Waiting for reads.
    pub waiting_for_source_ns: u64,
    /// Waiting for the sink.
    pub waiting_for_sink_ns: u64,
    /// Inside of `tw_sink.submit`.
    pub submitting_ns: u64,
}
