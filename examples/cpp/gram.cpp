// A host runtime in C++: it owns three buffers, starts two chips and a sub-worker with kernels of its own, and has them compute
// G = X^T X in two halves, and the sum of each row of G, which waits for both. `gram FOLDER` reads digits.npy there, and compares the
// results with digits-gram.npy and digits-gram-rowsums.npy, bit by bit.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <bufabi/bufabi.hpp>

using namespace std::chrono_literals;
using bufabi::Access;
using bufabi::DType;
using bufabi::Operand;
using bufabi::Span;
using bufabi::Tag;
using bufabi::WorkerKind;

namespace {

constexpr std::uint32_t rows = 1797, columns = 64, half = columns / 2;

// The numbers of an npy file: little-endian float32 in row-major order, as NumPy writes them.
std::vector<float> read_npy(const std::string &path, std::size_t count) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (bytes.size() < 10 || bytes.compare(0, 8, "\x93NUMPY\x01\x00", 8) != 0) throw std::runtime_error(path + ": no npy file");
    const auto header_size = static_cast<unsigned char>(bytes[8]) + 256U * static_cast<unsigned char>(bytes[9]);
    const auto header = bytes.substr(10, header_size);
    if (header.find("'<f4'") == std::string::npos || header.find("'fortran_order': False") == std::string::npos ||
        bytes.size() != 10 + header_size + count * sizeof(float))
        throw std::runtime_error(path + ": other numbers than expected");
    std::vector<float> numbers(count);
    std::memcpy(numbers.data(), bytes.data() + 10 + header_size, count * sizeof(float));
    return numbers;
}

enum Kernel : std::uint32_t { matmul, sum_rows };

// What workers run. Elements lie at any step, so each is found by its strides.
bufabi_status_t run(std::uint32_t kernel, Span<const Operand> operands, Span<const std::uint64_t>) {
    if (kernel == matmul && operands.size() == 3) {
        const auto &[a, b, c] = std::tie(operands[0], operands[1], operands[2]);
        const auto *in = a.elements<const float>(), *with = b.elements<const float>();
        auto *out = c.elements<float>();
        if (!in || !with || !out) return BUFABI_STATUS_KERNEL_DTYPE;
        if (a.shape()[1] != b.shape()[0] || c.shape()[0] != a.shape()[0] || c.shape()[1] != b.shape()[1])
            return BUFABI_STATUS_KERNEL_SHAPE;
        for (std::size_t i = 0; i < a.shape()[0]; ++i) {
            for (std::size_t j = 0; j < b.shape()[1]; ++j) {
                float sum = 0;
                for (std::size_t k = 0; k < a.shape()[1]; ++k)
                    sum += in[i * a.strides()[0] + k * a.strides()[1]] * with[k * b.strides()[0] + j * b.strides()[1]];
                out[i * c.strides()[0] + j * c.strides()[1]] = sum;
            }
        }
        return BUFABI_STATUS_OK;
    }
    if (kernel == sum_rows && operands.size() == 2) {
        const auto &[a, c] = std::tie(operands[0], operands[1]);
        const auto *in = a.elements<const float>();
        auto *out = c.elements<float>();
        if (!in || !out) return BUFABI_STATUS_KERNEL_DTYPE;
        if (c.shape()[0] != a.shape()[0]) return BUFABI_STATUS_KERNEL_SHAPE;
        for (std::size_t i = 0; i < a.shape()[0]; ++i) {
            float sum = 0;
            for (std::size_t j = 0; j < a.shape()[1]; ++j) sum += in[i * a.strides()[0] + j * a.strides()[1]];
            out[i * c.strides()[0]] = sum;
        }
        return BUFABI_STATUS_OK;
    }
    return BUFABI_STATUS_KERNEL_UNKNOWN;
}

bool equal(const bufabi::Buffer &buffer, const std::vector<float> &expected) {
    const auto mapping = buffer.map().value();
    const auto found = mapping.elements<const float>().value();
    return found.size() == expected.size() && std::memcmp(found.data(), expected.data(), expected.size() * sizeof(float)) == 0;
}

int gram(const std::string &folder) {
    const auto endpoint = bufabi::Endpoint::create().value();
    const bufabi_worker_t workers[] = {
        bufabi::worker("chip0", WorkerKind::chip),
        bufabi::worker("l3", WorkerKind::host),
        bufabi::worker("chip1", WorkerKind::chip, 1), // below l3: its tasks cross two hops
        bufabi::worker("sub0", WorkerKind::sub),
    };
    // Workers are forks of this process, which has one thread now.
    const auto orchestrator = bufabi::Orchestrator::create(endpoint, workers, run).value();

    auto x = endpoint.create_buffer(rows * columns * sizeof(float), Access::read).value();
    auto g = endpoint.create_buffer(columns * columns * sizeof(float)).value();
    auto sums = endpoint.create_buffer(columns * sizeof(float)).value();
    {
        const auto mapping = x.map().value();
        const auto to = mapping.elements<float>().value();
        const auto from = read_npy(folder + "/digits.npy", rows * columns);
        std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
    }

    const auto arguments = bufabi::TaskArgs::create().value();
    const auto transposed = x.tensor(bufabi::strided(DType::float32, {columns, rows}, {1, columns})).value();
    const char *const chips[] = {"chip0", "l3/chip1"};
    for (std::uint32_t side = 0; side < 2; ++side) {
        const auto offset = side * half * sizeof(float);
        arguments.clear().value();
        arguments.add(transposed, Tag::input).value();
        arguments.add(x.tensor(bufabi::strided(DType::float32, {rows, half}, {columns, 1}, offset)).value(), Tag::input).value();
        arguments.add(g.tensor(bufabi::strided(DType::float32, {columns, half}, {columns, 1}, offset)).value(),
                      Tag::output_existing).value();
        orchestrator.submit(orchestrator.find(chips[side]).value(), matmul, arguments).value();
    }
    // It reads what both have written, and waits for them.
    arguments.clear().value();
    arguments.add(g.row_major(DType::float32, {columns, columns}).value(), Tag::input).value();
    arguments.add(sums.row_major(DType::float32, {columns}).value(), Tag::output_existing).value();
    orchestrator.submit(orchestrator.find("sub0").value(), sum_rows, arguments).value();

    for (int task = 0; task < 3; ++task) {
        const auto finished = orchestrator.wait(30s).value();
        std::printf("task %llu: %s, %llu bytes copied, %u hops\n", static_cast<unsigned long long>(finished.task),
                    finished.status == BUFABI_STATUS_OK ? "done" : finished.text,
                    static_cast<unsigned long long>(finished.bytes_copied), finished.hops);
        if (finished.status != BUFABI_STATUS_OK) return 1;
    }

    const bool same = equal(g, read_npy(folder + "/digits-gram.npy", columns * columns)) &&
                      equal(sums, read_npy(folder + "/digits-gram-rowsums.npy", columns));
    // What looks at nothing could go by itself; a runtime that goes on tells its workers.
    for (auto *buffer : {&x, &g, &sums}) {
        const auto identity = buffer->descriptor().value().identity;
        buffer->release().value();
        if (orchestrator.release_imports(identity, 5s).value() != 0) return 1;
    }
    std::printf("%s\n", same ? "the bits are those expected" : "the results differ");
    return same ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
    try {
        return gram(argc > 1 ? argv[1] : "examples");
    } catch (const bufabi::Error &error) {
        std::fprintf(stderr, "%s (%s, fault of the %s)\n", error.what(), error.name(), error.fault());
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
    }
    return 2;
}
