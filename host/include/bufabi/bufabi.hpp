// bufabi for host runtimes in C++17: what bufabi.h has, with handles that release themselves, and views of memory.
//
// What can fail answers with a Result: `if (result)`, `result.status()` and `result.text()` for those who look, `result.value()` for those who
// like exceptions: it throws an Error. Without exceptions (-fno-exceptions) it aborts. Nothing else here throws, but for std::bad_alloc.
//
// An object may be used from several threads as bufabi.h says of its handle; moving from it or into it meanwhile is as with any other.
#ifndef BUFABI_HPP
#define BUFABI_HPP

#include "memory.hpp"
#include "queue.hpp"
#include "record.hpp"
#include "result.hpp"
#include "task.hpp"
#include "workers.hpp"

#endif // BUFABI_HPP
