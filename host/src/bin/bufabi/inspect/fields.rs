//! A record's bytes, field by field, with what each says. It shows what is there and judges nothing.

use std::fmt::Write as _;

use bufabi_core::wire::backend::{AddressSpace, BackendKind};
use bufabi_core::wire::body::RawShareableBody;
use bufabi_core::wire::descriptor::RawDescriptor;
use bufabi_core::wire::layout::{Field, FieldType, Layout, RECORDS};
use bufabi_core::{Access, DType};

/// One field as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// Its name, those of the records that hold it in front.
    pub(super) name: String,
    /// Bytes from the input's start.
    pub(super) offset: u64,
    /// Bytes that it takes in a whole record.
    pub(super) width: usize,
    /// Its bytes; fewer than `width` when the input ends before.
    pub(super) bytes: Vec<u8>,
    /// What they say; empty for padding.
    pub(super) value: String,
}

impl Shown {
    /// The field of that name, whose bytes may be cut short.
    pub(super) fn new(
        name: String,
        offset: u64,
        width: usize,
        bytes: &[u8],
        value: impl FnOnce(&[u8]) -> String,
    ) -> Self {
        let value = match bytes.len() {
            len if len == width => value(bytes),
            0 => "missing".to_owned(),
            len => format!("cut short: {len} of {width} bytes"),
        };
        Self { name, offset, width, bytes: bytes.to_vec(), value }
    }
}

/// The fields of the record that starts at `bytes`, which may end early. `at` is where it starts in the input.
pub(super) fn of_record(record: &Layout, bytes: &[u8], at: u64) -> Vec<Shown> {
    let mut shown = Vec::new();
    walk(record, "", bytes, at, &mut shown);
    shown
}

fn walk(record: &Layout, prefix: &str, bytes: &[u8], at: u64, shown: &mut Vec<Shown>) {
    for field in record.fields {
        let own = part(bytes, field.offset, field.width);
        let at = at.saturating_add(widen(field.offset));
        let name = format!("{prefix}{}", field.name);
        let nested = match (field.element, field.count) {
            (FieldType::Record(c_name), None) => RECORDS.iter().find(|record| record.c_name == c_name),
            _ => None,
        };
        if let Some(nested) = nested {
            walk(nested, &format!("{name}."), own, at, shown);
        } else if record.c_name == RawDescriptor::LAYOUT.c_name && field.name == "body" {
            body(&name, bytes, own, at, shown);
        } else {
            shown.push(Shown::new(name, at, field.width, own, |bytes| value(field, bytes)));
        }
    }
}

/// The body, in the parts that its backend gives it.
fn body(name: &str, descriptor: &[u8], bytes: &[u8], at: u64, shown: &mut Vec<Shown>) {
    let kind = descriptor.get(4).copied().and_then(BackendKind::from_wire);
    let used = match kind {
        Some(
            BackendKind::ForkShm | BackendKind::VmmWindow | BackendKind::DeviceMalloc | BackendKind::ForkCow,
        ) => {
            let base = |bytes: &[u8]| format!("{:#x}", unsigned(bytes));
            shown.push(Shown::new(format!("{name}.base"), at, 8, part(bytes, 0, 8), base));
            8
        }
        Some(BackendKind::PosixShm) => {
            let len = usize::try_from(unsigned(part(descriptor, 52, 2))).unwrap_or(32).min(32);
            if len > 0 {
                let text = |bytes: &[u8]| format!("\"{}\"", bytes.escape_ascii());
                shown.push(Shown::new(format!("{name}.name"), at, len, part(bytes, 0, len), text));
            }
            len
        }
        Some(BackendKind::VmmShareable) => {
            walk(
                &RawShareableBody::LAYOUT,
                &format!("{name}."),
                part(bytes, 0, RawShareableBody::SIZE),
                at,
                shown,
            );
            RawShareableBody::SIZE
        }
        Some(BackendKind::RemoteSidecar) | None => 0,
    };
    if used < 32 {
        let name = if used == 0 { name.to_owned() } else { format!("{name}.tail") };
        let left = 32_usize.saturating_sub(used);
        let at = at.saturating_add(widen(used));
        shown.push(Shown::new(name, at, left, part(bytes, used, left), |_| String::new()));
    }
}

/// What a field's bytes say.
fn value(field: &Field, bytes: &[u8]) -> String {
    let number = unsigned(bytes);
    let named = |name: Option<&str>| name.map_or_else(|| format!("{number}, unknown"), str::to_owned);
    let byte = bytes.first().copied().unwrap_or(0);
    match field.name {
        "padding" | "padding0" | "padding1" => String::new(),
        "owner_instance_id" => bytes.iter().fold(String::new(), |mut text, byte| {
            // A String takes whatever is written to it.
            let _ = write!(text, "{byte:02x}");
            text
        }),
        "magic" | "shareable_handle" => format!("{number:#x}"),
        "address_space" => named(AddressSpace::from_wire(byte).map(AddressSpace::name)),
        "access" => named(Access::from_wire(byte).map(Access::name)),
        "backend_kind" => named(BackendKind::from_wire(byte).map(BackendKind::name)),
        "dtype" => named(DType::from_wire(byte).map(DType::name)),
        "owner_worker_path_id" if number == 0 => "none".to_owned(),
        "owner_worker_path_id" => format!("<path#{number}>"),
        _ => match (field.element, field.count) {
            (FieldType::I32, None) => signed(bytes).to_string(),
            (FieldType::U32, Some(_)) => {
                let slots: Vec<String> = bytes.chunks(4).map(|slot| unsigned(slot).to_string()).collect();
                format!("[{}]", slots.join(", "))
            }
            _ => number.to_string(),
        },
    }
}

/// The number in up to 8 little-endian bytes.
pub(super) fn unsigned(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    wide.iter_mut().zip(bytes).for_each(|(wide, byte)| *wide = *byte);
    u64::from_le_bytes(wide)
}

fn signed(bytes: &[u8]) -> i32 {
    let mut wide = [0; 4];
    wide.iter_mut().zip(bytes).for_each(|(wide, byte)| *wide = *byte);
    i32::from_le_bytes(wide)
}

/// As many of the `width` bytes from `offset` on as there are.
pub(super) fn part(bytes: &[u8], offset: usize, width: usize) -> &[u8] {
    let rest = bytes.get(offset..).unwrap_or(&[]);
    rest.get(..width).unwrap_or(rest)
}

/// A length as a place in the input.
pub(super) fn widen(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use bufabi_core::wire::tensor::RawTensor;

    use super::*;

    #[test]
    fn the_fields_of_any_bytes_cover_the_record_without_a_gap() {
        for kind in 0..=8 {
            for body_len in [0_u8, 1, 8, 31, 32, 33] {
                for length in [0, 3, 53, 60, 88, 100, 144] {
                    let mut bytes = [0xa5; 144];
                    bytes[4] = kind;
                    bytes[52] = body_len;
                    bytes[53] = 0;
                    let mut end = 0;
                    for field in of_record(&RawTensor::LAYOUT, &bytes[..length], 1000) {
                        assert_eq!(field.offset, 1000 + end, "{}", field.name);
                        let start = usize::try_from(end).unwrap();
                        assert_eq!(field.bytes, part(&bytes[..length], start, field.width));
                        end += widen(field.width);
                    }
                    assert_eq!(end, 144);
                }
            }
        }
    }
}
