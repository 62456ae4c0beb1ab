//! Plans kept by the texts that asked for them.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::dtype::DType;
use crate::error::Result;
use crate::family::{Descriptor, Placement, Tensor};
use crate::layout::Layout;
use crate::plan::{Options, Plan};

/// One end of a conversion as texts; `Endpoint::from("ttnn(..)")` where the layout is all there is to say.
///
/// ```
/// use tilewright::{DType, Endpoint, Request};
///
/// // Each of two devices gets half of the rows, in tiles whose padding is 1.
/// let end = Endpoint::new("ttnn(dtype=bfloat16, layout=TILE)")
///     .with_mesh("ShardTensorToMesh(mesh_shape=(1, 2), dim=0)")
///     .with_pad_value(1.0);
/// let plan = Request::new(&[40, 64], DType::Bf16, "memref<40x64xbf16>", end).compile()?;
/// assert_eq!(plan.destination_bytes(), 2 * 32 * 64 * 2);
/// # Ok::<(), tilewright::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Endpoint<'a> {
    /// The layout; see [`Descriptor`].
    pub layout: &'a str,
    /// The device on whose cores it is placed; see [`Placement::device`].
    pub device: Option<&'a str>,
    /// How the tensor is handed out to a mesh; see [`Placement::mesh`].
    pub mesh: Option<&'a str>,
    /// The value of padding; see [`Placement::pad_value`].
    pub pad_value: Option<f64>,
}

impl<'a> From<&'a str> for Endpoint<'a> {
    fn from(layout: &'a str) -> Endpoint<'a> {
        Endpoint::new(layout)
    }
}

/// Pad values are one where their bits are: 0 and -0 are two, and a NaN equals itself.
impl PartialEq for Endpoint<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Endpoint<'_> {}

/// What is absent is not hashed, and no text's end: most endpoints are a layout alone, and hashing is a good part of the time of
/// a cache hit. Texts are told apart by comparing them.
impl Hash for Endpoint<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.layout.as_bytes());
        [self.device, self.mesh].into_iter().flatten().for_each(|text| state.write(text.as_bytes()));
        if let Some(value) = self.pad_value {
            value.to_bits().hash(state);
        }
    }
}

impl<'a> Endpoint<'a> {
    /// A layout by itself.
    pub fn new(layout: &'a str) -> Endpoint<'a> {
        Endpoint { layout, device: None, mesh: None, pad_value: None }
    }

    /// The same on the cores of a device.
    pub fn with_device(self, device: &'a str) -> Endpoint<'a> {
        Endpoint { device: Some(device), ..self }
    }

    /// The same on each device of a mesh.
    pub fn with_mesh(self, mesh: &'a str) -> Endpoint<'a> {
        Endpoint { mesh: Some(mesh), ..self }
    }

    /// The same with another value in its padding.
    pub fn with_pad_value(self, value: f64) -> Endpoint<'a> {
        Endpoint { pad_value: Some(value), ..self }
    }
}

impl Endpoint<'_> {
    fn parts(&self) -> impl Eq + '_ {
        (self.layout, self.device, self.mesh, self.pad_value.map(f64::to_bits))
    }

    fn layout_of(&self, tensor: &Tensor) -> Result<Layout> {
        let device = self.device.map(str::parse).transpose()?;
        let mesh = self.mesh.map(str::parse).transpose()?;
        let placement = Placement {
            device: device.as_ref(),
            mesh: mesh.as_ref(),
            pad_value: self.pad_value,
            ..Placement::default()
        };
        self.layout.parse::<Descriptor>()?.layout(tensor, &placement)
    }
}

/// All that a plan depends on, as it was given.
///
/// Requests are compared as they are written: two texts that differ in a blank are two requests.
///
/// ```
/// use tilewright::{DType, Options, Request};
///
/// let mut options = Options::default();
/// options.search = true;
/// let request = Request::new(&[64, 96], DType::F32, "memref<64x96xf32>", "ttnn(dtype=bfloat8_b, layout=TILE)")
///     .with_options(options);
/// assert_eq!(request.compile()?.destination_bytes(), 6 * 1088);
/// # Ok::<(), tilewright::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request<'a> {
    /// Logical shape, outermost dimension first.
    pub shape: &'a [u64],
    /// Logical element type.
    pub dtype: DType,
    /// Where the tensor comes from.
    pub source: Endpoint<'a>,
    /// Where it goes.
    pub destination: Endpoint<'a>,
    /// How.
    pub options: Options,
}

/// Requests with the same tensor and endpoints seldom differ in their options, which are not hashed.
impl Hash for Request<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Request { shape, dtype, source, destination, options: _ } = self;
        shape.iter().for_each(|&n| state.write_u64(n));
        (dtype, source, destination).hash(state);
    }
}

impl<'a> Request<'a> {
    /// A conversion with the options of [`Options::default`].
    pub fn new(
        shape: &'a [u64],
        dtype: DType,
        source: impl Into<Endpoint<'a>>,
        destination: impl Into<Endpoint<'a>>,
    ) -> Request<'a> {
        let (source, destination) = (source.into(), destination.into());
        Request { shape, dtype, source, destination, options: Options::default() }
    }

    /// The same conversion with other options.
    pub fn with_options(self, options: Options) -> Request<'a> {
        Request { options, ..self }
    }

    /// Parses the texts and compiles the plan, without a cache.
    ///
    /// # Errors
    /// Those of [`crate::text::parse`], [`Descriptor::layout`] and [`Plan::compile`].
    pub fn compile(&self) -> Result<Plan> {
        let tensor = Tensor::new(self.shape, self.dtype);
        let (source, destination) = (self.source.layout_of(&tensor)?, self.destination.layout_of(&tensor)?);
        Plan::compile(&source, &destination, &self.options)
    }
}

/// Plans of the requests that came last: a request seen before gets its plan without parsing, compiling or
/// allocating anything.
///
/// Threads share a cache by reference. Nobody waits for a compilation but who asked for it; threads that ask for
/// the same new plan at the same time may each compile it, and all get the one that was first done.
///
/// ```
/// use tilewright::{DType, PlanCache, Request};
///
/// let plans = PlanCache::new(128);
/// let tiles = "ttnn(dtype=bfloat16, layout=TILE)";
/// let request = Request::new(&[64, 64], DType::Bf16, "memref<64x64xbf16>", tiles);
/// let plan = plans.get(&request)?;
/// let mut tiles = vec![0; plan.destination_bytes()];
/// plan.execute(&vec![0; plan.source_bytes()], &mut tiles)?;
/// assert!(std::sync::Arc::ptr_eq(&plan, &plans.get(&request)?));
/// # Ok::<(), tilewright::Error>(())
/// ```
#[derive(Debug)]
pub struct PlanCache {
    capacity: usize,
    hasher: DefaultHashBuilder,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: HashTable<Entry>,
    /// How many times an entry was used.
    uses: u64,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    hash: u64,
    /// The number of its last use.
    used: u64,
    plan: Arc<Plan>,
}

/// A request that owns its texts.
#[derive(Debug)]
struct Key {
    shape: Box<[u64]>,
    dtype: DType,
    source: OwnedEnd,
    destination: OwnedEnd,
    options: Options,
}

#[derive(Debug)]
struct OwnedEnd {
    layout: Box<str>,
    device: Option<Box<str>>,
    mesh: Option<Box<str>>,
    pad_value: Option<f64>,
}

impl OwnedEnd {
    fn is(&self, end: &Endpoint) -> bool {
        let OwnedEnd { layout, device, mesh, pad_value } = self;
        **layout == *end.layout
            && device.as_deref() == end.device
            && mesh.as_deref() == end.mesh
            && pad_value.map(f64::to_bits) == end.pad_value.map(f64::to_bits)
    }
}

impl Key {
    fn new(request: &Request) -> Key {
        let Request { shape, dtype, source, destination, options } = *request;
        let end = |end: Endpoint| OwnedEnd {
            layout: end.layout.into(),
            device: end.device.map(Into::into),
            mesh: end.mesh.map(Into::into),
            pad_value: end.pad_value,
        };
        Key { shape: shape.into(), dtype, source: end(source), destination: end(destination), options }
    }

    /// Whether it is the key of a request.
    fn is_of(&self, request: &Request) -> bool {
        let Key { shape, dtype, source, destination, options } = self;
        **shape == *request.shape
            && *dtype == request.dtype
            && *options == request.options
            && source.is(&request.source)
            && destination.is(&request.destination)
    }
}

impl PlanCache {
    /// A cache of at most `capacity` plans; of no plan at all, which only compiles, with 0.
    pub fn new(capacity: usize) -> PlanCache {
        PlanCache { capacity, hasher: DefaultHashBuilder::default(), kept: Mutex::default() }
    }

    /// The plan of a request: a kept one, or a new one, for which the plan that was not used for the longest time
    /// makes room.
    ///
    /// # Errors
    /// Those of [`Request::compile`]; they are not kept.
    pub fn get(&self, request: &Request) -> Result<Arc<Plan>> {
        let hash = self.hasher.hash_one(request);
        if let Some(plan) = self.kept().find(hash, request) {
            return Ok(plan);
        }
        let plan = Arc::new(request.compile()?);
        if self.capacity == 0 {
            return Ok(plan);
        }
        let key = Key::new(request);
        let mut kept = self.kept();
        if let Some(earlier) = kept.find(hash, request) {
            return Ok(earlier);
        }
        let oldest = if kept.entries.len() == self.capacity { kept.take_oldest() } else { None };
        let used = kept.next_use();
        let entry = Entry { key, hash, used, plan: Arc::clone(&plan) };
        kept.entries.insert_unique(hash, entry, |e| e.hash);
        // What may be the last use of a plan frees it, and nobody should wait for that.
        drop(kept);
        drop(oldest);
        Ok(plan)
    }

    /// How many plans it holds.
    pub fn len(&self) -> usize {
        self.kept().entries.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// No step between a lock and its release can panic, so what is kept is sound even under a poisoned lock.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }

    fn find(&mut self, hash: u64, request: &Request) -> Option<Arc<Plan>> {
        let used = self.next_use();
        let entry = self.entries.find_mut(hash, |e| e.key.is_of(request))?;
        entry.used = used;
        Some(Arc::clone(&entry.plan))
    }

    /// A look at every entry costs less than the compilation that makes it necessary.
    fn take_oldest(&mut self) -> Option<Entry> {
        let &Entry { hash, used, .. } = self.entries.iter().min_by_key(|e| e.used)?;
        let oldest = self.entries.find_entry(hash, |e| e.used == used).ok()?;
        Some(oldest.remove().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Decoding, Isa, Rounding, Sen169, Store};

    const TILES: &str = "ttnn(dtype=float32, layout=TILE)";

    fn request(shape: &'static [u64]) -> Request<'static> {
        Request::new(shape, DType::F32, "ttnn(dtype=float32, layout=ROW_MAJOR)", TILES)
    }

    /// Whether the plan comes from the cache, which has it afterwards.
    fn hits(plans: &PlanCache, request: &Request) -> bool {
        let before = plans.kept().entries.iter().find(|e| e.key.is_of(request)).map(|e| e.plan.clone());
        let plan = plans.get(request).unwrap();
        before.is_some_and(|before| Arc::ptr_eq(&before, &plan))
    }

    #[test]
    fn the_same_request_gets_the_same_plan() {
        let plans = PlanCache::new(4);
        assert!(plans.is_empty());
        let first = plans.get(&request(&[32, 32])).unwrap();
        // Equal texts at another place in memory.
        let text = TILES.to_owned();
        let again = Request { destination: text.as_str().into(), ..request(&[32, 32]) };
        assert!(Arc::ptr_eq(&first, &plans.get(&again).unwrap()));
        assert_eq!(plans.len(), 1);
        assert_eq!(first.destination_bytes(), 4096);
    }

    #[test]
    fn any_difference_is_another_request() {
        let base = request(&[64, 64]);
        let metal =
            "metal(shape=(64, 64), collapse=[], grid=(2, 2), tile=(32, 32), dtype=f32, oob=undef, memory=l1)";
        let device = |map: &str| {
            format!(
                "#tt.device<workerGrid = #tt.grid<2x2, (d0, d1) -> ({map})>, meshShape = 1, chipIds = [0]>"
            )
        };
        let (plain, turned) = (device("0, d0, d1"), device("0, d1, d0"));
        let end = |end: Endpoint<'static>| Request { destination: end, ..base };
        let mesh = |dim| match dim {
            0 => "ShardTensorToMesh(mesh_shape=(1, 2), dim=0)",
            _ => "ShardTensorToMesh(mesh_shape=(1, 2), dim=1)",
        };
        let on = |device| Request { destination: Endpoint { device, ..metal.into() }, ..base };
        let options = |options| Request { options, ..base };
        let none = Options::default();
        let all = [
            base,
            request(&[1, 64, 64]),
            request(&[64, 96]),
            Request { dtype: DType::Bf16, ..base },
            Request { source: "memref<64x64xf32>".into(), ..base },
            end("ttnn(dtype=bfloat16, layout=TILE)".into()),
            end("ttnn(dtype=float32,  layout=TILE)".into()),
            Request { source: base.destination, destination: base.source, ..base },
            end(Endpoint { mesh: Some(mesh(0)), ..TILES.into() }),
            end(Endpoint { mesh: Some(mesh(1)), ..TILES.into() }),
            Request { source: Endpoint { mesh: Some(mesh(0)), ..base.source }, ..base },
            end(Endpoint { pad_value: Some(0.0), ..TILES.into() }),
            end(Endpoint { pad_value: Some(-0.0), ..TILES.into() }),
            end(Endpoint { pad_value: Some(f64::NAN), ..TILES.into() }),
            on(None),
            on(Some(plain.as_str())),
            on(Some(turned.as_str())),
            options(Options { rounding: Rounding::Device, ..none }),
            options(Options { search: true, ..none }),
            options(Options { rounding: Rounding::DeviceOp, ..none }),
            options(Options { compat_unpack: Decoding::Host, ..none }),
            options(Options { compat_unpack: Decoding::Device, ..none }),
            options(Options { sen169: Sen169::Deeptools, ..none }),
            options(Options { saturate: true, ..none }),
            options(Options { store: Store::Streamed, ..none }),
            options(Options { isa: Some(Isa::Base), ..none }),
        ];
        let plans = PlanCache::new(all.len());
        for (i, request) in all.iter().enumerate() {
            assert!(!hits(&plans, request), "request {i} was taken for an earlier one");
        }
        for (i, request) in all.iter().enumerate() {
            assert!(hits(&plans, request), "request {i} was not kept");
        }
        assert_eq!(plans.len(), all.len());
    }

    #[test]
    fn the_plan_longest_unused_makes_room() {
        let plans = PlanCache::new(2);
        let [a, b, c] = [request(&[32, 32]), request(&[32, 64]), request(&[64, 32])];
        plans.get(&a).unwrap();
        plans.get(&b).unwrap();
        assert!(hits(&plans, &a));
        assert!(!hits(&plans, &c));
        assert_eq!(plans.len(), 2);
        assert!(hits(&plans, &a), "the one used last stays");
        assert!(!hits(&plans, &b), "the other one is gone");
        assert!(!hits(&plans, &c));
    }

    #[test]
    fn no_room_is_no_cache() {
        let plans = PlanCache::new(0);
        assert!(!hits(&plans, &request(&[32, 32])));
        assert!(!hits(&plans, &request(&[32, 32])));
        assert!(plans.is_empty());
    }

    #[test]
    fn errors_are_not_kept() {
        let plans = PlanCache::new(2);
        let kept = request(&[32, 32]);
        plans.get(&kept).unwrap();
        for text in ["ttnn(dtype=float33, layout=TILE)", "memref<7x7xf32>", ""] {
            let wrong = Request { destination: text.into(), ..kept };
            assert_eq!(plans.get(&wrong).unwrap_err(), wrong.compile().unwrap_err());
            assert_eq!(plans.get(&wrong).unwrap_err(), wrong.compile().unwrap_err());
        }
        let placed = Endpoint { mesh: Some("NoMapper()"), ..kept.source };
        assert!(plans.get(&Request { source: placed, ..kept }).is_err());
        assert_eq!(plans.len(), 1);
        assert!(hits(&plans, &kept));
    }

    #[test]
    fn threads_share_one_plan_each() {
        const SHAPES: [&[u64]; 4] = [&[32, 32], &[32, 64], &[64, 32], &[64, 64]];
        let plans = PlanCache::new(3);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let plans = &plans;
                scope.spawn(move || {
                    for turn in 0..200 {
                        let shape = SHAPES[(turn * (thread + 1) + turn / 7) % SHAPES.len()];
                        let plan = plans.get(&request(shape)).unwrap();
                        assert_eq!(plan.source_bytes() as u64, 4 * shape.iter().product::<u64>());
                        assert!(plans.len() <= 3);
                    }
                });
            }
        });
        let one = PlanCache::new(1);
        let both: Vec<Arc<Plan>> = std::thread::scope(|scope| {
            let spawned: Vec<_> =
                (0..8).map(|_| scope.spawn(|| one.get(&request(&[96, 96])).unwrap())).collect();
            spawned.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(both.iter().all(|plan| Arc::ptr_eq(plan, &both[0])));
    }
}
