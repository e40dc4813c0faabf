//! Firmware in Rust: reads requests that a host wrote, a line each, decodes, checks and materialises them with the core, and writes
//! its answers, a line each. `tests/firmware/README.md` names the requests.
//!
//! On QEMU's bare aarch64 `virt` machine the files are the host's, by semihosting; on a hosted system it is a program.
#![cfg_attr(target_os = "none", no_std, no_main)]

mod conversation;

#[cfg(target_os = "none")]
mod board;
#[cfg(target_os = "none")]
mod semihosting;

#[cfg(not(target_os = "none"))]
fn main() -> std::io::Result<()> {
    hosted::main()
}

/// The streams of a hosted system: `virt REQUESTS ANSWERS`.
#[cfg(not(target_os = "none"))]
mod hosted {
    use std::fs::File;
    use std::io::{self, BufWriter, Read, Write};

    use super::conversation::{Conversation, Streams};

    struct Files {
        requests: File,
        answers: BufWriter<File>,
    }

    impl Streams for Files {
        type Error = io::Error;

        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            self.requests.read(bytes)
        }

        fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.answers.write_all(bytes)
        }
    }

    pub(crate) fn main() -> io::Result<()> {
        let mut arguments = std::env::args_os().skip(1);
        let (Some(requests), Some(answers)) = (arguments.next(), arguments.next()) else {
            return Err(io::Error::other("usage: virt REQUESTS ANSWERS"));
        };
        let mut files =
            Files { requests: File::open(requests)?, answers: BufWriter::new(File::create(answers)?) };
        let mut conversation = Box::new(Conversation::NEW);
        conversation.run(&mut files)?;
        files.answers.flush()
    }
}
