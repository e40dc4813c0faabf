//! Writes the first inputs of every target's corpus from `tests/vectors`: of each answer that the vectors have, the first line.
//!
//! `cargo run --manifest-path fuzz/Cargo.toml --example seed`

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;

use bufabi_core::{DType, Tag, Tensor, View};
use bufabi_fuzz::encode_view;
use serde_json::Value;

/// Graphs of which a sequence is made.
const GRAPHS: usize = 24;

fn unhex(hex: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let hex = if hex == "-" { "" } else { hex };
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
}

/// Of a file's lines, the inputs that `input` makes of them; it says what answer each belongs to.
fn write(
    fuzz: &Path,
    file: &str,
    target: &str,
    input: impl Fn(&[&str]) -> Result<Option<(String, Vec<u8>)>, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let folder = fuzz.join("corpus").join(target);
    fs::create_dir_all(&folder)?;
    let text = fs::read_to_string(fuzz.join("../vectors").join(file))?;
    let mut kept = BTreeSet::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let Some((answer, bytes)) = input(&words)? else { continue };
        if kept.insert(answer.clone()) {
            fs::write(folder.join(answer), bytes)?;
        }
    }
    println!("{target}: {} inputs from {file}", kept.len());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR"));
    write(fuzz, "descriptors.txt", "descriptor", |words| Ok(Some((words[1].to_owned(), unhex(words[0])?))))?;
    write(fuzz, "tensors.txt", "tensor", |words| Ok(Some((words[1].to_owned(), unhex(words[0])?))))?;
    write(fuzz, "chip.txt", "tensor", |words| {
        let mut bytes = unhex(words[0])?;
        bytes.extend(u64::from_str_radix(words[1], 16)?.to_le_bytes());
        let answer = if words[2] == "address_overflow" { "address_overflow" } else { "chip_tensor" };
        Ok(Some((answer.to_owned(), bytes)))
    })?;
    write(fuzz, "blobs.txt", "blob", |words| {
        let mut bytes = unhex(words[1])?;
        bytes.truncate(words[0].parse()?);
        let rule = words[if words[2] == "tensor" { 4 } else { 2 }];
        Ok((bytes.len() <= 1_024).then(|| (rule.to_owned(), bytes)))
    })?;
    write(fuzz, "overlaps.txt", "overlap", |words| {
        let mut bytes = Vec::new();
        let mut ranks = Vec::new();
        for word in &words[..2] {
            let view = Tensor::decode(&unhex(word)?)?.view();
            let Some(encoded) = encode_view(&view) else { return Ok(None) };
            bytes.extend(encoded);
            ranks.push(view.ndims().to_string());
        }
        Ok(Some((format!("ranks-{}-overlap-{}-cover-{}", ranks.concat(), words[2], words[3]), bytes)))
    })?;
    graphs(fuzz)?;
    plays(fuzz)
}

/// Calls of both ends, two bytes each: the call and its argument. 15 arms a write of the peer: the word, then in how many accesses
/// and which value.
fn plays(fuzz: &Path) -> Result<(), Box<dyn Error>> {
    let folder = fuzz.join("corpus/queue_peer");
    fs::create_dir_all(&folder)?;
    let arena = [0, 64, 8, 0, 10, 0, 0, 128, 8, 0, 10, 0, 0, 96, 8, 0, 10, 0, 0, 32];
    let window = [0, 8, 0, 8, 0, 8, 4, 0, 8, 0, 8, 0, 10, 1, 10, 0, 8, 0, 8, 0, 10, 1, 10, 0, 8, 0];
    let answers = [12, 100, 13, 2, 2, 10, 7, 0, 5, 0, 5, 0, 6, 200, 3, 128, 6, 128];
    let full = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 8, 0, 10, 0, 0, 5, 3, 139, 2, 128, 3, 1];
    let mut plays: Vec<(String, Vec<u8>)> = vec![
        ("arena".to_owned(), arena.to_vec()),
        ("window".to_owned(), window.to_vec()),
        ("answers".to_owned(), answers.to_vec()),
        ("full".to_owned(), full.to_vec()),
        ("handle".to_owned(), vec![0, 8, 8, 0, 14, 7, 8, 0]),
        ("abort".to_owned(), vec![0, 8, 14, 255, 8, 0, 9, 0, 3, 1]),
        // Batches of both ends: whole, stopped by a full ring or arena, by a message that is too large, by an output that is larger than
        // the room for it, by a handle that comes twice.
        ("batch-inputs".to_owned(), vec![16, 7, 8, 0, 8, 0, 19, 1, 8, 0, 19, 0, 16, 3, 16, 3, 8, 0, 19, 0]),
        ("batch-outputs".to_owned(), vec![17, 7, 18, 1, 18, 3, 17, 3, 17, 3, 18, 3, 17, 103, 18, 131, 18, 3]),
        ("batch-too-large".to_owned(), vec![16, 139, 17, 139, 16, 19, 18, 3, 8, 0, 19, 0]),
        ("batch-twice".to_owned(), vec![16, 7, 8, 0, 8, 0, 19, 251, 8, 0, 17, 3]),
        ("batch-ended".to_owned(), vec![15, 0, 5, 0, 0, 0, 0, 0, 14, 0, 17, 40, 16, 40, 18, 0, 19, 0]),
        ("batch-reserved".to_owned(), vec![12, 100, 17, 3, 13, 1, 17, 3, 18, 3]),
    ];
    // The same with a write of the peer in the middle of a batch.
    for word in 0..6 {
        let inputs = [15, word, 9, 14 * 16 + 8, 16, 7, 8, 0, 8, 0, 19, 0, 16, 3];
        let outputs = [15, word, 9, 14 * 16 + 8, 17, 7, 18, 3, 17, 3];
        plays.push((format!("batch-inputs-{word}"), inputs.to_vec()));
        plays.push((format!("batch-outputs-{word}"), outputs.to_vec()));
    }
    // One write of the peer into each counter and into each word of a slot, while a message is on its way.
    for word in 0..10 {
        let play = vec![15, word, 4, 14 * 16 + 8, 0, 40, 8, 0, 10, 0, 2, 40, 5, 0];
        plays.push((format!("word-{word}"), play));
    }
    for (name, play) in &plays {
        fs::write(folder.join(name), play)?;
    }
    println!("queue_peer: {} inputs", plays.len());
    Ok(())
}

/// The tasks of the first graphs, as far as their views can be said; in every second graph each retires a few submits later.
fn graphs(fuzz: &Path) -> Result<(), Box<dyn Error>> {
    let folder = fuzz.join("corpus/dependencies");
    fs::create_dir_all(&folder)?;
    let text = fs::read_to_string(fuzz.join("../vectors/graphs.jsonl"))?;
    for (number, line) in text.lines().take(GRAPHS).enumerate() {
        let graph: Value = serde_json::from_str(line)?;
        let mut bytes = vec![1];
        let tasks = graph["graph"]["tasks"].as_array().ok_or("a graph has tasks")?;
        for (at, task) in (0_u8..).zip(tasks) {
            let members = task["members"].as_array().map_or_else(|| vec![task], |all| all.iter().collect());
            let all = members.into_iter().filter_map(|member| member["args"].as_array()).flatten();
            let arguments: Vec<_> = all.filter_map(argument).take(4).collect();
            if let Some(last) = u8::try_from(arguments.len()).ok().and_then(|count| count.checked_sub(1)) {
                bytes.push(last);
                bytes.extend(arguments.concat());
            }
            if number % 2 == 1 && at >= 3 {
                bytes.extend([4, at - 3]);
            }
        }
        fs::write(folder.join(format!("graph-{number}")), bytes)?;
    }
    println!("dependencies: {GRAPHS} inputs from graphs.jsonl");
    Ok(())
}

/// Tag and backing in one byte, then the view, if 19 bytes can say it.
fn argument(argument: &Value) -> Option<Vec<u8>> {
    let numbers = |value: &Value| -> Option<Vec<u32>> {
        value.as_array()?.iter().map(|number| u32::try_from(number.as_u64()?).ok()).collect()
    };
    let (tag, dtype) = (argument["tag"].as_str()?, argument["dtype"].as_str()?);
    let tag = Tag::ALL.iter().find(|known| known.name().eq_ignore_ascii_case(tag))?;
    let dtype = DType::ALL.iter().find(|known| known.name().eq_ignore_ascii_case(dtype))?;
    let (shape, strides) = (numbers(&argument["shape"])?, numbers(&argument["strides"])?);
    let view = View::new(argument["byte_offset"].as_u64()?, *dtype, &shape, &strides, 1 << 16).ok()?;
    let backing = u8::from(argument["buffer"].as_str()? != "b0");
    let mut bytes = vec![(0..=u8::MAX).find(|byte| byte % 5 == tag.to_wire() && byte / 16 % 2 == backing)?];
    bytes.extend(encode_view(&view)?);
    Some(bytes)
}
