//! As much of FlatBuffers as the header of a tensor file needs: tables, vectors and one struct.
//!
//! The reader is safe code that looks up every offset in the buffer, so nothing has to be verified beforehand. The
//! builder adds objects from the end of the buffer to its beginning, fields by falling size and number, and shares
//! equal vtables: the order of the C++ builder, so that equal headers are equal bytes.
//! Rules: the "FlatBuffer internals" page of the FlatBuffers documentation.

/// The most entries of a vector that are read: one for each device of the largest mesh.
const MAX_ENTRIES: usize = 1 << 16;

/// What is wrong with a buffer, as one sentence.
pub(super) type Result<T> = std::result::Result<T, String>;

/// `N` bytes of the buffer.
fn array<const N: usize>(buffer: &[u8], at: usize) -> Result<[u8; N]> {
    let bytes = at.checked_add(N).and_then(|end| buffer.get(at..end)).and_then(|b| b.try_into().ok());
    bytes.ok_or_else(|| format!("{N} bytes at byte {at} lie outside of the {} of the header", buffer.len()))
}

/// What the offset at `at` points to.
fn follow(buffer: &[u8], at: usize) -> Result<usize> {
    let offset = u32::from_le_bytes(array(buffer, at)?) as usize;
    let to = at.checked_add(offset).filter(|&to| to < buffer.len());
    to.ok_or_else(|| {
        format!("the offset {offset} at byte {at} leads out of the {} of the header", buffer.len())
    })
}

/// A table of a buffer. Absent fields read as 0 or `None`.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    buffer: &'a [u8],
    at: usize,
    /// Where each field lies, in bytes from `at`; two bytes a field.
    fields: &'a [u8],
}

impl<'a> Table<'a> {
    /// The table that a buffer is about.
    pub(super) fn root(buffer: &'a [u8]) -> Result<Table<'a>> {
        Table::new(buffer, follow(buffer, 0)?)
    }

    fn new(buffer: &'a [u8], at: usize) -> Result<Table<'a>> {
        let back = i32::from_le_bytes(array(buffer, at)?);
        let vtable = usize::try_from(at as i64 - i64::from(back)).ok();
        let vtable =
            vtable.ok_or_else(|| format!("the table at byte {at} has its vtable before the header"))?;
        let len = usize::from(u16::from_le_bytes(array(buffer, vtable)?));
        let fields = buffer.get(vtable..).and_then(|rest| rest.get(4..len));
        let fields = fields.ok_or_else(|| {
            format!(
                "the vtable at byte {vtable} has {len} bytes, needed at least 4 and all inside of the header"
            )
        })?;
        Ok(Table { buffer, at, fields })
    }

    /// Where a field lies, if it is there.
    fn place(&self, field: usize) -> Option<usize> {
        let place = self.fields.get(2 * field..2 * field + 2)?;
        let place = u16::from_le_bytes([place[0], place[1]]);
        // Inside of the buffer plus 64 KiB, which no sum of addresses overflows.
        (place != 0).then_some(self.at + usize::from(place))
    }

    fn scalar<const N: usize>(&self, field: usize) -> Result<[u8; N]> {
        self.place(field).map_or(Ok([0; N]), |at| array(self.buffer, at))
    }

    pub(super) fn u8(&self, field: usize) -> Result<u8> {
        self.scalar(field).map(u8::from_le_bytes)
    }

    pub(super) fn u16(&self, field: usize) -> Result<u16> {
        self.scalar(field).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&self, field: usize) -> Result<u32> {
        self.scalar(field).map(u32::from_le_bytes)
    }

    pub(super) fn i32(&self, field: usize) -> Result<i32> {
        self.scalar(field).map(i32::from_le_bytes)
    }

    pub(super) fn table(&self, field: usize) -> Result<Option<Table<'a>>> {
        let Some(at) = self.place(field) else { return Ok(None) };
        follow(self.buffer, at).and_then(|to| Table::new(self.buffer, to)).map(Some)
    }

    /// A table that must be there; `what` names it.
    pub(super) fn required(&self, field: usize, what: &str) -> Result<Table<'a>> {
        self.table(field)?.ok_or_else(|| format!("there is no {what}"))
    }

    /// A struct of two numbers of 8 bytes, behind an offset.
    pub(super) fn pair(&self, field: usize) -> Result<Option<[u64; 2]>> {
        let Some(at) = self.place(field) else { return Ok(None) };
        let at = follow(self.buffer, at)?;
        let [first, second] = [array(self.buffer, at)?, array(self.buffer, at + 8)?].map(u64::from_le_bytes);
        Ok(Some([first, second]))
    }

    /// The first byte and the number of entries, of 4 bytes each, of a vector.
    fn vector(&self, field: usize, what: &str, most: usize) -> Result<(usize, usize)> {
        let Some(at) = self.place(field) else { return Ok((0, 0)) };
        let at = follow(self.buffer, at)?;
        let len = u32::from_le_bytes(array(self.buffer, at)?) as usize;
        if len > most.min(MAX_ENTRIES) {
            return Err(format!("{what} has {len} entries, at most {} are read", most.min(MAX_ENTRIES)));
        }
        Ok((at + 4, len))
    }

    /// A vector of numbers, at most `most` of them.
    pub(super) fn numbers(&self, field: usize, what: &str, most: usize) -> Result<Vec<u64>> {
        let (at, len) = self.vector(field, what, most)?;
        (0..len).map(|i| array(self.buffer, at + 4 * i).map(|n| u32::from_le_bytes(n).into())).collect()
    }

    /// A vector of tables, at most `most` of them.
    pub(super) fn tables<T>(
        &self,
        field: usize,
        what: &str,
        most: usize,
        mut read: impl FnMut(Table<'a>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let (at, len) = self.vector(field, what, most)?;
        let one = |i| follow(self.buffer, at + 4 * i).and_then(|to| Table::new(self.buffer, to));
        (0..len).map(|i| one(i).and_then(&mut read)).collect()
    }
}

/// A place in the buffer that is being built: bytes from its end.
#[derive(Clone, Copy)]
pub(super) struct Ref(usize);

/// The value of a field; one of 0 is left out, as is an offset to nothing.
#[derive(Clone, Copy)]
pub(super) enum Field {
    U8(u8),
    U16(u16),
    U32(u32),
    I32(i32),
    To(Option<Ref>),
}

impl Field {
    fn size(self) -> usize {
        match self {
            Field::U8(_) => 1,
            Field::U16(_) => 2,
            Field::U32(_) | Field::I32(_) | Field::To(_) => 4,
        }
    }

    fn is_absent(self) -> bool {
        matches!(self, Field::U8(0) | Field::U16(0) | Field::U32(0) | Field::I32(0) | Field::To(None))
    }
}

impl From<Ref> for Field {
    fn from(to: Ref) -> Field {
        Field::To(Some(to))
    }
}

/// A buffer in the making.
#[derive(Default)]
pub(super) struct Builder {
    /// The bytes from the end of the buffer to its beginning.
    reversed: Vec<u8>,
    /// Where the vtables lie, and what they hold.
    vtables: Vec<(usize, Vec<u16>)>,
}

/// The greatest alignment of an object, in bytes: that of [`Builder::pair`].
const ALIGNMENT: usize = 8;

impl Builder {
    /// Pads so that an object of `len` bytes and this alignment can follow.
    fn align(&mut self, len: usize, alignment: usize) {
        let end = (self.reversed.len() + len).next_multiple_of(alignment);
        self.reversed.resize(end - len, 0);
    }

    fn push(&mut self, bytes: &[u8]) {
        self.reversed.extend(bytes.iter().rev());
    }

    fn scalar(&mut self, bytes: &[u8]) {
        self.align(0, bytes.len());
        self.push(bytes);
    }

    fn offset(&mut self, to: Ref) {
        self.align(0, 4);
        // Headers are far below 4 GiB: their vectors have at most `MAX_ENTRIES`.
        self.scalar(&((self.reversed.len() + 4 - to.0) as u32).to_le_bytes());
    }

    /// A vector of numbers.
    pub(super) fn numbers(&mut self, numbers: &[u64]) -> Ref {
        self.align(4 * numbers.len(), 4);
        for &n in numbers.iter().rev() {
            // Checked when the header was made: see `header::encode`.
            self.push(&(n as u32).to_le_bytes());
        }
        self.push(&(numbers.len() as u32).to_le_bytes());
        Ref(self.reversed.len())
    }

    /// A vector of tables.
    pub(super) fn tables(&mut self, tables: &[Ref]) -> Ref {
        self.align(4 * tables.len(), 4);
        for &to in tables.iter().rev() {
            self.offset(to);
        }
        self.push(&(tables.len() as u32).to_le_bytes());
        Ref(self.reversed.len())
    }

    /// A struct of two numbers of 8 bytes.
    pub(super) fn pair(&mut self, pair: [u64; 2]) -> Ref {
        self.align(0, ALIGNMENT);
        pair.iter().rev().for_each(|n| self.push(&n.to_le_bytes()));
        Ref(self.reversed.len())
    }

    /// A table; the fields are given in the order of their numbers, absent ones too.
    pub(super) fn table(&mut self, fields: &[Field]) -> Ref {
        let start = self.reversed.len();
        let mut order: Vec<usize> = (0..fields.len()).rev().filter(|&f| !fields[f].is_absent()).collect();
        order.sort_by_key(|&f| std::cmp::Reverse(fields[f].size()));
        let mut places = vec![0; order.iter().max().map_or(0, |&last| last + 1)];
        for &f in &order {
            match fields[f] {
                Field::U8(n) => self.scalar(&[n]),
                Field::U16(n) => self.scalar(&n.to_le_bytes()),
                Field::U32(n) => self.scalar(&n.to_le_bytes()),
                Field::I32(n) => self.scalar(&n.to_le_bytes()),
                Field::To(to) => to.into_iter().for_each(|to| self.offset(to)),
            }
            places[f] = self.reversed.len();
        }
        self.scalar(&[0; 4]);
        let table = self.reversed.len();
        // Tables here have at most six fields.
        let mut vtable = vec![(4 + 2 * places.len()) as u16, (table - start) as u16];
        vtable.extend(places.iter().map(|&place| if place == 0 { 0 } else { (table - place) as u16 }));
        let known = self.vtables.iter().find(|known| known.1 == vtable).map(|known| known.0);
        let at = known.unwrap_or_else(|| {
            vtable.iter().rev().for_each(|n| self.push(&n.to_le_bytes()));
            self.vtables.push((self.reversed.len(), vtable));
            self.reversed.len()
        });
        let back = (at as i64 - table as i64) as i32;
        for (byte, value) in self.reversed[table - 4..table].iter_mut().rev().zip(back.to_le_bytes()) {
            *byte = value;
        }
        Ref(table)
    }

    /// The buffer about `root`.
    pub(super) fn finish(mut self, root: Ref) -> Vec<u8> {
        self.align(4, ALIGNMENT);
        self.offset(root);
        self.reversed.reverse();
        self.reversed
    }
}
