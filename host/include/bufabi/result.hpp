// What all of bufabi for C++ stands on: enumerations, views of memory, results, and handles that release themselves.
#ifndef BUFABI_RESULT_HPP
#define BUFABI_RESULT_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "bufabi.h"

namespace bufabi {

using Descriptor = bufabi_descriptor_t;
using DescriptorFields = bufabi_descriptor_fields_t;
using Edge = bufabi_edge_t;
using Identity = bufabi_identity_t;
using Tensor = bufabi_tensor_t;
using View = bufabi_view_t;

enum class Access : std::int32_t { read = 0, write = 1, read_write = 2 };
enum class Tag : std::int32_t { input = 0, output = 1, inout = 2, output_existing = 3, no_dep = 4 };
enum class DType : std::int32_t {
    float32 = 0, float16 = 1, int32 = 2, int16 = 3, int8 = 4, uint8 = 5, bfloat16 = 6, int64 = 7, uint64 = 8,
    uint16 = 9, uint32 = 10, boolean = 11, fp8e4m3fn = 12, fp8e8m0 = 13, fp4e2m1 = 14,
};
enum class Relation : std::int32_t {
    disjoint = BUFABI_RELATION_DISJOINT,
    overlapping = BUFABI_RELATION_OVERLAPPING,
    covering = BUFABI_RELATION_COVERING,
    may_overlap = BUFABI_RELATION_MAY_OVERLAP,
};
enum class Policy : std::int32_t { full = BUFABI_POLICY_FULL, producers = BUFABI_POLICY_PRODUCERS };
enum class Admission : std::int32_t { listed = BUFABI_ADMISSION_LISTED, anyone = BUFABI_ADMISSION_ANYONE };
enum class Sharing : std::int32_t { shared = BUFABI_SHARING_SHARED, copied = BUFABI_SHARING_COPIED };
enum class WorkerKind : std::int32_t {
    chip = BUFABI_WORKER_CHIP,
    sub = BUFABI_WORKER_SUB,
    host = BUFABI_WORKER_HOST,
    staged_chip = BUFABI_WORKER_STAGED_CHIP,
    qemu_chip = BUFABI_WORKER_QEMU_CHIP,
};
enum class Resolution : std::int32_t {
    mapped_now = BUFABI_RESOLUTION_MAPPED_NOW,
    already_mapped = BUFABI_RESOLUTION_ALREADY_MAPPED,
    own = BUFABI_RESOLUTION_OWN,
    inherited = BUFABI_RESOLUTION_INHERITED,
};

/// Elements that lie in a row, and that belong to somebody else: what C++20 calls std::span.
template <typename T>
class Span {
  public:
    constexpr Span() noexcept = default;
    constexpr Span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <std::size_t N>
    constexpr Span(T (&array)[N]) noexcept : data_(array), size_(N) {}
    /// Of whatever has data() and size(): vectors, arrays, strings, other spans.
    template <typename Container,
              typename = std::enable_if_t<std::is_convertible_v<decltype(std::declval<Container &>().data()), T *>>>
    constexpr Span(Container &&container) noexcept : data_(container.data()), size_(container.size()) {}
    /// For arguments: the list lives as long as the call.
    template <typename U = T, typename = std::enable_if_t<std::is_const_v<U>>>
    constexpr Span(std::initializer_list<std::remove_const_t<U>> list) noexcept : size_(list.size()) {
        data_ = list.begin();
    }

    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t index) const noexcept { return data_[index]; }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

/// A status that is not 0, with the words of the call that it came from.
class Error : public std::runtime_error {
  public:
    Error(bufabi_status_t status, const std::string &text) : std::runtime_error(text), status_(status) {}
    bufabi_status_t status() const noexcept { return status_; }
    /// The rule's name, as the wire ABI spells it.
    const char *name() const noexcept { return bufabi_status_name(status_); }
    /// Whose fault it is.
    const char *fault() const noexcept { return bufabi_status_fault(status_); }

  private:
    bufabi_status_t status_;
};

namespace detail {

/// What the last refused call of this thread said.
inline std::string error_text() {
    std::size_t needed = 0;
    if (bufabi_error_text(nullptr, 0, &needed) != BUFABI_STATUS_OK || needed == 0) return {};
    std::string text(needed, '\0');
    if (bufabi_error_text(text.data(), text.size(), &needed) != BUFABI_STATUS_OK) return {};
    text.resize(std::strlen(text.c_str()));
    return text;
}

/// A time that C takes: no less than none.
inline std::uint64_t count(std::chrono::nanoseconds time) noexcept {
    return time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
}

[[noreturn]] inline void fail(bufabi_status_t status, const std::string &text) {
#if defined(__cpp_exceptions)
    throw Error(status, text);
#else
    (void)status;
    (void)text;
    std::abort();
#endif
}

/// A status and its words.
class Outcome {
  public:
    explicit Outcome(bufabi_status_t status) : status_(status) {
        if (status != BUFABI_STATUS_OK) text_ = error_text();
    }
    explicit operator bool() const noexcept { return status_ == BUFABI_STATUS_OK; }
    bufabi_status_t status() const noexcept { return status_; }
    /// The rule's name, "ok" for 0.
    const char *name() const noexcept { return bufabi_status_name(status_); }
    /// What was wrong, for a person; "" for 0.
    const std::string &text() const noexcept { return text_; }

  protected:
    void check() const {
        if (status_ != BUFABI_STATUS_OK) fail(status_, text_);
    }

  private:
    bufabi_status_t status_;
    std::string text_;
};

} // namespace detail

/// What a call answers: a value, or a status that says why there is none.
template <typename T>
class [[nodiscard]] Result : public detail::Outcome {
  public:
    Result(bufabi_status_t status, T value) : Outcome(status) {
        if (status == BUFABI_STATUS_OK) value_.emplace(std::move(value));
    }
    /// The value; throws an Error if there is none.
    T &value() & { return check(), *value_; }
    const T &value() const & { return check(), *value_; }
    T value() && { return check(), std::move(*value_); }

  private:
    std::optional<T> value_;
};

/// What a call without a value answers.
template <>
class [[nodiscard]] Result<void> : public detail::Outcome {
  public:
    explicit Result(bufabi_status_t status) : Outcome(status) {}
    /// Throws an Error if the status is not 0.
    void value() const { check(); }
};

/// A handle that releases itself. Of a moved-from one every call says handle_unknown.
template <typename Raw, bufabi_status_t (*release)(Raw)>
class Handle {
  public:
    Handle() noexcept = default;
    explicit Handle(Raw raw) noexcept : raw_(raw) {}
    Handle(Handle &&other) noexcept : raw_(std::exchange(other.raw_, Raw{0})) {}
    Handle &operator=(Handle &&other) noexcept {
        if (this != &other) {
            if (raw_.token != 0) release(raw_);
            raw_ = std::exchange(other.raw_, Raw{0});
        }
        return *this;
    }
    Handle(const Handle &) = delete;
    Handle &operator=(const Handle &) = delete;
    ~Handle() {
        if (raw_.token != 0) release(raw_);
    }
    /// For the functions of bufabi.h; it stays this object's.
    Raw raw() const noexcept { return raw_; }
    explicit operator bool() const noexcept { return raw_.token != 0; }

  protected:
    void disown() noexcept { raw_ = Raw{0}; }

  private:
    Raw raw_{0};
};

/// The library is of the kind that this header was written for.
inline bool is_compatible() noexcept {
    return bufabi_abi_version() >> 16 == BUFABI_ABI_VERSION >> 16 && bufabi_tensor_size() == sizeof(Tensor);
}

} // namespace bufabi

#endif // BUFABI_RESULT_HPP
