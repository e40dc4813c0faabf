//! Every number of the wire ABI in a plain text, without a word that could be polished: what `layout.txt` freezes.

use std::fmt::{self, Display, Formatter};

use bufabi_core::wire::backend::{AddressSpace, BackendKind};
use bufabi_core::wire::chip_args::{MAX_CORE_SCALARS, MAX_CORE_TENSORS, MAX_SCALARS, MAX_TENSORS};
use bufabi_core::wire::layout::{Field, FieldType, RECORDS};
use bufabi_core::{Access, DType, Tag};

/// All records with offset, width, name and type of each field; all enumerations; the limits.
#[derive(Clone, Copy, Debug)]
pub struct Frozen;

impl Display for Frozen {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for record in RECORDS {
            let (name, c_name, size, align) = (record.name, record.c_name, record.size, record.align);
            writeln!(f, "record {name} ({c_name}): {size} bytes, align {align}")?;
            for field in record.fields {
                let Field { offset, width, name, .. } = field;
                writeln!(f, "  {offset:>5} {width:>5} {name} {}", TypeName(field))?;
            }
        }
        let spaces = AddressSpace::ALL.iter().map(|value| (value.to_wire(), value.name()));
        enumeration(f, "address_space", spaces)?;
        enumeration(f, "access", Access::ALL.iter().map(|value| (value.to_wire(), value.name())))?;
        let backends = BackendKind::ALL.iter().map(|value| (value.to_wire(), value.name()));
        enumeration(f, "backend_kind", backends)?;
        enumeration(f, "tag", Tag::ALL.iter().map(|value| (value.to_wire(), value.name())))?;
        enumeration(f, "dtype", DType::ALL.iter().map(|value| (value.to_wire(), value.name())))?;
        writeln!(f, "element sizes")?;
        DType::ALL.iter().try_for_each(|dtype| writeln!(f, "  {dtype} {}", dtype.size()))?;
        writeln!(f, "limits")?;
        writeln!(f, "  a task: {MAX_TENSORS} tensors, {MAX_SCALARS} scalars")?;
        writeln!(f, "  a core: {MAX_CORE_TENSORS} tensors, {MAX_CORE_SCALARS} scalars")
    }
}

fn enumeration(
    f: &mut Formatter<'_>,
    name: &str,
    values: impl Iterator<Item = (u8, &'static str)>,
) -> fmt::Result {
    writeln!(f, "enumeration {name}")?;
    for (number, name) in values {
        writeln!(f, "  {number:>2} {name}")?;
    }
    Ok(())
}

/// A field's type as the wire ABI writes it; a record goes by its C name, which is a word.
struct TypeName<'a>(&'a Field);

impl Display for TypeName<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0.element {
            FieldType::U8 => "u8",
            FieldType::U16 => "u16",
            FieldType::U32 => "u32",
            FieldType::I32 => "i32",
            FieldType::U64 => "u64",
            FieldType::Record(c_name) => c_name,
        })?;
        self.0.count.map_or(Ok(()), |count| write!(f, "[{count}]"))
    }
}
