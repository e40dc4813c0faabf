//! An inspected record for a script.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{Inspected, Section};

pub(super) fn write(out: &mut impl Write, inspected: &Inspected) -> io::Result<()> {
    let Inspected { name, kind, total, sections, broken, behind, not_shown } = inspected;
    let broken = broken.as_ref().map(|broken| {
        json!({
            "rule": broken.code.name(),
            "code": broken.code.number(),
            "fault": broken.code.fault().name(),
            "span": [broken.span.start, broken.span.end],
            "message": broken.message,
        })
    });
    let value = json!({
        "name": name,
        "kind": kind,
        "nbytes": total,
        "records": sections.iter().map(section).collect::<Vec<_>>(),
        "broken": broken,
        "nbytes_behind": behind,
        "not_shown": not_shown,
    });
    writeln!(out, "{value:#}")
}

fn section(section: &Section) -> Value {
    let fields = section.fields.iter().map(|field| {
        json!({
            "name": field.name,
            "offset": field.offset,
            "width": field.width,
            "bytes": faster_hex::hex_string(&field.bytes),
            "value": field.value,
        })
    });
    json!({ "title": section.title, "fields": fields.collect::<Vec<_>>() })
}
