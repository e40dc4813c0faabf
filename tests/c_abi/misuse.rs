//! A program in C, made from the header, that calls every function with each pointer NULL, each pointer off its alignment, and each two
//! pointers the same. All else is legal bytes in memory of its own, and handles are none, so that pointers are what is judged.

use std::fmt::Write;

/// A function that the header declares.
#[derive(Debug)]
struct Function {
    name: String,
    parameters: Vec<Parameter>,
}

#[derive(Debug)]
struct Parameter {
    /// C's type, without the name.
    kind: String,
    name: String,
}

impl Parameter {
    /// Something is read or written there. A context is the caller's own affair.
    fn is_pointer(&self) -> bool {
        self.kind.ends_with('*') && self.name != "context"
    }

    fn is_written(&self) -> bool {
        self.is_pointer() && !self.kind.starts_with("const")
    }

    /// It may lie at any address: bytes, and records of the wire.
    fn has_alignment(&self) -> bool {
        const ANYWHERE: [&str; 8] = [
            "void",
            "char",
            "uint8_t",
            "bufabi_descriptor_t",
            "bufabi_identity_t",
            "bufabi_tensor_t",
            "const",
            "struct",
        ];
        let words = self.kind.trim_end_matches('*').split_whitespace();
        // The chip's records are untyped for those who keep them in storage of their own, and aligned all the same.
        let is_chips = ["chip_tensor_128", "task_args"].contains(&self.name.as_str());
        self.is_pointer() && (is_chips || !words.into_iter().all(|word| ANYWHERE.contains(&word)))
    }
}

/// Every function of the header that answers with a status and takes a pointer.
fn functions(header: &str) -> Vec<Function> {
    let declarations = header.split("bufabi_status_t bufabi_").skip(1);
    let functions = declarations.filter_map(|text| {
        let (name, rest) = text.split_once('(')?;
        let (parameters, _) = rest.split_once(");")?;
        let parameters: Vec<Parameter> = parameters
            .split(',')
            .filter_map(|parameter| {
                let parameter = parameter.trim();
                let at = parameter.rfind([' ', '*'])?.checked_add(1)?;
                let (kind, name) = parameter.split_at_checked(at)?;
                Some(Parameter { kind: kind.trim().replace(" *", "*"), name: name.to_owned() })
            })
            .collect();
        Some(Function { name: format!("bufabi_{name}"), parameters })
    });
    functions.filter(|function| function.parameters.iter().any(Parameter::is_pointer)).collect()
}

impl Function {
    /// The call with what `argument` says for each pointer, by its place.
    fn call(&self, argument: impl Fn(usize) -> String) -> String {
        let arguments: Vec<String> = (0..)
            .zip(&self.parameters)
            .map(|(place, parameter)| match parameter.kind.as_str() {
                _ if parameter.is_pointer() => format!("({}){}", parameter.kind, argument(place)),
                kind if kind.ends_with('*') => "NULL".to_owned(),
                // Lengths and counts: one element, so that there is something to be read. Records have their size.
                "size_t" if parameter.name == "len" => self.record_size().to_owned(),
                "size_t" | "uint32_t" | "uint64_t" | "int32_t" => "1".to_owned(),
                "bufabi_resolve_t" => "resolve".to_owned(),
                "bufabi_run_kernel_t" => "NULL".to_owned(),
                handle => format!("({}){{0}}", handle.trim_start_matches("struct ")),
            })
            .collect();
        format!("{}({})", self.name, arguments.join(", "))
    }

    fn record_size(&self) -> &'static str {
        if self.name.contains("descriptor") { "88" } else { "144" }
    }
}

/// The program, and how many calls it makes.
pub(crate) fn program(header: &str) -> (String, usize) {
    let mut text = String::from(
        "#include <stdio.h>\n#include <string.h>\n#include <bufabi/bufabi.h>\n\n\
         static int checks, failures;\n\
         static _Alignas(64) unsigned char memory[16][1 << 16];\n\
         static bufabi_status_t resolve(void *context, const void *tensor, uint64_t *base) {\n    \
         (void)context, (void)tensor;\n    return *base = 64, 0;\n}\n\
         static void check(bufabi_status_t status, bufabi_status_t expected, const char *what) {\n    ++checks;\n    \
         if (status == expected) return;\n    ++failures;\n    \
         fprintf(stderr, \"%s: %s, and not %s\\n\", what, bufabi_status_name(status), bufabi_status_name(expected));\n}\n\n\
         int main(void) {\n",
    );
    let mut calls = 0_usize;
    for function in functions(header) {
        let own = |place: usize| format!("memory[{place}]");
        let mut check = |call: &str, expected: &str, what: &str| {
            let name = &function.name;
            let _ = writeln!(text, "    check({call}, BUFABI_STATUS_{expected}, \"{name}: {what}\");");
            calls = calls.saturating_add(1);
        };
        let pointers = || (0..).zip(&function.parameters).filter(|(_, parameter)| parameter.is_pointer());
        for (place, Parameter { name, .. }) in pointers() {
            let call = function.call(|other| if other == place { "NULL".to_owned() } else { own(other) });
            check(&call, "NULL_POINTER", &format!("{name} is NULL"));
        }
        for (place, Parameter { name, .. }) in pointers().filter(|(_, parameter)| parameter.has_alignment()) {
            let call = function
                .call(|other| if other == place { format!("(memory[{other}] + 1)") } else { own(other) });
            check(&call, "MISALIGNED", &format!("{name} is misaligned"));
        }
        for (place, first) in pointers() {
            for (other, second) in pointers().filter(|&(other, _)| other > place) {
                if first.is_written() || second.is_written() {
                    let call = function.call(|at| own(if at == other { place } else { at }));
                    let what = format!("{} is {}", second.name, first.name);
                    check(&call, "OVERLAPPING_ARGUMENTS", &what);
                }
            }
        }
    }
    text += "    printf(\"%d checks, %d failures\\n\", checks, failures);\n    return failures != 0;\n}\n";
    (text, calls)
}
