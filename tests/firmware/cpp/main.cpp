// Loads the kernel as a device's loader would, and puts the requests to it: `main KERNEL.so REQUESTS ANSWERS`.
#include "kernel.hpp"

#include <dlfcn.h>

#include <fstream>
#include <iostream>
#include <memory>
#include <string>

int main(int argc, char **argv) {
    if (argc != 4) {
        std::cerr << "usage: main KERNEL.so REQUESTS ANSWERS\n";
        return 2;
    }
    const std::unique_ptr<void, int (*)(void *)> kernel(dlopen(argv[1], RTLD_NOW | RTLD_LOCAL), dlclose);
    if (!kernel) {
        std::cerr << dlerror() << '\n';
        return 3;
    }
    const auto answer = reinterpret_cast<kernel_answer_function>(dlsym(kernel.get(), "kernel_answer"));
    std::ifstream requests(argv[2], std::ios::binary);
    std::ofstream answers(argv[3], std::ios::binary);
    if (answer == nullptr || !requests || !answers) {
        std::cerr << "no kernel_answer, no requests, or nowhere to answer\n";
        return 3;
    }
    const auto write = [](void *context, const char *bytes, std::size_t len) {
        static_cast<std::ofstream *>(context)->write(bytes, static_cast<std::streamsize>(len));
    };
    for (std::string request; std::getline(requests, request); answers << '\n')
        answer(request.data(), request.size(), write, &answers);
    return answers.flush() ? 0 : 3;
}
