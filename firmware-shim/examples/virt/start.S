/* Start code of QEMU's aarch64 `virt` machine: the FPU first, since the first copy of 16 bytes needs it. */
    .pushsection .text.start, "ax"
    .globl _start
_start:
    mov     x1, #(3 << 20)
    msr     cpacr_el1, x1
    isb
    ldr     x1, =stack_top
    mov     sp, x1
    ldr     x1, =bss_start
    ldr     x2, =bss_end
0:  cmp     x1, x2
    b.hs    1f
    str     xzr, [x1], #8
    b       0b
1:  bl      board_main
2:  wfi
    b       2b
    .ltorg
    .popsection
    .pushsection .note.GNU-stack, "", %progbits
    .popsection
