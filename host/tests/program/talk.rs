//! `bufabi pingpong` and `bufabi stream`: another process answers or takes messages, and the table, the picture and JSON tell of it.

use serde_json::Value;

use crate::bufabi;

const QUICK: [&str; 4] = ["--sizes", "0,8,100", "--milliseconds", "1"];

#[test]
fn both_tell_of_every_size_in_a_table() {
    for (command, last) in [("pingpong", "slowest, ns"), ("stream", "MB/s")] {
        let output = bufabi(&[&[command], &QUICK[..]].concat());
        assert_eq!(output.status, 0, "{}", output.complaint);
        let table = output.out;
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].trim_start().starts_with("bytes") && lines[0].ends_with(last), "{table}");
        let sizes: Vec<&str> = lines[1..].iter().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(sizes, ["0", "8", "100"]);
    }
}

#[test]
fn both_tell_the_same_in_json() {
    for (command, field) in [("pingpong", "median_ns"), ("stream", "messages_per_s")] {
        let output = bufabi(&[&[command, "--json"], &QUICK[..]].concat());
        let told: Value = serde_json::from_str(&output.out).unwrap();
        assert_eq!(told["with"], "another process");
        let sizes = told["sizes"].as_array().unwrap();
        assert_eq!(sizes.iter().map(|size| size["bytes"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 8, 100]);
        assert!(sizes.iter().all(|size| size[field].as_f64().unwrap() > 0.0), "{told}");
    }
}

#[test]
fn both_draw_a_picture() {
    for (command, curves) in [("pingpong", 2), ("stream", 1)] {
        let output = bufabi(&[&[command, "--svg"], &QUICK[..]].concat());
        let picture = output.out;
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{picture}");
        assert_eq!(picture.matches("<polyline").count(), curves);
        assert_eq!(picture.matches("<circle").count(), 3 * curves);
    }
}

#[test]
fn what_cannot_be_is_wrong_usage() {
    for arguments in [
        &["pingpong", "--sizes", "65537"][..],
        &["stream", "--batch", "0"],
        &["pingpong", "--json", "--svg"],
        &["stream", "--firmware", "no such image"],
    ] {
        let output = bufabi(arguments);
        assert_eq!(output.status, 2, "{arguments:?}: {}", output.complaint);
        assert_eq!(output.out, "");
    }
}

#[test]
fn firmware_that_is_no_program_for_the_machine_is_told_at_once() {
    for command in ["pingpong", "stream"] {
        let output = bufabi(&[command, "--firmware", "/dev/null"]);
        assert_eq!((output.status, output.out.as_str()), (2, ""), "{}", output.complaint);
        assert!(
            output.complaint.contains("firmware /dev/null: it is no ELF image for aarch64"),
            "{}",
            output.complaint
        );
    }
}
