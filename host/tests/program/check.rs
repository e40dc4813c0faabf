//! `bufabi check`: the answers of the vectors, line for line, and what it says of lines that are no records.

use std::io::Read;
use std::process::{Command, Stdio};

use crate::{bufabi_with, vectors};

/// Cuts each line of a vector file behind its first `words` words.
fn questions_and_answers(file: &str, words: usize) -> (String, String) {
    let mut questions = String::new();
    let mut answers = String::new();
    for line in vectors(file).lines() {
        let (at, _) = line.match_indices(' ').nth(words - 1).unwrap();
        questions.push_str(&line[..at]);
        questions.push('\n');
        answers.push_str(&line[at + 1..]);
        answers.push('\n');
    }
    (questions, answers)
}

#[test]
fn every_vector_is_answered_as_it_says() {
    for (kind, words) in [("descriptors", 1), ("tensors", 1), ("blobs", 2), ("overlaps", 2), ("chip", 2)] {
        let (questions, answers) = questions_and_answers(&format!("{kind}.txt"), words);
        let ran = bufabi_with(&["check", kind], questions.as_bytes());
        assert!(ran.out == answers, "{kind} differ");
        if kind == "overlaps" {
            assert_eq!((ran.status, ran.complaint.as_str()), (0, ""));
        } else {
            assert_eq!(ran.status, 1, "{}", ran.complaint);
            assert!(ran.complaint.contains("records break a rule"), "{}", ran.complaint);
        }
    }
}

#[test]
fn records_that_all_hold_are_exit_status_0_and_no_complaint() {
    let text = vectors("tensors.txt");
    let good: Vec<&str> = text.lines().filter_map(|line| line.strip_suffix(" ok")).collect();
    let ran = bufabi_with(&["check", "tensors"], good.join("\n").as_bytes());
    assert_eq!((ran.status, ran.complaint.as_str()), (0, ""));
    assert_eq!(ran.out, "ok\n".repeat(good.len()));
    assert_eq!(bufabi_with(&["check", "tensors"], b"").status, 0);
}

#[test]
fn an_unreadable_line_is_answered_and_outweighs_a_broken_rule() {
    let mut input = b"4253\nno hex\n\n".to_vec();
    input.extend_from_slice(&vec![b'0'; 16 * 1024 * 1024 + 2]);
    input.extend_from_slice(b"\n00");
    let ran = bufabi_with(&["check", "descriptors"], &input);
    assert_eq!(ran.out, "size\nunreadable\nunreadable\nunreadable\nsize\n");
    assert_eq!(ran.status, 2);
    assert_eq!(ran.complaint, "bufabi: 3 of 5 lines are unreadable, line 2 first\n");
}

#[test]
fn a_reader_that_goes_away_ends_it_without_a_word() {
    let mut child = Command::new("sh")
        .args(["-c", "yes 4253 | head -n 1000000 | \"$0\" check tensors | head -n 1"])
        .arg(env!("CARGO_BIN_EXE_bufabi"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut out, mut complaint) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    child.wait().unwrap();
    assert_eq!(out, "size\n");
    assert_eq!(complaint, "");
}
