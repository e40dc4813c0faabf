//! Numbers and enumerations that come from Python.

use core::fmt::Display;

use bufabi_core::view::MAX_NDIMS;
use bufabi_core::wire::backend::{AddressSpace, BackendKind};
use bufabi_core::{Access, DType, DescriptorError, OwnerInstanceId, Tag, TensorError, ViewError, rights};
use pyo3::exceptions::{PyIndexError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyInt, PyList, PyString, PyTuple, PyType};

use crate::arrays::bytes_up_to;
use crate::dtype;
use crate::error::failed;

/// An enumeration of the wire or of the C ABI, as an `enum.IntEnum` of Python's, whose names and numbers are core's.
pub(crate) trait Enumeration: Copy + 'static {
    /// Its name in Python.
    const NAME: &'static str;
    /// What it tells, for `help`.
    const MEANING: &'static str;

    /// Where its Python type lies.
    fn kept() -> &'static PyOnceLock<Kept>;

    /// Every value's name and number.
    fn all() -> Vec<(&'static str, u8)>;

    /// The number.
    fn number(self) -> u8;
}

/// One whose values come from Python as well.
pub(crate) trait Given: Enumeration {
    /// The value of a number.
    fn from_number(number: i64) -> PyResult<Self>;

    /// The value that an object of another package names, if there are such.
    fn of_others(_given: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        Ok(None)
    }
}

/// A Python type, and its members by their numbers.
pub(crate) struct Kept {
    of_type: Py<PyType>,
    members: Vec<Py<PyAny>>,
}

/// A value that came from Python, or goes there.
#[derive(Clone, Copy)]
pub(crate) struct Value<E>(pub(crate) E);

macro_rules! enumeration {
    ($type:ident, $name:literal, $rule:literal, $meaning:literal, $refused:expr $(, $others:path)?) => {
        impl Enumeration for $type {
            const NAME: &'static str = $name;
            const MEANING: &'static str = $meaning;

            fn kept() -> &'static PyOnceLock<Kept> {
                static KEPT: PyOnceLock<Kept> = PyOnceLock::new();
                &KEPT
            }

            fn all() -> Vec<(&'static str, u8)> {
                Self::ALL.iter().map(|value| (value.name(), value.to_wire())).collect()
            }

            fn number(self) -> u8 {
                self.to_wire()
            }
        }

        impl Given for $type {
            #[inline]
            fn from_number(number: i64) -> PyResult<Self> {
                let found = u8::try_from(number).map_err(|_| out_of_range($rule, number, "a byte"))?;
                Self::from_wire(found).ok_or_else(|| failed(&$refused(found)))
            }

            $(
                fn of_others(given: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
                    $others(given)
                }
            )?
        }
    };
}

enumeration!(AddressSpace, "AddressSpace", "address_space", "Where a backing lives.", |found| {
    DescriptorError::AddressSpace { found }
});
enumeration!(Access, "AccessMode", "access", "What a backing's owner grants its consumers.", |found| {
    DescriptorError::Access { found }
});
enumeration!(BackendKind, "BackendKind", "backend_kind", "How a backing is reached.", |found| {
    DescriptorError::BackendKind { found }
});
enumeration!(
    DType,
    "DataType",
    "dtype",
    "What a tensor's elements are. One of FP4E2M1 is a byte, in which two values lie.",
    |found| TensorError::Dtype { found },
    dtype::of_others
);
enumeration!(
    Tag,
    "TensorArgType",
    "tag",
    "What a task does with a tensor: which rights it needs, and whom it waits for.",
    |found| rights::RightsError::TagUnknown { found: i32::from(found) }
);

pub(crate) fn out_of_range(name: &str, found: impl Display, kind: &str) -> PyErr {
    PyValueError::new_err(format!("{name}: {found} does not fit {kind}"))
}

impl<E: Enumeration> Value<E> {
    /// Makes the type, once for each process.
    pub(crate) fn define(py: Python<'_>) -> PyResult<&Kept> {
        E::kept().get_or_try_init(py, || {
            let members = PyList::empty(py);
            for member in E::all() {
                members.append(member)?;
            }
            let arguments = [("module", "bufabi")];
            let keywords = pyo3::types::IntoPyDict::into_py_dict(arguments, py)?;
            let made = py.import("enum")?.getattr("IntEnum")?.call((E::NAME, members), Some(&keywords))?;
            made.setattr("__doc__", E::MEANING)?;
            let of_type = made.cast_into::<PyType>()?;
            let members = E::all().into_iter().map(|(_, number)| of_type.call1((number,)).map(Bound::unbind));
            let members = members.collect::<PyResult<_>>()?;
            Ok(Kept { of_type: of_type.unbind(), members })
        })
    }

    /// Puts the type into the module.
    pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let kept = Self::define(module.py())?;
        module.add(E::NAME, kept.of_type.bind(module.py()))
    }
}

impl<'a, 'py, E: Given> FromPyObject<'a, 'py> for Value<E> {
    type Error = PyErr;

    #[inline]
    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let kept = Self::define(given.py())?;
        let given_type = given.get_type_ptr();
        if given_type.cast() != kept.of_type.as_ptr() && !given.is_exact_instance_of::<PyInt>() {
            if let Some(value) = E::of_others(&given)? {
                return Ok(Self(value));
            }
            let found = given.get_type();
            let message = format!("a bufabi.{} is needed, not {}", E::NAME, found.name()?);
            return Err(PyTypeError::new_err(message));
        }
        let number = given.extract::<i64>();
        number.map_err(|_| out_of_range(E::NAME, "a number", "64 bits")).and_then(E::from_number).map(Self)
    }
}

impl<'py, E: Enumeration> IntoPyObject<'py> for Value<E> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let member = Self::define(py)?.members.get(usize::from(self.0.number()));
        // Numbers count from 0 without a gap, as every enumeration of the wire does.
        member
            .map(|member| member.bind(py).clone())
            .ok_or_else(|| out_of_range(E::NAME, self.0.number(), "it"))
    }
}

macro_rules! parameters {
    ($($name:ident: $type:ty, $read:ident;)*) => {
        $(
            /// The parameter of that name.
            #[inline]
            pub(crate) fn $name(given: &Bound<'_, PyAny>) -> PyResult<$type> {
                $read(given, stringify!($name))
            }
        )*
    };
}

parameters! {
    address: u64, whole;
    base: u64, whole;
    buffer_id: u64, whole;
    byte_offset: u64, whole;
    generation: u32, whole_32;
    level: u32, whole_32;
    mapping_bytes: u64, whole;
    nbytes: u64, whole;
    number: u32, whole_32;
    owner_worker_path_id: u32, whole_32;
    remote_key: u64, whole;
    shareable_handle: u64, whole;
    subs: u32, whole_32;
}

/// A whole number that is not negative and fits: for sizes, offsets and identities.
pub(crate) fn whole(given: &Bound<'_, PyAny>, name: &str) -> PyResult<u64> {
    given.extract::<u64>().map_err(|error| refused(given, name, error, u64::MAX))
}

/// A place in a sequence, a negative one from its end. What does not fit is the place of nothing.
#[inline]
pub(crate) fn index(given: &Bound<'_, PyAny>) -> PyResult<isize> {
    given.extract::<isize>().map_err(|error| {
        if error.is_instance_of::<PyOverflowError>(given.py()) {
            return PyIndexError::new_err(format!("index: {given} is no place in any sequence"));
        }
        PyTypeError::new_err(format!("index: an int is needed, not {}", given.get_type()))
    })
}

/// A number of a device: 32 bits, of either sign.
pub(crate) fn device_id(given: &Bound<'_, PyAny>) -> PyResult<i32> {
    given.extract::<i32>().map_err(|error| {
        if error.is_instance_of::<PyOverflowError>(given.py()) {
            return out_of_range("device_id", given, "32 bits");
        }
        PyTypeError::new_err(format!("device_id: an int is needed, not {}", given.get_type()))
    })
}

/// As [`whole`], of 32 bits.
#[inline]
pub(crate) fn whole_32(given: &Bound<'_, PyAny>, name: &str) -> PyResult<u32> {
    given.extract::<u32>().map_err(|error| refused(given, name, error, u64::from(u32::MAX)))
}

#[cold]
fn refused(given: &Bound<'_, PyAny>, name: &str, error: PyErr, last: u64) -> PyErr {
    if error.is_instance_of::<PyOverflowError>(given.py()) {
        return PyValueError::new_err(format!("{name}: {given} is not 0 to {last}"));
    }
    let found = given.get_type();
    PyTypeError::new_err(format!("{name}: an int is needed, not {found}"))
}

/// Shapes or strides: as many numbers of 32 bits as came, of which a view has at most five.
#[derive(Clone, Copy)]
pub(crate) struct Numbers {
    len: usize,
    slots: [u32; MAX_NDIMS],
}

impl Numbers {
    /// Reads a tuple, a list, or whatever else gives its elements one by one.
    #[inline]
    pub(crate) fn read(given: &Bound<'_, PyAny>, name: &'static str) -> PyResult<Self> {
        let number = |(dim, item): (usize, &Bound<'_, PyAny>)| match item.extract::<u32>() {
            Ok(number) => Ok(number),
            Err(_) => whole_32(item, &format!("{name}[{dim}]")),
        };
        if let Ok(tuple) = given.cast::<PyTuple>() {
            Self::collect(
                tuple.len(),
                tuple.iter_borrowed().enumerate().map(|(dim, item)| number((dim, &item))),
            )
        } else if let Ok(list) = given.cast::<PyList>() {
            Self::collect(list.len(), list.iter().enumerate().map(|(dim, item)| number((dim, &item))))
        } else {
            let items = given.try_iter().map_err(|_| {
                let found = given.get_type();
                PyTypeError::new_err(format!("{name}: a sequence of ints is needed, not {found}"))
            })?;
            // One more than there can be is enough: what gives its elements one by one may never end.
            let (mut len, mut slots) = (0_usize, [0; MAX_NDIMS]);
            for item in items.take(MAX_NDIMS.saturating_add(1)) {
                let item = item?;
                if let Some(slot) = slots.get_mut(len) {
                    *slot = number((len, &item))?;
                }
                len = len.saturating_add(1);
            }
            Self::collect(len, slots.into_iter().map(Ok))
        }
    }

    #[inline]
    fn collect(len: usize, numbers: impl Iterator<Item = PyResult<u32>>) -> PyResult<Self> {
        let mut slots = [0; MAX_NDIMS];
        if len > MAX_NDIMS {
            return Err(failed(&ViewError::Ndims { found: u32::try_from(len).unwrap_or(u32::MAX) }));
        }
        for (slot, number) in slots.iter_mut().zip(numbers) {
            *slot = number?;
        }
        Ok(Self { len, slots })
    }

    /// The numbers.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[u32] {
        self.slots.get(..self.len).unwrap_or(&self.slots)
    }
}

/// The name of an endpoint: exactly 8 bytes.
pub(crate) fn owner_instance_id(given: &Bound<'_, PyAny>) -> PyResult<OwnerInstanceId> {
    let bytes = given.cast::<PyBytes>().map_err(|_| {
        let found = given.get_type();
        PyTypeError::new_err(format!("owner_instance_id: 8 bytes are needed, not {found}"))
    })?;
    let bytes = bytes.as_bytes();
    let exact = bytes.try_into();
    exact.map(OwnerInstanceId).map_err(|_| {
        PyValueError::new_err(format!("owner_instance_id: it has exactly 8 bytes, found {}", bytes.len()))
    })
}

/// The elements of a sequence, read one by one and at most so many: what it says of its own length is not believed, and it may never
/// end. A str is no sequence of anything here.
pub(crate) fn several<'py, T>(
    given: &Bound<'py, PyAny>,
    name: &str,
    most: usize,
    mut read: impl FnMut(Bound<'py, PyAny>) -> PyResult<T>,
) -> PyResult<Vec<T>> {
    let needed = || PyTypeError::new_err(format!("{name}: a sequence is needed, not {}", given.get_type()));
    if given.is_instance_of::<PyString>() {
        return Err(needed());
    }
    let mut all = Vec::new();
    for item in given.try_iter().map_err(|error| type_error(given.py(), error, needed))? {
        if all.len() >= most {
            return Err(PyValueError::new_err(format!("{name}: there are more than {most}")));
        }
        all.push(read(item?)?);
    }
    Ok(all)
}

/// What is no sequence says so by the parameter's name; what another one raised on the way stays.
fn type_error(py: Python<'_>, error: PyErr, needed: impl FnOnce() -> PyErr) -> PyErr {
    if error.is_instance_of::<PyTypeError>(py) { needed() } else { error }
}

/// The bytes of an object: those of `bytes` where they lie, and a copy of what somebody else might write. More than `most` are refused
/// before they are copied.
pub(crate) fn with_bytes<R>(
    given: &Bound<'_, PyAny>,
    most: usize,
    refused: impl FnOnce(usize) -> PyErr,
    work: impl FnOnce(&[u8]) -> PyResult<R>,
) -> PyResult<R> {
    if let Ok(bytes) = given.cast::<PyBytes>() {
        return work(bytes.as_bytes());
    }
    let bytes = bytes_up_to(given, most, refused)?;
    work(bytes.as_bytes())
}
