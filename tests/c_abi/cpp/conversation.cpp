// What a device's kernel answers, answered by the host library: `PROGRAM REQUESTS ANSWERS`, a line each.
#include <fstream>
#include <string>

#include "../../firmware/cpp/kernel.hpp"

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    std::ifstream requests(argv[1]);
    std::ofstream answers(argv[2]);
    const auto write = [](void *to, const char *bytes, std::size_t len) {
        static_cast<std::ofstream *>(to)->write(bytes, static_cast<std::streamsize>(len));
    };
    for (std::string request; std::getline(requests, request);) {
        kernel_answer(request.data(), request.size(), write, &answers);
        answers << '\n';
    }
}
