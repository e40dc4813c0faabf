//! The layout tables as people and C compilers read them: Markdown, and C structs with static assertions.

use core::fmt::{self, Display, Formatter, Write};

use super::layout::{Field, FieldType, Layout, RECORDS};

/// Byte tables in Markdown, one for each record, in columns that also read well as they are.
#[derive(Clone, Copy, Debug)]
pub struct MarkdownTables<'a>(pub &'a [Layout]);

impl Display for MarkdownTables<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, record) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "\n" })?;
            write!(f, "## {}: {} bytes", record.name, record.size)?;
            if record.align > 1 {
                write!(f, ", aligned to {}", record.align)?;
            }
            f.write_str("\n\n")?;
            writeln!(f, "| {:>6} | {:>5} | {:<20} | {:<17} | |", "offset", "bytes", "field", "type")?;
            writeln!(f, "|{:->7}:|{:->6}:|{:-<22}|{:-<19}|---|", "", "", "", "")?;
            for field in record.fields {
                let Field { offset, width, name, .. } = field;
                write!(f, "| {offset:>6} | {width:>5} | {:<20} | ", Code(name))?;
                write!(f, "{:<17} | ", WireType(field))?;
                Cell(field.about).fmt(f)?;
                f.write_str(" |\n")?;
            }
        }
        Ok(())
    }
}

/// A C11 and C++17 header: each record as a struct of natural C types, with assertions of its size, its alignment and every
/// offset and width.
#[derive(Clone, Copy, Debug)]
pub struct CHeader<'a>(pub &'a [Layout]);

impl Display for CHeader<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(PROLOGUE)?;
        self.0.iter().try_for_each(|record| c_record(f, record))?;
        f.write_str("\n#endif /* BUFABI_LAYOUT_H */\n")
    }
}

const PROLOGUE: &str = r#"/* The records of the wire ABI. Generated from the layout tables of bufabi-core by `bufabi layout --c`; not to be edited.
 *
 * All integers are little-endian. A record may lie at any address unless its size is followed by an alignment: copy it
 * into a struct before reading its fields. */
#ifndef BUFABI_LAYOUT_H
#define BUFABI_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define BUFABI_ASSERT(condition, what) static_assert(condition, what)
#define BUFABI_ALIGNAS(bytes) alignas(bytes)
#define BUFABI_ALIGNOF(type) alignof(type)
#else
#define BUFABI_ASSERT(condition, what) _Static_assert(condition, what)
#define BUFABI_ALIGNAS(bytes) _Alignas(bytes)
#define BUFABI_ALIGNOF(type) _Alignof(type)
#endif
"#;

/// One record's struct and its assertions.
fn c_record(f: &mut Formatter<'_>, record: &Layout) -> fmt::Result {
    let Layout { name, c_name, size, align, fields } = *record;
    write!(f, "\n/* {name}: {size} bytes")?;
    if align > 1 {
        write!(f, ", aligned to {align}")?;
    }
    writeln!(f, " */\ntypedef struct {c_name} {{")?;
    for (index, field) in fields.iter().enumerate() {
        f.write_str("    ")?;
        if index == 0 && align > 1 {
            write!(f, "BUFABI_ALIGNAS({align}) ")?;
        }
        write!(f, "{} {}", CType(field.element), field.name)?;
        if let Some(count) = field.count {
            write!(f, "[{count}]")?;
        }
        writeln!(f, "; /* {} */", field.about)?;
    }
    writeln!(f, "}} {c_name}_t;")?;
    writeln!(f, "BUFABI_ASSERT(sizeof({c_name}_t) == {size}, \"{c_name}: size\");")?;
    if align > 1 {
        writeln!(f, "BUFABI_ASSERT(BUFABI_ALIGNOF({c_name}_t) == {align}, \"{c_name}: alignment\");")?;
    }
    for Field { name, offset, width, .. } in fields {
        writeln!(f, "BUFABI_ASSERT(offsetof({c_name}_t, {name}) == {offset}, \"{c_name}.{name}: offset\");")?;
        writeln!(
            f,
            "BUFABI_ASSERT(sizeof((({c_name}_t *)0)->{name}) == {width}, \"{c_name}.{name}: width\");"
        )?;
    }
    Ok(())
}

/// The type of an element, in C.
struct CType(FieldType);

impl Display for CType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            FieldType::U8 => f.write_str("uint8_t"),
            FieldType::U16 => f.write_str("uint16_t"),
            FieldType::U32 => f.write_str("uint32_t"),
            FieldType::I32 => f.write_str("int32_t"),
            FieldType::U64 => f.write_str("uint64_t"),
            FieldType::Record(c_name) => write!(f, "{c_name}_t"),
        }
    }
}

/// The type of a field, as the wire ABI writes it.
struct WireType<'a>(&'a Field);

impl Display for WireType<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let element = match self.0.element {
            FieldType::U8 => "u8",
            FieldType::U16 => "u16",
            FieldType::U32 => "u32",
            FieldType::I32 => "i32",
            FieldType::U64 => "u64",
            FieldType::Record(c_name) => {
                RECORDS.iter().find(|record| record.c_name == c_name).map_or(c_name, |record| record.name)
            }
        };
        match self.0.count {
            Some(count) => pad(f, format_args!("{element}[{count}]")),
            None => f.pad(element),
        }
    }
}

/// A name set as code.
struct Code<'a>(&'a str);

impl Display for Code<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        pad(f, format_args!("`{}`", self.0))
    }
}

/// Text in a cell of a Markdown table.
struct Cell<'a>(&'a str);

impl Display for Cell<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            f.write_str(if character == '|' { "\\" } else { "" })?;
            f.write_char(character)?;
        }
        Ok(())
    }
}

/// Writes `text` and fills up with blanks to the width that `f` asks for: what `Formatter::pad` does, for text in parts.
fn pad(f: &mut Formatter<'_>, text: fmt::Arguments<'_>) -> fmt::Result {
    struct Counting<'a, 'b>(&'a mut Formatter<'b>, usize);
    impl Write for Counting<'_, '_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.1 = self.1.saturating_add(text.chars().count());
            self.0.write_str(text)
        }
    }
    let width = f.width().unwrap_or(0);
    let mut counting = Counting(f, 0);
    counting.write_fmt(text)?;
    let Counting(f, written) = counting;
    (written..width).try_for_each(|_| f.write_char(' '))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use super::*;

    #[test]
    fn a_table_has_a_row_for_each_field() {
        let tables = MarkdownTables(RECORDS).to_string();
        let fields: usize = RECORDS.iter().map(|record| record.fields.len()).sum();
        assert_eq!(tables.lines().filter(|line| line.starts_with("| ")).count(), fields + RECORDS.len());
        assert!(tables.starts_with("## CanonicalIdentity: 32 bytes\n\n| offset | bytes | field"), "{tables}");
        assert!(tables.contains(
            "\n|      0 |    88 | `buffer`             | BufferDescriptor  | the backing |\n\
             |     88 |     8 | `byte_offset`        | u64               | "
        ));
        assert!(tables.contains("\n|    100 |    20 | `shapes`             | u32[5]            | "));
        assert!(tables.contains("ring id << 32 \\| local id |"), "a bar in a cell would end it");
        assert!(tables.contains("## ChipTensor: 128 bytes, aligned to 64\n"));
    }

    #[test]
    fn a_header_asserts_each_offset_and_width() {
        let header = CHeader(RECORDS).to_string();
        for record in RECORDS {
            let c_name = record.c_name;
            for field in record.fields {
                let (name, offset, width) = (field.name, field.offset, field.width);
                assert!(header.contains(&std::format!("offsetof({c_name}_t, {name}) == {offset},")));
                assert!(header.contains(&std::format!("sizeof((({c_name}_t *)0)->{name}) == {width},")));
            }
        }
        assert!(header.contains("    BUFABI_ALIGNAS(64) uint64_t addr; /* base + byte_offset */\n"));
        assert!(header.contains("    bufabi_identity_t identity; /* the allocation's name */\n"));
    }
}
