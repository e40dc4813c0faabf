// Regions, and the host's end of a message queue in one.
#ifndef BUFABI_QUEUE_HPP
#define BUFABI_QUEUE_HPP

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "memory.hpp"

namespace bufabi {

namespace detail {

/// A region whose use has not ended within a second stays until the process ends.
inline bufabi_status_t let_go_of_region(bufabi_region_t region) noexcept {
    return bufabi_region_release(region, 1000000000);
}

} // namespace detail

/// Two buffers over which a host and a running task talk.
class Region : public Handle<bufabi_region_t, detail::let_go_of_region> {
  public:
    using Handle::Handle;

    static Result<Region> create(const Endpoint &endpoint, std::uint64_t payload_bytes, std::uint64_t counter_bytes) {
        bufabi_region_t region{0};
        const auto status = bufabi_region_create(endpoint.raw(), payload_bytes, counter_bytes, &region);
        return {status, Region(region)};
    }

    /// Of device memory that others import by handle.
    static Result<Region> create_shareable(const Endpoint &endpoint, const Vmm &vmm, std::uint64_t payload_bytes,
                                           std::uint64_t counter_bytes, Admission admission) {
        bufabi_region_t region{0};
        const auto status = bufabi_region_create_shareable(endpoint.raw(), vmm.raw(), payload_bytes, counter_bytes,
                                                           static_cast<std::int32_t>(admission), &region);
        return {status, Region(region)};
    }

    /// One that somebody else made.
    static Result<Region> attach(const Consumer &consumer, const Descriptor &payload, const Descriptor &counter) {
        bufabi_region_t region{0};
        const auto status = bufabi_region_attach(consumer.raw(), &payload, &counter, &region);
        return {status, Region(region)};
    }

    /// Its payload's and its counters'.
    Result<std::pair<Descriptor, Descriptor>> descriptors() const {
        std::pair<Descriptor, Descriptor> parts{};
        const auto status = bufabi_region_descriptors(raw(), &parts.first, &parts.second);
        return {status, parts};
    }

    /// By which a task is told of it.
    Result<std::array<std::uint64_t, 6>> scalars() const {
        std::array<std::uint64_t, 6> scalars{};
        const auto status = bufabi_region_scalars(raw(), scalars.data());
        return {status, scalars};
    }

    /// Waits for what is under way on it, a queue included; refused, it stays for another try.
    Result<void> release(std::chrono::nanoseconds limit) {
        const auto status = bufabi_region_release(raw(), detail::count(limit));
        if (status == BUFABI_STATUS_OK) disown();
        return Result<void>(status);
    }
};

/// What came out of a queue.
struct Message {
    /// DATA 1 or ERROR 3.
    std::uint64_t opcode;
    std::vector<std::uint8_t> bytes;
};

/// The host's end of a queue.
class Queue : public Handle<bufabi_queue_t, bufabi_queue_detach> {
  public:
    using Handle::Handle;

    /// To a queue in a region whose counters are zero. The process `peer`, if it is not 0, is watched.
    static Result<Queue> attach(const Region &region, std::uint64_t depth, std::uint64_t input_arena_bytes,
                                std::uint64_t output_arena_bytes, std::int32_t peer = 0) {
        bufabi_queue_t queue{0};
        const auto status =
            bufabi_queue_attach(region.raw(), depth, input_arena_bytes, output_arena_bytes, peer, &queue);
        return {status, Queue(queue)};
    }

    /// Sends an input as soon as there is room.
    Result<void> enqueue(Span<const std::uint8_t> bytes, std::chrono::nanoseconds limit) const {
        return Result<void>(
            bufabi_queue_enqueue(raw(), BUFABI_QUEUE_DATA, bytes.data(), bytes.size(), detail::count(limit)));
    }

    Result<void> request_stop(std::chrono::nanoseconds limit) const {
        return Result<void>(bufabi_queue_request_stop(raw(), detail::count(limit)));
    }

    /// The next output, copied and released.
    Result<Message> dequeue(std::chrono::nanoseconds limit) const {
        bufabi_queue_message_t found{};
        Message message{};
        std::size_t nbytes = 0;
        auto status = bufabi_queue_peek(raw(), detail::count(limit), &found);
        if (status == BUFABI_STATUS_OK) {
            message.bytes.resize(static_cast<std::size_t>(found.nbytes));
            status = bufabi_queue_dequeue(raw(), message.bytes.data(), message.bytes.size(), 0, &message.opcode, &nbytes);
        }
        return {status, std::move(message)};
    }

    /// Gives up: the other side is told.
    Result<void> abort() const { return Result<void>(bufabi_queue_abort(raw())); }

    /// The reason for which the queue ended, if it did.
    Result<void> poison() const { return Result<void>(bufabi_queue_poison(raw())); }
};

} // namespace bufabi

#endif // BUFABI_QUEUE_HPP
