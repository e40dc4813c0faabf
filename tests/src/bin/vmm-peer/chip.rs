//! A chip on the Ascend driver, told what to do line by line. Buffers are named by their descriptors.

use bufabi_core::wire::blob;
use bufabi_core::wire::chip_tensor::ChipTensor;
use bufabi_core::{Access, Blob, ChipStorageTaskArgs, Code, DType, Descriptor, Tensor, View};
use bufabi_host::device::memory::WindowPart;
use bufabi_host::device::{AscendDevice, Chip, ChipRuntime, DeviceError, LaunchError};
use bufabi_host::sys::ascendcl::{AscendCl, DeviceAddress};
use bufabi_host::vmm::Admission;
use bufabi_tests::unhex;

use crate::{hex, number};

/// What a command says, or the code and the text of an error; or why it is no command.
pub(crate) type Answer = Result<Result<String, (Code, String)>, String>;

/// A runtime that copies the first argument's bytes to the second one, through the driver.
#[derive(Debug)]
pub(crate) struct Copying;

impl ChipRuntime for Copying {
    fn launch(&self, kernel: u32, arguments: &ChipStorageTaskArgs) -> Result<(), LaunchError> {
        let refused = |code| LaunchError::Refused { code, argument: None };
        if kernel != 1 {
            return Err(refused(Code::KernelUnknown));
        }
        let [from, to] = arguments.tensors() else { return Err(refused(Code::KernelCounts)) };
        let address = |tensor: &ChipTensor| DeviceAddress(tensor.addr.get());
        let library = AscendCl::load().map_err(|_| refused(Code::VmmLibraryMissing))?;
        let copied = library.copy_within_devices(
            address(to),
            address(from),
            usize::try_from(from.size.get()).map_err(|_| refused(Code::Length))?,
        );
        copied.map_err(|error| LaunchError::Device(DeviceError::Driver(error)))
    }

    fn needs(&self, _kernel: u32, argument: usize, _count: usize) -> Option<Access> {
        Some(if argument == 0 { Access::Read } else { Access::Write })
    }
}

/// Opens the device of that number, or says why not.
pub(crate) fn open(device: i32) -> Result<AscendDevice<Copying>, String> {
    AscendDevice::new(device, Copying).map_err(|error| format!("error {} {error}", error.code()))
}

/// Does what a line says.
pub(crate) fn answer(chip: &mut Chip<'_>, words: &[&str]) -> Answer {
    macro_rules! said {
        ($result:expr) => {
            $result.map_err(|error| (error.code(), error.to_string()))
        };
    }
    Ok(match words {
        ["malloc", nbytes, granted] => {
            let (nbytes, granted) = (number(nbytes)?, access(granted));
            said!(chip.allocate(|memory| memory.malloc(nbytes, granted))).map(|made| hex(&made.encode()))
        }
        ["window", sizes @ ..] => {
            let part = |size: &&str| {
                Ok::<_, String>(WindowPart { nbytes: number(size)?, access: Access::ReadWrite })
            };
            let parts = sizes.iter().map(part).collect::<Result<Vec<_>, _>>()?;
            said!(chip.allocate(|memory| memory.create_window(&parts))).map(|made| {
                made.iter().map(|descriptor| hex(&descriptor.encode())).collect::<Vec<_>>().join(" ")
            })
        }
        ["share", nbytes, granted, admission] => {
            let (nbytes, granted) = (number(nbytes)?, access(granted));
            let admission = if *admission == "anyone" { Admission::Anyone } else { Admission::Listed };
            said!(chip.allocate(|memory| memory.create_shareable(nbytes, granted, admission)))
                .map(|made| hex(&made.encode()))
        }
        ["number"] => said!(chip.memory().peer_number()).map(|number| number.to_string()),
        ["permit", buffer, peer] => {
            said!(chip.memory().permit(descriptor(buffer)?.identity(), &[number(peer)?]))
                .map(|()| String::new())
        }
        ["release", buffer] => said!(chip.release(descriptor(buffer)?.identity())).map(|()| String::new()),
        ["free", buffer] => said!(chip.free(descriptor(buffer)?.identity())).map(|()| String::new()),
        ["free-window", buffer] => {
            said!(chip.free_window(descriptor(buffer)?.identity())).map(|()| String::new())
        }
        ["put", buffer, offset, bytes] => {
            let (identity, offset) = (descriptor(buffer)?.identity(), number(offset)?);
            said!(chip.memory().copy_to(identity, offset, &unhex(bytes)?)).map(|()| String::new())
        }
        ["get", buffer, offset, count] => {
            let mut out = vec![0; number(count)?];
            let (identity, offset) = (descriptor(buffer)?.identity(), number(offset)?);
            said!(chip.memory().copy_from(identity, offset, &mut out)).map(|()| hex(&out))
        }
        ["run", kernel, buffers @ ..] => {
            let tensors = buffers.iter().map(|buffer| whole(&descriptor(buffer)?));
            let tensors = tensors.collect::<Result<Vec<Tensor>, String>>()?;
            let mut bytes = vec![0; blob::encoded_size(tensors.len(), 0).ok_or("too many")?];
            blob::encode(&tensors, &[], &mut bytes).map_err(|error| error.to_string())?;
            let blob = Blob::from_bytes(&bytes).map_err(|error| error.to_string())?;
            said!(chip.run(number(kernel)?, &blob)).map(|()| String::new())
        }
        ["leaked"] => {
            let leaked = chip.memory().leaked();
            Ok(format!("{} {}", leaked.allocations, leaked.nbytes))
        }
        ["alignment"] => Ok(chip.memory().device().alignment().to_string()),
        _ => return Err(format!("no command: {}", words.join(" "))),
    })
}

fn access(word: &str) -> Access {
    match word {
        "read" => Access::Read,
        "write" => Access::Write,
        _ => Access::ReadWrite,
    }
}

fn descriptor(text: &str) -> Result<Descriptor, String> {
    Descriptor::decode(&unhex(text)?).map_err(|error| error.to_string())
}

/// All bytes of a buffer.
fn whole(descriptor: &Descriptor) -> Result<Tensor, String> {
    let nbytes = descriptor.nbytes();
    let elements = u32::try_from(nbytes).map_err(|error| error.to_string())?;
    let view = View::row_major(0, DType::Uint8, &[elements], nbytes).map_err(|error| error.to_string())?;
    Tensor::new(descriptor, &view).map_err(|error| error.to_string())
}
