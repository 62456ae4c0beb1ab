/*
 * tilewright: moves tensors between host memory and accelerator memory layouts.
 *
 * Made by cbindgen from the sources of tilewright-capi; do not edit.
 *
 * Rules that hold for every function:
 * - A pointer that is not NULL must point to what its type and the length beside it say. NULL, misaligned and
 *   overlapping pointers and lengths that are too short or too long are statuses, never crashes.
 * - Nothing is written before every argument has been checked. Arguments are not used after the call returns.
 * - What a call writes must lie apart from everything else that it is given. Results that overlap are TW_OVERLAP; that
 *   `message` and its memory lie apart is not checked.
 * - Structs that begin with `struct_size` need `sizeof` of the struct there. Fields are only ever added at the end,
 *   and zero always means: as if the field did not exist. So old callers work with new libraries, and new callers
 *   with old libraries as long as the fields that these do not know are zero.
 * - `message`, the last argument where there is one, may be NULL. It is written only if the status is not TW_OK:
 *   one sentence that says what was given and what was needed.
 * - There is no global or thread-local state. A plan is immutable: any number of threads may use it at once, until
 *   one of them frees it.
 * - tw_plan_execute, tw_plan_execute_chunk and tw_execute_batch need 256 KiB of stack, on the calling thread and on each
 *   thread that runs their tasks.
 * - All sizes are in bytes, unless they say elements.
 */

#ifndef TILEWRIGHT_H
#define TILEWRIGHT_H

#include <stddef.h>
#include <stdint.h>

// Version of the binary interface that this header describes. Libraries with another one are not compatible.
#define TW_ABI_VERSION 1

// `tw_ttnn.page_layout`: a page is a row.
#define TW_ROW_MAJOR 0

// `tw_ttnn.page_layout`: a page is a tile.
#define TW_TILE 1

// `tw_ttnn.memory`: one buffer, as on the host.
#define TW_SINGLE 0

// `tw_ttnn.memory`: pages dealt to `banks` banks, each padded to `alignment` bytes.
#define TW_INTERLEAVED 1

// `tw_ttnn.memory`: full rows on the cores of `grid`.
#define TW_HEIGHT_SHARDED 2

// `tw_ttnn.memory`: full columns on the cores of `grid`.
#define TW_WIDTH_SHARDED 3

// `tw_ttnn.memory`: shard (i, j) on core (i, j) of `grid`.
#define TW_BLOCK_SHARDED 4

// `tw_ttnn.memory`: shards of any rank, dealt to the cores of `grid`.
#define TW_ND_SHARDED 5

// `tw_metal.fill`: padding is zero bytes.
#define TW_FILL_UNDEF 0

// `tw_metal.fill`: 0.
#define TW_FILL_ZERO 1

// `tw_metal.fill`: 1.
#define TW_FILL_ONE 2

// `tw_metal.fill`: infinity.
#define TW_FILL_INF 3

// `tw_metal.fill`: minus infinity.
#define TW_FILL_NEGINF 4

// `tw_request.rounding`: block floats as ttnn makes them on the host.
#define TW_ROUND_HOST 0

// `tw_request.rounding`: block floats as the device's packer makes them.
#define TW_ROUND_DEVICE 1

// `tw_request.rounding`: block floats cut off.
#define TW_ROUND_TRUNCATE 2

// `tw_request.rounding`: block floats as the device's packer makes them by default, which rounds twice.
#define TW_ROUND_DEVICE_OP 3

// `tw_request.flags`: block floats also try the next lower shared exponent and keep the better one.
#define TW_SEARCH 1

// `tw_request.flags`: block floats decode with the quirks of the device's library.
#define TW_COMPAT_UNPACK 2

// `tw_request.flags`: Spyre's 16-bit float as deeptools makes it, instead of to nearest.
#define TW_SEN169_DEEPTOOLS 4

// `tw_request.flags`: integers that do not fit become the nearest that does, instead of TW_OUT_OF_RANGE.
#define TW_SATURATE 8

// `tw_request.flags`: block floats decode as the device's unpacker does; not together with TW_COMPAT_UNPACK.
#define TW_COMPAT_UNPACK_DEVICE 16

// `tw_request.store`: past the caches where the destination is too large to stay in them.
#define TW_STORE_AUTO 0

// `tw_request.store`: through the caches, for a destination that is read again soon.
#define TW_STORE_CACHED 1

// `tw_request.store`: past the caches, whole lines at a time, as write-combined memory wants it.
#define TW_STORE_STREAMED 2

// `isa`: what the environment variable TILEWRIGHT_ISA says, or else the best level of the machine.
#define TW_ISA_BEST 0

// `isa`: plain loops.
#define TW_ISA_SCALAR 1

// `isa`: vector code that every machine of the architecture runs.
#define TW_ISA_BASE 2

// `isa`: x86-64-v3.
#define TW_ISA_V3 3

// `isa`: x86-64-v4.
#define TW_ISA_V4 4

// Which layout of a plan: where tensors come from.
#define TW_SOURCE 0

// Which layout of a plan: where tensors go.
#define TW_DESTINATION 1

// `tw_owner.kind`: the codes of elements.
#define TW_OWNER_ELEMENTS 0

// `tw_owner.kind`: the exponent or scale that elements share.
#define TW_OWNER_SHARED 1

// `tw_owner.kind`: the fill.
#define TW_OWNER_PADDING 2

// `tw_owner.kind`: zero: bytes of a block's header that no group uses, or between pages.
#define TW_OWNER_GAP 3

// `tw_place.shared` of a format whose elements share nothing.
#define TW_NONE 18446744073709551615ull

// What `tw_sink.wait` returns when the time has passed and no slot has arrived.
#define TW_PENDING 1

// `tw_stage_report.slowest`: reading sources.
#define TW_SIDE_SOURCE 0

// `tw_stage_report.slowest`: converting.
#define TW_SIDE_CONVERSION 1

// `tw_stage_report.slowest`: the sink.
#define TW_SIDE_SINK 2

// A compiled conversion: immutable, usable from any thread, made by tw_plan_compile and freed by tw_plan_free.
typedef struct tw_plan tw_plan;

// A ring of slots, made by tw_stager_create and freed by tw_stager_free. Runs of one stager wait for each other.
typedef struct tw_stager tw_stager;

// An opened tensor file: immutable, usable from any thread, made by tw_tensorbin_open and freed by tw_tensorbin_free.
typedef struct tw_tensorbin tw_tensorbin;

// The outcome of a call. Positive: the content of the arguments is wrong. Negative: the call itself is. Numbers never
// change their meaning; later versions may return new ones.
typedef int32_t tw_status;

// An element format: of tensors TW_F64 to TW_BOOL, of layouts any.
typedef uint32_t tw_format;

// UTF-8 text of the caller; no NUL at the end is needed. All zero: no text.
typedef struct tw_string {
    // First byte; may be NULL if `length` is 0.
    const char *data;
    // Bytes.
    size_t length;
} tw_string;

// A host array with strides.
typedef struct tw_strided {
    // `sizeof(tw_strided)`.
    uint32_t struct_size;
    // Element type; 0: that of the tensor.
    tw_format dtype;
    // Elements from one index to the next, for each dimension; NULL: row-major without gaps.
    const int64_t *strides;
    // How many strides; the rank of the tensor, or 0 with NULL.
    size_t rank;
    // Elements in front of the first one.
    int64_t offset;
} tw_strided;

// A TTNN tensor.
typedef struct tw_ttnn {
    // `sizeof(tw_ttnn)`.
    uint32_t struct_size;
    // What the pages hold.
    tw_format format;
    // TW_ROW_MAJOR or TW_TILE.
    uint32_t page_layout;
    // Rows of a tile; 0 with `tile_columns` 0: 32 x 32.
    uint32_t tile_rows;
    // Columns of a tile.
    uint32_t tile_columns;
    // 1: tiles are stored transposed.
    uint32_t transpose_tile;
    // TW_SINGLE to TW_ND_SHARDED.
    uint32_t memory;
    // 1: shards go down the columns of the grid first.
    uint32_t column_major;
    // Interleaved: how many banks.
    uint64_t banks;
    // Interleaved: alignment of a page in bytes.
    uint64_t alignment;
    // Sharded: rows and columns of cores.
    uint64_t grid[2];
    // Sharded: shape of a shard in elements.
    const uint64_t *shard;
    // Dimensions of a shard.
    size_t shard_rank;
} tw_ttnn;

// A metal_layout of tt-mlir, by its constructor.
typedef struct tw_metal {
    // `sizeof(tw_metal)`.
    uint32_t struct_size;
    // What the shards hold; a block float needs a tile.
    tw_format format;
    // Rows of a tile; 0 with `tile_columns` 0: shards of single elements.
    uint32_t tile_rows;
    // Columns of a tile.
    uint32_t tile_columns;
    // TW_FILL_UNDEF to TW_FILL_NEGINF.
    uint32_t fill;
    // Must be 0.
    uint32_t reserved;
    // Cores along each dimension.
    const uint64_t *grid;
    // Dimensions of the grid.
    size_t grid_rank;
    // Begin and end of each interval of dimensions that becomes one; negative numbers count from the end.
    const int64_t (*collapse)[2];
    // How many intervals.
    size_t collapse_count;
} tw_metal;

// A SpyreTensorLayout. All zero but `struct_size`: the default rule for the tensor.
typedef struct tw_spyre {
    // `sizeof(tw_spyre)`.
    uint32_t struct_size;
    // Number of the element format in the runtime's `DataFormats`.
    uint32_t data_format;
    // Size of each device dimension, the stick last.
    const uint64_t *device_size;
    // Host stride in elements of each device dimension; 0 repeats an element, -1 carries none.
    const int64_t *stride_map;
    // How many device dimensions.
    size_t rank;
} tw_spyre;

// How a tensor lies in memory. At most one of `text`, `strided`, `ttnn`, `metal` and `spyre` is given; none: a
// row-major host array.
typedef struct tw_layout {
    // `sizeof(tw_layout)`.
    uint32_t struct_size;
    // Must be 0.
    uint32_t reserved;
    // A layout text of any family.
    struct tw_string text;
    // A host array.
    const struct tw_strided *strided;
    // A TTNN tensor.
    const struct tw_ttnn *ttnn;
    // A metal_layout.
    const struct tw_metal *metal;
    // A Spyre tensor.
    const struct tw_spyre *spyre;
    // The device on whose cores a metal_layout is placed, as text.
    struct tw_string device;
    // How the tensor is handed out to a mesh, as text; the layout is then what one device gets.
    struct tw_string mesh;
    // Value of padding instead of the layout's own.
    const double *pad_value;
} tw_layout;

// A conversion that is asked for.
typedef struct tw_request {
    // `sizeof(tw_request)`.
    uint32_t struct_size;
    // Element type of the tensor: TW_F64 to TW_BOOL; 0: what the text of the source says, or else that of the
    // destination, if they have no mesh.
    tw_format dtype;
    // Logical shape, outermost dimension first; where both `dtype` and `rank` are 0, it is what the text says too.
    const uint64_t *shape;
    // How many dimensions.
    size_t rank;
    // Where the tensor comes from; NULL: a row-major host array.
    const struct tw_layout *source;
    // Where it goes; NULL: a row-major host array.
    const struct tw_layout *destination;
    // TW_ROUND_HOST to TW_ROUND_DEVICE_OP.
    uint32_t rounding;
    // TW_SEARCH, TW_COMPAT_UNPACK, TW_SEN169_DEEPTOOLS, TW_SATURATE and TW_COMPAT_UNPACK_DEVICE, or-ed.
    uint32_t flags;
    // TW_ISA_BEST to TW_ISA_V4.
    uint32_t isa;
    // TW_STORE_AUTO to TW_STORE_STREAMED.
    uint32_t store;
} tw_request;

// Memory of the caller for a text that the library writes: UTF-8, cut at a character if it does not fit, with a NUL
// at its end unless `capacity` is 0.
typedef struct tw_text {
    // Where the text goes; may be NULL if `capacity` is 0.
    char *data;
    // Bytes that `data` has room for, the NUL included.
    size_t capacity;
    // Written: bytes of the whole text, without the NUL.
    size_t length;
} tw_text;

// What there is to know of a plan.
typedef struct tw_plan_info {
    // Set by the caller: `sizeof(tw_plan_info)`.
    uint32_t struct_size;
    // TW_ISA_SCALAR to TW_ISA_V4.
    uint32_t isa;
    // Buffers of the source, which are equal in size and lie one after another.
    uint64_t source_buffers;
    // Bytes of each.
    uint64_t source_buffer_bytes;
    // Bytes of all: the length of the source.
    uint64_t source_bytes;
    // Copies of the tensor in the source.
    uint64_t source_copies;
    // Buffers of the destination, which are equal in size and lie one after another.
    uint64_t destination_buffers;
    // Bytes of each.
    uint64_t destination_buffer_bytes;
    // Bytes of all: the length of the destination.
    uint64_t destination_bytes;
    // Copies of the tensor in the destination.
    uint64_t destination_copies;
    // Chunks begin and end at multiples of so many bytes of the destination, or at its end.
    uint64_t chunk_alignment;
    // Loop nests.
    uint64_t nests;
    // Dimensions of the tensor.
    uint64_t rank;
} tw_plan_info;

// One task of an execution, given to `tw_executor.run`.
typedef void (*tw_task)(void *arg, uint32_t index);

// Threads of the caller.
typedef struct tw_executor {
    // `sizeof(tw_executor)`.
    uint32_t struct_size;
    // How many tasks can run at once. With 0 or 1, and for small tensors, the library does everything on the calling
    // thread and does not call `run`.
    uint32_t threads;
    // Passed to `run` as it is.
    void *ctx;
    // Calls `task(arg, 0)` to `task(arg, tasks - 1)`, each once, in any order and from any threads, and returns when
    // all of them have returned: 0, or any other number for a failure, after which no task may be running or run
    // any more. It must not throw or jump out.
    int32_t (*run)(void *ctx, uint32_t tasks, tw_task task, void *arg);
} tw_executor;

// Where an element lies.
typedef struct tw_place {
    // The buffer.
    uint64_t buffer;
    // The byte of the buffer at which the element, or its code, begins.
    uint64_t byte;
    // The byte of the buffer that holds the exponent or scale it shares, or TW_NONE.
    uint64_t shared;
    // The lowest bit of the code in its byte.
    uint32_t bit;
    // 0.
    uint32_t reserved;
} tw_place;

// What lies at a byte.
typedef struct tw_owner {
    // TW_OWNER_ELEMENTS to TW_OWNER_GAP.
    uint32_t kind;
    // 0.
    uint32_t reserved;
    // How many elements have bits there, or share what is there.
    uint64_t elements;
} tw_owner;

// One conversion of a batch. It never grows.
typedef struct tw_conversion {
    // What is done.
    const struct tw_plan *plan;
    // All bytes of the plan's source.
    const void *source;
    // How many they are.
    size_t source_length;
    // Memory for all bytes of the plan's destination, which need not be initialised.
    void *destination;
    // How many they are.
    size_t destination_length;
} tw_conversion;

// Bytes that can be read by ranges: a file, the memory of a device.
typedef struct tw_reader {
    // `sizeof(tw_reader)`.
    uint32_t struct_size;
    // Reads begin at multiples of so many bytes, end there or behind the last byte, and go to memory aligned to as
    // many: a power of two up to 4096; 0: 1.
    uint32_t alignment;
    // How many bytes there are.
    uint64_t size;
    // Passed to `read_at` as it is.
    void *ctx;
    // Puts `length` bytes from `at` on to `into`: 0, or any other number for a failure. What lies behind the last byte is
    // left as it is. It is called from a thread of the library's, one call at a time, and must not throw or jump out.
    int32_t (*read_at)(void *ctx, uint64_t at, void *into, size_t length);
} tw_reader;

// One tensor to be staged. It never grows.
typedef struct tw_transfer {
    // The conversion.
    const struct tw_plan *plan;
    // All bytes of the plan's source, or NULL with a reader.
    const void *source;
    // How many they are.
    size_t source_length;
    // What the source is read from, or NULL. Transfers in a row that name one reader share its reads.
    const struct tw_reader *reader;
    // With a reader: where the source begins in it.
    uint64_t begin;
} tw_transfer;

// A part of a slot: a chunk of the destination of one tensor. It never grows.
typedef struct tw_piece {
    // Its bytes.
    const void *data;
    // How many they are.
    size_t length;
    // Which of the transfers it belongs to.
    uint64_t transfer;
    // Its first byte in the destination, all buffers one after another.
    uint64_t destination;
    // The buffer of the destination in which all of it lies.
    uint64_t buffer;
    // Its first byte in that buffer.
    uint64_t buffer_offset;
} tw_piece;

// Where slots go. The functions are called from the thread that called tw_stager_run, and must not throw or jump out.
typedef struct tw_sink {
    // `sizeof(tw_sink)`.
    uint32_t struct_size;
    // Must be 0.
    uint32_t reserved;
    // Passed to the functions as it is.
    void *ctx;
    // Begins to move the pieces of a slot: 0, or any other number if it cannot, which ends the run. The array `pieces` is
    // valid during the call; the bytes stay as they are until `wait` has named the ticket.
    int32_t (*submit)(void *ctx, uint64_t ticket, const struct tw_piece *pieces, size_t count);
    // Waits for at most `limit_ms` milliseconds until the bytes of some ticket have arrived, in any order: puts it to
    // `ticket` and returns 0; TW_PENDING if none has by then; any other number if that of `ticket` has failed, which ends the
    // run. Its memory is used again in any case. NULL: bytes have arrived when `submit` returns.
    int32_t (*wait)(void *ctx, uint64_t limit_ms, uint64_t *ticket);
} tw_sink;

// How a run is done. All zero but `struct_size`: as without it.
typedef struct tw_stage_options {
    // `sizeof(tw_stage_options)`.
    uint32_t struct_size;
    // Must be 0.
    uint32_t reserved;
    // How long to wait for one slot to arrive; 0: 2 minutes.
    uint64_t wait_limit_ms;
    // Bytes of a window of a source that is read; 0: 32 MiB.
    size_t read_bytes;
    // The most bytes of both windows; 0: no limit.
    size_t window_limit;
} tw_stage_options;

// What a run did. Times are in nanoseconds.
typedef struct tw_stage_report {
    // Set by the caller: `sizeof(tw_stage_report)`.
    uint32_t struct_size;
    // The side on which most of the time went: TW_SIDE_SOURCE to TW_SIDE_SINK.
    uint32_t slowest;
    // Bytes of destinations that were produced.
    uint64_t bytes;
    // Bytes that were read through readers.
    uint64_t bytes_read;
    // Slots that were submitted.
    uint64_t slots;
    // Bytes of memory for windows of sources, beside the ring.
    uint64_t window_bytes;
    // From the first moment to the last.
    uint64_t wall_ns;
    // Inside of reads, beside everything else.
    uint64_t reading_ns;
    // Converting.
    uint64_t converting_ns;
    // Waiting for reads.
    uint64_t waiting_for_source_ns;
    // Waiting for the sink.
    uint64_t waiting_for_sink_ns;
    // Inside of `tw_sink.submit`.
    uint64_t submitting_ns;
} tw_stage_report;

// What the header of a tensor file says.
typedef struct tw_tensorbin_info {
    // Set by the caller: `sizeof(tw_tensorbin_info)`.
    uint32_t struct_size;
    // Element type of the tensor: that of `format`, TW_F32 for a block float.
    tw_format dtype;
    // What the shards hold.
    tw_format format;
    // 1 if the file has all parts of the tensor, 0 if it is one of several.
    uint32_t complete;
    // Dimensions of the tensor.
    uint64_t rank;
    // Dimensions of the mesh.
    uint64_t mesh_rank;
    // Devices that have a shard in the file.
    uint64_t shards;
    // The byte of the file at which the shards begin.
    uint64_t payload;
} tw_tensorbin_info;

// Done.
#define TW_OK 0

// A layout text does not parse, or says something impossible.
#define TW_TEXT 1

// A value that is not allowed where it stands.
#define TW_VALUE 2

// A declared shape is not the one that follows from the rest of the layout.
#define TW_DERIVED 3

// A size or an address does not fit 63 bits.
#define TW_OVERFLOW 4

// Two elements of the destination would lie on one place.
#define TW_COLLISION 5

// The layouts break into more pieces than the limit allows.
#define TW_TOO_COMPLEX 6

// There is no conversion between the element formats.
#define TW_CONVERSION 7

// A value does not fit the integer type of the destination.
#define TW_OUT_OF_RANGE 8

// A buffer has the wrong length.
#define TW_LENGTH 9

// The instruction set level is not available on this machine.
#define TW_ISA 10

// The plan was refused by its verifier: a defect of the library.
#define TW_UNVERIFIED 11

// A file could not be read or written.
#define TW_IO 12

// Staging was cancelled, ran out of time, or was let down by its sink.
#define TW_STAGING 13

// A pointer is NULL that must not be.
#define TW_NULL -1

// A pointer is not aligned for what it points to.
#define TW_MISALIGNED -2

// A `struct_size` is less than the struct had in the first version, or a field that this library does not know is not zero.
#define TW_STRUCT_SIZE -3

// What is written overlaps what is read.
#define TW_OVERLAP -4

// An array or text of the caller is too short; what fits was written, and the length or count that is needed.
#define TW_SHORT -5

// The executor failed, or did not run every task exactly once. The destination is undefined.
#define TW_EXECUTOR -6

// The pointer is to something else than a plan, a file or a stager.
#define TW_HANDLE -7

// A defect of the library, which it survived. What was to be written is undefined.
#define TW_INTERNAL -8

#define TW_F64 1

#define TW_F32 2

#define TW_F16 3

#define TW_BF16 4

#define TW_F8E4M3 5

#define TW_F8E5M2 6

#define TW_I64 7

#define TW_I32 8

#define TW_I16 9

#define TW_I8 10

#define TW_U64 11

#define TW_U32 12

#define TW_U16 13

#define TW_U8 14

#define TW_BOOL 15

#define TW_BFP8_B 64

#define TW_BFP4_B 65

#define TW_BFP2_B 66

#define TW_BFP8_A 67

#define TW_BFP4_A 68

#define TW_BFP2_A 69

#define TW_MXFP8_E4M3 70

#define TW_MXFP8_E5M2 71

#define TW_MXFP6_E3M2 72

#define TW_MXFP6_E2M3 73

#define TW_MXFP4 74

#define TW_MXINT8 75

#define TW_MXINT4 76

#define TW_MXINT2 77

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Version of the library, e.g. "0.1.0": static text that ends with NUL.
const char *tw_version(void);

// Version of the binary interface of the library; the header fits if it is TW_ABI_VERSION.
uint32_t tw_abi_version(void);

// Name of a status, e.g. "TW_OVERLAP": static text that ends with NUL; "TW_?" for numbers that are none.
const char *tw_status_name(tw_status status);

// Compiles a conversion, and proves that it writes every byte of the destination exactly once and reads only inside
// of the source. The new plan goes to `plan`, which must be freed by tw_plan_free; NULL goes there on failure.
tw_status tw_plan_compile(const struct tw_request *request,
                          struct tw_plan **plan,
                          struct tw_text *message);

// Frees a plan that no call is using any more. NULL is allowed, and does nothing. A plan that was freed before is
// TW_HANDLE as long as nothing else has come to lie in its memory; do not rely on it.
tw_status tw_plan_free(struct tw_plan *plan);

// Writes buffers, sizes and chunk_alignment of a plan to `info`.
tw_status tw_plan_query(const struct tw_plan *plan, struct tw_plan_info *info, struct tw_text *message);

// The greatest chunks of at most `at_most` bytes: `chunk_bytes` each, the last one perhaps less, `chunks` in all.
// TW_VALUE if not even one chunk_alignment fits.
tw_status tw_plan_chunks(const struct tw_plan *plan,
                         size_t at_most,
                         size_t *chunk_bytes,
                         size_t *chunks,
                         struct tw_text *message);

// The source bytes that a chunk is made of: `length` destination bytes from `begin` on need no source byte in front of
// `source_begin` or behind the `source_length` bytes from there.
tw_status tw_plan_source_window(const struct tw_plan *plan,
                                size_t begin,
                                size_t length,
                                size_t *source_begin,
                                size_t *source_length,
                                struct tw_text *message);

// Converts all of `source` to `destination`, which need not be initialised: all buffers of each, one after another.
// With `executor` NULL everything is done on the calling thread.
tw_status tw_plan_execute(const struct tw_plan *plan,
                          const void *source,
                          size_t source_length,
                          void *destination,
                          size_t destination_length,
                          const struct tw_executor *executor,
                          struct tw_text *message);

// Makes one chunk on the calling thread: the bytes of the destination from `begin` on, `chunk_length` of them, from all
// of `source`. Chunks can be made at the same time by any threads.
tw_status tw_plan_execute_chunk(const struct tw_plan *plan,
                                const void *source,
                                size_t source_length,
                                size_t begin,
                                void *chunk,
                                size_t chunk_length,
                                struct tw_text *message);

// Where the element of a logical index lies in the source or the destination (`side`): one place for each copy of the
// tensor. `count` gets how many there are; TW_SHORT if that is more than `capacity`.
tw_status tw_plan_locate(const struct tw_plan *plan,
                         uint32_t side,
                         const uint64_t *index,
                         size_t rank,
                         struct tw_place *places,
                         size_t capacity,
                         uint64_t *count,
                         struct tw_text *message);

// What lies at a byte of a buffer of the source or the destination (`side`). The logical indices of the elements go to
// `indices`, one behind the other, each as many numbers as the tensor has dimensions. TW_SHORT if they are more
// than `capacity` numbers. TW_VALUE or TW_COLLISION for a source in which elements may share places.
tw_status tw_plan_owner(const struct tw_plan *plan,
                        uint32_t side,
                        uint64_t buffer,
                        uint64_t byte,
                        struct tw_owner *owner,
                        uint64_t *indices,
                        size_t capacity,
                        struct tw_text *message);

// Writes the plan as text: what of the layout texts was ignored, a line of totals, and a line for each loop nest.
// TW_SHORT if it does not fit; `text->length` is then what is needed, without the NUL.
tw_status tw_plan_explain(const struct tw_plan *plan,
                          struct tw_text *text,
                          struct tw_text *message);

// Writes the copy from a host array into the plan's destination as torch-spyre's DataConversionInfo, in JSON. TW_VALUE
// if the source is not a host array or the destination more than one buffer of plain elements; TW_SHORT if the text
// does not fit; `text->length` is then what is needed, without the NUL.
tw_status tw_plan_dci(const struct tw_plan *plan,
                      struct tw_text *text,
                      struct tw_text *message);

// Runs many conversions, each as tw_plan_execute would, with the same bytes. Small tensors are converted whole, many by
// one task, so that thousands of them cost little more than their conversion; large ones are split among the threads, one
// after the other. Conversions may share plans and sources. With `executor` NULL everything is done on the calling thread.
// `failed` may be NULL; where a single conversion is at fault, its number goes there, of several that of the first.
tw_status tw_execute_batch(const struct tw_conversion *conversions,
                           size_t count,
                           const struct tw_executor *executor,
                           uint64_t *failed,
                           struct tw_text *message);

// Makes a ring of `slots` slots of `slot_bytes` each, which is kept from run to run; 0 and 0: 3 of 32 MiB. `memory` is
// NULL, or one pointer for each slot to `slot_bytes` bytes that nobody else uses until the stager is freed: pinned
// memory. The new stager goes to `stager`, which must be freed by tw_stager_free; NULL goes there on failure.
tw_status tw_stager_create(size_t slots,
                           size_t slot_bytes,
                           void *const *memory,
                           struct tw_stager **stager,
                           struct tw_text *message);

// Frees a stager that no call is using any more, and with it slots that no sink may be reading any more. NULL is allowed,
// and does nothing.
tw_status tw_stager_free(struct tw_stager *stager);

// Converts `count` tensors, one after another, and hands the bytes of their destinations to `sink`, each byte once, in
// slots. With `executor` NULL everything is converted on the calling thread; what has a reader is read ahead on a thread
// of the library's. `options` and `report` may be NULL; `report` is written where the run fails, too. When it returns the
// sink has given back every slot, or has had the time limit for each: TW_STAGING then says how many are still out, whose
// memory is not used again.
tw_status tw_stager_run(struct tw_stager *stager,
                        const struct tw_transfer *transfers,
                        size_t count,
                        const struct tw_sink *sink,
                        const struct tw_executor *executor,
                        const struct tw_stage_options *options,
                        struct tw_stage_report *report,
                        struct tw_text *message);

// Opens a .tensorbin file of TTNN and checks its header against its length. The new handle goes to `file`, which must
// be freed by tw_tensorbin_free; NULL goes there on failure.
tw_status tw_tensorbin_open(struct tw_string path,
                            struct tw_tensorbin **file,
                            struct tw_text *message);

// Closes a file that no call is using any more. NULL is allowed, and does nothing.
tw_status tw_tensorbin_free(struct tw_tensorbin *file);

// Writes what the header of a file says to `info`.
tw_status tw_tensorbin_query(const struct tw_tensorbin *file,
                             struct tw_tensorbin_info *info,
                             struct tw_text *message);

// Writes the shape of a tensor to `shape`: of that on the device at `device`, a place of `device_rank` numbers in the
// mesh, or with 0 of them of the whole tensor. TW_SHORT if `capacity` numbers are too few.
tw_status tw_tensorbin_shape(const struct tw_tensorbin *file,
                             const uint64_t *device,
                             size_t device_rank,
                             uint64_t *shape,
                             size_t capacity,
                             struct tw_text *message);

// Shard number `index` of a file: the place of its device in the mesh goes to `device`, and the bytes of the file that
// hold it to `begin` and `length`. TW_SHORT if `capacity` numbers are too few for the place.
tw_status tw_tensorbin_shard(const struct tw_tensorbin *file,
                             uint64_t index,
                             uint64_t *device,
                             size_t capacity,
                             uint64_t *begin,
                             uint64_t *length,
                             struct tw_text *message);

// Reads a tensor into `destination`, all buffers of the layout one after another; with `layout` NULL it is a row-major
// host array of the element type of tw_tensorbin_info. `device` is as for tw_tensorbin_shape: with 0 numbers a tensor on a mesh
// is put together, which must be complete and have equal replicas. With `executor` NULL everything is done on the
// calling thread. Memory for the bytes that are read is taken meanwhile.
tw_status tw_tensorbin_read(const struct tw_tensorbin *file,
                            const uint64_t *device,
                            size_t device_rank,
                            const struct tw_layout *layout,
                            void *destination,
                            size_t destination_length,
                            const struct tw_executor *executor,
                            struct tw_text *message);

// Writes a tensor as a .tensorbin file, which appears under its name when it is complete. The destination of the
// request is the layout of what one device gets: TTNN's, as struct or text, with a mesh or without. Its memory
// configuration is recorded, and does not change the bytes.
tw_status tw_tensorbin_save(struct tw_string path,
                            const struct tw_request *request,
                            const void *source,
                            size_t source_length,
                            const struct tw_executor *executor,
                            struct tw_text *message);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TILEWRIGHT_H */
