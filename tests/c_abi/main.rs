//! The host library as C and C++ have it: built and installed by CMake, and tried by programs that are not ours in language, with memory
//! checkers on them.
#![expect(clippy::unwrap_used, reason = "what a test cannot build or run fails it")]

mod graphs;
mod misuse;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use bufabi_tests::conversation::requests;
use bufabi_tests::device::run;
use bufabi_tests::{root, vectors};
use object::{Object, ObjectSymbol};

/// Kept between runs, so that only what changed is built again.
fn builds() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("c_abi");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Where CMake has installed the package.
fn installed() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let (build, prefix) = (builds().join("build"), builds().join("prefix"));
        let _ = fs::remove_dir_all(&prefix);
        let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let cargo = format!("-DBUFABI_TARGET_DIR={}", target.parent().unwrap().display());
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(root().join("host")).arg("-B").arg(&build);
        run(configure.args(["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_INSTALL_LIBDIR=lib", &cargo])).unwrap();
        run(Command::new("cmake").arg("--build").arg(&build)).unwrap();
        run(Command::new("cmake").arg("--install").arg(&build).arg("--prefix").arg(&prefix)).unwrap();
        prefix
    })
}

/// The static library with AddressSanitizer in it.
fn sanitized() -> &'static Path {
    static SANITIZED: OnceLock<PathBuf> = OnceLock::new();
    SANITIZED.get_or_init(|| {
        let (target, folder) = ("x86_64-unknown-linux-gnu", builds().join("sanitized"));
        let mut command = Command::new("cargo");
        // The sanitizer is not stable, and the pinned toolchain has it all the same.
        command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address").current_dir(root());
        command.args(["rustc", "-p", "bufabi-host", "--lib", "--locked", "--quiet", "--target", target]);
        command.args(["--no-default-features", "--features", "c-abi", "--crate-type", "staticlib"]);
        run(command.arg("--target-dir").arg(&folder)).unwrap();
        folder.join(target).join("debug/libbufabi_host.a")
    })
}

/// How a program watches its memory.
#[derive(Clone, Copy)]
enum Watch {
    /// It is run in valgrind.
    Valgrind,
    /// It and the library are compiled with AddressSanitizer, it with UndefinedBehaviorSanitizer too.
    Sanitizers,
}

/// Compiles a program of `tests`, warnings denied, and gives the command that runs it; a report of the checker fails it.
fn program(name: &str, compiler: &str, flags: &[&str], sources: &[&str], watch: Watch) -> Command {
    let (library, more, suffix): (_, &[&str], _) = match watch {
        Watch::Valgrind => (installed().join("lib/libbufabi.a"), &[], "valgrind"),
        Watch::Sanitizers => {
            let flags: &[&str] = &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
            (sanitized().to_owned(), flags, "sanitized")
        }
    };
    let out = builds().join(format!("{name}-{suffix}"));
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-g"]).args(flags).args(more);
    command.arg("-I").arg(installed().join("include")).arg("-I").arg(installed().join("include/bufabi"));
    command.args(sources.iter().map(|source| root().join("tests").join(source)));
    command.arg("-o").arg(&out).arg(library).args(["-lpthread", "-ldl", "-lm"]);
    run(&mut command).unwrap();
    match watch {
        Watch::Valgrind => {
            let mut command = Command::new("valgrind");
            command.args(["--quiet", "--error-exitcode=99", "--leak-check=full"]);
            // What is still reachable at the end are tables that live as long as the process.
            command.args(["--show-leak-kinds=definite,indirect,possible"]);
            command.args(["--errors-for-leak-kinds=definite,indirect,possible"]);
            // System calls that it does not know it would name among what the program says; what it finds fails the program.
            command.arg(format!("--log-file={}.log", out.display())).arg(out);
            command
        }
        Watch::Sanitizers => Command::new(out),
    }
}

/// The program in C that tries everything.
const CONFORMANCE: [&str; 7] = [
    "c_abi/c/conformance.c",
    "c_abi/c/records.c",
    "c_abi/c/tasks.c",
    "c_abi/c/owners.c",
    "c_abi/c/workers.c",
    "c_abi/c/handles.c",
    "c_abi/c/queue.c",
];

const C: [&str; 3] = ["-std=gnu11", "-Wshadow", "-Wno-unknown-pragmas"];
const CPP: [&str; 3] = ["-std=c++17", "-Wshadow", "-Wconversion"];

/// What valgrind found: its other notices begin otherwise.
fn found(name: &str) -> Vec<String> {
    let log = fs::read_to_string(builds().join(format!("{name}-valgrind.log"))).unwrap();
    log.lines().filter(|line| line.starts_with("==")).map(str::to_owned).collect()
}

/// A program ran to its end, silent but for its last line.
fn all_hold(said: &str) {
    let count = said.trim().strip_suffix(" checks, 0 failures").and_then(|count| count.parse::<u32>().ok());
    assert!(count.is_some_and(|count| count > 60), "{said}");
}

#[test]
fn the_library_does_from_c_what_it_should_in_valgrind() {
    let mut program = program("c", "cc", &C, &CONFORMANCE, Watch::Valgrind);
    // It does not know them, and would say so.
    all_hold(&run(program.arg("without-process-descriptors")).unwrap());
    assert_eq!(found("c"), [""; 0]);
}

#[test]
fn the_library_does_from_c_what_it_should_with_sanitizers() {
    all_hold(&run(&mut program("c", "cc", &C, &CONFORMANCE, Watch::Sanitizers)).unwrap());
}

#[test]
fn the_library_does_from_cpp_what_it_should_in_valgrind() {
    let sources = ["c_abi/cpp/conformance.cpp"];
    let mut program = program("cpp", "c++", &CPP, &sources, Watch::Valgrind);
    all_hold(&run(program.arg("without-process-descriptors")).unwrap());
    assert_eq!(found("cpp"), [""; 0]);
}

#[test]
fn the_library_does_from_cpp_what_it_should_with_sanitizers() {
    let sources = ["c_abi/cpp/conformance.cpp"];
    all_hold(&run(&mut program("cpp", "c++", &CPP, &sources, Watch::Sanitizers)).unwrap());
}

#[test]
fn every_pointer_of_every_function_that_is_null_misaligned_or_anothers_gets_its_status() {
    let header = fs::read_to_string(root().join("host/include/bufabi/bufabi.h")).unwrap();
    let (text, calls) = misuse::program(&header);
    let source = builds().join("misuse.c");
    fs::write(&source, text).unwrap();
    let mut program = program("misuse", "cc", &C, &[source.to_str().unwrap()], Watch::Sanitizers);
    assert_eq!(run(&mut program).unwrap(), format!("{calls} checks, 0 failures\n"));
    assert!(calls > 250, "{calls} calls");
}

#[test]
fn the_header_for_cpp_does_without_exceptions_and_in_later_standards() {
    for flags in [&["-std=c++17", "-fno-exceptions"], &["-std=c++20", "-Wconversion"], &["-std=c++23", "-O2"]]
    {
        let mut command = Command::new("c++");
        command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-x", "c++"]).args(flags);
        command.arg("-I").arg(root().join("host/include")).arg(root().join("host/include/bufabi/bufabi.hpp"));
        command.args(["-Wno-pragma-once-outside-header", "-Wno-error=cpp"]);
        run(&mut command).unwrap();
    }
}

/// Requests go in as a file, and answers come out as lines.
fn converse(program: &mut Command, folder: &str, requests: &str) -> Vec<String> {
    let folder = builds().join(folder);
    fs::create_dir_all(&folder).unwrap();
    let (asked, answered) = (folder.join("requests"), folder.join("answers"));
    fs::write(&asked, requests).unwrap();
    let said = run(program.arg(&asked).arg(&answered)).unwrap();
    assert_eq!(said, "", "it should be silent");
    fs::read_to_string(answered).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn what_a_device_is_asked_the_host_library_answers_alike() {
    let sources = ["c_abi/cpp/conversation.cpp", "firmware/cpp/kernel.cpp"];
    let mut program = program("conversation", "c++", &["-std=c++17"], &sources, Watch::Sanitizers);
    // The rest is about storage that a device lends.
    let verbs = ["descriptor", "tensor", "blob", "chip", "overlap", "task", "arguments"];
    let mut requests = requests().unwrap();
    requests.retain(|request| request.text.split(' ').next().is_some_and(|verb| verbs.contains(&verb)));
    assert!(requests.len() > 9000, "the files are not whole");
    let asked: String = requests.iter().map(|request| format!("{}\n", request.text)).collect();
    let answers = converse(&mut program, "conversation", &asked);
    assert_eq!(answers.len(), requests.len());
    for (request, answer) in requests.iter().zip(&answers) {
        assert_eq!(&request.answer, answer, "{}", request.text);
    }
}

#[test]
fn overlaps_and_the_edges_of_graphs_are_those_of_the_vectors() {
    let mut program = program("vectors", "c++", &CPP, &["c_abi/cpp/vectors.cpp"], Watch::Sanitizers);
    let (mut asked, mut expected) = (String::new(), Vec::new());
    for line in vectors("overlaps.txt").unwrap().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (tensors, answer) = words.split_at(2);
        asked += &format!("overlap {}\n", tensors.join(" "));
        expected.push(answer.join(" "));
    }
    for (request, answer) in graphs::requests().unwrap() {
        asked += &format!("{request}\n");
        expected.push(answer);
    }
    assert!(expected.len() > 5000, "the files are not whole");
    let answers = converse(&mut program, "vectors", &asked);
    assert_eq!(answers.len(), expected.len());
    for ((request, answer), expected) in asked.lines().zip(&answers).zip(&expected) {
        assert_eq!(answer, expected, "{request}");
    }
}

/// The gram example says that its bits are right.
fn gram(program: &Path) {
    let said = run(Command::new(program).arg(root().join("examples"))).unwrap();
    assert!(said.ends_with("the bits are those expected\n"), "{said}");
}

#[test]
fn a_runtime_in_cpp_that_cmake_builds_from_the_installed_package_computes_the_gram_example() {
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", installed().display());
    for shared in ["OFF", "ON"] {
        let build = builds().join(format!("gram-shared-{shared}"));
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(root().join("examples/cpp")).arg("-B").arg(&build);
        run(configure.args([&prefix, &format!("-DBUILD_SHARED_LIBS={shared}")])).unwrap();
        run(Command::new("cmake").arg("--build").arg(&build)).unwrap();
        gram(&build.join("gram"));
    }
}

#[test]
fn a_project_may_have_the_sources_in_a_folder_of_its_own() {
    let folder = builds().join("as-a-folder");
    fs::create_dir_all(&folder).unwrap();
    let (host, source) = (root().join("host"), root().join("examples/cpp/gram.cpp"));
    let project = format!(
        "cmake_minimum_required(VERSION 3.18)\nproject(gram LANGUAGES CXX)\n\
         add_subdirectory({} bufabi)\nadd_executable(gram {})\n\
         target_compile_features(gram PRIVATE cxx_std_17)\ntarget_link_libraries(gram PRIVATE bufabi::bufabi)\n",
        host.display(),
        source.display()
    );
    fs::write(folder.join("CMakeLists.txt"), project).unwrap();
    // The folder of the installed one, built before: cargo has nothing left to do.
    installed();
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let cargo = format!("-DBUFABI_TARGET_DIR={}", target.parent().unwrap().display());
    let mut configure = Command::new("cmake");
    configure.current_dir(&folder).args(["-B", "build", "-DCMAKE_BUILD_TYPE=Debug", &cargo]);
    run(&mut configure).unwrap();
    run(Command::new("cmake").current_dir(&folder).args(["--build", "build"])).unwrap();
    gram(&folder.join("build/gram"));
}

#[test]
fn pkg_config_tells_how_to_build_it_too() {
    let mut ask = Command::new("pkg-config");
    let flags = run(ask
        .env("PKG_CONFIG_PATH", installed().join("lib/pkgconfig"))
        .args(["--cflags", "--libs", "bufabi"]));
    let out = builds().join("gram-pkg-config");
    let mut compile = Command::new("c++");
    compile.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-O2", "-o"]).arg(&out);
    compile.arg(root().join("examples/cpp/gram.cpp")).args(flags.unwrap().split_whitespace());
    compile.arg(format!("-Wl,-rpath,{}", installed().join("lib").display()));
    run(&mut compile).unwrap();
    gram(&out);
}

#[test]
fn the_first_program_of_the_documentation_prints_what_it_says() {
    let page = fs::read_to_string(root().join("docs/embedding-host.md")).unwrap();
    let block = |language: &str| {
        let (_, rest) = page.split_once(&format!("\n```{language}\n")).unwrap();
        rest.split_once("```").unwrap().0
    };
    let folder = builds().join("first");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("first.cpp"), block("cpp")).unwrap();
    let project = page.split_once("<<'END'\n").unwrap().1.split_once("END\n").unwrap().0;
    fs::write(folder.join("CMakeLists.txt"), project).unwrap();
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", installed().display());
    run(Command::new("cmake").current_dir(&folder).args(["-B", "build", &prefix])).unwrap();
    run(Command::new("cmake").current_dir(&folder).args(["--build", "build"])).unwrap();
    assert_eq!(run(&mut Command::new(folder.join("build/first"))).unwrap(), "1.5\n");
}

#[test]
fn the_program_of_the_documentation_that_talks_with_a_task_prints_what_it_says() {
    let page = fs::read_to_string(root().join("docs/embedding-host.md")).unwrap();
    let (_, text) = page.split_once("\n```cpp\n// talk.cpp\n").unwrap();
    let source = builds().join("talk.cpp");
    fs::write(&source, text.split_once("```").unwrap().0).unwrap();
    let mut program = program("talk", "c++", &CPP, &[source.to_str().unwrap()], Watch::Sanitizers);
    assert_eq!(run(&mut program).unwrap(), "2 doubled is 4\n");
}

/// The functions that the header declares.
fn declared() -> BTreeSet<String> {
    let header = fs::read_to_string(root().join("host/include/bufabi/bufabi.h")).unwrap();
    let code = header.lines().filter(|line| !line.starts_with([' ', '/', '#', '}']));
    code.filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("bufabi_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_shared_library_exports_what_the_header_declares_and_nothing_else() {
    let shared = installed().join("lib/libbufabi.so");
    let bytes = fs::read(&shared).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    let exported: BTreeSet<String> =
        defined.filter_map(|symbol| Some(symbol.name().ok()?.to_owned())).collect();
    let declared = declared();
    assert!(declared.len() > 60, "{declared:?}");
    assert_eq!(exported, declared);
}
