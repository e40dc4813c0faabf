//! The handler that every image needs and none of ours reaches: the suite fails when a linked image has it.

use core::panic::PanicInfo;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
