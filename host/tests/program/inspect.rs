//! `bufabi inspect`: every rule is named and its bytes are pointed at; what is no record is told apart from it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::process::Command;

use serde_json::json;

use crate::{Ran, bufabi, bufabi_with, folder, vectors};

/// The first record of each rule in a vector file, `-` aside.
fn first_of_each_rule(file: &str, skip: usize) -> BTreeMap<String, String> {
    let mut first = BTreeMap::new();
    for line in vectors(file).lines() {
        let words: Vec<&str> = line.split(' ').skip(skip).collect();
        let (hex, answer) = words.split_first().unwrap();
        first.entry(answer.join(" ")).or_insert_with(|| (*hex).to_owned());
    }
    first
}

/// The bytes that the marks under the rows of `ran` point at, by their offsets.
fn marked(ran: &Ran) -> Vec<usize> {
    let mut marked = Vec::new();
    let mut row = "";
    for line in ran.out.lines() {
        if line.trim_start().starts_with("^^") {
            let start: usize = row[..8].trim().parse().unwrap();
            let places =
                (0..8).filter(|place| line.get(10 + 3 * place..).is_some_and(|rest| rest.starts_with("^^")));
            // What follows the marks is text.
            let marks = line.split(|mark| mark != '^' && mark != ' ').next().unwrap().len();
            marked.extend(places.filter(|place| 10 + 3 * place < marks).map(|place| start + place));
        }
        row = line;
    }
    marked
}

#[test]
fn the_first_record_of_every_rule_names_it_and_points_at_its_bytes() {
    let spans: &[(&str, &[usize])] = &[
        ("magic", &[0, 1]),
        ("address_space", &[2]),
        ("access", &[3]),
        ("backend_kind", &[4]),
        ("body_len", &[52, 53]),
        ("generation", &[24, 25, 26, 27]),
        ("capability", &[2]),
        ("fork_cow_access", &[3]),
        ("body_address_len", &[52, 53]),
        ("body_null_base", &[56, 57, 58, 59, 60, 61, 62, 63]),
        ("body_shm_name_empty", &[52, 53]),
        ("body_shareable_len", &[52, 53]),
        ("body_shareable_handle", &[64, 65, 66, 67, 68, 69, 70, 71]),
        ("body_shareable_reserved", &[60, 61, 62, 63]),
        ("body_shareable_mapping", &[72, 73, 74, 75, 76, 77, 78, 79]),
        ("body_remote_not_empty", &[52, 53]),
        ("ndims", &[96, 97, 98, 99]),
        ("dtype", &[140]),
        ("byte_offset_alignment", &[88, 89, 90, 91, 92, 93, 94, 95]),
    ];
    let spans: BTreeMap<&str, &[usize]> = spans.iter().copied().collect();
    // Where the vector's record has its wrong byte is not known beforehand: one byte of the body, one slot, or the view.
    let sizes = BTreeMap::from([
        ("body_shm_name_char", (1, 56..88)),
        ("body_tail", (1, 56..88)),
        ("shape_zero", (4, 100..120)),
        ("stride_zero", (4, 120..140)),
        ("inactive_dims", (4, 100..140)),
        ("extent_overflow", (40, 100..140)),
        ("out_of_bounds", (52, 88..140)),
        ("size", (0, 0..0)),
    ]);
    for (file, kind, rules) in [("descriptors.txt", "descriptor", 19), ("tensors.txt", "tensor", 27)] {
        let first = first_of_each_rule(file, 0);
        assert_eq!(first.len(), rules + 1, "{file}");
        for (rule, hex) in first {
            let ran = bufabi(&["inspect", "--as", kind, "--hex", &hex]);
            if rule == "ok" {
                assert_eq!((ran.status, ran.complaint.as_str()), (0, ""));
                assert!(ran.out.ends_with("\nok: every rule holds\n"), "{}", ran.out);
                assert_eq!(marked(&ran), [0; 0]);
                continue;
            }
            assert_eq!(ran.status, 1, "{rule}");
            assert!(ran.out.contains(&format!("^^ {rule}: ")), "{}", ran.out);
            assert!(ran.out.contains(&format!("\nbroken: {rule} (code ")), "{}", ran.out);
            assert!(ran.complaint.ends_with(&format!(" breaks the rule {rule}\n")), "{}", ran.complaint);
            let marked = marked(&ran);
            if let Some(span) = spans.get(rule.as_str()) {
                assert_eq!(marked, *span, "{rule}: {}", ran.out);
            } else if rule != "size" {
                let (size, within) = &sizes[rule.as_str()];
                assert_eq!(marked.len(), *size, "{rule}: {}", ran.out);
                assert!(marked.iter().all(|place| within.contains(place)), "{rule}: {}", ran.out);
            }
        }
    }
}

#[test]
fn a_blob_is_told_up_to_its_first_bad_tensor() {
    for (answer, hex) in first_of_each_rule("blobs.txt", 1) {
        let hex = if hex == "-" { String::new() } else { hex };
        let ran = bufabi(&["inspect", "--as", "blob", "--hex", &hex]);
        let words: Vec<&str> = answer.split(' ').collect();
        match words[..] {
            // The capacity of the vector is not the command's to know.
            ["short" | "past_end"] => {}
            ["negative"] => {
                assert!(ran.out.contains("^^ negative: "), "{}", ran.out);
                assert_eq!(marked(&ran).len(), 4);
            }
            ["ok", tensors, scalars] => {
                assert_eq!(ran.status, 0, "{}", ran.out);
                assert_eq!(ran.out.matches("\ntensor ").count().to_string(), tensors);
                assert_eq!(ran.out.matches("  scalar ").count().to_string(), scalars);
            }
            ["tensor", index, rule] => {
                assert_eq!(ran.status, 1);
                assert!(ran.out.contains(&format!("^^ {rule}: tensor {index}: ")), "{}", ran.out);
                let index: usize = index.parse().unwrap();
                let start = 8 + 144 * index;
                assert!(!marked(&ran).is_empty());
                assert!(marked(&ran).iter().all(|place| (start..start + 144).contains(place)));
            }
            _ => panic!("{answer}"),
        }
    }
    for (hex, rule) in [("", "short"), ("01000000", "short"), ("0100000000000000", "past_end")] {
        let ran = bufabi(&["inspect", "--hex", hex]);
        assert_eq!(ran.status, 1);
        assert!(ran.out.contains(&format!("^^ {rule}: ")), "{}", ran.out);
    }
}

#[test]
fn magic_tells_a_descriptor_from_a_tensor_by_its_length() {
    let descriptor = &first_of_each_rule("descriptors.txt", 0)["ok"];
    let tensor = &first_of_each_rule("tensors.txt", 0)["ok"];
    for (hex, kind) in [
        (descriptor.as_str(), "descriptor, 88 bytes"),
        (&descriptor[..20], "descriptor, 10 bytes"),
        (tensor, "tensor, 144 bytes"),
        (&tensor[..178], "tensor, 89 bytes"),
        ("0042", "blob, 2 bytes"),
    ] {
        let ran = bufabi(&["inspect", "--hex", hex]);
        assert!(ran.out.starts_with(&format!("--hex: {kind}\n")), "{}", ran.out);
    }
}

#[test]
fn json_says_the_same() {
    let hex = &first_of_each_rule("descriptors.txt", 0)["body_tail"];
    let ran = bufabi(&["inspect", "--json", "--hex", hex]);
    assert_eq!(ran.status, 1);
    let told: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(told["kind"], "descriptor");
    assert_eq!(told["broken"]["rule"], "body_tail");
    assert_eq!(told["broken"]["code"], 19);
    let bytes: String = told["records"][0]["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| field["bytes"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(bytes, *hex, "all fields together are the record");
}

#[test]
fn what_is_no_record_is_told_at_once() {
    let folder = folder("inspect");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();

    let ran = bufabi(&["inspect", folder.to_str().unwrap()]);
    assert_eq!(ran.status, 2);
    assert!(ran.complaint.ends_with(": is a directory, neither a file nor a pipe\n"), "{}", ran.complaint);

    let ran = bufabi(&["inspect", "/dev/zero"]);
    assert_eq!(ran.status, 2);
    assert!(ran.complaint.ends_with(": is a device, neither a file nor a pipe\n"), "{}", ran.complaint);

    let ran = bufabi(&["inspect", &path("missing")]);
    assert_eq!(ran.status, 2);
    assert!(ran.complaint.contains("No such file"), "{}", ran.complaint);

    fs::write(path("empty"), b"").unwrap();
    let ran = bufabi(&["inspect", &path("empty")]);
    assert_eq!(ran.status, 1);
    assert!(ran.out.contains("found 0"), "{}", ran.out);

    // A sparse file: whoever read all of it would take a while, and would be told the same.
    File::create(path("large")).unwrap().set_len(1 << 30).unwrap();
    let ran = bufabi(&["inspect", "--as", "tensor", &path("large")]);
    assert_eq!(ran.status, 1);
    assert!(ran.out.contains("^^ size: a tensor has exactly 144 bytes, found 1073741824"), "{}", ran.out);
    assert!(ran.out.contains(" 1073741680 bytes more, not read"), "{}", ran.out);

    let noise: Vec<u8> = (0..5000_u32).map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    fs::write(path("noise"), noise).unwrap();
    let ran = bufabi(&["inspect", &path("noise")]);
    assert_eq!(ran.status, 1);
    assert!(ran.out.contains("broken: "), "{}", ran.out);

    for (hex, why) in [("4", "whole number of bytes"), ("4g", "'g' is no hex digit")] {
        let ran = bufabi(&["inspect", "--hex", hex]);
        assert_eq!(ran.status, 2);
        assert!(ran.complaint.contains(why), "{}", ran.complaint);
    }
    assert_eq!(bufabi(&["inspect"]).status, 2);
}

#[test]
fn a_pipe_is_read_to_its_end_whatever_it_is_called_and_up_to_a_limit() {
    let hex = first_of_each_rule("tensors.txt", 0)["shape_zero"].clone();
    let bytes: Vec<u8> =
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
    let fields_of = |ran: &Ran| -> serde_json::Value {
        let told: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((ran.status, &told["broken"]["rule"]), (1, &json!("shape_zero")));
        told["records"].clone()
    };
    let expected = fields_of(&bufabi(&["inspect", "--json", "--hex", &hex]));
    for name in ["-", "/dev/stdin", "/proc/self/fd/0"] {
        assert_eq!(fields_of(&bufabi_with(&["inspect", "--json", name], &bytes)), expected, "{name}");
    }
    let pipe = folder("inspect-pipe").join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::thread::scope(|scope| {
        scope.spawn(|| fs::write(&pipe, &bytes).unwrap());
        assert_eq!(fields_of(&bufabi(&["inspect", "--json", pipe.to_str().unwrap()])), expected);
    });
    let most = 4 << 20;
    let ran = bufabi_with(&["inspect", "--as", "tensor", "-"], &vec![0; most]);
    assert_eq!(ran.status, 1);
    assert!(ran.out.contains("found 4194304"), "{}", ran.out);
    let ran = bufabi_with(&["inspect", "-"], &vec![0; most + 1]);
    assert_eq!(ran.status, 2);
    assert!(ran.complaint.starts_with("bufabi: -: a pipe is read up to 4194304 bytes"), "{}", ran.complaint);
}
