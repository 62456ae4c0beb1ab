//! Sequences of calls of the C interface, right and wrong in the ways that the header speaks of. A call gives the status of
//! something that is wrong with it; what fails writes nothing but its message; what works writes the right bytes and
//! none beside them.
//!
//! An input is the list of bytes that everything is drawn from. Pointers that are not NULL and not misaligned lead to as many
//! bytes as their lengths say, and no handle is used after it is freed: the header asks for both.

#[path = "choices.rs"]
mod choices;

use std::ffi::c_void;
use std::mem::zeroed;
use std::ptr::{null, null_mut};

use choices::Choices;
use tilewright_capi::*;

/// Calls of one input.
const CALLS: usize = 40;

/// Plans of more bytes than this on either side are freed at once. Above 256 KiB the caller's threads are asked. Under Miri, which
/// takes thousands of times as long, above 8 KiB.
const MOST: u64 = if cfg!(miri) { 1 << 13 } else { 3 << 18 };

/// Bytes beside a result that must stay as they are.
const MARGIN: usize = 32;

/// What lies in memory that nobody has written.
const UNTOUCHED: u8 = 0xA5;

impl Choices<'_> {
    /// Whether something rare happens.
    fn rarely(&mut self) -> bool {
        self.below(16) == 15
    }

    fn number(&mut self) -> u64 {
        if self.rarely() {
            return self.of(&[0, u64::MAX, 1 << 63, 1 << 40, 65536]);
        }
        self.of(&[1, 2, 3, 5, 16, 31, 32, 33, 40, 64, 96])
    }

    fn numbers(&mut self, n: usize) -> Vec<u64> {
        (0..n).map(|_| self.number()).collect()
    }
}

/// A pointer that is aligned for nothing.
fn odd<T>(at: *const T) -> *mut T {
    at.cast::<u8>().wrapping_add(1).cast::<T>().cast_mut()
}

/// Memory with a margin on both sides.
struct Room(Vec<u8>, usize);

impl Room {
    fn new(len: usize) -> Room {
        Room(vec![UNTOUCHED; len + 2 * MARGIN], len)
    }

    fn at(&mut self) -> *mut u8 {
        self.0[MARGIN..].as_mut_ptr()
    }

    /// What was written; fails where anything beside it was.
    fn written(&self) -> &[u8] {
        let (before, rest) = self.0.split_at(MARGIN);
        let (inside, behind) = rest.split_at(self.1);
        assert!(before.iter().chain(behind).all(|&b| b == UNTOUCHED), "bytes beside a result were written");
        inside
    }

    fn untouched(&self) -> bool {
        self.written().iter().all(|&b| b == UNTOUCHED)
    }
}

/// One call. `wrong` are the statuses of what is wrong with it, one of which it must give; `content` those of its content,
/// which it may give beside. Whether the call got as far as to look at its arguments: a message that cannot be used is
/// refused first.
fn call(
    c: &mut Choices,
    mut wrong: Vec<tw_status>,
    content: &[tw_status],
    run: impl FnOnce(*mut tw_text) -> tw_status,
) -> (tw_status, bool) {
    let capacity = c.of(&[0, 1, 9, 200]);
    let mut room = Room::new(capacity);
    let mut text = tw_text { data: room.at().cast(), capacity, length: usize::MAX };
    let status = match c.below(16) {
        13 => run(null_mut()),
        14 => {
            wrong.push(TW_MISALIGNED);
            run(odd(&raw const text))
        }
        15 => {
            wrong.push(TW_NULL);
            text.capacity = 1;
            text.data = null_mut();
            run(&raw mut text)
        }
        _ => {
            let status = run(&raw mut text);
            message(&room, &text, capacity, status);
            status
        }
    };
    let allowed = content.contains(&status) || (content == ANY && status > 0 && status != TW_UNVERIFIED);
    assert!(
        if status == TW_OK { wrong.is_empty() } else { allowed || wrong.contains(&status) },
        "status {status}, needed one of {wrong:?}, or of {content:?}"
    );
    // Memory that cannot be used is found before anything else is looked at.
    (status, status == TW_OK || !(text.data.is_null() && status == TW_NULL || status == TW_MISALIGNED))
}

/// In place of a list: any status of the content.
const ANY: &[tw_status] = &[i32::MAX];

/// A message is written where the call failed, and only there: as much as fits, and a NUL.
fn message(room: &Room, text: &tw_text, capacity: usize, status: tw_status) {
    if status == TW_OK {
        assert!(room.untouched() && text.length == usize::MAX, "a message without a failure");
        return;
    }
    assert!((1..10_000).contains(&text.length), "a message of {} bytes", text.length);
    let written = room.written();
    let Some(end) = written.iter().position(|&b| b == 0) else { return assert_eq!(capacity, 0) };
    assert!(end == text.length || (end < capacity && text.length >= capacity), "{end} of {}", text.length);
    assert!(std::str::from_utf8(&written[..end]).is_ok(), "a character was cut");
}

/// A plan, and what is known of it.
struct Plan {
    at: *mut tw_plan,
    info: tw_plan_info,
    source: Vec<u8>,
    /// What the source becomes; none where an integer does not fit.
    bytes: Option<Vec<u8>>,
    shape: Vec<u64>,
}

/// A stager, its memory where that is lent, and the bytes of a slot.
struct Ring {
    at: *mut tw_stager,
    slot_bytes: usize,
    _memory: Vec<Vec<u64>>,
}

/// All handles that are open.
#[derive(Default)]
struct House {
    plans: Vec<Plan>,
    rings: Vec<Ring>,
    files: Vec<*mut tw_tensorbin>,
    folder: Option<tempfile::TempDir>,
}

/// Memory of the caller that is no handle.
static NO_HANDLE: [u64; 4] = [0; 4];

/// A handle to one of `all`, or something else in its place, and what that is refused with.
fn handle<T, H>(c: &mut Choices, all: &[T], at: impl Fn(&T) -> *mut H) -> (*mut H, Option<usize>, Vec<i32>) {
    let which = c.below(all.len().max(1));
    match (c.below(24), all.get(which)) {
        (21, _) | (0..21, None) => (null_mut(), None, vec![TW_NULL]),
        (22, Some(handle)) => (odd(at(handle)), None, vec![TW_MISALIGNED]),
        (22.., _) => (NO_HANDLE.as_ptr().cast_mut().cast(), None, vec![TW_HANDLE]),
        (_, Some(handle)) => (at(handle), Some(which), vec![]),
    }
}

/// Layout texts; the first fit nearly every tensor.
const TEXTS: [&str; 12] = [
    "ttnn(dtype=bfloat16, layout=TILE)",
    "ttnn(dtype=bfloat8_b, layout=TILE)",
    "ttnn(dtype=float32, layout=ROW_MAJOR, memory=INTERLEAVED, banks=3, alignment=64)",
    "ttnn(dtype=bfloat4_b, layout=TILE, memory=INTERLEAVED, banks=5, alignment=32)",
    "ttnn(dtype=int32, layout=TILE)",
    "ttnn(dtype=uint8, layout=ROW_MAJOR)",
    "metal(shape=(64, 96), collapse=[(0, -1)], grid=(2, 3), tile=(32, 32), dtype=f32, oob=one, memory=l1)",
    "SpyreTensorLayout((64, 96), torch.float16, [1, 0])",
    "memref<64x96xf32, strided<[1, 64]>>",
    "memref<40x33xi16>",
    "ttnn(dtype=mxfp8_e4m3, layout=TILE)",
    "ttnn(dtype=bfloat8_b, layout=TILE, memory=ND_SHARDED, grid=(2, 2), shard=(32, 64))",
];

const MESHES: [&str; 3] = ["", "Shard", "MeshMapperConfig([PlacementShard(0)], MeshShape([2]))"];

/// The structs of one layout of a request, and what they lead to.
struct Laid {
    text: Vec<u8>,
    mesh: &'static str,
    sizes: Vec<u64>,
    strides: Vec<i64>,
    pairs: Vec<[i64; 2]>,
    pad: f64,
    strided: tw_strided,
    ttnn: tw_ttnn,
    metal: tw_metal,
    spyre: tw_spyre,
    layout: tw_layout,
}

/// A struct of zeros.
fn zero<T: Copy>() -> T {
    // SAFETY: used for the header's structs of numbers, pointers and optional functions, for which all zero is a value.
    unsafe { zeroed() }
}

fn text_of(bytes: &[u8]) -> tw_string {
    tw_string { data: bytes.as_ptr().cast(), length: bytes.len() }
}

/// The size of a struct, or rarely something else.
fn size<T>(c: &mut Choices, wrong: &mut Vec<tw_status>) -> u32 {
    let right = size_of::<T>() as u32;
    if c.below(64) != 63 {
        return right;
    }
    wrong.push(TW_STRUCT_SIZE);
    c.of(&[0, 1, right - 1, 1025, u32::MAX])
}

impl Laid {
    fn new(c: &mut Choices, rank: usize, wrong: &mut Vec<tw_status>) -> Box<Laid> {
        let fitting = if c.below(2) == 0 { 4 } else { TEXTS.len() };
        let mut text = c.of(&TEXTS[..fitting]).as_bytes().to_vec();
        if c.rarely() {
            let at = c.below(text.len());
            text[at] = c.below(256) as u8;
        }
        let dims = if c.rarely() { c.below(5) } else { rank };
        let mut laid = Box::new(Laid {
            text,
            mesh: if c.rarely() { c.of(&MESHES) } else { "" },
            sizes: c.numbers(dims),
            strides: (0..dims).map(|_| c.of(&[1, 0, 2, 96, 4000, -1, i64::MIN])).collect(),
            pairs: vec![[0, c.of(&[-1, 1, 2, i64::MAX])]; c.below(3)],
            pad: c.of(&[0.0, 1.0, f64::NAN]),
            strided: zero(),
            ttnn: zero(),
            metal: zero(),
            spyre: zero(),
            layout: zero(),
        });
        laid.fill(c, wrong);
        laid
    }

    fn fill(&mut self, c: &mut Choices, wrong: &mut Vec<tw_status>) {
        const FORMATS: [u32; 9] = [TW_F32, TW_BF16, TW_BFP8_B, TW_U8, TW_I32, TW_MXFP4, TW_F16, 0, u32::MAX];
        self.layout.struct_size = size::<tw_layout>(c, wrong);
        self.layout.reserved = u32::from(c.below(64) == 63);
        self.layout.mesh = text_of(self.mesh.as_bytes());
        self.layout.pad_value = if c.rarely() { &raw const self.pad } else { null() };
        match c.below(16) {
            8 | 9 => {
                self.strided.struct_size = size::<tw_strided>(c, wrong);
                self.strided.dtype = c.of(&[0, TW_F32, TW_I32, TW_BFP8_B]);
                self.strided.offset = c.of(&[0, 1, 100, -1, i64::MAX]);
                (self.strided.strides, self.strided.rank) = (self.strides.as_ptr(), self.strides.len());
                self.layout.strided = &raw const self.strided;
            }
            10 | 11 => {
                self.ttnn.struct_size = size::<tw_ttnn>(c, wrong);
                (self.ttnn.format, self.ttnn.page_layout) =
                    (c.of(&FORMATS), c.of(&[TW_TILE, TW_ROW_MAJOR, 2]));
                (self.ttnn.tile_rows, self.ttnn.tile_columns) = c.of(&[(0, 0), (32, 32), (16, 32), (7, 3)]);
                (self.ttnn.transpose_tile, self.ttnn.memory) = (c.of(&[0, 1, 2]), c.below(7) as u32);
                (self.ttnn.banks, self.ttnn.alignment) = (c.number(), c.of(&[32, 64, 0, 3]));
                self.ttnn.grid = [c.number(), c.number()];
                (self.ttnn.shard, self.ttnn.shard_rank) = (self.sizes.as_ptr(), self.sizes.len());
                self.layout.ttnn = &raw const self.ttnn;
            }
            12 | 13 => {
                self.metal.struct_size = size::<tw_metal>(c, wrong);
                self.metal.format = c.of(&FORMATS);
                (self.metal.tile_rows, self.metal.tile_columns) = c.of(&[(0, 0), (32, 32), (16, 16), (1, 1)]);
                self.metal.fill = c.below(6) as u32;
                (self.metal.grid, self.metal.grid_rank) = (self.sizes.as_ptr(), self.sizes.len());
                (self.metal.collapse, self.metal.collapse_count) = (self.pairs.as_ptr(), self.pairs.len());
                self.layout.metal = &raw const self.metal;
            }
            14 => {
                self.spyre.struct_size = size::<tw_spyre>(c, wrong);
                self.spyre.data_format = c.below(12) as u32;
                self.spyre.rank = if c.below(2) == 0 { 0 } else { self.sizes.len() };
                self.spyre.device_size = self.sizes.as_ptr();
                self.spyre.stride_map = self.strides.as_ptr();
                self.layout.spyre = &raw const self.spyre;
            }
            15 => {}
            _ => self.layout.text = text_of(&self.text),
        }
        if c.below(64) == 63 {
            self.layout.text = tw_string { data: null(), length: 3 };
            wrong.push(TW_NULL);
        }
    }
}

/// A request, and what it leads to.
struct Asked {
    shape: Vec<u64>,
    sides: [Option<Box<Laid>>; 2],
    request: tw_request,
}

impl Asked {
    fn new(c: &mut Choices, wrong: &mut Vec<tw_status>) -> Asked {
        let rank = if c.rarely() { c.below(6) } else { 2 };
        let shape = match c.below(8) {
            5 => vec![64, 96],
            6 => vec![40, 33],
            7 => vec![512, 300],
            _ => c.numbers(rank),
        };
        let mut side = |none: usize| (c.below(8) >= none).then(|| Laid::new(c, shape.len(), wrong));
        let sides = [side(6), side(1)];
        let mut request: tw_request = zero();
        request.struct_size = size::<tw_request>(c, wrong);
        request.dtype = match c.below(16) {
            14 => 0,
            15 => TW_BFP8_B,
            n => [TW_F32, TW_F32, TW_BF16, TW_I32, TW_F64, TW_U8][n % 6],
        };
        (request.shape, request.rank) = (shape.as_ptr(), shape.len());
        if c.below(64) == 63 && !shape.is_empty() {
            request.shape = null();
            wrong.push(TW_NULL);
        }
        let at = |side: &Option<Box<Laid>>| side.as_ref().map_or(null(), |laid| &raw const laid.layout);
        (request.source, request.destination) = (at(&sides[0]), at(&sides[1]));
        if c.below(64) == 63 {
            request.destination = odd(NO_HANDLE.as_ptr()).cast();
            wrong.push(TW_MISALIGNED);
        }
        let mut pick = |good: &[u32], bad: &[u32]| if c.below(64) == 63 { c.of(bad) } else { c.of(good) };
        request.rounding =
            pick(&[TW_ROUND_HOST, TW_ROUND_DEVICE, TW_ROUND_TRUNCATE, TW_ROUND_DEVICE_OP], &[4]);
        request.flags =
            pick(&[TW_SATURATE, 0, TW_SEARCH | TW_SATURATE, TW_COMPAT_UNPACK], &[20, 32, u32::MAX]);
        request.isa = pick(&[TW_ISA_BEST, TW_ISA_SCALAR, TW_ISA_BASE], &[5, u32::MAX]);
        request.store = pick(&[TW_STORE_AUTO, TW_STORE_CACHED, TW_STORE_STREAMED], &[3]);
        Asked { shape, sides, request }
    }
}

/// A struct of information about a plan, as the header says.
fn query(c: &mut Choices, house: &House) {
    let (at, which, mut wrong) = handle(c, &house.plans, |plan| plan.at);
    let mut info: tw_plan_info = zero();
    info.struct_size = size::<tw_plan_info>(c, &mut wrong);
    let to = if c.rarely() { null_mut() } else { &raw mut info };
    wrong.extend(to.is_null().then_some(TW_NULL));
    // SAFETY: pointers are as the header asks.
    let (status, _) = call(c, wrong, &[], |m| unsafe { tw_plan_query(at, to, m) });
    if let (TW_OK, Some(plan)) = (status, which.map(|i| &house.plans[i])) {
        let sizes = |i: &tw_plan_info| (i.source_bytes, i.destination_bytes, i.chunk_alignment, i.rank);
        assert_eq!(sizes(&info), sizes(&plan.info));
        assert_eq!(info.destination_buffers * info.destination_buffer_bytes, info.destination_bytes);
    }
}

/// A new plan, which converts its source as the plan of plain loops does.
fn compile(c: &mut Choices, house: &mut House) {
    let mut wrong = Vec::new();
    let asked = Asked::new(c, &mut wrong);
    let sentinel = NO_HANDLE.as_ptr().cast_mut().cast::<tw_plan>();
    let mut at = sentinel;
    let to = if c.rarely() { null_mut() } else { &raw mut at };
    wrong.extend(to.is_null().then_some(TW_NULL));
    // SAFETY: pointers are as the header asks.
    let (status, reached) = call(c, wrong, ANY, |m| unsafe { tw_plan_compile(&asked.request, to, m) });
    if status != TW_OK {
        assert!(at.is_null() || to.is_null() || !reached, "a plan of a call that failed");
        return;
    }
    assert!(!at.is_null() && at != sentinel);
    let mut info: tw_plan_info = zero();
    info.struct_size = size_of::<tw_plan_info>() as u32;
    // SAFETY: as above.
    assert_eq!(unsafe { tw_plan_query(at, &mut info, null_mut()) }, TW_OK);
    if info.source_bytes.max(info.destination_bytes) > MOST || house.plans.len() >= 4 {
        // SAFETY: nothing uses it any more.
        assert_eq!(unsafe { tw_plan_free(at) }, TW_OK);
        return;
    }
    let source: Vec<u8> =
        (0..info.source_bytes).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 15) as u8 & 0x3F).collect();
    let bytes = plainly(&asked, &source, info.destination_bytes as usize);
    house.plans.push(Plan { at, info, source, bytes, shape: asked.shape });
    drop(asked.sides);
}

/// What a request of plain loops makes of a source; none where an integer does not fit.
fn plainly(asked: &Asked, source: &[u8], len: usize) -> Option<Vec<u8>> {
    let request = tw_request { isa: TW_ISA_SCALAR, store: TW_STORE_CACHED, ..asked.request };
    let (mut at, mut out) = (null_mut(), vec![0; len]);
    // SAFETY: pointers are as the header asks; nothing uses the plan after it is freed.
    let status = unsafe {
        assert_eq!(tw_plan_compile(&request, &mut at, null_mut()), TW_OK);
        let (from, to) = (source.as_ptr().cast(), out.as_mut_ptr().cast());
        let status = tw_plan_execute(at, from, source.len(), to, len, null(), null_mut());
        assert_eq!(tw_plan_free(at), TW_OK);
        status
    };
    assert!([TW_OK, TW_OUT_OF_RANGE].contains(&status), "status {status}");
    (status == TW_OK).then_some(out)
}

/// How an executor of the caller goes about its tasks; those from `Skips` on are not as the header asks.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum How {
    InOrder,
    Backwards,
    Threads,
    Skips,
    Repeats,
    Fails,
    None,
}

struct Workers {
    how: How,
    called: bool,
}

unsafe extern "C" fn run_tasks(ctx: *mut c_void, tasks: u32, task: tw_task, arg: *mut c_void) -> i32 {
    // SAFETY: `ctx` is what `execute` gave, and nothing else uses it meanwhile.
    let workers = unsafe { &mut *ctx.cast::<Workers>() };
    workers.called = true;
    let (task, arg) = (task.unwrap(), arg.expose_provenance());
    // SAFETY: a task of this call, with its argument.
    let run = move |i: u32| unsafe { task(std::ptr::with_exposed_provenance_mut(arg), i) };
    match workers.how {
        How::InOrder => (0..tasks).for_each(run),
        How::Backwards => (0..tasks).rev().for_each(run),
        How::Threads => std::thread::scope(|scope| {
            scope.spawn(move || (0..tasks).step_by(2).for_each(run));
            (1..tasks).step_by(2).for_each(run);
        }),
        How::Skips => (1..tasks).for_each(run),
        How::Repeats => (0..tasks).chain([0]).for_each(run),
        How::Fails => {
            (0..tasks).for_each(run);
            return 9;
        }
        How::None => {}
    }
    0
}

/// An executor, whose size and context are still to be set.
fn workers(c: &mut Choices) -> (Workers, tw_executor) {
    use How::{Backwards, Fails, InOrder, None as Nothing, Repeats, Skips, Threads};
    let how = c.of(&[InOrder, Backwards, Threads, InOrder, Skips, Repeats, Fails, Nothing]);
    let mut executor: tw_executor = zero();
    executor.threads = c.of(&[0, 1, 2, 3, 8, u32::MAX]);
    executor.run = Some(run_tasks);
    (Workers { how, called: false }, executor)
}

/// All of a conversion at once, right or with one thing wrong.
fn execute(c: &mut Choices, house: &House) {
    let (at, which, mut wrong) = handle(c, &house.plans, |plan| plan.at);
    let plan = which.map(|i| &house.plans[i]);
    let (mut source_len, mut len) =
        plan.map_or((8, 8), |p| (p.source.len(), p.info.destination_bytes as usize));
    let mut room = Room::new(len);
    let (mut from, mut to) = (plan.map_or(NO_HANDLE.as_ptr().cast(), |p| p.source.as_ptr()), room.at());
    match c.below(24) {
        18 if source_len > 0 => (from, wrong) = (null(), [wrong, vec![TW_NULL]].concat()),
        19 if len > 0 => (to, wrong) = (null_mut(), [wrong, vec![TW_NULL]].concat()),
        20 => {
            (source_len, wrong) = (c.of(&[source_len + 1, 0, usize::MAX]), [wrong, vec![TW_LENGTH]].concat())
        }
        21 => (len, wrong) = (c.of(&[len + 1, 0, usize::MAX]), [wrong, vec![TW_LENGTH]].concat()),
        22 if len > 0 && source_len > 0 => (from, wrong) = (to, [wrong, vec![TW_OVERLAP]].concat()),
        _ => {}
    }
    if plan.is_some_and(|p| (p.source.len(), p.info.destination_bytes as usize) == (source_len, len)) {
        wrong.retain(|&status| status != TW_LENGTH);
    }
    let (mut workers, mut executor) = workers(c);
    executor.struct_size = size::<tw_executor>(c, &mut wrong);
    executor.ctx = (&raw mut workers).cast();
    if c.rarely() {
        executor.run = None;
        wrong.push(TW_NULL);
    }
    let executor = match c.below(3) {
        0 if executor.run.is_some() && executor.struct_size as usize == size_of::<tw_executor>() => null(),
        _ => &raw const executor,
    };
    let content = [TW_OUT_OF_RANGE, TW_EXECUTOR];
    let (from, to) = (from.cast::<c_void>(), to.cast::<c_void>());
    // SAFETY: pointers are as the header asks; `from` is `to` only where that is refused.
    let run = |m| unsafe { tw_plan_execute(at, from, source_len, to, len, executor, m) };
    let (status, _) = call(c, wrong, &content, run);
    let faulty = workers.called && workers.how >= How::Skips;
    assert!(faulty == (status == TW_EXECUTOR), "status {status}, executor at fault: {faulty}");
    match (status, plan) {
        (TW_OK, Some(plan)) => assert!(room.written() == plan.bytes.as_ref().unwrap(), "other bytes"),
        (TW_OUT_OF_RANGE, Some(plan)) => assert!(plan.bytes.is_none()),
        (TW_EXECUTOR, _) => drop(room.written()),
        _ => assert!(room.untouched(), "a call with wrong arguments has written"),
    }
}

/// Some conversions in one call, of which one may be wrong. The plans may be the same, the memory they write is not.
fn batch(c: &mut Choices, house: &House) {
    // What is wrong with the call, and with each conversion; those are looked at in order.
    let (mut wrong, mut faults, mut plans) = (vec![], vec![], vec![]);
    let (mut rooms, mut conversions) = (Vec::<Room>::new(), Vec::<tw_conversion>::new());
    for _ in 0..c.of(&[2, 0, 1, 3, 5]) {
        let (at, which, mut fault) = handle(c, &house.plans, |plan| plan.at);
        let plan = which.map(|i| &house.plans[i]);
        let (needed, len) = plan.map_or((8, 8), |p| (p.source.len(), p.info.destination_bytes as usize));
        rooms.push(Room::new(len));
        let mut conversion = tw_conversion {
            plan: at,
            source: plan.map_or(NO_HANDLE.as_ptr().cast(), |p| p.source.as_ptr()).cast(),
            source_length: needed,
            destination: rooms.last_mut().unwrap().at().cast(),
            destination_length: len,
        };
        let before = conversions.last().filter(|c| c.destination_length > 0 && !c.destination.is_null());
        match (c.below(64), before) {
            (58, _) if needed > 0 => (conversion.source, fault) = (null(), [fault, vec![TW_NULL]].concat()),
            (59, _) if len > 0 => {
                (conversion.destination, fault) = (null_mut(), [fault, vec![TW_NULL]].concat());
            }
            (60, _) => {
                conversion.source_length += 1;
                fault.push(TW_LENGTH);
            }
            (61, _) if len > 0 => {
                conversion.destination_length -= 1;
                fault.push(TW_LENGTH);
            }
            (62, _) if needed > 0 && len > 0 => {
                conversion.source = conversion.destination;
                wrong.push(TW_OVERLAP);
            }
            (63, Some(before)) if len > 0 => {
                conversion.destination = before.destination;
                wrong.push(TW_OVERLAP);
            }
            _ => {}
        }
        conversions.push(conversion);
        plans.push(plan);
        faults.push(fault);
    }
    let mut failed = u64::MAX;
    let to = match c.below(32) {
        29 => null_mut(),
        30 => odd(&raw const failed),
        31 if !conversions.is_empty() => conversions.as_mut_ptr().cast(),
        _ => &raw mut failed,
    };
    let list = if c.rarely() && !conversions.is_empty() { null() } else { conversions.as_ptr() };
    wrong.extend(list.is_null().then_some(TW_NULL).filter(|_| !conversions.is_empty()));
    wrong.extend((to == odd(&raw const failed)).then_some(TW_MISALIGNED));
    wrong.extend((to.cast_const().cast() == conversions.as_ptr()).then_some(TW_OVERLAP));
    let of_the_call = !wrong.is_empty();
    let first_fault = faults.iter().position(|fault| !fault.is_empty());
    wrong.extend(first_fault.iter().flat_map(|&i| &faults[i]));
    let (mut workers, mut executor) = workers(c);
    executor.ctx = (&raw mut workers).cast();
    executor.struct_size = size::<tw_executor>(c, &mut wrong);
    let whole = executor.struct_size as usize == size_of::<tw_executor>();
    let executor = if whole && c.below(3) == 0 { null() } else { &raw const executor };
    let count = conversions.len();
    // SAFETY: pointers are as the header asks; what overlaps is refused.
    let run = |m| unsafe { tw_execute_batch(list, count, executor, to, m) };
    let (status, reached) = call(c, wrong, &[TW_OUT_OF_RANGE, TW_EXECUTOR], run);
    let faulty = workers.called && workers.how >= How::Skips;
    assert!(faulty == (status == TW_EXECUTOR), "status {status}, executor at fault: {faulty}");
    let blamed = match status {
        TW_OK | TW_EXECUTOR => None,
        TW_OUT_OF_RANGE => plans.iter().position(|plan| plan.is_some_and(|plan| plan.bytes.is_none())),
        _ => first_fault.filter(|_| !of_the_call),
    };
    let named = blamed.filter(|_| to == &raw mut failed).map_or(u64::MAX, |item| item as u64);
    // Of a message that cannot be used no conversion is to blame.
    assert!(failed == named || !reached && failed == u64::MAX, "{failed}, needed {named}: status {status}");
    for (plan, room) in plans.iter().zip(&rooms) {
        match (status, plan.map(|plan| &plan.bytes)) {
            (TW_OK | TW_OUT_OF_RANGE, Some(Some(bytes))) => assert!(room.written() == bytes, "other bytes"),
            (TW_OUT_OF_RANGE | TW_EXECUTOR, _) => drop(room.written()),
            _ => assert!(room.untouched(), "a call with wrong arguments has written"),
        }
    }
}

/// The same in chunks, of which one may be wrong.
fn chunks(c: &mut Choices, house: &House) {
    let (at, which, mut wrong) = handle(c, &house.plans, |plan| plan.at);
    let at_most = c.of(&[1, 100, 4096, 5000, 70_000, usize::MAX, 0]);
    let mut out = [7_usize, 7];
    let (bytes, count) = (&raw mut out[0], (&raw mut out[0]).wrapping_add(usize::from(!c.rarely())));
    wrong.extend((bytes == count).then_some(TW_OVERLAP));
    // SAFETY: pointers are as the header asks.
    let (status, _) =
        call(c, wrong, &[TW_VALUE], |m| unsafe { tw_plan_chunks(at, at_most, bytes, count, m) });
    let (TW_OK, Some(plan)) = (status, which.map(|i| &house.plans[i])) else {
        return assert_eq!(out, [7, 7], "a call that failed has written");
    };
    let ([size, n], total) = (out, plan.info.destination_bytes as usize);
    assert!(
        size <= at_most
            && (size as u64).is_multiple_of(plan.info.chunk_alignment.max(1))
            && n == total.div_ceil(size)
    );
    for k in (0..n).step_by(1 + n / 16) {
        let begin = k * size;
        chunk(c, plan, begin, size.min(total - begin));
    }
    let (begin, length) = (c.of(&[0, 1, total, usize::MAX]), c.of(&[0, 1, total, usize::MAX]));
    let inside = begin.checked_add(length).is_some_and(|end| end <= total);
    if length <= MOST as usize {
        let mut room = Room::new(length);
        let (from, len, to) = (plan.source.as_ptr().cast(), plan.source.len(), room.at().cast());
        // SAFETY: pointers are as the header asks.
        let run = |m| unsafe { tw_plan_execute_chunk(at, from, len, begin, to, length, m) };
        let (status, _) = call(c, vec![], ANY, run);
        assert!(status != TW_OK || inside);
        assert!(room.untouched() || status == TW_OK || status == TW_OUT_OF_RANGE);
    }
}

/// One chunk, of nothing but the window of the source that it needs.
fn chunk(c: &mut Choices, plan: &Plan, begin: usize, length: usize) {
    let mut window = [usize::MAX; 2];
    let [first, second] = window.each_mut().map(|at| &raw mut *at);
    // SAFETY: pointers are as the header asks.
    let run = |m| unsafe { tw_plan_source_window(plan.at, begin, length, first, second, m) };
    if call(c, vec![], &[], run).0 != TW_OK {
        return;
    }
    let [from, needed] = window;
    let mut source = plan.source.clone();
    source[..from].fill(UNTOUCHED);
    source[from + needed..].fill(UNTOUCHED);
    let mut room = Room::new(length);
    let (source, len, to) = (source.as_ptr().cast(), source.len(), room.at().cast());
    // SAFETY: pointers are as the header asks.
    let run = |m| unsafe { tw_plan_execute_chunk(plan.at, source, len, begin, to, length, m) };
    let (status, _) = call(c, vec![], &[TW_OUT_OF_RANGE], run);
    if let (TW_OK, Some(bytes)) = (status, &plan.bytes) {
        assert!(room.written() == &bytes[begin..begin + length], "other bytes in a chunk");
    }
}

/// Where an element lies, and that it is the owner of that byte.
fn locate(c: &mut Choices, house: &House) {
    let (at, which, mut wrong) = handle(c, &house.plans, |plan| plan.at);
    let shape = which.map_or(&[][..], |i| &house.plans[i].shape);
    let mut index: Vec<u64> = shape.iter().map(|&n| c.below(256) as u64 % n.max(1)).collect();
    if c.rarely() {
        index.push(0);
    }
    let side = c.of(&[TW_SOURCE, TW_DESTINATION, TW_DESTINATION, 2]);
    let capacity = c.below(3);
    let (mut places, mut count, rank) = (vec![zero::<tw_place>(); 3], u64::MAX, index.len());
    let mut to = places.as_mut_ptr();
    if c.rarely() && rank > 0 && capacity > 0 {
        index.resize(rank + 16, 0);
        to = index.as_mut_ptr().cast();
        wrong.push(TW_OVERLAP);
    }
    // SAFETY: pointers are as the header asks; what overlaps is refused, and large enough all the same.
    let run = |m| unsafe { tw_plan_locate(at, side, index.as_ptr(), rank, to, capacity, &mut count, m) };
    let (status, _) = call(c, wrong, &[TW_VALUE, TW_SHORT], run);
    assert!(if matches!(status, TW_OK | TW_SHORT) { count != u64::MAX } else { count == u64::MAX });
    if status == TW_OK && count > 0 {
        owner(c, at, side, &places[0], &index[..rank]);
    }
}

fn owner(c: &mut Choices, at: *const tw_plan, side: u32, place: &tw_place, index: &[u64]) {
    let (mut owner, mut indices) = (zero::<tw_owner>(), vec![u64::MAX; 64 * (index.len() + 1)]);
    let capacity = c.of(&[indices.len(), indices.len(), 0, 1]);
    let (buffer, byte) = (place.buffer, place.byte);
    // SAFETY: pointers are as the header asks.
    let run =
        |m| unsafe { tw_plan_owner(at, side, buffer, byte, &mut owner, indices.as_mut_ptr(), capacity, m) };
    // In a source elements may share places; then a byte has no one owner.
    let content: &[tw_status] =
        if side == TW_SOURCE { &[TW_SHORT, TW_VALUE, TW_COLLISION] } else { &[TW_SHORT] };
    let (status, _) = call(c, vec![], content, run);
    if status == TW_OK && !index.is_empty() {
        assert_eq!(owner.kind, TW_OWNER_ELEMENTS);
        let mut found = indices[..owner.elements as usize * index.len()].chunks(index.len());
        assert!(found.any(|found| found == index), "{index:?} is not where it lies");
    }
}

/// The plan as text, in memory of any size.
fn explain(c: &mut Choices, house: &House) {
    let (at, _, wrong) = handle(c, &house.plans, |plan| plan.at);
    let capacity = c.of(&[0, 1, 50, 1 << 16]);
    let mut room = Room::new(capacity);
    let mut text = tw_text { data: room.at().cast(), capacity, length: usize::MAX };
    let dci = c.below(4) == 0;
    let content: &[tw_status] = if dci { &[TW_SHORT, TW_VALUE] } else { &[TW_SHORT] };
    // SAFETY: pointers are as the header asks.
    let run =
        |m| unsafe { if dci { tw_plan_dci(at, &mut text, m) } else { tw_plan_explain(at, &mut text, m) } };
    let (status, _) = call(c, wrong, content, run);
    match status {
        TW_OK | TW_SHORT => {
            assert_eq!(status == TW_SHORT, text.length >= capacity);
            let end = room.written().iter().position(|&b| b == 0);
            assert_eq!(end.is_some(), capacity > 0);
            assert!(status == TW_SHORT || end == Some(text.length));
        }
        _ => assert!(room.untouched()),
    }
}

/// Frees a handle, or what is none.
fn free(c: &mut Choices, house: &mut House) {
    let (at, which, mut wrong) = handle(c, &house.plans, |plan| plan.at);
    wrong.retain(|&status| status != TW_NULL);
    // SAFETY: nothing uses the plan any more.
    let status = unsafe { tw_plan_free(at) };
    assert!(if wrong.is_empty() { status == TW_OK } else { wrong.contains(&status) }, "{status}");
    which.map(|i| house.plans.swap_remove(i));
}

/// A ring of slots, of the library's memory or the caller's.
fn ring(c: &mut Choices, house: &mut House) {
    if house.rings.len() >= 2 {
        let Ring { at, .. } = house.rings.swap_remove(c.below(2));
        // SAFETY: nothing uses it any more.
        assert_eq!(unsafe { tw_stager_free(at) }, TW_OK);
        return;
    }
    let slots = c.of(&[1, 2, 3, 64, 65, usize::MAX]);
    let slot_bytes = c.of(&[4096, 8192, 5000, 1, 4095, usize::MAX]);
    let lent = c.below(3) == 0 && slots <= 64 && slot_bytes <= 8192;
    let mut memory: Vec<Vec<u64>> = if lent { vec![vec![0; slot_bytes / 8 + 1]; slots] } else { Vec::new() };
    let mut pointers: Vec<*mut c_void> = memory.iter_mut().map(|m| m.as_mut_ptr().cast()).collect();
    let mut wrong = Vec::new();
    if lent && c.rarely() {
        pointers[slots / 2] = null_mut();
        wrong.push(TW_NULL);
    }
    let pointers = if lent { pointers.as_ptr() } else { null() };
    let mut at = NO_HANDLE.as_ptr().cast_mut().cast();
    // SAFETY: pointers are as the header asks.
    let run = |m| unsafe { tw_stager_create(slots, slot_bytes, pointers, &mut at, m) };
    let (status, reached) = call(c, wrong, &[TW_VALUE, TW_IO, TW_LENGTH, TW_STAGING], run);
    if status == TW_OK {
        house.rings.push(Ring { at, slot_bytes, _memory: memory });
    } else {
        assert!(at.is_null() || !reached);
    }
}

/// A device of the caller's: what has arrived, and the tickets on their way.
struct Device {
    arrived: Vec<Vec<u8>>,
    times: Vec<Vec<u8>>,
    flight: Vec<(u64, Vec<tw_piece>)>,
    calls: usize,
    /// The call that fails.
    fails_at: usize,
}

impl Device {
    fn take(&mut self, pieces: &[tw_piece]) {
        for piece in pieces {
            let (which, begin) = (piece.transfer as usize, piece.destination as usize);
            let range = begin..begin + piece.length;
            // SAFETY: by the header a piece's bytes can be read until its ticket is given back.
            let bytes = unsafe { std::slice::from_raw_parts(piece.data.cast::<u8>(), piece.length) };
            self.arrived[which][range.clone()].copy_from_slice(bytes);
            self.times[which][range].iter_mut().for_each(|n| *n += 1);
        }
    }
}

unsafe extern "C" fn submit(ctx: *mut c_void, ticket: u64, pieces: *const tw_piece, count: usize) -> i32 {
    // SAFETY: `ctx` is what `stage` gave, and by the header so many pieces can be read.
    let (device, pieces) = unsafe { (&mut *ctx.cast::<Device>(), std::slice::from_raw_parts(pieces, count)) };
    device.calls += 1;
    if device.calls == device.fails_at {
        return 77;
    }
    device.flight.push((ticket, pieces.to_vec()));
    0
}

unsafe extern "C" fn submit_at_once(ctx: *mut c_void, _: u64, pieces: *const tw_piece, count: usize) -> i32 {
    // SAFETY: as in `submit`.
    let (device, pieces) = unsafe { (&mut *ctx.cast::<Device>(), std::slice::from_raw_parts(pieces, count)) };
    device.calls += 1;
    if device.calls == device.fails_at {
        return 77;
    }
    device.take(pieces);
    0
}

/// The latest ticket is the first to arrive.
unsafe extern "C" fn wait(ctx: *mut c_void, limit_ms: u64, ticket: *mut u64) -> i32 {
    // SAFETY: as in `submit`; `ticket` can be written.
    let (device, ticket) = unsafe { (&mut *ctx.cast::<Device>(), &mut *ticket) };
    if limit_ms == 0 {
        return TW_PENDING;
    }
    let Some((number, pieces)) = device.flight.pop() else { return TW_PENDING };
    device.take(&pieces);
    *ticket = number;
    device.calls += 1;
    if device.calls == device.fails_at { 5 } else { 0 }
}

/// A source that is read by ranges.
struct Bytes {
    bytes: Vec<u8>,
    fails: bool,
}

unsafe extern "C" fn read_at(ctx: *mut c_void, at: u64, into: *mut c_void, length: usize) -> i32 {
    // SAFETY: `ctx` is what `stage` gave.
    let source = unsafe { &*ctx.cast::<Bytes>() };
    if source.fails {
        return 3;
    }
    let from = &source.bytes[(at as usize).min(source.bytes.len())..];
    // SAFETY: by the header there is room for `length` bytes; what lies behind the last byte stays as it is.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), into.cast(), length.min(from.len())) };
    0
}

/// Some conversions through a ring into a device, which may fail.
fn stage(c: &mut Choices, house: &House) {
    let usable: Vec<&Plan> = house.plans.iter().filter(|plan| plan.bytes.is_some()).collect();
    let (at, which, mut wrong) = handle(c, &house.rings, |ring| ring.at);
    let count = if usable.is_empty() { 0 } else { c.below(4) };
    let plans: Vec<&Plan> = (0..count).map(|_| usable[c.below(usable.len())]).collect();
    let fails = c.rarely();
    let mut sources: Vec<Bytes> =
        plans.iter().map(|plan| Bytes { bytes: plan.source.clone(), fails }).collect();
    let readers: Vec<tw_reader> = sources
        .iter_mut()
        .map(|source| {
            let (struct_size, size) = (size_of::<tw_reader>() as u32, source.bytes.len() as u64);
            let ctx = (&raw mut *source).cast();
            tw_reader { struct_size, alignment: 0, size, ctx, read_at: Some(read_at) }
        })
        .collect();
    let by_reader = c.below(2) == 0;
    let transfer = |(plan, reader): (&&Plan, &tw_reader)| tw_transfer {
        plan: plan.at,
        source: if by_reader { null() } else { plan.source.as_ptr().cast() },
        source_length: plan.source.len(),
        reader: if by_reader { reader } else { null() },
        begin: 0,
    };
    let transfers: Vec<tw_transfer> = plans.iter().zip(&readers).map(transfer).collect();
    let empty = || plans.iter().map(|plan| vec![0; plan.info.destination_bytes as usize]).collect();
    let fails_at = if c.below(4) == 0 { c.below(9) } else { usize::MAX };
    let mut device = Device { arrived: empty(), times: empty(), flight: Vec::new(), calls: 0, fails_at };
    let later = c.below(2) == 0;
    let mut sink: tw_sink = zero();
    sink.struct_size = size::<tw_sink>(c, &mut wrong);
    (sink.ctx, sink.submit) = ((&raw mut device).cast(), Some(if later { submit } else { submit_at_once }));
    sink.wait = if later { Some(wait) } else { None };
    let mut options: tw_stage_options = zero();
    options.struct_size = size::<tw_stage_options>(c, &mut wrong);
    (options.read_bytes, options.window_limit) = (c.of(&[0, 1, 4096, 100_000]), c.of(&[0, 0, 0, 1]));
    let mut report: tw_stage_report = zero();
    report.struct_size = size_of::<tw_stage_report>() as u32;
    let content = [TW_VALUE, TW_LENGTH, TW_STAGING];
    let (given, count) = (transfers.as_ptr(), transfers.len());
    // SAFETY: pointers are as the header asks; what the functions lead to outlives the call.
    let run = |m| unsafe { tw_stager_run(at, given, count, &sink, null(), &options, &mut report, m) };
    let (status, _) = call(c, wrong, &content, run);
    assert!(device.flight.is_empty(), "a run has ended before its tickets");
    if status != TW_OK {
        return;
    }
    assert!(which.is_some_and(|i| house.rings[i].slot_bytes >= 4096));
    assert_eq!(report.bytes, plans.iter().map(|plan| plan.info.destination_bytes).sum::<u64>());
    for ((plan, bytes), times) in plans.iter().zip(&device.arrived).zip(&device.times) {
        assert!(times.iter().all(|&n| n == 1), "bytes were staged more than once, or never");
        assert!(Some(bytes) == plan.bytes.as_ref(), "other bytes were staged");
    }
}

/// A tensor file: written by a request, opened, asked, read and closed.
fn file(c: &mut Choices, house: &mut House) {
    if cfg!(miri) {
        // Miri has not all the system's calls that make a file: only what is no file is asked.
        return asked_of_file(c, house);
    }
    let folder = house.folder.get_or_insert_with(|| tempfile::tempdir().unwrap());
    let path = folder.path().join(c.of(&["a", "a", "a", "b", "none/c"])).to_str().unwrap().to_owned();
    let name = if c.rarely() { text_of(b"") } else { text_of(path.as_bytes()) };
    let which = c.below(4);
    match if house.files.is_empty() { which % 2 } else { which } {
        0 => {
            let mut wrong = Vec::new();
            let mut asked = Asked::new(c, &mut wrong);
            if c.below(4) > 0 && wrong.is_empty() {
                // What every file can hold.
                asked.request.dtype = TW_F32;
                asked.request.source = null();
            }
            let len = asked.shape.iter().fold(1_u64, |n, &d| n.saturating_mul(d)).saturating_mul(4);
            let source = vec![0x3C_u8; len.min(MOST) as usize];
            let (request, from) = (&raw const asked.request, source.as_ptr().cast());
            // SAFETY: pointers are as the header asks.
            let run = |m| unsafe { tw_tensorbin_save(name, request, from, source.len(), null(), m) };
            call(c, wrong, ANY, run);
        }
        1 if house.files.len() < 2 => {
            let mut at = NO_HANDLE.as_ptr().cast_mut().cast();
            // SAFETY: pointers are as the header asks.
            let (status, reached) = call(c, vec![], ANY, |m| unsafe { tw_tensorbin_open(name, &mut at, m) });
            assert!(status == TW_OK || at.is_null() || !reached);
            house.files.extend((status == TW_OK).then_some(at));
        }
        2 if !house.files.is_empty() => {
            // SAFETY: nothing uses it any more.
            assert_eq!(unsafe { tw_tensorbin_free(house.files.pop().unwrap()) }, TW_OK);
        }
        _ => asked_of_file(c, house),
    }
}

fn asked_of_file(c: &mut Choices, house: &House) {
    let (at, which, wrong) = handle(c, &house.files, |&file| file);
    let mut info: tw_tensorbin_info = zero();
    info.struct_size = size_of::<tw_tensorbin_info>() as u32;
    // SAFETY: pointers are as the header asks.
    let (status, _) = call(c, wrong.clone(), &[], |m| unsafe { tw_tensorbin_query(at, &mut info, m) });
    let (rank, mut shape) = (info.rank as usize, vec![0_u64; 9]);
    let capacity = c.of(&[rank.min(9), 0, 9]);
    // SAFETY: as above.
    let run = |m| unsafe { tw_tensorbin_shape(at, null(), 0, shape.as_mut_ptr(), capacity, m) };
    let asked = call(c, wrong.clone(), ANY_SHORT, run).0;
    let (mut device, mut begin, mut length) = ([0; 8], 0, 0);
    let (index, places) = (c.below(3) as u64, device.as_mut_ptr());
    let room = c.of(&[8, 0, 1]);
    // SAFETY: as above.
    let run = |m| unsafe { tw_tensorbin_shard(at, index, places, room, &mut begin, &mut length, m) };
    let shard = call(c, wrong, &[TW_VALUE, TW_SHORT], run).0;
    if which.is_none() || [status, asked, shard] != [TW_OK; 3] || capacity < rank {
        return;
    }
    let elements = shape[..rank].iter().product::<u64>();
    let mut out = Room::new((elements * 8).min(MOST) as usize);
    let len = c.of(&[1, 2, 4, 8]) * elements as usize;
    if len <= out.1 {
        let to = out.at().cast();
        // SAFETY: as above.
        call(c, vec![], ANY, |m| unsafe { tw_tensorbin_read(at, null(), 0, null(), to, len, null(), m) });
        out.written();
    }
}

/// Any status of the content, and that there was too little room.
const ANY_SHORT: &[tw_status] = &[TW_SHORT, TW_VALUE, TW_IO, TW_LENGTH];

/// Runs one input; panics where it finds something.
pub(crate) fn run(data: &[u8]) {
    let c = &mut Choices(data.iter());
    let mut house = House::default();
    for _ in 0..CALLS {
        if c.0.len() == 0 {
            break;
        }
        match c.below(16) {
            // Without a plan there is not much else to do.
            n if house.plans.is_empty() && n < 14 => compile(c, &mut house),
            0..=3 => compile(c, &mut house),
            4 => execute(c, &house),
            5 => batch(c, &house),
            6 => chunks(c, &house),
            7 => locate(c, &house),
            8 => explain(c, &house),
            9 => query(c, &house),
            10 => free(c, &mut house),
            11 | 12 => ring(c, &mut house),
            13 if house.rings.is_empty() => ring(c, &mut house),
            13 | 14 => stage(c, &house),
            _ => (0..4).for_each(|_| file(c, &mut house)),
        }
    }
    // SAFETY: nothing uses them any more.
    unsafe {
        house.plans.iter().for_each(|plan| assert_eq!(tw_plan_free(plan.at), TW_OK));
        house.rings.iter().for_each(|ring| assert_eq!(tw_stager_free(ring.at), TW_OK));
        house.files.iter().for_each(|&file| assert_eq!(tw_tensorbin_free(file), TW_OK));
    }
}
