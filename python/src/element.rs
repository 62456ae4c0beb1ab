//! Element types as the buffer protocol, DLPack and the array interface name them.

use tilewright::DType;

/// What the elements of an array are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    /// Numbers of this type.
    Known(DType),
    /// So many bytes, of which nothing else is known: numpy's `V2`, in which it stores bf16.
    Bytes(usize),
}

impl Element {
    pub(crate) fn dtype(self) -> Option<DType> {
        match self {
            Element::Known(dtype) => Some(dtype),
            Element::Bytes(_) => None,
        }
    }

    /// Bytes of one element.
    pub(crate) fn size(self) -> usize {
        match self {
            Element::Known(dtype) => dtype.size(),
            Element::Bytes(size) => size,
        }
    }

    /// Whether the array may be read as elements of this type: it has them, or it has the bits of a type that
    /// numpy lacks.
    pub(crate) fn carries(self, dtype: DType) -> bool {
        let lacking = matches!(dtype, DType::Bf16 | DType::F8E4M3 | DType::F8E5M2);
        let bits = |own| matches!(own, DType::U16 | DType::I16 | DType::U8 | DType::I8);
        match self {
            Element::Known(own) => own == dtype || lacking && bits(own) && own.size() == dtype.size(),
            Element::Bytes(size) => size == dtype.size(),
        }
    }

    /// A name as numpy, torch and ml_dtypes print it.
    pub(crate) fn from_name(name: &str) -> Option<Element> {
        Some(Element::Known(match name {
            "bfloat16" => DType::Bf16,
            "float8_e4m3fn" => DType::F8E4M3,
            "float8_e5m2" => DType::F8E5M2,
            _ => return None,
        }))
    }

    /// The kind letter of the array interface with the size in bytes.
    pub(crate) fn from_kind(kind: char, size: usize) -> Option<Element> {
        let dtype = match (kind, size) {
            ('f', 8) => DType::F64,
            ('f', 4) => DType::F32,
            ('f', 2) => DType::F16,
            ('i', 8) => DType::I64,
            ('i', 4) => DType::I32,
            ('i', 2) => DType::I16,
            ('i', 1) => DType::I8,
            ('u', 8) => DType::U64,
            ('u', 4) => DType::U32,
            ('u', 2) => DType::U16,
            ('u', 1) => DType::U8,
            ('b', 1) => DType::Bool,
            ('V', 1 | 2) => return Some(Element::Bytes(size)),
            _ => return None,
        };
        Some(Element::Known(dtype))
    }

    /// A format of Python's `struct`, as the buffer protocol gives it, with the size in bytes.
    pub(crate) fn from_format(format: &str, size: usize) -> Option<Element> {
        let (order, code) = match format.strip_prefix(['@', '=', '<', '>', '!']) {
            Some(code) => (format.chars().next(), code),
            None => (None, format),
        };
        if matches!(order, Some('>' | '!')) && size > 1 {
            return None;
        }
        let kind = match code {
            "e" | "f" | "d" => 'f',
            "b" | "h" | "i" | "l" | "q" | "n" => 'i',
            "B" | "H" | "I" | "L" | "Q" | "N" => 'u',
            "?" => 'b',
            "x" | "1x" | "2x" => 'V',
            _ => return None,
        };
        Element::from_kind(kind, size)
    }

    /// A type string of the array interface: `<f4`.
    pub(crate) fn from_typestr(typestr: &str) -> Option<Element> {
        let (order, rest) = typestr.split_at_checked(1)?;
        let (kind, size) = rest.split_at_checked(1)?;
        let size = size.parse().ok()?;
        if order == ">" && size > 1 {
            return None;
        }
        Element::from_kind(kind.chars().next()?, size)
    }

    /// A type code of DLPack with the size in bits.
    pub(crate) fn from_dlpack(code: u8, bits: u8) -> Option<Element> {
        let size = usize::from(bits / 8);
        match (code, bits) {
            (0, _) => Element::from_kind('i', size),
            (1, _) => Element::from_kind('u', size),
            (2, _) => Element::from_kind('f', size),
            (4, 16) => Some(Element::Known(DType::Bf16)),
            (6, 8) => Some(Element::Known(DType::Bool)),
            (10, 8) => Some(Element::Known(DType::F8E4M3)),
            (12, 8) => Some(Element::Known(DType::F8E5M2)),
            _ => None,
        }
        .filter(|_| bits.is_multiple_of(8))
    }
}
