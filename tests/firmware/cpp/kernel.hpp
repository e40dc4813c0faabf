// What the shared library exports, as a device's loader sees it.
#pragma once

#include <cstddef>

extern "C" {

/// Where answers go: called with each piece, in order.
using kernel_write = void (*)(void *context, const char *bytes, std::size_t len);

/// Answers one request, without its line's end.
void kernel_answer(const char *request, std::size_t len, kernel_write write, void *context);

/// The function's type, for whoever looks it up by name.
using kernel_answer_function = decltype(&kernel_answer);
}
