// The conversation as a kernel for a device's Linux: a shared library that links the firmware library.
#include "kernel.hpp"

#include <array>
#include <charconv>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "bufabi.h"

namespace {

// A record gets storage of exactly its size, so that a memory checker sees a read behind its end.
using Bytes = std::vector<unsigned char>;

std::string hex(const void *bytes, std::size_t len) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string text;
    text.reserve(2 * len);
    for (const unsigned char *at = static_cast<const unsigned char *>(bytes), *end = at + len; at != end; ++at) {
        text += digits[*at >> 4];
        text += digits[*at & 15];
    }
    return text;
}

template <typename Number>
Number number(std::string_view digits, int radix) {
    Number value{};
    std::from_chars(digits.data(), digits.data() + digits.size(), value, radix);
    return value;
}

Bytes unhex(std::string_view digits) {
    Bytes bytes;
    if (digits == "-") return bytes;
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
        bytes.push_back(number<unsigned char>(digits.substr(i, 2), 16));
    bytes.shrink_to_fit();
    return bytes;
}

// The library answers NULL with a status of its own; no bytes are an address too.
const void *address(const Bytes &bytes) {
    static constexpr unsigned char none{};
    return bytes.empty() ? &none : bytes.data();
}

std::string name(bufabi_status_t status) {
    return bufabi_status_name(status);
}

std::string bad_tensor(std::int32_t index, bufabi_status_t status) {
    return index < 0 ? name(status) : "tensor " + std::to_string(index) + ' ' + name(status);
}

std::string answer_blob(const Bytes &blob) {
    std::int32_t tensors = -1, scalars = -1;
    const auto status = bufabi_blob_check(address(blob), blob.size(), &tensors, &scalars);
    if (status != BUFABI_STATUS_OK) return bad_tensor(tensors, status);
    return "ok " + std::to_string(tensors) + ' ' + std::to_string(scalars);
}

std::string answer_chip(const Bytes &tensor, std::uint64_t base) {
    bufabi_chip_tensor_t chip_tensor;
    const auto status = bufabi_chip_tensor_from(address(tensor), tensor.size(), base, &chip_tensor);
    return status == BUFABI_STATUS_OK ? hex(&chip_tensor, sizeof chip_tensor) : name(status);
}

// The addresses of a device's backings are in their bodies; others do not resolve here.
bufabi_status_t resolve(void *resolved, const void *bytes, std::uint64_t *base) {
    bufabi_tensor_t tensor;
    std::memcpy(&tensor, bytes, sizeof tensor); // at any alignment
    constexpr std::uint8_t vmm_window = 2, device_malloc = 4;
    if (tensor.buffer.backend_kind != vmm_window && tensor.buffer.backend_kind != device_malloc)
        return BUFABI_STATUS_CAPABILITY;
    std::memcpy(base, tensor.buffer.body, sizeof *base);
    ++*static_cast<int *>(resolved);
    return BUFABI_STATUS_OK;
}

std::string answer_task(const Bytes &blob) {
    const auto task_args = std::make_unique<bufabi_chip_storage_task_args_t>();
    std::int32_t index = -1;
    int resolved = 0;
    const auto status =
        bufabi_blob_materialize(address(blob), blob.size(), resolve, &resolved, task_args.get(), &index);
    if (status != BUFABI_STATUS_OK) return bad_tensor(index, status);
    if (resolved != task_args->tensor_count) return "each backing is resolved once";
    std::string answer = "ok";
    for (std::int32_t i = 0; i < task_args->tensor_count; ++i)
        answer += ' ' + hex(&task_args->tensors[i], sizeof task_args->tensors[i]);
    for (std::int32_t i = 0; i < task_args->scalar_count; ++i)
        answer += ' ' + hex(&task_args->scalars[i], sizeof task_args->scalars[i]);
    return answer;
}

std::string answer_overlap(const Bytes &first, const Bytes &second) {
    std::array<bufabi_tensor_t, 2> pair;
    if (first.size() != sizeof pair[0] || second.size() != sizeof pair[1]) return "no tensor";
    std::memcpy(&pair[0], first.data(), sizeof pair[0]);
    std::memcpy(&pair[1], second.data(), sizeof pair[1]);
    std::int32_t relation = -1;
    const auto status = bufabi_tensor_relate(&pair[0], &pair[1], &relation);
    if (status != BUFABI_STATUS_OK) return name(status);
    switch (relation) {
    case BUFABI_RELATION_DISJOINT: return "0 0";
    case BUFABI_RELATION_OVERLAPPING: return "1 0";
    case BUFABI_RELATION_COVERING: return "1 1";
    default: return "not known";
    }
}

std::string answer_arguments() {
    std::array<std::int32_t, 2> counts{77, 78};
    Bytes record(256);
    alignas(64) std::array<unsigned char, 192> out{};
    const auto misaligned = reinterpret_cast<std::int32_t *>(reinterpret_cast<unsigned char *>(counts.data()) + 1);
    const std::array<bool, 12> right{
        bufabi_descriptor_check(nullptr, 88) == BUFABI_STATUS_NULL_POINTER,
        bufabi_descriptor_check(record.data(), 87) == BUFABI_STATUS_SIZE,
        bufabi_tensor_check(record.data(), SIZE_MAX) == BUFABI_STATUS_LENGTH,
        bufabi_blob_check(record.data(), 8, nullptr, &counts[1]) == BUFABI_STATUS_NULL_POINTER,
        bufabi_blob_check(record.data(), 8, misaligned, &counts[1]) == BUFABI_STATUS_MISALIGNED,
        bufabi_blob_check(record.data(), 8, &counts[0], &counts[0]) == BUFABI_STATUS_OVERLAPPING_ARGUMENTS,
        bufabi_chip_tensor_from(record.data(), 144, 0, out.data() + 8) == BUFABI_STATUS_MISALIGNED,
        bufabi_chip_tensor_from(out.data() + 48, 144, 0, out.data()) == BUFABI_STATUS_OVERLAPPING_ARGUMENTS,
        bufabi_blob_materialize(record.data(), 8, nullptr, nullptr, out.data(), counts.data()) ==
            BUFABI_STATUS_NULL_POINTER,
        counts[0] == 77 && counts[1] == 78,
        bufabi_abi_version() >> 16 == BUFABI_ABI_VERSION >> 16,
        bufabi_tensor_size() == sizeof(bufabi_tensor_t),
    };
    for (std::size_t i = 0; i < right.size(); ++i)
        if (!right[i]) return "wrong status of call " + std::to_string(i + 1);
    return "ok";
}

std::string answer(const std::string &request) {
    std::istringstream words(request);
    std::string what, first, second;
    words >> what >> first >> second;
    if (what == "arguments") return answer_arguments();
    if (what == "descriptor") {
        const Bytes bytes = unhex(first);
        return name(bufabi_descriptor_check(address(bytes), bytes.size()));
    }
    if (what == "tensor") {
        const Bytes bytes = unhex(first);
        return name(bufabi_tensor_check(address(bytes), bytes.size()));
    }
    if (what == "chip") return answer_chip(unhex(first), number<std::uint64_t>(second, 16));
    if (what == "overlap") return answer_overlap(unhex(first), unhex(second));
    Bytes blob = unhex(second);
    if (const auto readable = number<std::size_t>(first, 10); readable < blob.size()) {
        blob.resize(readable);
        blob.shrink_to_fit();
    }
    if (what == "blob") return answer_blob(blob);
    if (what == "task") return answer_task(blob);
    return "unknown request";
}

} // namespace

extern "C" void kernel_answer(const char *request, std::size_t len, kernel_write write, void *context) {
    const std::string text = answer(std::string(request, len));
    write(context, text.data(), text.size());
}
