//! The rules of the wire ABI once more, slowly and in its own order: the name of the first one that bytes break, or `None`.

/// Bytes `at..at + N` as a little-endian number.
fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + N].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

const FORK_SHM: u8 = 0;
const POSIX_SHM: u8 = 1;
const VMM_WINDOW: u8 = 2;
const REMOTE_SIDECAR: u8 = 3;
const DEVICE_MALLOC: u8 = 4;
const FORK_COW: u8 = 5;
const VMM_SHAREABLE: u8 = 6;

/// The first rule that a descriptor breaks.
pub fn descriptor(bytes: &[u8]) -> Option<&'static str> {
    if bytes.len() != 88 {
        return Some("size");
    }
    if number::<2>(bytes, 0) != 0x5342 {
        return Some("magic");
    }
    let (space, access, backend) = (bytes[2], bytes[3], bytes[4]);
    if space > 1 {
        return Some("address_space");
    }
    if access > 2 {
        return Some("access");
    }
    if backend > 6 {
        return Some("backend_kind");
    }
    let body_len = number::<2>(bytes, 52);
    if body_len > 32 {
        return Some("body_len");
    }
    if number::<4>(bytes, 24) == 0 {
        return Some("generation");
    }
    let needed = match backend {
        FORK_SHM | POSIX_SHM | FORK_COW => Some(0),
        VMM_WINDOW | DEVICE_MALLOC | VMM_SHAREABLE => Some(1),
        _ => None,
    };
    if needed.is_some_and(|needed| needed != space) {
        return Some("capability");
    }
    if backend == FORK_COW && access != 0 {
        return Some("fork_cow_access");
    }
    let body = &bytes[56..88];
    let (used, tail) = body.split_at(usize::try_from(body_len).unwrap());
    match backend {
        FORK_SHM | FORK_COW | VMM_WINDOW | DEVICE_MALLOC => {
            if body_len != 8 {
                return Some("body_address_len");
            }
            if number::<8>(body, 0) == 0 {
                return Some("body_null_base");
            }
        }
        POSIX_SHM => {
            if body_len == 0 {
                return Some("body_shm_name_empty");
            }
            if !used.iter().all(|byte| (0x21..=0x7e).contains(byte) && *byte != b'/') {
                return Some("body_shm_name_char");
            }
        }
        VMM_SHAREABLE => {
            if body_len != 24 {
                return Some("body_shareable_len");
            }
            if number::<8>(body, 8) == 0 {
                return Some("body_shareable_handle");
            }
            if number::<4>(body, 4) != 0 {
                return Some("body_shareable_reserved");
            }
            if number::<8>(body, 16) < number::<8>(bytes, 40) {
                return Some("body_shareable_mapping");
            }
        }
        REMOTE_SIDECAR if body_len != 0 => return Some("body_remote_not_empty"),
        _ => {}
    }
    tail.iter().any(|&byte| byte != 0).then_some("body_tail")
}

/// Bytes of one element of each type.
pub const ELEMENT_SIZES: [u64; 15] = [4, 2, 4, 2, 1, 1, 2, 8, 8, 2, 4, 1, 1, 1, 1];

/// What a tensor's view says, with numbers that cannot overflow.
pub struct View {
    pub byte_offset: u128,
    /// Elements from the first to the last.
    pub extent_elements: u128,
    /// The same in bytes.
    pub extent: u128,
    pub is_contiguous: bool,
}

/// What the 144 bytes of a tensor whose rules hold say of its view.
pub fn view(bytes: &[u8]) -> View {
    let ndims = usize::try_from(number::<4>(bytes, 96)).unwrap();
    let size = u128::from(ELEMENT_SIZES[usize::from(bytes[140])]);
    let (mut extent_elements, mut step, mut is_contiguous) = (1, 1_u128, true);
    for dim in (0..ndims).rev() {
        let shape = u128::from(number::<4>(bytes, 100 + 4 * dim));
        let stride = u128::from(number::<4>(bytes, 120 + 4 * dim));
        extent_elements += (shape - 1) * stride;
        is_contiguous &= stride == step;
        // Past 128 bits no stride equals it.
        step = step.saturating_mul(shape);
    }
    View {
        byte_offset: number::<8>(bytes, 88).into(),
        extent_elements,
        extent: extent_elements * size,
        is_contiguous,
    }
}

/// The first rule that a tensor breaks. Its size comes after the descriptor's rules in the wire ABI; where there are fewer bytes
/// than a descriptor has, both have the same name.
pub fn tensor(bytes: &[u8]) -> Option<&'static str> {
    if bytes.len() != 144 {
        return Some("size");
    }
    if let Some(rule) = descriptor(&bytes[..88]) {
        return Some(rule);
    }
    let ndims = number::<4>(bytes, 96);
    if !(1..=5).contains(&ndims) {
        return Some("ndims");
    }
    if bytes[140] > 14 {
        return Some("dtype");
    }
    if !number::<8>(bytes, 88).is_multiple_of(ELEMENT_SIZES[usize::from(bytes[140])]) {
        return Some("byte_offset_alignment");
    }
    let slot = |base: usize, dim: usize| number::<4>(bytes, base + 4 * dim);
    let ndims = usize::try_from(ndims).unwrap();
    for dim in 0..ndims {
        if slot(100, dim) == 0 {
            return Some("shape_zero");
        }
        if slot(120, dim) == 0 {
            return Some("stride_zero");
        }
    }
    if (ndims..5).any(|dim| slot(100, dim) != 0 || slot(120, dim) != 0) {
        return Some("inactive_dims");
    }
    let view = view(bytes);
    if view.extent >= u128::from(u64::MAX) {
        return Some("extent_overflow");
    }
    let nbytes = u128::from(number::<8>(bytes, 40));
    (view.byte_offset + view.extent > nbytes).then_some("out_of_bounds")
}

/// The first rule that a blob breaks, with the tensor's place if it is one of a tensor; else the two counts.
pub fn blob(bytes: &[u8]) -> Result<(usize, usize), (&'static str, Option<usize>)> {
    if bytes.len() < 8 {
        return Err(("short", None));
    }
    let count = |at: usize| i32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (Ok(tensors), Ok(scalars)) = (u64::try_from(count(0)), u64::try_from(count(4))) else {
        return Err(("negative", None));
    };
    let needed = 8 + 144 * tensors + 8 * scalars;
    if needed > u64::try_from(bytes.len()).unwrap() {
        return Err(("past_end", None));
    }
    let (tensors, scalars) = (usize::try_from(tensors).unwrap(), usize::try_from(scalars).unwrap());
    for index in 0..tensors {
        if let Some(rule) = tensor(&bytes[8 + 144 * index..][..144]) {
            return Err((rule, Some(index)));
        }
    }
    Ok((tensors, scalars))
}

/// The bytes of a descriptor, or of a tensor that starts with one, with padding zero.
pub fn without_padding(bytes: &[u8]) -> Vec<u8> {
    let mut clean = bytes.to_vec();
    for padding in [5..8, 28..40, 54..56, 141..144] {
        if let Some(padding) = clean.get_mut(padding) {
            padding.fill(0);
        }
    }
    clean
}
