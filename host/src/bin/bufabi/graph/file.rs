//! A graph file's JSON, as it is written: its fields and their types, and nothing known of what they mean together.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde_json::Value;

use crate::failure::Failure;

/// Bytes of a graph file, at most.
const LIMIT: u64 = 256 * 1024 * 1024;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GraphFile {
    pub(super) buffers: Vec<BufferEntry>,
    pub(super) workers: Option<Vec<WorkerEntry>>,
    pub(super) tasks: Vec<TaskEntry>,
    #[serde(default)]
    pub(super) outputs: Vec<OutputEntry>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BufferEntry {
    pub(super) name: String,
    pub(super) backend: Option<String>,
    pub(super) npy: Option<String>,
    pub(super) nbytes: Option<Integer>,
    pub(super) access: Option<String>,
    pub(super) worker: Option<String>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkerEntry {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) device: Option<String>,
    pub(super) workers: Option<Vec<WorkerEntry>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskEntry {
    pub(super) name: String,
    pub(super) kernel: Option<String>,
    pub(super) worker: Option<String>,
    pub(super) args: Option<Vec<ArgumentEntry>>,
    pub(super) members: Option<Vec<MemberEntry>>,
    #[serde(default)]
    pub(super) scalars: Vec<Value>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemberEntry {
    pub(super) worker: Option<String>,
    pub(super) args: Vec<ArgumentEntry>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArgumentEntry {
    pub(super) buffer: String,
    pub(super) tag: String,
    pub(super) dtype: String,
    pub(super) byte_offset: Option<Integer>,
    pub(super) shape: Vec<Integer>,
    pub(super) strides: Option<Vec<Integer>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OutputEntry {
    pub(super) buffer: String,
    pub(super) dtype: String,
    pub(super) byte_offset: Option<Integer>,
    pub(super) shape: Vec<Integer>,
    pub(super) strides: Option<Vec<Integer>>,
    pub(super) npy: Option<String>,
    pub(super) expect: Option<String>,
}

/// Any whole number that JSON holds in 64 bits. Whether it is in range is asked later, where the place is known.
#[derive(Clone, Copy)]
pub(super) struct Integer(pub(super) i128);

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Whole;
        impl Visitor<'_> for Whole {
            type Value = Integer;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Integer, E> {
                Ok(Integer(number.into()))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Integer, E> {
                Ok(Integer(number.into()))
            }
        }
        deserializer.deserialize_any(Whole)
    }
}

/// Reads a graph file. Complaints name the place in it, and the line.
pub(super) fn read(path: &Path) -> Result<GraphFile, Failure> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LIMIT.saturating_add(1)).read_to_string(&mut text));
    let nbytes = read.map_err(|error| Failure::usage(error.to_string()))?;
    if u64::try_from(nbytes).is_ok_and(|nbytes| nbytes > LIMIT) {
        return Err(Failure::usage(format!("a graph file has at most {LIMIT} bytes")));
    }
    let mut deserializer = serde_json::Deserializer::from_str(&text);
    let graph = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let inner = error.inner();
        let prefix = if inner.is_syntax() || inner.is_eof() { "unreadable as JSON: " } else { "" };
        let failure = Failure::usage(format!("{prefix}{inner}"));
        match error.path().to_string() {
            root if root == "." => failure,
            place => failure.at(&place),
        }
    })?;
    deserializer.end().map_err(|error| Failure::usage(error.to_string()))?;
    Ok(graph)
}
