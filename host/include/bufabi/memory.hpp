// Endpoints and their buffers, memory that workers inherit or that is shared by handle, and consumers.
#ifndef BUFABI_MEMORY_HPP
#define BUFABI_MEMORY_HPP

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "record.hpp"

namespace bufabi {

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

} // namespace bufabi

#endif // BUFABI_MEMORY_HPP
