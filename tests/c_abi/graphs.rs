//! The task graphs of `tests/vectors/graphs.jsonl` as requests to a program that is not ours in language.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use bufabi_core::dependencies::Hazard;
use bufabi_core::wire::body::{Body, ShmName};
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{Access, DType, Descriptor, Identity, OwnerInstanceId, Tag, Tensor, View};
use bufabi_tests::vectors;
use serde_json::Value;

/// `graph`, and then `task` with a word `TAG:TENSOR` for each argument and `|` between members, each with its answer: `ok`, and the numbers
/// of the tasks before it by hazard, as `raw:0 waw:1`, in order.
pub(crate) fn requests() -> Result<Vec<(String, String)>, String> {
    let mut requests = Vec::new();
    for line in vectors("graphs.jsonl")?.lines() {
        let line: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        requests.push(("graph".to_owned(), "ok".to_owned()));
        graph(&line, &mut requests).ok_or_else(|| format!("{line}"))?;
    }
    Ok(requests)
}

fn graph(line: &Value, requests: &mut Vec<(String, String)>) -> Option<()> {
    let graph = line.get("graph")?;
    let mut buffers = BTreeMap::new();
    for (number, buffer) in (1_u64..).zip(graph.get("buffers")?.as_array()?) {
        buffers.insert(text(buffer, "name")?, descriptor(number, buffer.get("nbytes")?.as_u64()?)?);
    }
    let tasks = graph.get("tasks")?.as_array()?;
    let names: Vec<&str> = tasks.iter().map(|task| text(task, "name")).collect::<Option<_>>()?;
    let number = |name: &Value| names.iter().position(|known| name.as_str() == Some(known));
    let mut before: Vec<Vec<(usize, usize)>> = vec![Vec::new(); names.len()];
    for (rank, hazard) in Hazard::ALL.iter().enumerate() {
        for pair in line.get("edges")?.get(hazard.name())?.as_array()? {
            before.get_mut(number(pair.get(1)?)?)?.push((rank, number(pair.get(0)?)?));
        }
    }
    for (task, mut before) in tasks.iter().zip(before) {
        let alone = [task.clone()];
        let members = task.get("members").and_then(Value::as_array).map_or(&alone[..], Vec::as_slice);
        let members: Vec<String> =
            members.iter().map(|member| arguments(member, &buffers)).collect::<Option<_>>()?;
        before.sort_unstable();
        let edges =
            before.iter().map(|&(rank, task)| Some(format!("{}:{task}", Hazard::ALL.get(rank)?.name())));
        let edges: Vec<String> = edges.collect::<Option<_>>()?;
        requests.push((format!("task {}", members.join(" | ")), edges.join(" ")));
    }
    Some(())
}

fn arguments(member: &Value, buffers: &BTreeMap<&str, Descriptor>) -> Option<String> {
    let words = member.get("args")?.as_array()?.iter().map(|argument| {
        let dtype = DType::from_name(text(argument, "dtype")?)?;
        let tag = Tag::from_name(text(argument, "tag")?)?;
        let (shape, strides) = (numbers(argument.get("shape")?)?, numbers(argument.get("strides")?)?);
        let buffer = buffers.get(text(argument, "buffer")?)?;
        let byte_offset = argument.get("byte_offset")?.as_u64()?;
        let view = View::new(byte_offset, dtype, &shape, &strides, buffer.nbytes()).ok()?;
        let tensor = Tensor::new(buffer, &view).ok()?;
        let digits: String = tensor.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        Some(format!("{}:{digits}", tag.to_wire()))
    });
    Some(words.collect::<Option<Vec<_>>>()?.join(" "))
}

fn descriptor(number: u64, nbytes: u64) -> Option<Descriptor> {
    let identity = Identity::new(OwnerInstanceId([7; 8]), number, NonZeroU32::MIN);
    let body = Body::PosixShm { name: ShmName::new("graph")? };
    let access = Access::ReadWrite;
    Descriptor::new(&DescriptorFields { identity, access, nbytes, owner_worker_path_id: 0, body }).ok()
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

fn numbers(value: &Value) -> Option<Vec<u32>> {
    value.as_array()?.iter().map(|number| u32::try_from(number.as_u64()?).ok()).collect()
}
