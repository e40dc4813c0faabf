// bufabi for host runtimes in C++17: what bufabi.h has, with handles that release themselves, and views of memory.
//
// What can fail answers with a Result: `if (result)`, `result.status()` and `result.text()` for those who look, `result.value()` for those who
// like exceptions: it throws an Error. Without exceptions (-fno-exceptions) it aborts. Nothing else here throws, but for std::bad_alloc.
//
// An object may be used from several threads as bufabi.h says of its handle; moving from it or into it meanwhile is as with any other.
#ifndef BUFABI_HPP
#define BUFABI_HPP

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

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

/// They name one allocation; padding takes no part.
inline bool are_equal(const Identity &a, const Identity &b) noexcept {
    std::int32_t equal = 0;
    return bufabi_identity_equal(&a, &b, &equal) == BUFABI_STATUS_OK && equal != 0;
}

/// A dense row-major view.
inline Result<View> row_major(DType dtype, Span<const std::uint32_t> shape, std::uint64_t byte_offset = 0) {
    View view{};
    const auto ndims = shape.size() > 5 ? 6U : static_cast<std::uint32_t>(shape.size());
    const auto status =
        bufabi_view_row_major(byte_offset, static_cast<std::int32_t>(dtype), shape.data(), ndims, &view);
    return {status, view};
}

/// A view of these strides, in elements. Whether it is legal is seen where it is used.
inline View strided(DType dtype, Span<const std::uint32_t> shape, Span<const std::uint32_t> strides,
                    std::uint64_t byte_offset = 0) noexcept {
    View view{};
    view.byte_offset = byte_offset;
    view.dtype = static_cast<std::int32_t>(dtype);
    // Unlike numbers, or too many of them, are no rank.
    view.ndims = shape.size() == strides.size() && shape.size() <= 5 ? static_cast<std::uint32_t>(shape.size()) : 0;
    for (std::size_t dim = 0; dim < view.ndims; ++dim) {
        view.shapes[dim] = shape[dim];
        view.strides[dim] = strides[dim];
    }
    return view;
}

inline Result<Descriptor> encode(const DescriptorFields &fields) {
    Descriptor descriptor{};
    const auto status = bufabi_descriptor_encode(&fields, &descriptor);
    return {status, descriptor};
}

inline Result<DescriptorFields> decode(const Descriptor &descriptor) {
    DescriptorFields fields{};
    const auto status = bufabi_descriptor_decode(&descriptor, sizeof descriptor, &fields);
    return {status, fields};
}

inline Result<Tensor> encode(const Descriptor &descriptor, const View &view) {
    Tensor tensor{};
    const auto status = bufabi_tensor_encode(&descriptor, &view, &tensor);
    return {status, tensor};
}

inline Result<std::pair<Descriptor, View>> decode(const Tensor &tensor) {
    std::pair<Descriptor, View> parts{};
    const auto status = bufabi_tensor_decode(&tensor, sizeof tensor, &parts.first, &parts.second);
    return {status, parts};
}

/// What a blob holds.
struct BlobContents {
    std::vector<Tensor> tensors;
    std::vector<std::uint64_t> scalars;
};

inline Result<std::vector<std::uint8_t>> encode(Span<const Tensor> tensors, Span<const std::uint64_t> scalars) {
    std::size_t nbytes = 0;
    auto status = bufabi_blob_size(tensors.size(), scalars.size(), &nbytes);
    std::vector<std::uint8_t> blob(nbytes);
    if (status == BUFABI_STATUS_OK) {
        status = bufabi_blob_encode(tensors.data(), tensors.size(), scalars.data(), scalars.size(), blob.data(),
                                    blob.size(), &nbytes);
    }
    return {status, std::move(blob)};
}

inline Result<BlobContents> decode_blob(Span<const std::uint8_t> bytes) {
    BlobContents contents;
    std::int32_t tensor_count = 0, scalar_count = 0;
    auto status = bufabi_blob_check(bytes.data(), bytes.size(), &tensor_count, &scalar_count);
    if (status == BUFABI_STATUS_OK) {
        contents.tensors.resize(static_cast<std::size_t>(tensor_count));
        contents.scalars.resize(static_cast<std::size_t>(scalar_count));
        std::size_t tensors = 0, scalars = 0;
        status = bufabi_blob_decode(bytes.data(), bytes.size(), contents.tensors.data(), contents.tensors.size(),
                                    contents.scalars.data(), contents.scalars.size(), &tensors, &scalars);
    }
    return {status, std::move(contents)};
}

inline Result<void> check_rights(Access access, Tag tag) {
    return Result<void>(bufabi_rights_check(static_cast<std::int32_t>(access), static_cast<std::int32_t>(tag)));
}

/// How the bytes of the second tensor lie to those of the first.
inline Result<Relation> relate(const Tensor &first, const Tensor &second) {
    std::int32_t relation = 0;
    const auto status = bufabi_tensor_relate(&first, &second, &relation);
    return {status, static_cast<Relation>(relation)};
}

/// A use of memory that this process has mapped.
class Mapping : public Handle<bufabi_mapping_t, bufabi_mapping_release> {
  public:
    using Handle::Handle;

    /// All of it as elements of T, or of const T: then it may be read. Others may write it at any moment, but for cooperating tasks,
    /// which keep to the edges between them.
    template <typename T>
    Result<Span<T>> elements() const {
        static_assert(std::is_trivially_copyable_v<T>, "its bytes are all there is to an element");
        void *address = nullptr;
        std::size_t nbytes = 0;
        std::int32_t access = 0;
        auto status = bufabi_mapping_address(raw(), &address, &nbytes, &access);
        if (status == BUFABI_STATUS_OK)
            status = bufabi_rights_check(access, static_cast<std::int32_t>(std::is_const_v<T> ? Tag::input : Tag::output));
        return {status, Span<T>(static_cast<T *>(address), nbytes / sizeof(T))};
    }

    Result<void> read(std::size_t offset, Span<std::uint8_t> out) const {
        return Result<void>(bufabi_mapping_read(raw(), offset, out.data(), out.size()));
    }

    Result<void> write(std::size_t offset, Span<const std::uint8_t> bytes) const {
        return Result<void>(bufabi_mapping_write(raw(), offset, bytes.data(), bytes.size()));
    }
};

/// A buffer that an endpoint made or wraps. Destroyed without a release, it is let go of as far as can be.
class Buffer : public Handle<bufabi_buffer_t, bufabi_buffer_abandon> {
  public:
    using Handle::Handle;

    Result<Descriptor> descriptor() const {
        Descriptor descriptor{};
        const auto status = bufabi_buffer_descriptor(raw(), &descriptor);
        return {status, descriptor};
    }

    Result<Tensor> tensor(const View &view) const {
        Tensor tensor{};
        const auto status = bufabi_buffer_tensor(raw(), &view, &tensor);
        return {status, tensor};
    }

    Result<Tensor> row_major(DType dtype, Span<const std::uint32_t> shape, std::uint64_t byte_offset = 0) const {
        const auto view = bufabi::row_major(dtype, shape, byte_offset);
        return view ? tensor(view.value()) : Result<Tensor>(view.status(), {});
    }

    /// The owner's own mapping.
    Result<Mapping> map() const {
        bufabi_mapping_t mapping{0};
        const auto status = bufabi_buffer_map(raw(), &mapping);
        return {status, Mapping(mapping)};
    }

    /// Refused while tasks or mappings hold it; then this object is as it was.
    Result<void> release() {
        const auto status = bufabi_buffer_release(raw());
        if (status == BUFABI_STATUS_OK) disown();
        return Result<void>(status);
    }

    /// Waits for the tasks that hold it.
    Result<void> release_when_idle(std::chrono::nanoseconds limit) {
        const auto status = bufabi_buffer_release_when_idle(raw(), detail::count(limit));
        if (status == BUFABI_STATUS_OK) disown();
        return Result<void>(status);
    }
};

/// What an unfinished task holds of an endpoint.
class Hold : public Handle<bufabi_hold_t, bufabi_hold_release> {
  public:
    using Handle::Handle;
};

class Inherited;
class Vmm;

/// An endpoint incarnation of this process.
class Endpoint : public Handle<bufabi_endpoint_t, bufabi_endpoint_release> {
  public:
    using Handle::Handle;

    /// 0 stands for 65,536 buffers alive at once.
    static Result<Endpoint> create(std::uint32_t capacity = 0) {
        bufabi_endpoint_t endpoint{0};
        const auto status = bufabi_endpoint_create(capacity, &endpoint);
        return {status, Endpoint(endpoint)};
    }

    Result<std::array<std::uint8_t, 8>> owner_instance_id() const {
        std::array<std::uint8_t, 8> id{};
        const auto status = bufabi_endpoint_owner_instance_id(raw(), id.data());
        return {status, id};
    }

    /// Buffers that are alive.
    Result<std::uint32_t> live() const {
        std::uint32_t live = 0;
        const auto status = bufabi_endpoint_live(raw(), &live);
        return {status, live};
    }

    /// A buffer of POSIX shared memory, zero.
    Result<Buffer> create_buffer(std::uint64_t nbytes, Access access = Access::read_write) const {
        bufabi_buffer_t buffer{0};
        const auto status = bufabi_buffer_create(raw(), nbytes, static_cast<std::int32_t>(access), &buffer);
        return {status, Buffer(buffer)};
    }

    /// A buffer of shared device memory, zero.
    Result<Buffer> create_shareable(const Vmm &vmm, std::uint64_t nbytes, Access access, Admission admission) const;

    /// A name for device memory that somebody else shares.
    Result<Buffer> wrap_vmm_shareable(const Descriptor &descriptor) const {
        bufabi_buffer_t buffer{0};
        const auto status = bufabi_buffer_wrap_vmm_shareable(raw(), &descriptor, &buffer);
        return {status, Buffer(buffer)};
    }

    /// A name for a part of memory that workers inherit.
    Result<Buffer> wrap_fork_inherited(const Inherited &memory, std::uint64_t offset, std::uint64_t nbytes,
                                       Access access) const;

    /// A name for memory of this endpoint's chip.
    Result<Buffer> wrap_device_malloc(std::uint64_t base, std::uint64_t nbytes, Access access) const {
        bufabi_buffer_t buffer{0};
        const auto status =
            bufabi_buffer_wrap_device_malloc(raw(), base, nbytes, static_cast<std::int32_t>(access), &buffer);
        return {status, Buffer(buffer)};
    }

    /// A name for a part of a window of this endpoint's chip.
    Result<Buffer> wrap_vmm_window(std::uint64_t base, std::uint64_t nbytes, Access access) const {
        bufabi_buffer_t buffer{0};
        const auto status =
            bufabi_buffer_wrap_vmm_window(raw(), base, nbytes, static_cast<std::int32_t>(access), &buffer);
        return {status, Buffer(buffer)};
    }

    /// For a task that this program runs by itself.
    Result<Hold> hold(Span<const Tensor> tensors) const {
        std::size_t index = 0;
        bufabi_hold_t hold{0};
        const auto status = bufabi_endpoint_hold(raw(), tensors.data(), tensors.size(), &index, &hold);
        return {status, Hold(hold)};
    }
};

/// The driver of an endpoint's shared device memory.
class Vmm : public Handle<bufabi_vmm_t, bufabi_vmm_release> {
  public:
    using Handle::Handle;

    static Result<Vmm> create(const Endpoint &endpoint, std::int32_t device_id = 0,
                              std::chrono::nanoseconds patience = std::chrono::nanoseconds::zero()) {
        bufabi_vmm_t vmm{0};
        const auto status = bufabi_vmm_create(endpoint.raw(), device_id, detail::count(patience), &vmm);
        return {status, Vmm(vmm)};
    }

    /// Serves importers from a thread of its own: not before workers were started.
    Result<void> serve() const { return Result<void>(bufabi_vmm_serve(raw())); }

    Result<std::int32_t> peer_number() const {
        std::int32_t peer = 0;
        const auto status = bufabi_vmm_peer_number(raw(), &peer);
        return {status, peer};
    }

    Result<void> permit(const Descriptor &descriptor, Span<const std::int32_t> peers) const {
        return Result<void>(bufabi_vmm_permit(raw(), &descriptor, peers.data(), peers.size()));
    }
};

inline Result<Buffer> Endpoint::create_shareable(const Vmm &vmm, std::uint64_t nbytes, Access access,
                                                 Admission admission) const {
    bufabi_buffer_t buffer{0};
    const auto status = bufabi_buffer_create_shareable(raw(), vmm.raw(), nbytes, static_cast<std::int32_t>(access),
                                                       static_cast<std::int32_t>(admission), &buffer);
    return {status, Buffer(buffer)};
}

/// A heap that workers inherit.
class Heap : public Handle<bufabi_heap_t, bufabi_heap_release> {
  public:
    using Handle::Handle;

    static Result<Heap> create(const Endpoint &endpoint, std::uint64_t nbytes) {
        bufabi_heap_t heap{0};
        const auto status = bufabi_heap_create(endpoint.raw(), nbytes, &heap);
        return {status, Heap(heap)};
    }

    Result<Buffer> create_buffer(std::uint64_t nbytes, Access access = Access::read_write) const {
        bufabi_buffer_t buffer{0};
        const auto status = bufabi_heap_create_buffer(raw(), nbytes, static_cast<std::int32_t>(access), &buffer);
        return {status, Buffer(buffer)};
    }

    /// For a dense tensor of that shape.
    Result<Buffer> alloc_shared(DType dtype, Span<const std::uint32_t> shape) const {
        bufabi_buffer_t buffer{0};
        const auto view = row_major(dtype, shape);
        auto status = view.status();
        if (view) status = bufabi_heap_alloc_shared(raw(), &view.value(), &buffer);
        return {status, Buffer(buffer)};
    }

    /// Slabs that are not free.
    Result<std::size_t> live() const {
        std::size_t live = 0;
        std::uint64_t largest = 0;
        const auto status = bufabi_heap_count(raw(), &live, &largest);
        return {status, live};
    }
};

/// Memory that workers inherit.
class Inherited : public Handle<bufabi_inherited_t, bufabi_inherited_release> {
  public:
    using Handle::Handle;

    static Result<Inherited> create(const Endpoint &endpoint, std::uint64_t nbytes, Sharing sharing) {
        bufabi_inherited_t inherited{0};
        const auto status =
            bufabi_inherited_create(endpoint.raw(), nbytes, static_cast<std::int32_t>(sharing), &inherited);
        return {status, Inherited(inherited)};
    }

    /// Of memory that is there already, and outlives this object and every buffer that names a part of it.
    static Result<Inherited> from(const Endpoint &endpoint, void *memory, std::size_t nbytes, Sharing sharing) {
        bufabi_inherited_t inherited{0};
        const auto status =
            bufabi_inherited_from(endpoint.raw(), memory, nbytes, static_cast<std::int32_t>(sharing), &inherited);
        return {status, Inherited(inherited)};
    }

    Result<Mapping> map() const {
        bufabi_mapping_t mapping{0};
        const auto status = bufabi_inherited_map(raw(), &mapping);
        return {status, Mapping(mapping)};
    }
};

inline Result<Buffer> Endpoint::wrap_fork_inherited(const Inherited &memory, std::uint64_t offset,
                                                    std::uint64_t nbytes, Access access) const {
    bufabi_buffer_t buffer{0};
    const auto status = bufabi_buffer_wrap_fork_inherited(raw(), memory.raw(), offset, nbytes,
                                                          static_cast<std::int32_t>(access), &buffer);
    return {status, Buffer(buffer)};
}

/// What an import came to.
struct Imported {
    Mapping mapping;
    Resolution resolution;
};

/// Maps each identity once.
class Consumer : public Handle<bufabi_consumer_t, bufabi_consumer_release> {
  public:
    using Handle::Handle;

    /// Of POSIX shared memory; identities of `endpoint` resolve to its own mappings, shared device memory through `vmm`.
    static Result<Consumer> create(const Endpoint *endpoint = nullptr, const Vmm *vmm = nullptr,
                                   std::uint32_t capacity = 0) {
        bufabi_consumer_t consumer{0};
        const auto status =
            bufabi_consumer_create(endpoint ? endpoint->raw() : bufabi_endpoint_t{0}, vmm ? vmm->raw() : bufabi_vmm_t{0},
                                   capacity, &consumer);
        return {status, Consumer(consumer)};
    }

    Result<Imported> import(const Descriptor &descriptor) const {
        bufabi_mapping_t mapping{0};
        std::int32_t resolution = 0;
        const auto status = bufabi_consumer_import(raw(), &descriptor, &resolution, &mapping);
        return {status, Imported{Mapping(mapping), static_cast<Resolution>(resolution)}};
    }

    /// Drops what was mapped for an identity.
    Result<void> forget(const Identity &identity) const {
        return Result<void>(bufabi_consumer_forget(raw(), &identity));
    }

    Result<std::uint32_t> evict_unused() const {
        std::uint32_t evicted = 0;
        const auto status = bufabi_consumer_evict_unused(raw(), &evicted);
        return {status, evicted};
    }

    Result<void> close() const {
        std::uint32_t kept = 0;
        return Result<void>(bufabi_consumer_close(raw(), &kept));
    }

    Result<bufabi_consumer_counters_t> counters() const {
        bufabi_consumer_counters_t counters{};
        const auto status = bufabi_consumer_counters(raw(), &counters);
        return {status, counters};
    }
};

/// A task's arguments: tensors with tags, then scalars.
class TaskArgs : public Handle<bufabi_task_args_t, bufabi_task_args_release> {
  public:
    using Handle::Handle;

    static Result<TaskArgs> create() {
        bufabi_task_args_t arguments{0};
        const auto status = bufabi_task_args_create(&arguments);
        return {status, TaskArgs(arguments)};
    }

    Result<void> add(const Tensor &tensor, Tag tag) const {
        std::uint32_t index = 0;
        return Result<void>(bufabi_task_args_add_tensor(raw(), &tensor, static_cast<std::int32_t>(tag), &index));
    }

    Result<void> add(std::uint64_t scalar) const {
        std::uint32_t index = 0;
        return Result<void>(bufabi_task_args_add_scalar(raw(), scalar, &index));
    }

    Result<void> set_tag(std::uint32_t index, Tag tag) const {
        return Result<void>(bufabi_task_args_set_tag(raw(), index, static_cast<std::int32_t>(tag)));
    }

    Result<void> clear() const { return Result<void>(bufabi_task_args_clear(raw())); }

    /// As a submit does.
    Result<void> check() const {
        bufabi_argument_fault_t fault{};
        return Result<void>(bufabi_task_args_check(raw(), &fault));
    }

    /// Their blob, if they pass the check.
    Result<std::vector<std::uint8_t>> encode() const {
        std::size_t tensors = 0, scalars = 0, nbytes = 0;
        std::vector<std::uint8_t> blob;
        auto status = bufabi_task_args_count(raw(), &tensors, &scalars);
        if (status == BUFABI_STATUS_OK) status = bufabi_blob_size(tensors, scalars, &nbytes);
        if (status == BUFABI_STATUS_OK) {
            blob.resize(nbytes);
            status = bufabi_task_args_encode(raw(), blob.data(), blob.size(), &nbytes);
        }
        return {status, std::move(blob)};
    }
};

/// A task that a tracker has taken.
struct Submitted {
    bufabi_task_state_t state;
    std::vector<Edge> edges;
};

/// Which tasks must wait for which.
class Tracker : public Handle<bufabi_tracker_t, bufabi_tracker_release> {
  public:
    using Handle::Handle;

    static Result<Tracker> create(const bufabi_tracker_capacities_t &capacities, Policy policy = Policy::full) {
        bufabi_tracker_t tracker{0};
        const auto status = bufabi_tracker_create(&capacities, static_cast<std::int32_t>(policy), &tracker);
        return {status, Tracker(tracker)};
    }

    /// For so many tasks that are not finished, at once.
    static Result<Tracker> create(std::uint32_t tasks, Policy policy = Policy::full) {
        bufabi_tracker_capacities_t capacities{};
        capacities.tasks = tasks;
        return create(capacities, policy);
    }

    /// The next task of the sequence.
    Result<Submitted> submit(std::uint64_t task, const TaskArgs &arguments) const {
        const bufabi_task_args_t member = arguments.raw();
        return submit_group(task, Span<const bufabi_task_args_t>(&member, 1));
    }

    /// The same for a group, whose members are one task.
    Result<Submitted> submit_group(std::uint64_t task, Span<const bufabi_task_args_t> members) const {
        Submitted submitted{};
        // Edges are fewer than the usual capacity, nearly always by far.
        submitted.edges.resize(edge_capacity);
        std::size_t count = 0;
        const auto status = bufabi_tracker_submit(raw(), task, members.data(), members.size(), submitted.edges.data(),
                                                  submitted.edges.size(), &count, &submitted.state);
        submitted.edges.resize(count < edge_capacity ? count : edge_capacity);
        return {status, std::move(submitted)};
    }

    /// Those that wait for none any more.
    Result<std::vector<bufabi_task_state_t>> finish(bufabi_tracked_task_t task) const {
        std::vector<bufabi_task_state_t> ready(task_count());
        std::size_t count = 0;
        const auto status = bufabi_tracker_finish(raw(), task, ready.data(), ready.size(), &count);
        ready.resize(count < ready.size() ? count : ready.size());
        return {status, std::move(ready)};
    }

    /// Those that are poisoned by it.
    Result<std::vector<bufabi_task_state_t>> fail(bufabi_tracked_task_t task, std::uint64_t reason) const {
        std::vector<bufabi_task_state_t> poisoned(task_count());
        std::size_t count = 0;
        const auto status = bufabi_tracker_fail(raw(), task, reason, poisoned.data(), poisoned.size(), &count);
        poisoned.resize(count < poisoned.size() ? count : poisoned.size());
        return {status, std::move(poisoned)};
    }

    Result<bufabi_task_state_t> state(bufabi_tracked_task_t task) const {
        bufabi_task_state_t state{};
        const auto status = bufabi_tracker_state(raw(), task, &state);
        return {status, state};
    }

    Result<void> forget(const Identity &identity) const {
        return Result<void>(bufabi_tracker_forget(raw(), &identity));
    }

  private:
    static constexpr std::size_t edge_capacity = 1024;

    /// No more than these can be ready or poisoned at once.
    std::size_t task_count() const noexcept {
        std::uint32_t tasks = 0;
        std::uint64_t inexact = 0;
        return bufabi_tracker_count(raw(), &tasks, &inexact) == BUFABI_STATUS_OK ? tasks : 0;
    }
};

/// A worker to be started; `parent` is the place of the host worker that it is below.
inline bufabi_worker_t worker(std::string_view name, WorkerKind kind, std::int32_t parent = -1) noexcept {
    bufabi_worker_t worker{};
    // One that does not fit stays without its end, and is refused.
    std::memcpy(worker.name, name.data(), name.size() < sizeof worker.name ? name.size() : sizeof worker.name);
    worker.kind = static_cast<std::int32_t>(kind);
    worker.parent = parent;
    return worker;
}

/// One argument of a kernel.
class Operand : public bufabi_operand_t {
  public:
    /// The first element, if the operand has that size of elements, and grants writing unless they are const; else nullptr.
    template <typename T>
    T *elements() const noexcept {
        std::uint32_t size = 0;
        const auto tag = std::is_const_v<T> ? Tag::input : Tag::output;
        const bool fits = bufabi_dtype_size(view.dtype, &size) == BUFABI_STATUS_OK && size == sizeof(T) &&
                          bufabi_rights_check(access, static_cast<std::int32_t>(tag)) == BUFABI_STATUS_OK;
        return fits ? static_cast<T *>(data) : nullptr;
    }
    Span<const std::uint32_t> shape() const noexcept { return {view.shapes, view.ndims}; }
    /// In elements.
    Span<const std::uint32_t> strides() const noexcept { return {view.strides, view.ndims}; }
};
static_assert(sizeof(Operand) == sizeof(bufabi_operand_t), "an array of one is an array of the other");

/// Runs a kernel, in a worker's process: 0, or a status or any other number that says why not. What it throws fails the task.
using Kernels =
    std::function<bufabi_status_t(std::uint32_t kernel, Span<const Operand> operands, Span<const std::uint64_t> scalars)>;

namespace detail {

inline bufabi_status_t run_kernel(void *context, std::uint32_t kernel, const bufabi_operand_t *operands,
                                  std::size_t operand_count, const std::uint64_t *scalars, std::size_t scalar_count) {
#if defined(__cpp_exceptions)
    try {
#endif
        return (*static_cast<const Kernels *>(context))(kernel, {static_cast<const Operand *>(operands), operand_count},
                                                        {scalars, scalar_count});
#if defined(__cpp_exceptions)
    } catch (const Error &error) {
        return error.status();
    } catch (...) {
        return BUFABI_STATUS_KERNEL_FAILED;
    }
#endif
}

} // namespace detail

/// The number of this library's kernel of that name.
inline Result<std::uint32_t> kernel_number(std::string_view name, bool accumulate = false) {
    std::uint32_t kernel = 0;
    const auto status = bufabi_kernel_number(name.data(), name.size(), accumulate, &kernel);
    return {status, kernel};
}

/// Memory of a chip: a name, which frees nothing by itself.
struct DeviceMemory {
    std::uint32_t worker;
    Descriptor descriptor;

    Result<Tensor> tensor(const View &view) const { return encode(descriptor, view); }
    Result<Tensor> row_major(DType dtype, Span<const std::uint32_t> shape, std::uint64_t byte_offset = 0) const {
        const auto view = bufabi::row_major(dtype, shape, byte_offset);
        return view ? tensor(view.value()) : Result<Tensor>(view.status(), {});
    }
};

/// Windows of several chips, with buffers at the same places. It is freed by its orchestrator.
struct Domain {
    bufabi_domain_t handle;
    /// Chip by chip, each in the order of the parts.
    std::vector<Descriptor> descriptors;
};

/// Worker processes, and the tasks that run on them.
class Orchestrator : public Handle<bufabi_orchestrator_t, bufabi_orchestrator_release> {
  public:
    using Handle::Handle;

    /// Starts the workers, while this process has one thread. Without kernels they run those of this library.
    static Result<Orchestrator> create(const Endpoint &endpoint, Span<const bufabi_worker_t> workers,
                                       const Kernels &kernels = {}) {
        bufabi_orchestrator_t orchestrator{0};
        // Each worker has a copy of all, the kernels too.
        auto *context = const_cast<void *>(static_cast<const void *>(&kernels));
        const auto status = bufabi_orchestrator_create(endpoint.raw(), workers.data(), workers.size(),
                                                       kernels ? detail::run_kernel : nullptr, context, UINT64_MAX,
                                                       &orchestrator);
        return {status, Orchestrator(orchestrator)};
    }

    /// The worker of that path, as "l3/chip1".
    Result<std::uint32_t> find(std::string_view path) const {
        std::uint32_t worker = 0;
        const auto status = bufabi_orchestrator_find(raw(), path.data(), path.size(), &worker);
        return {status, worker};
    }

    Result<std::int32_t> pid(std::uint32_t worker) const {
        std::int32_t pid = 0;
        const auto status = bufabi_orchestrator_pid(raw(), worker, &pid);
        return {status, pid};
    }

    /// The next task of the sequence; its place in the order of all.
    Result<std::uint64_t> submit(std::uint32_t worker, std::uint32_t kernel, const TaskArgs &arguments) const {
        const bufabi_member_t member{arguments.raw(), worker, kernel};
        return submit_group({&member, 1});
    }

    /// The same for a group, whose members are one task.
    Result<std::uint64_t> submit_group(Span<const bufabi_member_t> members) const {
        std::uint64_t task = 0;
        const auto status = bufabi_orchestrator_submit(raw(), members.data(), members.size(), &task);
        return {status, task};
    }

    /// The next task that is over. That it failed is in its status.
    Result<bufabi_finished_t> wait(std::chrono::nanoseconds limit) const {
        bufabi_finished_t finished{};
        const auto status = bufabi_orchestrator_wait(raw(), detail::count(limit), &finished);
        return {status, finished};
    }

    /// Waits for all tasks of the run, and forgets what failed: the status of the first failure, or 0.
    Result<bufabi_status_t> end_run(std::chrono::nanoseconds limit) const {
        bufabi_status_t failure = 0;
        const auto status = bufabi_orchestrator_end_run(raw(), detail::count(limit), &failure);
        return {status, failure};
    }

    /// Has every worker drop what it mapped of an identity that was released; how many may still have it.
    Result<std::size_t> release_imports(const Identity &identity, std::chrono::nanoseconds limit) const {
        std::size_t kept = 0;
        const auto status = bufabi_orchestrator_release_imports(raw(), &identity, detail::count(limit), nullptr, 0, &kept);
        return {status, kept};
    }

    /// Memory of a chip; its content is whatever lies there.
    Result<DeviceMemory> malloc(std::uint32_t worker, std::uint64_t nbytes, Access access,
                                std::chrono::nanoseconds limit) const {
        DeviceMemory memory{worker, {}};
        const auto status = bufabi_device_malloc(raw(), worker, nbytes, static_cast<std::int32_t>(access),
                                                 detail::count(limit), &memory.descriptor);
        return {status, memory};
    }

    /// Memory of a chip, zero, that others import by handle.
    Result<DeviceMemory> create_shareable(std::uint32_t worker, std::uint64_t nbytes, Access access,
                                          Admission admission, std::chrono::nanoseconds limit) const {
        DeviceMemory memory{worker, {}};
        const auto status =
            bufabi_device_create_shareable(raw(), worker, nbytes, static_cast<std::int32_t>(access),
                                           static_cast<std::int32_t>(admission), detail::count(limit), &memory.descriptor);
        return {status, memory};
    }

    /// Lets workers import it.
    Result<void> permit(const DeviceMemory &memory, Span<const std::uint32_t> leaves,
                        std::chrono::nanoseconds limit) const {
        return Result<void>(bufabi_device_permit(raw(), memory.worker, &memory.descriptor, leaves.data(), leaves.size(),
                                                 detail::count(limit)));
    }

    /// Frees it; how many workers may still have it mapped.
    Result<std::size_t> free(const DeviceMemory &memory, std::chrono::nanoseconds limit) const {
        std::size_t kept = 0;
        const auto status = bufabi_device_free(raw(), memory.worker, &memory.descriptor.identity, detail::count(limit), &kept);
        return {status, kept};
    }

    Result<void> copy_to(const DeviceMemory &memory, std::uint64_t offset, Span<const std::uint8_t> bytes,
                         std::chrono::nanoseconds limit) const {
        return Result<void>(bufabi_device_copy_to(raw(), memory.worker, &memory.descriptor.identity, offset, bytes.data(),
                                                  bytes.size(), detail::count(limit)));
    }

    Result<void> copy_from(const DeviceMemory &memory, std::uint64_t offset, Span<std::uint8_t> out,
                           std::chrono::nanoseconds limit) const {
        return Result<void>(bufabi_device_copy_from(raw(), memory.worker, &memory.descriptor.identity, offset, out.data(),
                                                    out.size(), detail::count(limit)));
    }

    /// Windows of several chips.
    Result<Domain> create_domain(Span<const std::uint32_t> chips, Span<const bufabi_window_part_t> parts,
                                 std::chrono::nanoseconds limit) const {
        Domain domain{{0}, std::vector<Descriptor>(chips.size() * parts.size())};
        const auto status =
            bufabi_domain_create(raw(), chips.data(), chips.size(), parts.data(), parts.size(), detail::count(limit),
                                 domain.descriptors.data(), domain.descriptors.size(), &domain.handle);
        return {status, std::move(domain)};
    }

    Result<void> free_domain(const Domain &domain, std::chrono::nanoseconds limit) const {
        return Result<void>(bufabi_domain_free(raw(), domain.handle, detail::count(limit)));
    }
};

} // namespace bufabi

#endif // BUFABI_HPP
