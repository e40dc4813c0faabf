//! `bufabi check`: the answers of the vectors, line for line, and what it says of lines that are no records.

use std::io::Read;
use std::num::{NonZeroU32, NonZeroU64};
use std::process::{Command, Stdio};

use bufabi_core::overlap::{Relation, relate};
use bufabi_core::wire::body::Body;
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{Access, DType, Descriptor, Identity, OwnerInstanceId, Tensor, View};

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
fn a_pair_too_hard_to_decide_has_the_safe_answer_and_is_counted() {
    let identity = Identity::new(OwnerInstanceId([1; 8]), 1, NonZeroU32::MIN);
    let body = Body::DeviceMalloc { base: NonZeroU64::MIN };
    let (access, nbytes) = (Access::Read, 1 << 40);
    let fields = DescriptorFields { identity, access, nbytes, owner_worker_path_id: 0, body };
    let buffer = Descriptor::new(&fields).unwrap();
    let view = |offset, strides: &[u32]| View::new(offset, DType::Uint8, &[59; 5], strides, nbytes).unwrap();
    let a = view(0, &[1_000_003, 1_300_021, 1_700_021, 2_100_001, 2_900_017]);
    let b = view(7_654_321, &[1_100_009, 1_400_017, 1_900_009, 2_300_003, 2_700_001]);
    assert_eq!(relate(&a, &b), Relation::MayOverlap, "the pair is no longer hard");
    let hex = |view| -> String {
        let tensor = Tensor::new(&buffer, view).unwrap();
        tensor.encode().iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let (a, b) = (hex(&a), hex(&b));
    let ran = bufabi_with(&["check", "overlaps"], format!("{a} {b}\n{a} {a}\n").as_bytes());
    assert_eq!((ran.status, ran.out.as_str()), (0, "1 0\n1 1\n"));
    assert_eq!(ran.complaint, "1 of 2 pairs passed the work bound and have the safe answer: 1 0\n");
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
