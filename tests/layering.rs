//! Checks the structural rules of ARCHITECTURE.md that the compiler does not check: imports follow
//! the layers, files of one folder do not import each other in a circle, `unsafe` occurs only in the listed files, and modules begin with a summary. Each
//! failure names the file, the line and the remedy.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The source folders of all crates except `tests/simulated_gpu`: it implements a C driver
/// interface, so all of it is unsafe.
const FOLDERS: [&str; 5] = [
    "src",
    "kernels/src",
    "nvdec/src",
    "datasets/src",
    "python/src",
];

#[test]
fn imports_point_from_later_to_earlier() {
    let layers = Layers::parse(&architecture("layers"));
    let exports = root_exports();
    let mut breaches = Vec::new();
    let mut seen = BTreeSet::new();
    for file in rust_files("src") {
        let module = module_of(&file);
        if module.is_empty() {
            continue; // lib.rs is above all layers
        }
        let Some(user) = layers.row_of(&module) else {
            breaches.push(format!(
                "{file}: module `{}` is in no row of the layers table in ARCHITECTURE.md",
                module.join("::")
            ));
            continue;
        };
        seen.insert(user);
        for import in imports(
            &fs::read_to_string(root().join(&file)).expect("readable"),
            &module,
            &exports,
        ) {
            let place = format!("{file}:{}", import.line);
            let path = import.path.join("::");
            match layers.row_of(&import.path) {
                None => breaches.push(format!("{place}: `crate::{path}` is in no row of the layers table in ARCHITECTURE.md")),
                Some(used) if used <= user || layers.allows(user, used) => {}
                Some(used) => breaches.push(format!(
                    "{place}: `{}` uses `crate::{path}`, in a higher layer ({} is above {}): move the shared part down, or the user up",
                    module.join("::"),
                    layers.name(used),
                    layers.name(user),
                )),
            }
        }
    }
    for row in (0..layers.rows.len()).filter(|row| !seen.contains(row)) {
        println!(
            "note: the layers table has {}, and no file of src/ belongs to it",
            layers.name(row)
        );
    }
    report("imports against the layers table", &breaches);
}

#[test]
fn files_of_one_folder_do_not_import_each_other_in_a_circle() {
    let mut breaches = Vec::new();
    for folder in FOLDERS {
        let imports = crate_imports(folder);
        for (parent, siblings) in sibling_imports(&imports) {
            let below = parent.iter().fold(folder.to_owned(), |p, m| p + "/" + m);
            for circle in circles(&siblings) {
                breaches.push(format!(
                    "{below}/: {} import each other in a circle (a file counts with its folder); move what they share to a file that imports none of them",
                    circle.join(", ")
                ));
            }
        }
    }
    report("circles of imports", &breaches);
}

#[test]
fn circles_are_found_through_re_exports_and_folders() {
    let imports_of = |module: &str, uses: &[&str]| {
        let uses = uses.iter().map(|used| Import {
            line: 1,
            path: path(used),
            is_use: true,
        });
        (path(module), uses.collect::<Vec<_>>())
    };
    // `low` is used as `top::Low`, a re-export of `top::low::Low`; `high` uses it in a child.
    let all = BTreeMap::from([
        imports_of("top", &["top::low::Low"]),
        imports_of("top::low", &["top::high::part::run"]),
        imports_of("top::high", &[]),
        imports_of("top::high::part", &["top::Low::new"]),
        imports_of("top::alone", &["top::Low::new"]),
    ]);
    let siblings = sibling_imports(&all);
    assert_eq!(circles(&siblings[&path("top")]), [["high", "low"]]);
}

#[test]
fn unsafe_code_is_only_in_the_listed_files() {
    let listed: BTreeSet<String> = architecture("unsafe")
        .iter()
        .filter_map(|l| backticked(l).into_iter().next())
        .collect();
    let found: BTreeSet<String> = sources()
        .filter(|f| lex(&read(f)).iter().any(|t| t.text == "unsafe"))
        .collect();
    let added = found.difference(&listed).map(|f| {
        format!(
            "{f}: has `unsafe` but is not in ARCHITECTURE.md's list; remove it, or list the file"
        )
    });
    let gone = listed.difference(&found).map(|f| {
        format!(
            "{f}: ARCHITECTURE.md lists it for `unsafe`, but it has none; remove it from the list"
        )
    });
    report("unsafe code", &added.chain(gone).collect::<Vec<_>>());
}

#[test]
fn modules_are_named_files_with_a_summary() {
    let mut breaches = Vec::new();
    for folder in ["src", "kernels", "nvdec", "datasets", "python/src"] {
        let named_mod = rust_files(folder)
            .into_iter()
            .filter(|f| f.ends_with("/mod.rs"));
        breaches.extend(named_mod.map(|f| {
            format!(
                "{f}: mod.rs is not used here; rename it to {}.rs",
                f.trim_end_matches("/mod.rs")
            )
        }));
    }
    for file in sources() {
        let text = read(&file);
        // Bindings are generated; a module of tests needs no summary.
        if file == "nvdec/src/sys/bindings.rs" || file.ends_with("/tests.rs") {
            continue;
        }
        if !text.starts_with("//!") {
            breaches.push(format!(
                "{file}: does not start with a `//!` line; add a summary of one to three lines"
            ));
        }
    }
    report("file names and module summaries", &breaches);
}

#[test]
fn import_parser_sees_what_the_compiler_sees() {
    let text = r##"
        // use crate::comment::X;  /* use crate::block::X; */
        use crate::a::{self, b::{C, D as E}, f};
        #[cfg(test)]
        mod tests { use crate::later::X; }
        mod child;
        pub use child::Thing;
        mod inner { use super::child::Other; }
        fn g<'a>(s: &'a str) -> crate::Error { let _ = ("crate::string::X", 'c', r#"crate::raw"#); super::sibling::h::<u8>() }
    "##;
    let exports = BTreeMap::from([("Error".to_owned(), path("error::Error"))]);
    let found = imports(text, &path("here::own"), &exports);
    let found: Vec<(usize, String)> = found
        .into_iter()
        .map(|i| (i.line, i.path.join("::")))
        .collect();
    let expected = [
        (3, "a"),
        (3, "a::b::C"),
        (3, "a::b::D"),
        (3, "a::f"),
        (7, "here::own::child::Thing"),
        (8, "here::own::child::Other"),
        (9, "error::Error"),
        (9, "here::sibling::h"),
    ];
    assert_eq!(found, expected.map(|(line, path)| (line, path.to_owned())));
}

#[test]
fn table_row_may_name_part_of_a_module() {
    let table = [
        "| `low` | — |",
        "| `index` | — |",
        "| `low::read`, `low::write` | `top` |",
        "| `top` | — |",
    ]
    .map(str::to_owned);
    let layers = Layers::parse(&table);
    assert_eq!(layers.row_of(&path("low::other")), Some(0));
    assert_eq!(layers.row_of(&path("low::read::Reader")), Some(2));
    assert_eq!(layers.row_of(&path("lowest")), None);
    assert!(layers.allows(2, 3) && !layers.allows(0, 3));
}

/// The layers table of ARCHITECTURE.md, lowest layer first.
struct Layers {
    rows: Vec<Row>,
}

struct Row {
    modules: Vec<Vec<String>>,
    /// Modules of later rows that this row may use as an exception.
    exceptions: Vec<Vec<String>>,
}

impl Layers {
    fn parse(lines: &[String]) -> Self {
        let rows: Vec<Row> = lines
            .iter()
            .filter_map(|line| {
                let cells: Vec<&str> = line.trim().trim_matches('|').split('|').collect();
                let modules: Vec<_> = backticked(cells[0]).iter().map(|m| path(m)).collect();
                let exceptions = cells.get(1).map_or(Vec::new(), |cell| {
                    backticked(cell).iter().map(|m| path(m)).collect()
                });
                (!modules.is_empty()).then_some(Row {
                    modules,
                    exceptions,
                })
            })
            .collect();
        assert!(
            rows.len() > 2,
            "ARCHITECTURE.md: the layers table has {} rows; is it still a table?",
            rows.len()
        );
        Self { rows }
    }

    /// Returns the row that has the longest module that is a prefix of `path`.
    fn row_of(&self, path: &[String]) -> Option<usize> {
        let fits = |module: &&Vec<String>| path.starts_with(module);
        let best = |row: &Row| row.modules.iter().filter(fits).map(Vec::len).max();
        (0..self.rows.len())
            .filter_map(|n| Some((best(&self.rows[n])?, n)))
            .max()
            .map(|(_, n)| n)
    }

    fn allows(&self, user: usize, used: usize) -> bool {
        self.rows[user]
            .exceptions
            .iter()
            .any(|e| self.rows[used].modules.contains(e))
    }

    fn name(&self, row: usize) -> String {
        self.rows[row]
            .modules
            .iter()
            .map(|m| format!("`{}`", m.join("::")))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

struct Import {
    line: usize,
    /// The path without the leading `crate`.
    path: Vec<String>,
    /// Whether it is a `use` declaration, which gives the item a name in this module too.
    is_use: bool,
}

/// Returns the imports of each module of a crate, except its test modules.
fn crate_imports(folder: &str) -> BTreeMap<Vec<String>, Vec<Import>> {
    let mut found = BTreeMap::new();
    let mut modules = vec![Vec::new()];
    while let Some(module) = modules.pop() {
        let file = if module.is_empty() {
            "lib".to_owned()
        } else {
            module.join("/")
        };
        let text = read(format!("{folder}/{file}.rs"));
        let tokens = without_tests(lex(&text));
        for declared in tokens
            .windows(3)
            .filter(|t| t[0].text == "mod" && t[2].text == ";")
        {
            modules.push([&module[..], &path(&declared[1].text)].concat());
        }
        let imports = imports(&text, &module, &BTreeMap::new());
        found.insert(module, imports);
    }
    found
}

type Siblings = BTreeMap<String, BTreeSet<String>>;

/// Returns, for each module, which of its children imports which others. A child counts with all
/// modules below it.
fn sibling_imports(all: &BTreeMap<Vec<String>, Vec<Import>>) -> BTreeMap<Vec<String>, Siblings> {
    let mut names = BTreeMap::new();
    for (module, imports) in all {
        for import in imports.iter().filter(|import| import.is_use) {
            if let Some(name) = import.path.last() {
                names.insert([&module[..], &path(name)].concat(), &import.path);
            }
        }
    }
    // Follows re-exports; a name that is exported again and again would be a circle of them.
    let resolve = |path: &Vec<String>| {
        let mut path = path.clone();
        for _ in 0..8 {
            let module = (0..=path.len())
                .rev()
                .find(|&n| all.contains_key(&path[..n]));
            let name = module.and_then(|n| path.get(..=n));
            let Some(real) = name.and_then(|name| names.get(name)) else {
                break;
            };
            path = [real, &path[name.map_or(0, <[String]>::len)..]].concat();
        }
        path
    };
    let mut siblings: BTreeMap<Vec<String>, Siblings> = BTreeMap::new();
    for (module, imports) in all {
        for import in imports {
            let used = resolve(&import.path);
            let common = module.iter().zip(&used).take_while(|(a, b)| a == b).count();
            let is_child = |m: &Vec<String>| m.len() > common && all.contains_key(&m[..=common]);
            if is_child(module) && is_child(&used) {
                let users = siblings.entry(module[..common].to_vec()).or_default();
                users
                    .entry(module[common].clone())
                    .or_default()
                    .insert(used[common].clone());
            }
        }
    }
    siblings
}

/// Returns the groups of names each of which leads to all others of its group, sorted.
fn circles(edges: &Siblings) -> Vec<Vec<&str>> {
    let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for start in edges.keys() {
        let mut next: Vec<&str> = vec![start];
        while let Some(name) = next.pop() {
            let used = edges.get(name).into_iter().flatten().map(String::as_str);
            let others = reached.entry(start).or_default();
            next.extend(used.filter(|&name| others.insert(name)));
        }
    }
    let mut found = BTreeSet::new();
    for (name, others) in reached
        .iter()
        .filter(|(name, others)| others.contains(*name))
    {
        let leads_back =
            |other: &&&str| reached.get(*other).is_some_and(|back| back.contains(name));
        found.insert(others.iter().filter(leads_back).copied().collect());
    }
    found.into_iter().collect()
}

/// Returns every path into the crate in a file of module `module`, except in test modules.
fn imports(text: &str, module: &[String], exports: &BTreeMap<String, Vec<String>>) -> Vec<Import> {
    let tokens = without_tests(lex(text));
    let text_at = |i: usize| tokens.get(i).map_or("", |t: &Token| t.text.as_str());
    let children: BTreeSet<&str> = (0..tokens.len())
        .filter(|&i| text_at(i) == "mod" && text_at(i + 2) == ";")
        .map(|i| text_at(i + 1))
        .collect();
    let mut found = Vec::new();
    // The current module: that of the file, then each enclosing `mod name { … }`, with the brace
    // depth at which it ends.
    let mut module = module.to_vec();
    let mut inner_ends: Vec<usize> = Vec::new();
    let mut depth = 0;
    let mut i = 0;
    while i < tokens.len() {
        match text_at(i) {
            "{" => {
                if i >= 2 && text_at(i - 2) == "mod" {
                    module.push(text_at(i - 1).to_owned());
                    inner_ends.push(depth);
                }
                depth += 1;
            }
            "}" => {
                depth -= 1;
                if inner_ends.pop_if(|end| *end == depth).is_some() {
                    module.pop();
                }
            }
            _ => {}
        }
        let continues = i > 0 && text_at(i - 1) == "::";
        let base = match text_at(i) {
            "crate" => Some(Vec::new()),
            "super" => Some(module[..module.len().saturating_sub(1)].to_vec()),
            "self" => Some(module.to_vec()),
            // `use child::…` and `pub use child::…` of a child module declared in this file.
            name if children.contains(name) && i > 0 && text_at(i - 1) == "use" => {
                Some([&module[..], &path(name)].concat())
            }
            _ => None,
        };
        let line = tokens[i].line;
        let is_use = i > 0 && text_at(i - 1) == "use";
        i += 1;
        let Some(mut base) = base.filter(|_| !continues && text_at(i) == "::") else {
            continue;
        };
        while text_at(i) == "::" && text_at(i + 1) == "super" {
            base.pop();
            i += 2;
        }
        let mut paths = Vec::new();
        if text_at(i) == "::" {
            tree(&tokens, i + 1, &base, &mut paths);
        }
        for path in paths {
            let path = match path.first().and_then(|first| exports.get(first)) {
                Some(real) => real.clone(), // `crate::Error` is `crate::error::Error`
                None => path,
            };
            found.push(Import { line, path, is_use });
        }
    }
    found
}

/// Reads one `use` tree (or one plain path) from token `i`, adds its leaves under `base` to
/// `paths`, and returns the index after it.
fn tree(tokens: &[Token], mut i: usize, base: &[String], paths: &mut Vec<Vec<String>>) -> usize {
    let text_at = |i: usize| tokens.get(i).map_or("", |t: &Token| t.text.as_str());
    let mut here = base.to_vec();
    loop {
        match text_at(i) {
            "{" => {
                i += 1;
                while !matches!(text_at(i), "}" | "") {
                    i = match text_at(i) {
                        "," => i + 1,
                        "as" => i + 2,
                        _ => tree(tokens, i, &here, paths).max(i + 1),
                    };
                }
                return i + 1;
            }
            "self" | "*" => i += 1,
            name if is_name(name) => {
                here.push(name.to_owned());
                i += 1;
            }
            _ => break, // the `<` of `::<T>`
        }
        if text_at(i) != "::" {
            break;
        }
        i += 1;
    }
    paths.push(here);
    i
}

/// Returns the re-exports of lib.rs: name → module path.
fn root_exports() -> BTreeMap<String, Vec<String>> {
    let tokens = lex(&read("src/lib.rs"));
    let mut exports = BTreeMap::new();
    for i in (0..tokens.len()).filter(|&i| tokens[i].text == "use") {
        let mut paths = Vec::new();
        tree(&tokens, i + 1, &[], &mut paths);
        exports.extend(
            paths
                .into_iter()
                .filter_map(|path| Some((path.last()?.clone(), path))),
        );
    }
    exports
}

struct Token {
    line: usize,
    text: String,
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Splits source text into names, `::` and single characters; drops comments, strings and character
/// literals.
fn lex(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut tokens = Vec::new();
    let (mut i, mut line) = (0, 1);
    while i < chars.len() {
        let start = i;
        match at(i) {
            '/' if at(i + 1) == '/' => {
                i = (i..chars.len())
                    .find(|&n| chars[n] == '\n')
                    .unwrap_or(chars.len())
            }
            '/' if at(i + 1) == '*' => {
                let mut depth = 0;
                loop {
                    match (at(i), at(i + 1)) {
                        ('/', '*') => (depth, i) = (depth + 1, i + 2),
                        ('*', '/') => (depth, i) = (depth - 1, i + 2),
                        _ => i += 1,
                    }
                    if depth == 0 || i >= chars.len() {
                        break;
                    }
                }
            }
            '"' => i = end_of_quoted(&chars, i),
            // A character literal, or a lifetime, which has no closing quote.
            '\'' if at(i + 1) == '\\' || at(i + 2) == '\'' => i = end_of_quoted(&chars, i),
            c if c.is_alphabetic() || c == '_' => {
                while at(i).is_alphanumeric() || at(i) == '_' {
                    i += 1;
                }
                let name: String = chars[start..i].iter().collect();
                let hashes = (i..).take_while(|&n| at(n) == '#').count();
                if matches!(name.as_str(), "r" | "br" | "cr") && at(i + hashes) == '"' {
                    let close: Vec<char> = std::iter::once('"')
                        .chain(std::iter::repeat_n('#', hashes))
                        .collect();
                    let body = i + hashes + 1;
                    let end = (body..chars.len()).find(|&n| chars[n..].starts_with(&close));
                    i = end.map_or(chars.len(), |end| end + close.len());
                } else {
                    tokens.push(Token { line, text: name });
                }
            }
            ':' if at(i + 1) == ':' => {
                tokens.push(Token {
                    line,
                    text: "::".into(),
                });
                i += 2;
            }
            c if c.is_whitespace() => i += 1,
            c => {
                tokens.push(Token {
                    line,
                    text: c.into(),
                });
                i += 1;
            }
        }
        line += chars[start..i.min(chars.len())]
            .iter()
            .filter(|&&c| c == '\n')
            .count();
    }
    tokens
}

fn end_of_quoted(chars: &[char], start: usize) -> usize {
    let mut i = start + 1;
    while i < chars.len() && chars[i] != chars[start] {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

/// Removes items under `#[cfg(test)]`, which may import from any layer.
fn without_tests(tokens: Vec<Token>) -> Vec<Token> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    let mut depth_of_item: Option<usize> = None;
    for token in &mut tokens {
        match (&mut depth_of_item, token.text.as_str()) {
            (None, _) => {
                kept.push(token);
                let tail = kept.len().saturating_sub(MARK.len());
                if kept[tail..].iter().map(|t| t.text.as_str()).eq(MARK) {
                    kept.truncate(tail);
                    depth_of_item = Some(0);
                }
            }
            (Some(depth), "{" | "(" | "[") => *depth += 1,
            (Some(depth), close @ ("}" | ")" | "]")) => {
                *depth -= 1;
                if *depth == 0 && close == "}" {
                    depth_of_item = None;
                }
            }
            (Some(0), ";") => depth_of_item = None,
            _ => {}
        }
    }
    kept
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: impl AsRef<Path>) -> String {
    let file = root().join(file);
    fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

fn sources() -> impl Iterator<Item = String> {
    FOLDERS.into_iter().flat_map(rust_files)
}

/// Returns the Rust files below a folder of the repository, as paths from its root; none if the
/// folder does not exist.
fn rust_files(folder: &str) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(root().join(&folder)) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = folder.join(entry.file_name());
            if root().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(
                    path.to_str()
                        .expect("source files have plain names")
                        .to_owned(),
                );
            }
        }
    }
    files.sort();
    files
}

/// Converts a file to its module path: `src/demux/mp4.rs` → `demux::mp4`; lib.rs is the empty path.
fn module_of(file: &str) -> Vec<String> {
    let name = file.trim_start_matches("src/").trim_end_matches(".rs");
    if name == "lib" {
        Vec::new()
    } else {
        name.split('/').map(str::to_owned).collect()
    }
}

fn path(text: &str) -> Vec<String> {
    text.split("::").map(str::to_owned).collect()
}

/// Returns the lines of ARCHITECTURE.md between `<!-- name:begin -->` and `<!-- name:end -->`.
fn architecture(name: &str) -> Vec<String> {
    let text = read("ARCHITECTURE.md");
    let (begin, end) = (
        format!("<!-- {name}:begin -->"),
        format!("<!-- {name}:end -->"),
    );
    let part = text
        .split_once(&begin)
        .and_then(|(_, rest)| rest.split_once(&end));
    let (part, _) =
        part.unwrap_or_else(|| panic!("ARCHITECTURE.md has no part between {begin} and {end}"));
    part.lines().map(str::to_owned).collect()
}

/// Returns the texts between backticks.
fn backticked(text: &str) -> Vec<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn report(what: &str, breaches: &[String]) {
    assert!(
        breaches.is_empty(),
        "{what}: {} to fix\n  {}\n",
        breaches.len(),
        breaches.join("\n  ")
    );
}
