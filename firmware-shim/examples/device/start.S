/* Start code: the FPU first, since the first copy of 16 bytes needs it; then where exceptions go, the stack, and zeros. */
    .pushsection .text.start, "ax"
    .globl _start
_start:
    mov     x1, #(3 << 20)
    msr     cpacr_el1, x1
    adr     x1, vectors
    msr     vbar_el1, x1
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

/* Any exception ends the device, on a fresh stack: it may have been the stack that ran out. */
fault:
    ldr     x3, =stack_top
    mov     sp, x3
    mrs     x0, esr_el1
    mrs     x1, far_el1
    mrs     x2, elr_el1
    bl      board_fault
3:  wfi
    b       3b
    .ltorg

    .balign 2048
vectors:
    .rept   16
    b       fault
    .balign 128
    .endr
    .popsection
    .pushsection .note.GNU-stack, "", %progbits
    .popsection
