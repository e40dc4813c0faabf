//! Writes the first inputs of every target's corpus from `tests/vectors`: of each answer that the vectors have, the first line.
//!
//! `cargo run --manifest-path fuzz/Cargo.toml --example seed`

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;

use bufabi_core::Tensor;
use bufabi_fuzz::encode_view;

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
    let text = fs::read_to_string(fuzz.join("../tests/vectors").join(file))?;
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
    Ok(())
}
