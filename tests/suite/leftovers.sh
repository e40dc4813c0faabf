# What a run must not leave behind: shared memory, processes, and with them their open files.

section_leftovers() {
    check 'no process of ours is alive, so none holds a file open' no_process_of_ours
    check 'nothing new lies in /dev/shm' nothing_new_in_shared_memory
}

shared_memory() {
    find /dev/shm -mindepth 1 | sort
}

nothing_new_in_shared_memory() {
    local new
    new=$(comm -13 <(printf '%s\n' "$shared_memory_before") <(shared_memory))
    [[ -z $new ]] || { printf 'new in /dev/shm:\n%s\n' "$new" && return 1; }
}

# Every process that carries this run's mark, but for the one that shows the log.
no_process_of_ours() {
    local environ pid found=0
    for environ in /proc/[0-9]*/environ; do
        pid=${environ//[!0-9]/}
        if grep -qzsFx "BUFABI_SUITE=$BUFABI_SUITE" "$environ" && [[ $(readlink "/proc/$pid/exe") != */tail ]]; then
            printf 'still alive: %s %s\n' "$pid" "$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"
            found=1
        fi
    done
    [[ $found -eq 0 ]]
}
