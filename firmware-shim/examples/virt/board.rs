//! The bare `virt` machine: start code, and the files `requests` and `answers` of the host, by semihosting.

// Its panic handler is the image's.
use bufabi_firmware as _;

use super::conversation::{Conversation, Streams};
use super::semihosting::{File, Refused, exit};

core::arch::global_asm!(include_str!("start.S"));

struct Files {
    requests: File,
    answers: File,
    /// Each write leaves the machine, so short ones wait here.
    waiting: [u8; 4096],
    filled: usize,
}

impl Files {
    fn flush(&mut self) -> Result<(), Refused> {
        let waiting = self.waiting.get(..self.filled).unwrap_or_default();
        self.answers.write(waiting)?;
        self.filled = 0;
        Ok(())
    }
}

impl Streams for Files {
    type Error = Refused;

    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Refused> {
        self.requests.read(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        for &byte in bytes {
            if self.filled == self.waiting.len() {
                self.flush()?;
            }
            if let Some(slot) = self.waiting.get_mut(self.filled) {
                *slot = byte;
                self.filled = self.filled.wrapping_add(1);
            }
        }
        Ok(())
    }
}

/// Where the start code jumps to.
#[unsafe(no_mangle)]
extern "C" fn board_main() -> ! {
    exit(usize::from(converse().is_err()))
}

fn converse() -> Result<(), Refused> {
    let (requests, answers) = (File::open(c"requests")?, File::create(c"answers")?);
    let mut files = Files { requests, answers, waiting: [0; 4096], filled: 0 };
    let mut conversation = Conversation::NEW;
    conversation.run(&mut files)?;
    files.flush()
}
