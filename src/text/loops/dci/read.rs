//! Reading the runtime's conversion records.

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::family::loops::{Dci, Dcsi};
use crate::family::spyre::DataFormat;
use crate::text::lexer::{Cursor, Warnings, quote};

/// Reads the whole text. Errors about the content name it by its path, `dcsi_[0].size_`.
pub(in crate::text) fn dci(cursor: &mut Cursor<'_>) -> Result<Dci> {
    let value: Value = serde_json::from_str(cursor.text()).map_err(|e| {
        let line_start: usize =
            cursor.text().split_inclusive('\n').take(e.line().saturating_sub(1)).map(str::len).sum();
        let mut at = (line_start + e.column().saturating_sub(1)).min(cursor.text().len());
        while !cursor.text().is_char_boundary(at) {
            at -= 1;
        }
        let end = cursor.text()[at..].chars().next().map_or(at, |c| at + c.len_utf8());
        cursor.error(at..end, format!("JSON: {e}"))
    })?;
    let record = Record { path: "".into(), fields: object("the record", &value)? };
    let nests = record.get("dcsi_").ok_or_else(|| Error::value("dcsi_", "nothing", "a list of nests"))?;
    for extra in ["pre_expand_dcsi_", "post_slice_dcsi_"] {
        if record.get(extra).is_some_and(|v| v.as_array().is_none_or(|a| !a.is_empty())) {
            return Err(Error::value(extra, "steps before or after the nests", "none"));
        }
    }
    const KNOWN: [&str; 9] = [
        "dci_dsName_",
        "isHostToSen_",
        "dataformat_src_",
        "dataformat_dst_",
        "dcsi_",
        "input_shape_",
        "output_shape_",
        "pre_expand_dcsi_",
        "post_slice_dcsi_",
    ];
    record.warn_of_others(&KNOWN, &mut cursor.warnings);
    let host_to_device = match record.get("isHostToSen_") {
        None => true,
        Some(Value::Bool(b)) => *b,
        Some(v) if v.as_u64().is_some_and(|n| n < 2) => v.as_u64() == Some(1),
        Some(v) => return Err(wrong("isHostToSen_", v, "true or false")),
    };
    let nest = |(i, value): (usize, &Value)| {
        let path = format!("dcsi_[{i}].");
        let nest = Record { fields: object(&path, value)?, path };
        nest.warn_of_others(
            &["size_", "stride_src_", "stride_dst_", "offset_src_", "offset_dst_"],
            &mut cursor.warnings,
        );
        Ok(Dcsi {
            size: nest.list("size_", Value::as_u64)?,
            source_strides: nest.list("stride_src_", Value::as_i64)?,
            destination_strides: nest.list("stride_dst_", Value::as_i64)?,
            source_offset: nest.offset("offset_src_")?,
            destination_offset: nest.offset("offset_dst_")?,
        })
    };
    let nests = nests.as_array().ok_or_else(|| wrong("dcsi_", nests, "a list of nests"))?;
    let nests = nests.iter().enumerate().map(nest).collect::<Result<_>>()?;
    let shape =
        |key| if record.get(key).is_some() { record.list(key, Value::as_u64) } else { Ok(Vec::new()) };
    Ok(Dci {
        host_to_device,
        source_format: record.format("dataformat_src_")?,
        destination_format: record.format("dataformat_dst_")?,
        nests,
        input_shape: shape("input_shape_")?,
        output_shape: shape("output_shape_")?,
    })
}

/// A JSON object and the path to it.
struct Record<'a> {
    path: String,
    fields: &'a Map<String, Value>,
}

impl Record<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.fields.get(key)
    }

    /// The numbers of a list that must be there.
    fn list<T>(&self, key: &str, number: impl Fn(&Value) -> Option<T>) -> Result<Vec<T>> {
        let path = format!("{}{key}", self.path);
        let list = self.get(key).ok_or_else(|| Error::value(&path, "nothing", "a list of numbers"))?;
        let items = list.as_array().ok_or_else(|| wrong(&path, list, "a list of numbers"))?;
        let fits = |v: &&Value| v.as_u64().is_none_or(|n| n <= i64::MAX as u64);
        let item = |v: &Value| {
            Some(v).filter(fits).and_then(&number).ok_or_else(|| wrong(&path, v, "whole numbers of 63 bits"))
        };
        items.iter().map(item).collect()
    }

    /// An offset in elements; 0 where absent.
    fn offset(&self, key: &str) -> Result<u64> {
        match self.get(key) {
            None => Ok(0),
            Some(v) => v
                .as_u64()
                .filter(|n| *n <= i64::MAX as u64)
                .ok_or_else(|| wrong(&format!("{}{key}", self.path), v, "a whole number of 0 or more")),
        }
    }

    /// A data format by number or by name.
    fn format(&self, key: &str) -> Result<Option<DataFormat>> {
        let Some(value) = self.get(key).filter(|v| !v.is_null()) else { return Ok(None) };
        let name = |v: &Value| DataFormat::from_name(v.as_str()?.trim_start_matches("DataFormats."));
        let format = value.as_u64().and_then(DataFormat::from_number).or_else(|| name(value));
        format.map(Some).ok_or_else(|| wrong(key, value, "a number or a name of DataFormats"))
    }

    fn warn_of_others(&self, known: &[&str], warnings: &mut Warnings) {
        let path = &self.path;
        for key in self.fields.keys().filter(|k| !known.contains(&k.as_str())) {
            warnings.push(|| format!("{path}{}: not a known key, ignored", quote(key)));
        }
    }
}

fn object<'a>(path: &str, value: &'a Value) -> Result<&'a Map<String, Value>> {
    value.as_object().ok_or_else(|| wrong(path.trim_end_matches('.'), value, "an object"))
}

fn wrong(path: &str, value: &Value, needed: &str) -> Error {
    let given = match value {
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
        Value::String(s) => quote(s).to_string(),
        other => other.to_string(),
    };
    Error::value(path, given, needed)
}
