//! A process at one end of a region over a device's driver, told what to do line by line: tests drive two of them.
//!
//! `region-peer LOGICAL VISIBLE` uses the Ascend driver. Each line of standard input is a command and is answered with one line:
//! `ok ...`, or `error CODE TEXT`. It ends with its input.
#![forbid(unsafe_code)]

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bufabi_core::queue::{Kind, L2End, L3End, Opcode, QueueLayout};
use bufabi_core::{Code, Descriptor};
use bufabi_host::owner::Endpoint;
use bufabi_host::region::{AttachedRegion, ProvidedRegion, RegionMemory, SleepingClock};
use bufabi_host::sys::ascendcl::MemoryAttribute;
use bufabi_host::sys::process::Process;
use bufabi_host::vmm::acl::AclDevice;
use bufabi_host::vmm::{AclDriver, Admission, Imports, VmmDriver};
use bufabi_tests::message::message;
use bufabi_tests::unhex;
use bufabi_tests::waits::{HostWait, TaskWait};

const LIMIT: Duration = Duration::from_secs(30);

/// What a command could not do.
struct Failed {
    code: Code,
    text: String,
}

macro_rules! failed {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for Failed {
            fn from(error: $error) -> Self {
                Self { code: error.code(), text: error.to_string() }
            }
        }
    )*};
}
failed!(
    bufabi_core::queue::AttachError,
    bufabi_core::queue::ReceiveError,
    bufabi_core::queue::SendError,
    bufabi_core::region::AccessError,
    bufabi_host::owner::OwnError,
    bufabi_host::region::AttachError,
    bufabi_host::region::CloseError,
    bufabi_host::region::ProvideError,
    bufabi_host::sys::OsError,
    bufabi_host::vmm::VmmError,
);

impl From<&str> for Failed {
    fn from(text: &str) -> Self {
        Self { code: Code::Internal, text: text.to_owned() }
    }
}

fn number<T: std::str::FromStr>(word: &str) -> Result<T, Failed> {
    word.parse().map_err(|_| Failed::from("no number that fits"))
}

fn layout() -> Result<QueueLayout, Failed> {
    QueueLayout::new(8, 2048, 2048).map_err(|_| Failed::from("no layout"))
}

struct Peer<'a> {
    endpoint: &'a Endpoint,
    driver: Arc<AclDriver>,
    imports: &'a Imports<AclDriver>,
    provided: Option<ProvidedRegion>,
    attached: Option<AttachedRegion<'a>>,
    other: Option<Process>,
}

impl Peer<'_> {
    fn answer(&mut self, words: &[&str]) -> Result<String, Failed> {
        match words {
            ["number"] => Ok(self.driver.peer_number()?.to_string()),
            ["provide"] => {
                let (payload, counter) = (layout()?.payload_bytes(), layout()?.counter_bytes());
                let admission = Admission::Anyone;
                let region =
                    ProvidedRegion::create_copying(self.endpoint, &self.driver, payload, counter, admission)?;
                let [payload, counter] = region.descriptors()?.map(|descriptor| hex(&descriptor.encode()));
                self.provided = Some(region);
                Ok(format!("{payload} {counter}"))
            }
            ["attach", payload, counter] => {
                self.attached = Some(AttachedRegion::attach_copying(
                    self.imports,
                    &descriptor(payload)?,
                    &descriptor(counter)?,
                )?);
                Ok(String::new())
            }
            ["watch", pid] => {
                self.other = Some(Process::open(number(pid)?)?);
                Ok(String::new())
            }
            ["ask", messages] => self.ask(number(messages)?),
            ["echo"] => self.echo(),
            ["receive-for-ever"] => {
                let (memory, mut clock) = self.memory()?;
                L3End::new(layout()?, memory, [0; 8])?.peek(Duration::MAX, &mut clock)?;
                Ok(String::new())
            }
            ["wait", "host", what] => {
                let (memory, mut clock) = self.memory()?;
                let wait = HostWait::ALL.into_iter().find(|wait| format!("{wait:?}") == *what);
                let end = L3End::new(layout()?, memory, vec![0; 8])?;
                let (code, text) = wait.ok_or("no such wait")?.wait(end, &mut clock);
                Err(Failed { code, text })
            }
            ["wait", "task", what] => {
                let (memory, mut clock) = self.memory()?;
                let wait = TaskWait::ALL.into_iter().find(|wait| format!("{wait:?}") == *what);
                let end = L2End::new(layout()?, memory, vec![0; 8])?;
                let (code, text) = wait.ok_or("no such wait")?.wait(end, &mut clock);
                Err(Failed { code, text })
            }
            ["close"] => {
                let until = Instant::now().checked_add(LIMIT).ok_or("no time")?;
                if let Some(region) = &mut self.attached {
                    region.close(until)?;
                }
                if let Some(region) = &mut self.provided {
                    region.close(until)?;
                }
                Ok(format!("{} {}", self.endpoint.live(), self.imports.count()))
            }
            _ => Err("no such command".into()),
        }
    }

    /// The region that is here, and a clock that watches the other process if it is known.
    fn memory(&self) -> Result<(RegionMemory, SleepingClock), Failed> {
        let memory = match (&self.provided, &self.attached) {
            (Some(region), _) => region.memory()?,
            (None, Some(region)) => region.memory()?,
            (None, None) => return Err("no region".into()),
        };
        let clock = SleepingClock::new(&memory)?;
        let clock = match &self.other {
            Some(other) => clock.watching(other)?,
            None => clock,
        };
        Ok((memory, clock))
    }

    /// Sends messages, and holds the answers to what was sent.
    fn ask(&self, messages: u64) -> Result<String, Failed> {
        let (memory, mut clock) = self.memory()?;
        let mut end = L3End::new(layout()?, memory, [0; 8])?;
        let (mut sent, mut answered, mut out) = (0, 0, [0; 2048]);
        while answered < messages {
            while sent < messages && end.try_enqueue(Kind::Data, &message(sent)).is_ok() {
                sent = sent.saturating_add(1);
            }
            let (opcode, nbytes) = end.dequeue_into(&mut out, LIMIT, &mut clock)?;
            if opcode != Opcode::Data || out.get(..nbytes) != Some(&message(answered)) {
                return Err("another message".into());
            }
            answered = answered.saturating_add(1);
        }
        end.request_stop(LIMIT, &mut clock)?;
        Ok(answered.to_string())
    }

    /// Answers each message with itself, until STOP.
    fn echo(&self) -> Result<String, Failed> {
        let (memory, mut clock) = self.memory()?;
        let mut end = L2End::<_, _, 4>::new(layout()?, memory, [0; 8])?;
        let mut out = [0; 2048];
        while !end.is_drained() {
            let received = end.receive(LIMIT, &mut clock)?;
            if received.opcode() == Opcode::Data {
                let nbytes = end.read_into(received.handle(), &mut out)?;
                end.send(Kind::Data, out.get(..nbytes).unwrap_or_default(), LIMIT, &mut clock)?;
            }
            end.release(received.handle())?;
        }
        Ok(String::new())
    }
}

fn descriptor(word: &str) -> Result<Descriptor, Failed> {
    let bytes = unhex(word).map_err(|_| Failed::from("no hex"))?;
    Descriptor::decode(&bytes).map_err(|error| Failed { code: error.code(), text: error.to_string() })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn main() -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [logical, visible] = arguments.as_slice() else {
        return Err("usage: region-peer LOGICAL VISIBLE".to_owned());
    };
    let device = AclDevice {
        logical: logical.parse().map_err(|_| "LOGICAL")?,
        visible: visible.parse().map_err(|_| "VISIBLE")?,
    };
    let endpoint = Endpoint::new().map_err(|error| text(&error))?;
    let driver = AclDriver::new(endpoint.owner_instance_id(), device, MemoryAttribute::HbmHuge);
    let driver = Arc::new(driver.map_err(|error| text(&error))?);
    let imports = Imports::new(Arc::clone(&driver));
    let mut peer =
        Peer { endpoint: &endpoint, driver, imports: &imports, provided: None, attached: None, other: None };
    println!("ok ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| text(&error))?;
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let answer = match peer.answer(&words) {
            Ok(answer) => format!("ok {answer}"),
            Err(Failed { code, text }) => format!("error {code} {text}"),
        };
        let mut output = std::io::stdout().lock();
        writeln!(output, "{answer}").and_then(|()| output.flush()).map_err(|error| text(&error))?;
    }
    Ok(())
}
