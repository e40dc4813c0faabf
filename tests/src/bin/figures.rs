//! Writes the benchmarks' last results into docs/figures.md, beside their goals and a plain copy of the same bytes.
//!
//! It measures nothing: `tests/figures/measure` runs the benchmarks first. A row whose benchmark has not run keeps the last result that
//! stands on the page, and says so when there is none.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

const BEGIN: &str = "<!-- times: written by tests/figures/measure -->";
const END: &str = "<!-- end of times -->";

fn main() -> ExitCode {
    match write() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("figures: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write() -> Result<(), Box<dyn Error>> {
    let root = bufabi_tests::root();
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let mut medians = HashMap::new();
    collect(&target.join("criterion"), &mut medians)?;
    let path = root.join("docs/figures.md");
    let page = fs::read_to_string(&path)?;
    let (before, rest) = page.split_once(BEGIN).ok_or("docs/figures.md has lost its marker")?;
    let (_, after) = rest.split_once(END).ok_or("docs/figures.md has lost its end marker")?;
    let last = rest.split_once(END).map_or_else(HashMap::new, |(tables, _)| last_results(tables));
    let rows = fs::read_to_string(root.join("tests/figures/rows.txt"))?;
    let tables = tables(&rows, &medians, &last)?;
    let machine = env::var("BUFABI_MACHINE").unwrap_or_else(|_| "unnamed machine".to_owned());
    fs::write(path, format!("{before}{BEGIN}\n\n{machine}\n{tables}\n{END}{after}"))?;
    Ok(())
}

/// The median of every benchmark that has run, in ns, by its full name.
fn collect(folder: &Path, medians: &mut HashMap<String, f64>) -> Result<(), Box<dyn Error>> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name == "new") {
            let read = |name| -> Result<serde_json::Value, Box<dyn Error>> {
                Ok(serde_json::from_str(&fs::read_to_string(path.join(name))?)?)
            };
            let (benchmark, estimates) = (read("benchmark.json")?, read("estimates.json")?);
            let name = benchmark.get("full_id").and_then(serde_json::Value::as_str);
            let median = estimates.pointer("/median/point_estimate").and_then(serde_json::Value::as_f64);
            if let (Some(name), Some(median)) = (name, median) {
                medians.insert(name.to_owned(), median);
            }
        } else if path.is_dir() {
            collect(&path, medians)?;
        }
    }
    Ok(())
}

/// What stands on the page, in ns, by table and operation.
fn last_results(page: &str) -> HashMap<(&str, &str), f64> {
    let mut last = HashMap::new();
    for table in page.split("\n### ").skip(1) {
        let title = table.lines().next().unwrap_or_default();
        for line in table.lines() {
            let columns: Vec<&str> = line.split('|').map(str::trim).collect();
            if let [_, operation, _, measured, ..] = columns[..]
                && let Ok(measured) = measured.parse()
            {
                last.insert((title, operation), measured);
            }
        }
    }
    last
}

struct Row<'a> {
    operation: &'a str,
    goal: &'a str,
    measured: Option<f64>,
}

/// The tables in Markdown.
fn tables(
    rows: &str,
    medians: &HashMap<String, f64>,
    last: &HashMap<(&str, &str), f64>,
) -> Result<String, Box<dyn Error>> {
    let mut out = String::new();
    for table in rows.split("\n## ").skip(1) {
        let mut lines = table.lines();
        let title = lines.next().unwrap_or_default();
        writeln!(out, "\n### {title}\n")?;
        let mut rows = lines.map(|line| row(line, medians)).collect::<Result<Vec<_>, _>>()?;
        for row in &mut rows {
            row.measured = row.measured.or_else(|| last.get(&(title, row.operation)).copied());
        }
        out.push_str("| operation | goal, ns | measured, ns | |\n|---|---|---|---|\n");
        for Row { operation, goal, measured } in &rows {
            let goal_ns = goal_ns(goal, &rows);
            let measured = *measured;
            let verdict = match (goal_ns, measured) {
                (Some(goal), Some(measured)) if measured <= goal => "reached",
                (Some(_), Some(_)) => "**missed**",
                _ => "",
            };
            let goal = goal_ns.map_or_else(|| "-".to_owned(), number);
            let measured = measured.map_or_else(|| "not measured".to_owned(), number);
            writeln!(out, "| {operation} | {goal} | {measured} | {verdict} |")?;
        }
    }
    Ok(out)
}

/// A goal in numbers, or by another row of the table: `that row*1.2`, `that row+400`.
fn goal_ns(goal: &str, rows: &[Row<'_>]) -> Option<f64> {
    let of = |name: &str| rows.iter().find(|row| row.operation == name)?.measured;
    if let Some((name, times)) = goal.split_once('*') {
        return Some(of(name)? * times.parse::<f64>().ok()?);
    }
    if let Some((name, more)) = goal.split_once('+') {
        return Some(of(name)? + more.parse::<f64>().ok()?);
    }
    goal.parse().ok()
}

fn row<'a>(line: &'a str, medians: &HashMap<String, f64>) -> Result<Row<'a>, String> {
    let columns: Vec<&str> = line.split(" | ").collect();
    let [operation, goal, name, divisor] = columns[..] else {
        return Err(format!("tests/figures/rows.txt: not four columns: {line}"));
    };
    let divisor: f64 = divisor.parse().map_err(|_| format!("tests/figures/rows.txt: no number: {line}"))?;
    Ok(Row { operation, goal, measured: medians.get(name).map(|median| median / divisor) })
}

fn number(ns: f64) -> String {
    if ns < 100.0 { format!("{ns:.1}") } else { format!("{ns:.0}") }
}
