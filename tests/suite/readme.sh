# What the README and that of the examples tell people to type does what it says. Its Rust block is a doc-test of the package `bufabi-tests`; the example in Python
# is run where the package is, by the section `python`.

section_readme() {
    local command
    while IFS= read -r command; do
        case $command in
            tests/all*) ;; # this
            *) check "README: $command" bash -c "$command" ;;
        esac
    done < <(awk '/^```sh$/ { on = 1; next } /^```/ { on = 0 } on && NF' README.md examples/README.md | sort -u)
}
