/* Start code of the mps2-an386 board (Cortex-M4 with FPU): vectors, memory, then the program. */
#include <stdint.h>

extern uint32_t data_load[], data_start[], data_end[], bss_start[], bss_end[], stack_top[];

__attribute__((noreturn)) void board_main(void);
__attribute__((noreturn)) void reset(void);

/* The ABI passes floats in registers of the FPU, so it is switched on (CPACR, full access to CP10 and CP11) before any code
 * that may use it. */
void reset(void) {
    *(volatile uint32_t *)0xe000ed88u |= 0xfu << 20;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
    for (volatile uint32_t *to = data_start, *from = data_load; to < data_end;)
        *to++ = *from++;
    for (volatile uint32_t *to = bss_start; to < bss_end;)
        *to++ = 0;
    board_main();
}

/* Any fault ends here; the host sees that no answer comes. */
static void fault(void) {
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static const uintptr_t vectors[16] = {
    (uintptr_t)stack_top, (uintptr_t)reset, (uintptr_t)fault, (uintptr_t)fault, (uintptr_t)fault, (uintptr_t)fault,
    (uintptr_t)fault,
};
