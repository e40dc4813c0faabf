//! What a host worker makes of a request on its way to a leaf: the same, written anew from a copy that was checked.

use bufabi_core::wire::blob::{self, ByteSource};
use bufabi_core::wire::chip_args::{MAX_SCALARS, MAX_TENSORS};
use bufabi_core::{Blob, Code, Tensor};

use super::failure::Failure;
use super::mailbox::{MAX_BLOB, RequestKind};

/// Room to copy a request into, and to write it anew.
#[derive(Debug)]
pub(super) struct Reexport {
    copy: Box<[u8]>,
    written: Box<[u8]>,
    tensors: Vec<Tensor>,
    scalars: Vec<u64>,
}

impl Reexport {
    pub(super) fn new() -> Self {
        Self {
            copy: vec![0; MAX_BLOB].into_boxed_slice(),
            written: vec![0; MAX_BLOB].into_boxed_slice(),
            tensors: Vec::with_capacity(MAX_TENSORS),
            scalars: Vec::with_capacity(MAX_SCALARS),
        }
    }

    /// Copies out what a request says, once, and writes it anew. A task's arguments are checked, and each tensor goes on with its
    /// identity, its backing and its view as they came, whatever it grants. What is not a task goes on as it is, for the leaf to judge.
    pub(super) fn write(&mut self, kind: u32, source: &impl ByteSource) -> Result<&[u8], Failure> {
        let size = if kind == RequestKind::Run.to_wire() {
            let blob = Blob::copy_from(source, &mut self.copy);
            let blob = blob.map_err(|error| Failure::new(error.code(), None, &error))?;
            self.tensors.clear();
            self.tensors.extend(blob.tensors().map(|tensor| tensor.to_owned()));
            self.scalars.clear();
            self.scalars.extend(blob.scalars());
            blob::encode(&self.tensors, &self.scalars, &mut self.written)
                .map_err(|error| Failure::new(error.code(), None, &error))?
        } else {
            let size = source.len();
            if let Some(out) = self.written.get_mut(..size) {
                source.copy_out(0, out);
            }
            size
        };
        let too_large = || Failure::new(Code::MessageBroken, None, &"a request is larger than its mailbox");
        self.written.get(..size).ok_or_else(too_large)
    }
}

#[cfg(test)]
mod tests {
    use bufabi_core::wire::body::{Body, ShmName};
    use bufabi_core::wire::descriptor::DescriptorFields;
    use bufabi_core::{Access, DType, Descriptor, Identity, OwnerInstanceId, RawTensor, View};

    use super::*;

    struct Bytes(Vec<u8>);

    impl ByteSource for Bytes {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn copy_out(&self, offset: usize, out: &mut [u8]) {
            out.copy_from_slice(&self.0[offset..][..out.len()]);
        }
    }

    fn tensor(access: Access) -> Tensor {
        let identity = Identity::new(OwnerInstanceId([7; 8]), 9, std::num::NonZeroU32::MIN);
        let body = Body::PosixShm { name: ShmName::new("some-object").unwrap() };
        let fields = DescriptorFields { identity, access, nbytes: 4096, owner_worker_path_id: 3, body };
        let view = View::new(8, DType::Int32, &[3, 4], &[9, 2], 4096).unwrap();
        Tensor::new(&Descriptor::new(&fields).unwrap(), &view).unwrap()
    }

    #[test]
    fn tensors_go_on_as_they_came_but_for_their_padding() {
        let tensors = [Access::Read, Access::Write, Access::ReadWrite].map(tensor);
        let mut clean = vec![0; MAX_BLOB];
        let size = blob::encode(&tensors, &[5, u64::MAX], &mut clean).unwrap();
        clean.truncate(size);
        // Padding of a descriptor, of an identity and of a tensor, and what lies behind the blob.
        let mut dirty = clean.clone();
        for index in 0..3 {
            for place in [5, 7, 28, 39, 54, 141, 143] {
                dirty[8 + RawTensor::SIZE * index + place] = 0xff;
            }
        }
        dirty.extend([0xee; 16]);
        let mut reexport = Reexport::new();
        let run = RequestKind::Run.to_wire();
        assert_eq!(reexport.write(run, &Bytes(dirty.clone())).unwrap(), clean);
        // What breaks a rule goes no further.
        dirty[8] = 0;
        assert_eq!(reexport.write(run, &Bytes(dirty)).unwrap_err().code, Code::Magic);
        assert_eq!(reexport.write(run, &Bytes(vec![0; 7])).unwrap_err().code, Code::Short);
        assert_eq!(reexport.write(run, &Bytes(vec![0; 8])).unwrap(), [0; 8]);
    }

    #[test]
    fn what_is_not_a_task_goes_on_as_it_is() {
        let mut reexport = Reexport::new();
        let release = RequestKind::Release.to_wire();
        assert_eq!(reexport.write(release, &Bytes(vec![3; 32])).unwrap(), [3; 32]);
        assert_eq!(reexport.write(release, &Bytes(Vec::new())).unwrap(), [0; 0]);
        let refused = reexport.write(release, &Bytes(vec![0; MAX_BLOB + 1])).unwrap_err();
        assert_eq!(refused.code, Code::MessageBroken);
    }
}
