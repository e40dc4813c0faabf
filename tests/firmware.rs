//! Firmware in C, C++ and Rust, built for each device, run in QEMU or on this machine, and held to the core's answers line by line.
#![expect(clippy::unwrap_used, reason = "what a test cannot build or run fails it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bufabi_tests::conversation::requests;
use bufabi_tests::device::{
    BARE_AARCH64, CORTEX_M, HERE, LINUX_AARCH64, compile, emulate, firmware_library, fresh_folder,
    link_alone, panics, run, rust_firmware, sizes,
};

/// The entry points that together decode, check and materialise a blob: they have a budget of bytes.
const BUDGETED: [&str; 5] = [
    "bufabi_descriptor_check",
    "bufabi_tensor_check",
    "bufabi_blob_check",
    "bufabi_chip_tensor_from",
    "bufabi_blob_materialize",
];

/// What every C program of the conversation is made of, beside its machine.
const C_SOURCES: [&str; 6] =
    ["c/conversation.c", "c/measure.c", "c/arguments.c", "c/records.c", "c/tables.c", "c/messages.c"];

const C: [&str; 2] = ["-std=c11", "-Wno-unknown-pragmas"];

const FREESTANDING: [&str; 5] =
    ["-ffreestanding", "-nostdlib", "-Wl,--gc-sections", "-Wl,-z,noexecstack", "-Wl,--build-id=none"];

/// Kept between runs, so that only what changed is built again.
fn builds() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("firmware")
}

fn library(target: &str) -> PathBuf {
    firmware_library(target, &[], &builds()).unwrap()
}

/// C firmware for a board.
fn c_firmware(target: &str, folder: &Path) -> PathBuf {
    let image = folder.join("conversation.elf");
    let library = library(target);
    let shared = [&C_SOURCES[..], &["c/semihosting.c"]].concat();
    let script = |path: &str| format!("-Wl,-T,{}", bufabi_tests::root().join(path).display());
    if target == CORTEX_M {
        let script = script("tests/firmware/c/mps2-an386.ld");
        let board = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", &script];
        let flags = [&C[..], &FREESTANDING, &board].concat();
        let sources = [&shared[..], &["c/mps2-an386.c"]].concat();
        compile("arm-none-eabi-gcc", &flags, &sources, Some(&library), &image).unwrap();
    } else {
        let script = script("firmware-shim/examples/virt/virt.ld");
        // The memory system is off, and so are accesses at any address.
        let flags = [&C[..], &FREESTANDING, &["-mstrict-align", "-static", &script]].concat();
        let sources = [&["../../firmware-shim/examples/virt/start.S"], &shared[..]].concat();
        compile("aarch64-linux-gnu-gcc", &flags, &sources, Some(&library), &image).unwrap();
    }
    image
}

#[test]
fn the_program_in_the_documentation_checks_its_blob_on_a_board() {
    let page = fs::read_to_string(bufabi_tests::root().join("docs/embedding-firmware.md")).unwrap();
    let program = page.split("```").find_map(|block| block.strip_prefix("c\n/* main.c */"));
    let folder = fresh_folder(&builds(), "documentation").unwrap();
    let (source, image) = (folder.join("main.c"), folder.join("firmware.elf"));
    fs::write(&source, program.unwrap()).unwrap();
    let script = format!("-Wl,-T,{}", bufabi_tests::root().join("tests/firmware/c/mps2-an386.ld").display());
    let board = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", &script];
    let flags = [&C[..], &FREESTANDING, &board].concat();
    let sources = [source.to_str().unwrap(), "c/mps2-an386.c"];
    compile("arm-none-eabi-gcc", &flags, &sources, Some(&library(CORTEX_M)), &image).unwrap();
    // Its exit code is the emulator's.
    emulate(CORTEX_M, &image, &folder).unwrap();
}

/// What a C++ kernel and the program that loads it are compiled with.
fn cpp_kernel(compiler: &str, flags: &[&str], target: &str, folder: &Path) -> (PathBuf, PathBuf) {
    let (kernel, main) = (folder.join("kernel.so"), folder.join("main"));
    let flags = [&["-std=c++17"], flags].concat();
    let shared = [&flags[..], &["-fPIC", "-shared"]].concat();
    compile(compiler, &shared, &["cpp/kernel.cpp"], Some(&library(target)), &kernel).unwrap();
    compile(compiler, &[&flags[..], &["-ldl"]].concat(), &["cpp/main.cpp"], None, &main).unwrap();
    (kernel, main)
}

/// Writes the requests that a program of this kind understands to `folder`.
fn write_requests(folder: &Path, understands: fn(&str) -> bool, more: &str) -> Vec<String> {
    let requests = requests().unwrap();
    let understood = requests.iter().filter(|request| understands(&request.text));
    let text: String = understood.clone().map(|request| format!("{}\n", request.text)).collect();
    fs::write(folder.join("requests"), text + more).unwrap();
    understood.map(|request| request.answer.clone()).collect()
}

/// The answers in `folder` are those of the core; what comes after them is given back.
fn compare(folder: &Path, expected: &[String]) -> Vec<String> {
    let answers = fs::read_to_string(folder.join("answers")).unwrap();
    let mut answers = answers.lines().map(str::to_owned);
    let requests = fs::read_to_string(folder.join("requests")).unwrap();
    for (request, expected) in requests.lines().zip(expected) {
        assert_eq!(answers.next().as_ref(), Some(expected), "{request}");
    }
    answers.collect()
}

fn everything(_: &str) -> bool {
    true
}

fn no_arguments_in_c(request: &str) -> bool {
    !["arguments", "records", "tables", "messages"].contains(&request)
}

fn everything_in_cpp(request: &str) -> bool {
    !["records", "tables", "messages"].contains(&request)
}

/// C firmware answers as the core does on this machine; the stack of each function, measured over all requests.
fn c_firmware_answers(target: &str, name: &str) -> Vec<(String, u64)> {
    let folder = fresh_folder(&builds(), name).unwrap();
    let image = c_firmware(target, &folder);
    let expected = write_requests(&folder, everything, "stack\n");
    emulate(target, &image, &folder).unwrap();
    assert_eq!(panics(&image).unwrap(), [""; 0], "a path to a panic");
    let stack = compare(&folder, &expected).join(" ");
    let words: Vec<&str> = stack.split(' ').collect();
    let (pairs, rest) = words.as_chunks();
    assert_eq!(rest, [""; 0], "names and numbers: {stack}");
    pairs.iter().map(|[name, bytes]| ((*name).to_owned(), bytes.parse().unwrap())).collect()
}

/// Every function of the library, as its header declares them.
fn entry_points() -> Vec<String> {
    let header = fs::read_to_string(bufabi_tests::root().join("firmware-shim/include/bufabi.h")).unwrap();
    let declared = header.lines().filter(|line| !line.starts_with([' ', '/', '#']) && line.contains('('));
    let name = |line: &str| Some(line.split('(').next()?.rsplit([' ', '*']).next()?.to_owned());
    let names: Vec<_> = declared.filter_map(name).filter(|name| name.starts_with("bufabi_")).collect();
    assert!(names.len() > 50, "{names:?}");
    names
}

/// The sizes of each function, linked alone, beside the stack that was measured: kept as a table, which the suite prints.
fn keep_sizes(target: &str, linker: &str, folder: &Path, stack: &[(String, u64)]) -> Vec<(String, u64, u64)> {
    let mut table = format!("{target}, bytes:               text   data  stack\n");
    let library = library(target);
    let (mut rows, mut unmeasured) = (Vec::new(), String::new());
    for function in entry_points().iter().filter(|entry| stack.iter().all(|(name, _)| name != *entry)) {
        let image = folder.join(function);
        link_alone(linker, function, &library, &image).unwrap();
        assert_eq!(panics(&image).unwrap(), [""; 0], "{function} has a path to a panic");
        let sizes = sizes(&image).unwrap();
        assert_eq!(sizes.data, 0, "{function} keeps no state");
        unmeasured += &format!("  {function:<33} {:>6} {:>6}      -\n", sizes.text, sizes.data);
    }
    for (function, stack) in stack {
        assert!(*stack < 32 * 1024, "{function}: {stack} bytes of stack");
        let image = folder.join(function);
        link_alone(linker, function, &library, &image).unwrap();
        assert_eq!(panics(&image).unwrap(), [""; 0], "{function} has a path to a panic");
        let sizes = sizes(&image).unwrap();
        assert_eq!(sizes.data, 0, "{function} keeps no state");
        table += &format!("  {function:<33} {:>6} {:>6} {stack:>6}\n", sizes.text, sizes.data);
        rows.push((function.clone(), sizes.text, *stack));
    }
    fs::write(builds().join(format!("sizes-{target}.txt")), table + &unmeasured).unwrap();
    rows
}

#[test]
fn c_firmware_on_a_cortex_m_answers_as_the_core_does_here_within_its_budget() {
    let stack = c_firmware_answers(CORTEX_M, "c-cortex-m");
    let rows = keep_sizes(CORTEX_M, "arm-none-eabi-ld", &builds().join("c-cortex-m"), &stack);
    for budgeted in BUDGETED {
        let row = rows.iter().find(|(function, ..)| function == budgeted);
        let (_, text, stack) = row.unwrap();
        assert!(*text <= 8 * 1024, "{budgeted}: {text} bytes of text");
        assert!((1..=1024).contains(stack), "{budgeted}: {stack} bytes of stack");
    }
}

#[test]
fn c_firmware_on_a_bare_aarch64_answers_as_the_core_does_here() {
    let stack = c_firmware_answers(BARE_AARCH64, "c-virt");
    keep_sizes(BARE_AARCH64, "aarch64-linux-gnu-ld", &builds().join("c-virt"), &stack);
}

#[test]
fn rust_firmware_on_a_bare_aarch64_answers_as_the_core_does_here() {
    let folder = fresh_folder(&builds(), "rust-virt").unwrap();
    let image = rust_firmware(&builds()).unwrap();
    let expected = write_requests(&folder, no_arguments_in_c, "");
    emulate(BARE_AARCH64, &image, &folder).unwrap();
    assert_eq!(compare(&folder, &expected), [""; 0]);
    assert_eq!(panics(&image).unwrap(), [""; 0], "a path to a panic");
}

#[test]
fn a_cpp_kernel_on_aarch64_linux_answers_as_the_core_does_here() {
    let folder = fresh_folder(&builds(), "cpp-aarch64").unwrap();
    let (kernel, main) = cpp_kernel("aarch64-linux-gnu-g++", &[], LINUX_AARCH64, &folder);
    let expected = write_requests(&folder, everything_in_cpp, "");
    let mut command = Command::new("qemu-aarch64");
    command.args(["-L", "/usr/aarch64-linux-gnu"]).arg(main).arg(&kernel).args(["requests", "answers"]);
    run(command.current_dir(&folder)).unwrap();
    assert_eq!(compare(&folder, &expected), [""; 0]);
    assert_eq!(panics(&kernel).unwrap(), [""; 0], "a path to a panic");
}

#[test]
fn a_c_program_here_answers_as_the_core_does_and_the_sanitizers_are_silent() {
    let folder = fresh_folder(&builds(), "c-here").unwrap();
    let program = folder.join("conversation");
    let flags = [&C[..], &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]].concat();
    let sources = [&C_SOURCES[..], &["c/hosted.c"]].concat();
    compile("cc", &flags, &sources, Some(&library(HERE)), &program).unwrap();
    let expected = write_requests(&folder, everything, "");
    run(Command::new(&program).args(["requests", "answers"]).current_dir(&folder)).unwrap();
    assert_eq!(compare(&folder, &expected), [""; 0]);
}

#[test]
fn a_cpp_kernel_here_answers_as_the_core_does_and_the_sanitizers_are_silent() {
    let folder = fresh_folder(&builds(), "cpp-here").unwrap();
    let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let (kernel, main) = cpp_kernel("c++", &flags, HERE, &folder);
    let expected = write_requests(&folder, everything_in_cpp, "");
    run(Command::new(main).arg(kernel).args(["requests", "answers"]).current_dir(&folder)).unwrap();
    assert_eq!(compare(&folder, &expected), [""; 0]);
}

#[test]
fn a_cpp_kernel_here_is_silent_under_valgrind_and_closes_what_it_opened() {
    let folder = fresh_folder(&builds(), "cpp-valgrind").unwrap();
    let (kernel, main) = cpp_kernel("c++", &[], HERE, &folder);
    let expected = write_requests(&folder, everything_in_cpp, "");
    let mut command = Command::new("valgrind");
    command.args(["--error-exitcode=9", "--leak-check=full", "--track-fds=yes"]);
    command.arg(main).arg(kernel).args(["requests", "answers"]);
    let said = run(command.current_dir(&folder)).unwrap();
    assert_eq!(compare(&folder, &expected), [""; 0]);
    assert!(said.contains("ERROR SUMMARY: 0 errors"), "{said}");
    assert!(said.contains("FILE DESCRIPTORS:"), "{said}");
    let open = said.matches("Open file descriptor").count();
    assert_eq!(open, said.matches("<inherited from parent>").count(), "{said}");
}

#[test]
fn the_search_for_panics_finds_them_where_there_are_some() {
    let this_test = std::env::current_exe().unwrap();
    assert!(!panics(&this_test).unwrap().is_empty());
}

/// What the library with these features takes, as an image that makes a task's arguments of a blob and one that uses a table.
fn sizes_with(target: &str, linker: &str, features: &[&str], folder: &Path) -> [u64; 2] {
    let library = firmware_library(target, features, &builds()).unwrap();
    ["bufabi_blob_materialize", "bufabi_owner_table_insert"].map(|function| {
        let image = folder.join(format!("{target}-{}-{function}", features.join("-")));
        link_alone(linker, function, &library, &image).unwrap();
        assert_eq!(panics(&image).unwrap(), [""; 0], "{target}, {features:?}: a path to a panic");
        sizes(&image).unwrap().text
    })
}

#[test]
fn what_each_feature_costs_is_measured_and_none_brings_a_path_to_a_panic() {
    let folder = fresh_folder(&builds(), "features").unwrap();
    for (target, linker) in [(CORTEX_M, "arm-none-eabi-ld"), (BARE_AARCH64, "aarch64-linux-gnu-ld")] {
        let mut table = format!("{target}, bytes of text:  blob_materialize  owner_table_insert\n");
        let without = sizes_with(target, linker, &[], &folder);
        table += &format!("  {:<24} {:>16} {:>19}\n", "without a feature", without[0], without[1]);
        for feature in ["lock", "defmt", "semihosting"] {
            let with = sizes_with(target, linker, &[feature], &folder);
            let more = [0, 1].map(|index| with[index].saturating_sub(without[index]));
            table += &format!("  {feature:<24} {:>+16} {:>+19}\n", more[0], more[1]);
            assert!(feature == "lock" || more[0] > 0, "{target}: {feature} says nothing");
            assert!(
                feature != "lock" || more[0] == 0,
                "{target}: {feature} is paid for where it is not used"
            );
        }
        fs::write(builds().join(format!("sizes-{target}-features.txt")), table).unwrap();
    }
}
