//! What a device is asked, and what the core says on this machine: `tests/firmware/README.md` names the requests.

use std::fmt::Write;
use std::num::{NonZeroU32, NonZeroU64};

use bufabi_core::wire::blob::{self, encoded_size};
use bufabi_core::wire::body::{Body, ShmName};
use bufabi_core::wire::chip_args::MaterializeError;
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{
    Access, Blob, BlobError, ChipStorageTaskArgs, Code, DType, Descriptor, Identity, OwnerInstanceId,
    RawTensor, Tensor, View,
};
use zerocopy::IntoBytes;

use crate::{unhex, vectors};

/// A line to a device, and the line that must come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The request.
    pub text: String,
    /// Its answer.
    pub answer: String,
}

/// Every record of the vectors, whole tasks, and the requests to misuse everything.
///
/// # Errors
/// What reading the vectors said.
pub fn requests() -> Result<Vec<Request>, String> {
    let mut requests = Vec::new();
    for (file, verb, given) in [
        ("descriptors.txt", "descriptor", 1),
        ("tensors.txt", "tensor", 1),
        ("blobs.txt", "blob", 2),
        ("chip.txt", "chip", 2),
        ("overlaps.txt", "overlap", 2),
    ] {
        for line in vectors(file)?.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let (given, answer) = words.split_at_checked(given).ok_or_else(|| format!("{file}: {line}"))?;
            requests.push(Request { text: format!("{verb} {}", given.join(" ")), answer: answer.join(" ") });
        }
    }
    for line in vectors("blobs.txt")?.lines() {
        let (readable, rest) = line.split_once(' ').ok_or("a blob has two words")?;
        let digits = rest.split(' ').next().unwrap_or_default();
        requests.push(task(&unhex(digits)?, readable.parse().map_err(|_| "no number")?));
    }
    for blob in tasks()? {
        requests.push(task(&blob, blob.len()));
    }
    for misuse in ["arguments", "records", "tables", "messages"] {
        requests.push(Request { text: misuse.to_owned(), answer: "ok".to_owned() });
    }
    Ok(requests)
}

/// A task's request for the first `readable` bytes of `blob`, and what the core makes of them.
fn task(blob: &[u8], readable: usize) -> Request {
    let digits = if blob.is_empty() { "-".to_owned() } else { hex(blob) };
    let answer = materialized(blob.get(..readable).unwrap_or(blob));
    Request { text: format!("task {readable} {digits}"), answer }
}

fn materialized(bytes: &[u8]) -> String {
    let blob = match Blob::from_bytes(bytes) {
        Ok(blob) => blob,
        Err(BlobError::Tensor { index, error }) => return format!("tensor {index} {}", error.code()),
        Err(error) => return error.code().to_string(),
    };
    let mut task_args = Box::new(ChipStorageTaskArgs::EMPTY);
    match task_args.materialize(&blob, resolve) {
        Ok(()) => {}
        Err(MaterializeError::Resolve { index, error }) => return format!("tensor {index} {error}"),
        Err(MaterializeError::Chip { index, error }) => return format!("tensor {index} {}", error.code()),
        Err(MaterializeError::TooMany(error)) => return error.code().to_string(),
    }
    let mut answer = "ok".to_owned();
    for bytes in task_args.tensors().iter().map(|tensor| hex(tensor.as_bytes())) {
        answer.extend([" ", &bytes]);
    }
    for bytes in task_args.scalars().iter().map(|scalar| hex(scalar.as_bytes())) {
        answer.extend([" ", &bytes]);
    }
    answer
}

/// A device finds its own backings, at the address in the body, and no others.
fn resolve(_: usize, tensor: &Tensor<&RawTensor>) -> Result<u64, Code> {
    match tensor.descriptor().body() {
        Body::VmmWindow { base } | Body::DeviceMalloc { base } => Ok(base.get()),
        Body::ForkShm { .. }
        | Body::PosixShm { .. }
        | Body::RemoteSidecar { .. }
        | Body::ForkCow { .. }
        | Body::VmmShareable { .. } => Err(Code::Capability),
    }
}

/// Blobs as a host writes them for a chip, good and bad.
fn tasks() -> Result<Vec<Vec<u8>>, String> {
    let device = |base: u64| Body::DeviceMalloc { base: NonZeroU64::new(base).unwrap_or(NonZeroU64::MAX) };
    let window = Body::VmmWindow { base: NonZeroU64::MIN };
    let shm = Body::PosixShm { name: ShmName::new("bufabi-a").ok_or("a name")? };
    let plain = tensor(1, device(0x4000_0000), DType::Float32, &[64, 64])?;
    let small = tensor(2, window, DType::Fp4E2M1, &[3, 5, 7, 2, 2])?;
    let on_the_host = tensor(3, shm, DType::Int8, &[9])?;
    let past_the_end = tensor(4, device(u64::MAX.wrapping_sub(8)), DType::Uint64, &[2])?;
    let at_the_end = tensor(4, device(u64::MAX.wrapping_sub(15)), DType::Uint64, &[2])?;

    let mut blobs = vec![
        encode(&[], &[])?,
        encode(&[], &[u64::MAX, 0])?,
        encode(&[plain], &[3])?,
        encode(&[plain, small, at_the_end], &[1, 2])?,
        encode(&[plain, on_the_host, small], &[])?,
        encode(&[small, plain, past_the_end], &[])?,
        encode(&[plain; 256], &[7; 128])?,
        encode(&[small; 257], &[])?,
        encode(&[small], &[0; 129])?,
    ];
    for (dtype, rank) in DType::ALL.iter().zip((1..=5).cycle()) {
        let shapes = [2, 3, 4, 5, 6];
        blobs.push(encode(&[tensor(9, device(4096), *dtype, shapes.get(..rank).unwrap_or_default())?], &[])?);
    }
    // Each byte of a good blob's counts and tensor, damaged.
    let good = encode(&[plain], &[])?;
    for index in 0..good.len() {
        let mut bad = good.clone();
        if let Some(byte) = bad.get_mut(index) {
            *byte ^= 0xff;
        }
        blobs.push(bad);
    }
    // Each length that is too short, and one that is longer than the blob.
    blobs.extend((0..good.len()).filter_map(|len| good.get(..len).map(<[u8]>::to_vec)));
    blobs.push([good, vec![0xee; 11]].concat());
    Ok(blobs)
}

fn tensor(buffer_id: u64, body: Body, dtype: DType, shapes: &[u32]) -> Result<Tensor, String> {
    let identity =
        Identity::new(OwnerInstanceId(*b"\x01\x23\x45\x67\x89\xab\xcd\xef"), buffer_id, NonZeroU32::MIN);
    let fields = DescriptorFields {
        identity,
        access: Access::ReadWrite,
        nbytes: 1 << 20,
        owner_worker_path_id: 1,
        body,
    };
    let descriptor = Descriptor::new(&fields).map_err(|error| error.to_string())?;
    let view = View::row_major(0, dtype, shapes, fields.nbytes).map_err(|error| error.to_string())?;
    Tensor::new(&descriptor, &view).map_err(|error| error.to_string())
}

fn encode(tensors: &[Tensor], scalars: &[u64]) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; encoded_size(tensors.len(), scalars.len()).ok_or("too many")?];
    blob::encode(tensors, scalars, &mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
