//! Arrays in NumPy's files: little-endian, in C order, of elements that are plain bytes. Read piece by piece, written
//! whole or not at all.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use bufabi_core::DType;
use npyz::{Endianness, NpyHeader, Order, TypeChar, TypeStr, WriteOptions, WriterBuilder};

use crate::whole_file::write_whole;

/// Bytes of a header, at most: what NumPy itself reads.
const HEADER_LIMIT: u64 = 10_000;
/// Brackets within brackets, at most. A header needs five; the parser recurses, and takes twice as long for each.
const DEPTH_LIMIT: usize = 8;

/// An array in a file.
#[derive(Debug)]
pub(crate) struct Array {
    file: File,
    element: TypeStr,
    shape: Vec<u64>,
    data_start: u64,
    nbytes: u64,
}

impl Array {
    /// Opens an array and reads its header.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // Opening a pipe could wait for ever.
        if !fs::metadata(path)?.is_file() {
            return Err(invalid("is not a file"));
        }
        let mut file = File::open(path)?;
        let mut head = Vec::new();
        (&mut file).take(HEADER_LIMIT.saturating_add(12)).read_to_end(&mut head)?;
        check_header_text(header_text(&head)?)?;
        let mut rest = head.as_slice();
        let header = NpyHeader::from_reader(&mut rest).map_err(|error| on_one_line(&error))?;
        let data_start = head.len().saturating_sub(rest.len());
        let element = element(&header)?;
        let item = element.num_bytes().and_then(|size| u64::try_from(size).ok()).unwrap_or(0);
        let shape = header.shape().to_vec();
        let nbytes = shape
            .iter()
            .try_fold(item, |product, &count| product.checked_mul(count))
            .ok_or_else(|| invalid("its shape has more bytes than 64 bits count"))?;
        let data_start = u64::try_from(data_start).unwrap_or(u64::MAX);
        let there = file.metadata()?.len().saturating_sub(data_start);
        if there < nbytes {
            return Err(invalid(format_args!("its header tells of {nbytes} bytes, {there} follow")));
        }
        Ok(Self { file, element, shape, data_start, nbytes })
    }

    /// Bytes of all elements.
    pub(crate) const fn nbytes(&self) -> u64 {
        self.nbytes
    }

    /// Elements of each dimension; none for a single number.
    pub(crate) fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// NumPy's name of the element type.
    pub(crate) fn element(&self) -> String {
        self.element.to_string()
    }

    /// Its elements are those that are written for `dtype`.
    pub(crate) fn holds(&self, dtype: DType) -> bool {
        self.element == element_of(dtype)
    }

    /// All bytes of its elements.
    pub(crate) fn into_data(mut self) -> io::Result<impl Read> {
        self.file.seek(SeekFrom::Start(self.data_start))?;
        Ok(io::BufReader::with_capacity(1 << 18, self.file).take(self.nbytes))
    }
}

/// Writes an array of `shape` whose elements' bytes `data` gives, in C order. It appears under its name when all of it is
/// written, or not at all.
pub(crate) fn write(
    path: &Path,
    dtype: DType,
    shape: &[u32],
    data: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    if path.file_name().is_none() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "names no file"));
    }
    // A rename would put a file in the place of a device.
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is there already, and is no file"));
    }
    write_whole(path, |file| write_to(file, dtype, shape, data))
}

fn write_to(
    file: File,
    dtype: DType,
    shape: &[u32],
    data: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<File> {
    let shape: Vec<u64> = shape.iter().copied().map(u64::from).collect();
    let mut out = io::BufWriter::new(file);
    WriteOptions::new_header_only()
        .dtype(npyz::DType::Plain(element_of(dtype)))
        .shape(&shape)
        .writer(&mut out)
        .write_header_only()?;
    data(&mut out)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    Ok(file)
}

/// How NumPy names an element type. It knows no bfloat16 and nothing smaller than a byte: those are raw bytes to it, which its
/// extensions for them take as they are.
fn element_of(dtype: DType) -> TypeStr {
    let text = match dtype {
        DType::Float32 => "<f4",
        DType::Float16 => "<f2",
        DType::Int32 => "<i4",
        DType::Int16 => "<i2",
        DType::Int8 => "|i1",
        DType::Uint8 => "|u1",
        DType::Int64 => "<i8",
        DType::Uint64 => "<u8",
        DType::Uint16 => "<u2",
        DType::Uint32 => "<u4",
        DType::Bool => "|b1",
        DType::Bfloat16 => "|V2",
        DType::Fp8E4M3Fn | DType::Fp8E8M0 | DType::Fp4E2M1 => "|V1",
    };
    #[expect(clippy::expect_used, reason = "each of the texts above is parsed by a test")]
    text.parse().expect("a type string of NumPy's")
}

/// The element type, if its bytes can stand in a buffer as they are.
fn element(header: &NpyHeader) -> io::Result<TypeStr> {
    let dtype = header.dtype();
    if header.uses_pickled_array() {
        return Err(invalid("holds Python objects, which are no plain bytes"));
    }
    let element = match dtype {
        npyz::DType::Plain(element) => element,
        npyz::DType::Array(..) | npyz::DType::Record(_) => {
            return Err(invalid(format_args!("is a structured array: {}", dtype.descr())));
        }
    };
    if element.endianness() == Endianness::Big {
        return Err(invalid(format_args!("is big-endian: {element}")));
    }
    if header.order() == Order::Fortran {
        return Err(invalid("is in Fortran order; numpy.ascontiguousarray changes that"));
    }
    if matches!(element.type_char(), TypeChar::UnicodeStr | TypeChar::ByteStr) {
        return Err(invalid(format_args!("holds text: {element}")));
    }
    Ok(element)
}

/// The text of the header that begins a file, which is as long as its bytes say.
fn header_text(head: &[u8]) -> io::Result<&[u8]> {
    let (length, text) = match head.strip_prefix(b"\x93NUMPY") {
        None => return Err(invalid("is no npy file")),
        Some([1, 0, low, high, text @ ..]) => (u16::from_le_bytes([*low, *high]).into(), text),
        Some([2 | 3, 0, a, b, c, d, text @ ..]) => (u32::from_le_bytes([*a, *b, *c, *d]), text),
        Some([major @ 1..=3, 0, ..]) => {
            return Err(invalid(format_args!("its header of version {major} is cut")));
        }
        Some([major, minor, ..]) => {
            return Err(invalid(format_args!("is of version {major}.{minor}: 1.0, 2.0, 3.0 are known")));
        }
        Some(_) => return Err(invalid("ends before its header")),
    };
    if u64::from(length) > HEADER_LIMIT {
        return Err(invalid(format_args!("its header has {length} bytes, {HEADER_LIMIT} are read")));
    }
    let text_of_length = usize::try_from(length).ok().and_then(|length| text.get(..length));
    text_of_length
        .ok_or_else(|| invalid(format_args!("its header has {length} bytes, {} follow", text.len())))
}

/// What the parser says without the lines that it draws.
fn on_one_line(error: &io::Error) -> io::Error {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim);
    match (lines.next(), lines.next_back()) {
        (Some(first), Some(last)) => invalid(format_args!("{first} {last}")),
        _ => invalid(text),
    }
}

/// Refuses a header on which the parser would recurse too deep or multiply past 64 bits.
fn check_header_text(text: &[u8]) -> io::Result<()> {
    let mut depth = 0_usize;
    let mut product = 1_u64;
    let mut number = 0_u64;
    let too_large = || invalid("its shape has more elements than 64 bits count");
    for &byte in text {
        match byte {
            b'(' | b'[' | b'{' => depth = depth.saturating_add(1),
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        // One dictionary is all that a header has; the parser would read another within it twice.
        if depth > DEPTH_LIMIT || (byte == b'{' && depth > 1) {
            return Err(invalid("its header is nested too deep"));
        }
        // Inside of the header's braces and a bracket numbers are a shape; those of nested types are small.
        if byte.is_ascii_digit() && depth >= 2 {
            number = number
                .checked_mul(10)
                .and_then(|number| number.checked_add(u64::from(byte.wrapping_sub(b'0'))))
                .ok_or_else(too_large)?;
        } else if number > 0 {
            product = product.checked_mul(number).ok_or_else(too_large)?;
            number = 0;
        }
    }
    Ok(())
}

fn invalid(message: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn npy(header: &str, data: usize) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        let text = format!("{header}\n");
        bytes.extend_from_slice(&u16::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend(std::iter::repeat_n(7, data));
        bytes
    }

    fn open(name: &str, bytes: &[u8]) -> io::Result<Array> {
        let path = std::env::temp_dir().join(format!("bufabi-npy-{}-{name}", std::process::id()));
        fs::write(&path, bytes).unwrap();
        let opened = Array::open(&path);
        fs::remove_file(&path).unwrap();
        opened
    }

    #[test]
    fn what_cannot_stand_in_a_buffer_is_refused_by_name() {
        let header = |descr: &str, order: &str, shape: &str| {
            format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}")
        };
        for (name, bytes, why) in [
            ("big", npy(&header("'>f4'", "False", "(2,)"), 8), "big-endian"),
            ("fortran", npy(&header("'<f4'", "True", "(2, 2)"), 16), "Fortran"),
            ("object", npy(&header("'|O'", "False", "(2,)"), 8), "objects"),
            ("record", npy(&header("[('a', '<f4')]", "False", "(2,)"), 8), "structured"),
            ("text", npy(&header("'<U4'", "False", "(2,)"), 32), "text"),
            ("short", npy(&header("'<f4'", "False", "(3,)"), 11), "12 bytes, 11 follow"),
            ("huge", npy(&header("'<f4'", "False", "(4294967296, 4294967296)"), 8), "64 bits"),
            ("huger", npy(&header("'<f4'", "False", "(0, 4294967296, 4294967296)"), 8), "64 bits"),
            ("item", npy(&header("'<f8'", "False", "(4611686018427387904,)"), 8), "64 bits"),
            ("deep", npy(&"(".repeat(9000), 0), "nested"),
            ("deeper", npy(&format!("{{'}}': {}", "[".repeat(9000)), 0), "nested"),
            ("inner", npy("{1: {1: 1}}", 0), "nested"),
            ("syntax", npy("{'descr': '<f4', 'shape': (8*8,)}", 0), "syntax error"),
            ("long", npy(&" ".repeat(10_000), 0), "10001 bytes, 10000 are read"),
            ("version", b"\x93NUMPY\x04\x01    ".to_vec(), "version 4.1"),
            ("noise", b"this is no array (((".to_vec(), "no npy file"),
            ("empty", Vec::new(), "no npy file"),
            ("cut", npy(&header("'<f4'", "False", "(3,)"), 0)[..20].to_vec(), "bytes, 10 follow"),
            ("version only", b"\x93NUMPY\x02\x00".to_vec(), "is cut"),
            ("magic", b"\x93NUMPY".to_vec(), "ends before its header"),
        ] {
            let error = open(name, &bytes).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains('\n'), "{name}: {error}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let path = std::env::temp_dir().join(format!("bufabi-npy-{}-again", std::process::id()));
        for &dtype in DType::ALL {
            let bytes: Vec<u8> = (0..24).collect();
            let count = 24 / dtype.size() / 3;
            write(&path, dtype, &[3, count], |out| out.write_all(&bytes)).unwrap();
            let array = Array::open(&path).unwrap();
            assert!(array.holds(dtype), "{}", array.element());
            assert_eq!((array.shape(), array.nbytes()), (&[3, u64::from(count)][..], 24));
            let mut again = Vec::new();
            array.into_data().unwrap().read_to_end(&mut again).unwrap();
            assert_eq!(again, bytes);
        }
        let failed = write(&path, DType::Uint8, &[4], |_| Err(io::Error::other("no more")));
        assert_eq!(failed.unwrap_err().to_string(), "no more");
        let device = write(Path::new("/dev/full"), DType::Uint8, &[4], |_| Ok(()));
        assert_eq!(device.unwrap_err().to_string(), "is there already, and is no file");
        assert_eq!(Array::open(&path).unwrap().nbytes(), 24, "what was there is there");
        fs::remove_file(&path).unwrap();
    }
}
