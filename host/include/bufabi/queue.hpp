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

enum class MessageKind : std::int32_t { data = BUFABI_QUEUE_DATA, error = BUFABI_QUEUE_ERROR };

/// What came out of a queue.
struct Message {
    /// DATA 1 or ERROR 3.
    std::uint64_t opcode;
    std::vector<std::uint8_t> bytes;
};

/// An output in its place, until it is released.
using QueueMessage = bufabi_queue_message_t;
/// Room for an input in its place, until it is committed or cancelled.
using QueueReservation = bufabi_queue_reservation_t;

/// The bytes of an output where they lie; none when they are not mapped here. The task can still write there, if it breaks the protocol:
/// what something depends on is copied by `Queue::read` first.
inline Span<const std::uint8_t> mapped(const QueueMessage &message) noexcept {
    if (message.address == 0) return {};
    return {reinterpret_cast<const std::uint8_t *>(static_cast<std::uintptr_t>(message.address)),
            static_cast<std::size_t>(message.nbytes)};
}

/// Where the bytes of an input go; none when they are not mapped here.
inline Span<std::uint8_t> mapped(const QueueReservation &reservation) noexcept {
    if (reservation.address == 0) return {};
    return {reinterpret_cast<std::uint8_t *>(static_cast<std::uintptr_t>(reservation.address)),
            static_cast<std::size_t>(reservation.nbytes)};
}

/// The host's end of a queue. Threads may share it: a call that waits lets the others through.
class Queue : public Handle<bufabi_queue_t, bufabi_queue_detach> {
  public:
    using Handle::Handle;

    /// The bytes that a region needs for a queue: its payload's and its counters'. `depth` is a power of two, arenas are multiples of 64.
    static Result<std::pair<std::uint64_t, std::uint64_t>> bytes(std::uint64_t depth, std::uint64_t input_arena_bytes,
                                                                 std::uint64_t output_arena_bytes) {
        std::pair<std::uint64_t, std::uint64_t> bytes{};
        const auto status =
            bufabi_queue_bytes(depth, input_arena_bytes, output_arena_bytes, &bytes.first, &bytes.second);
        return {status, bytes};
    }

    /// By which a task is told of it: `region` is the region's six, with the addresses that the task has for it.
    static Result<std::array<std::uint64_t, 12>> scalars(const std::array<std::uint64_t, 6> &region, std::uint64_t depth,
                                                         std::uint64_t input_arena_bytes,
                                                         std::uint64_t output_arena_bytes) {
        std::array<std::uint64_t, 12> scalars{};
        const auto status =
            bufabi_queue_scalars(region.data(), depth, input_arena_bytes, output_arena_bytes, scalars.data());
        return {status, scalars};
    }

    /// To a queue in a region whose counters are zero. The process `peer`, if it is not 0, is watched.
    static Result<Queue> attach(const Region &region, std::uint64_t depth, std::uint64_t input_arena_bytes,
                                std::uint64_t output_arena_bytes, std::int32_t peer = 0) {
        bufabi_queue_t queue{0};
        const auto status =
            bufabi_queue_attach(region.raw(), depth, input_arena_bytes, output_arena_bytes, peer, &queue);
        return {status, Queue(queue)};
    }

    /// Sends an input as soon as there is room.
    Result<void> enqueue(Span<const std::uint8_t> bytes, std::chrono::nanoseconds limit,
                         MessageKind kind = MessageKind::data) const {
        return Result<void>(bufabi_queue_enqueue(raw(), static_cast<std::int32_t>(kind), bytes.data(), bytes.size(),
                                                 detail::count(limit)));
    }

    /// Room for an input of at most so many bytes, as soon as there is some. One reservation can be open at a time.
    Result<QueueReservation> reserve(std::uint64_t nbytes, std::chrono::nanoseconds limit) const {
        QueueReservation reservation{};
        const auto status = bufabi_queue_reserve(raw(), nbytes, detail::count(limit), &reservation);
        return {status, reservation};
    }

    /// Copies bytes into a reserved input, `start` bytes from its start.
    Result<void> write(const QueueReservation &reservation, std::uint64_t start, Span<const std::uint8_t> bytes) const {
        return Result<void>(bufabi_queue_write(raw(), reservation.number, start, bytes.data(), bytes.size()));
    }

    /// Sends the first `nbytes` bytes of a reserved input.
    Result<void> commit(const QueueReservation &reservation, std::uint64_t nbytes,
                        MessageKind kind = MessageKind::data) const {
        return Result<void>(bufabi_queue_commit(raw(), reservation.number, static_cast<std::int32_t>(kind), nbytes));
    }

    /// Gives a reservation up: nothing was sent.
    Result<void> cancel(const QueueReservation &reservation) const {
        return Result<void>(bufabi_queue_cancel(raw(), reservation.number));
    }

    /// Sends STOP as soon as there is a slot. After it no input can be sent.
    Result<void> request_stop(std::chrono::nanoseconds limit) const {
        return Result<void>(bufabi_queue_request_stop(raw(), detail::count(limit)));
    }

    /// The next output, copied and released.
    Result<Message> dequeue(std::chrono::nanoseconds limit) const {
        Message message{};
        std::size_t nbytes = 0;
        for (;;) {
            const auto status = bufabi_queue_dequeue(raw(), message.bytes.data(), message.bytes.size(),
                                                     detail::count(limit), &message.opcode, &nbytes);
            // The next may be a shorter one, when another thread took this one meanwhile.
            if (status == BUFABI_STATUS_OK || status == BUFABI_STATUS_BUFFER_TOO_SMALL) message.bytes.resize(nbytes);
            if (status != BUFABI_STATUS_BUFFER_TOO_SMALL) return {status, std::move(message)};
        }
    }

    /// The oldest output that was not released, in its place.
    Result<QueueMessage> peek(std::chrono::nanoseconds limit) const {
        QueueMessage message{};
        const auto status = bufabi_queue_peek(raw(), detail::count(limit), &message);
        return {status, message};
    }

    /// An output's bytes, each read once, to the start of `out`: how many they are.
    Result<std::size_t> read(const QueueMessage &message, Span<std::uint8_t> out) const {
        std::size_t nbytes = 0;
        const auto status = bufabi_queue_read(raw(), message.handle, out.data(), out.size(), &nbytes);
        return {status, nbytes};
    }

    /// Gives an output's slot and bytes back to the task.
    Result<void> release(const QueueMessage &message) const {
        return Result<void>(bufabi_queue_release(raw(), message.handle));
    }

    /// Whether the task gave up.
    Result<bool> peer_aborted() const {
        std::int32_t aborted = 0;
        const auto status = bufabi_queue_peer_aborted(raw(), &aborted);
        return {status, aborted != 0};
    }

    /// Gives up: the other side is told, and waits of other threads end.
    Result<void> abort() const { return Result<void>(bufabi_queue_abort(raw())); }

    /// The reason for which the queue ended, if it did.
    Result<void> poison() const { return Result<void>(bufabi_queue_poison(raw())); }
};

} // namespace bufabi

#endif // BUFABI_QUEUE_HPP
